"""`xla-migrate doctor`: is this machine ready to train on XLA? Each check in words, with what to do about a fault."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import asdict

from .doctor_checks import FAULT, OK, DoctorCheck, judge
from .doctor_routes import with_route
from .usage import count, fail, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import IO, Any

    Probe = Callable[[dict[str, str], float, Callable[[dict[str, Any]], None]], dict[str, Any]]

_USAGE = """\
usage: xla-migrate doctor [--output-format text|json] [--timeout SECONDS] [--devices [--nproc N]]
       xla-migrate doctor [--output-format text|json] --cache -- COMMAND

Check whether this machine can train on XLA: versions, backend, route and device, a training step with a known result,
collectives if there are several devices, and the compile cache.

  --output-format FORMAT      text (default) or json
  --timeout SECONDS           maximum time for each check
  --devices                   also test every device with a product of known result, and all-reduce, all-gather
                              and reduce-scatter between all replicas
  --nproc N                   with --devices: the number of replicas (on a CPU: a rehearsal)
  --cache                     start COMMAND twice with an empty compile cache, and report what each start read
                              from it and the time to the first step

examples:
  xla-migrate doctor
  PJRT_DEVICE=TPU xla-migrate doctor --devices
  xla-migrate doctor --cache -- python train.py --epochs 1

exit codes: 0 ready, 1 a fault was found, 2 wrong usage
"""

TIMEOUT = 300.0  # seconds; a TPU that waits for its other hosts hangs forever


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    words, command = _split(words)
    asked = _parse(words)
    if asked.cache:
        return _cache(asked.output_format, command)
    if command:
        fail("doctor takes a command only with --cache")
    form, timeout = asked.output_format, asked.timeout
    if form == "json":
        checks = diagnose(dict(os.environ), timeout)
        if asked.devices:
            checks.append(_devices(timeout, asked.nproc))
        print(json.dumps({"version": 1, "checks": [asdict(c) for c in checks]}, indent=2))
    else:
        waiting = ProgressNotes()

        def tell(check: DoctorCheck) -> None:
            waiting.end()
            print("\n".join(_shown(check)), flush=True)

        checks = diagnose(
            dict(os.environ), timeout, lambda env, t, heard: _probe(env, t, heard, waiting), tell
        )
        if asked.devices:
            checks.append(_devices(timeout, asked.nproc))
            tell(checks[-1])
        print(_verdict(checks))
    return int(any(check.status == FAULT for check in checks))


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and after `--`."""
    at = list(words).index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def _cache(form: str, command: list[str]) -> int:
    """Start the command twice; the exit code."""
    from ..target.precompile import NotHere
    from . import doctor_cache

    if not command:
        fail("doctor --cache: put the command after --")
    try:
        checks = doctor_cache.checks(command)
    except NotHere as error:
        fail(f"doctor: {error}")
    if form == "json":
        print(json.dumps({"version": 1, "checks": [asdict(c) for c in checks]}, indent=2))
    else:
        print("\n".join(lines(checks)[:-1]))
    return int(any(check.status == FAULT for check in checks))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    from argparse import SUPPRESS

    from .options import Parser
    from .subparser import suggestion

    parser = Parser(
        prog="xla-migrate doctor",
        usage=SUPPRESS,
        description=_USAGE,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--output-format", "--format", metavar="FORMAT", type=_form, default="text")
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=TIMEOUT)
    parser.add_argument("--devices", action="store_true")
    parser.add_argument("--nproc", metavar="N", type=count)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("-h", "--help", action="store_true")
    given, rest = parser.parse_known_args(list(words))
    if given.help:
        from ..reports.width import columns, fitted

        print(fitted(_USAGE, columns()), end="")
        raise SystemExit(0)
    if rest:
        known = [text for action in parser._actions for text in action.option_strings]
        hint = suggestion(rest[0], known)
        fail(f"doctor has no argument {rest[0]}{hint} (see `xla-migrate doctor --help`)")
    if given.nproc is not None and not given.devices:
        fail("--nproc works only with --devices")
    return given


def _form(value: str) -> str:
    return one_of(("text", "json"))(value)


def _seconds(value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"must be a number, not {value!r}") from error


def _devices(timeout: float, nproc: int | None) -> DoctorCheck:
    from ..target.run.health import examined, faults

    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    health = examined({**os.environ, "PYTHONPATH": path}, timeout, nproc)
    found = faults(health, timeout)
    if found:
        advice = "remove the device from the job or restart its machine, then run doctor again"
        return DoctorCheck("devices", FAULT, "; ".join(found), advice)
    several = ", all-reduce, all-gather and reduce-scatter between them" if health.count > 1 else ""
    return DoctorCheck("devices", OK, f"{health.count} replicas: correct products on each{several}")


def lines(checks: Sequence[DoctorCheck]) -> list[str]:
    """Return the checks as text."""
    return [*(line for check in checks for line in _shown(check)), _verdict(checks)]


def _shown(check: DoctorCheck) -> list[str]:
    advice = [f"      -> {check.advice}"] if check.advice else []
    return [f"{check.status:<6}{check.name}: {check.detail}", *advice]


def _verdict(checks: Sequence[DoctorCheck]) -> str:
    faults = sum(check.status == FAULT for check in checks)
    return "ready" if not faults else f"not ready: {faults} fault{'s' if faults > 1 else ''}"


def diagnose(
    env: dict[str, str],
    timeout: float = TIMEOUT,
    probe: Probe | None = None,
    tell: Callable[[DoctorCheck], None] = lambda check: None,
) -> list[DoctorCheck]:
    """All checks of this machine.

    Args:
        env: environment variables that a training would have.
        timeout: of the probe, in seconds.
        probe: tries the device in a separate process (tests pass a substitute). It receives `env`,
            `timeout`, and a callback that is called with all results each time there are more.
        tell: called with each check once, as soon as it is made.
    """
    told: set[str] = set()

    def report(found: dict[str, Any], names: set[str] | None) -> list[DoctorCheck]:
        checks = with_route(judge(found, env), found)
        for check in checks:
            if check.name not in told and (names is None or check.name in names):
                told.add(check.name)
                tell(check)
        return checks

    def heard(found: dict[str, Any]) -> None:
        report(found, {name for name, key in _MADE_BY.items() if key in found})

    return report((probe or _probe)(env, timeout, heard), None)


# The last result of the probe that a check needs.
_MADE_BY = {
    "route": "backend",
    "versions": "backend",
    "backend": "backend",
    "device": "device",
    "training step": "step",
}
# What the probe does next once it has told this.
_NEXT = {
    "": "checking installed versions",
    "versions": "importing torch and torch_xla",
    "imported": "opening the device",
    "device": "compiling and running a training step",
    "step": "trying collectives",
}


class ProgressNotes:
    """One line on a terminal's standard error: what the probe is doing, and for how long."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._start = time.monotonic()
        self._shown = False

    def show(self, found: dict[str, Any]) -> None:
        """The probe is still at what follows what it has found."""
        if self._on:
            doing = _NEXT[next((key for key in reversed(_NEXT) if key in found), "")]
            seconds = time.monotonic() - self._start
            print(f"\r{doing} ... {seconds:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = True

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _probe(
    env: dict[str, str],
    timeout: float,
    heard: Callable[[dict[str, Any]], None],
    waiting: ProgressNotes | None = None,
) -> dict[str, Any]:
    """Return the results of separate processes, because a faulty device may abort or hang."""
    waiting = waiting or ProgressNotes()
    found = _ask([], env, timeout, heard, waiting)
    # XLA:CPU has no collectives between processes: they would wait forever.
    by_torch_xla = not found.get("backend", {}).get("native") and found.get("device_type") != "CPU"
    if found.get("local_devices", 1) > 1 and by_torch_xla and "step" in found:
        together = _ask(["--collectives"], env, timeout, lambda found: None, waiting)
        found.update({f"together_{key}": value for key, value in together.items()})
    waiting.end()
    return found


def _ask(
    words: list[str],
    env: dict[str, str],
    timeout: float,
    heard: Callable[[dict[str, Any]], None],
    waiting: ProgressNotes,
) -> dict[str, Any]:
    """Run the probe; it writes a JSON object a line, each step as it is done."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-m", "xla_migrate.verify.probe", *words],
        env={**env, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines_: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []
    out, err = process.stdout, process.stderr
    threading.Thread(target=lambda: _put_lines(out, lines_), daemon=True).start()
    last_words = threading.Thread(target=lambda: errors.append(err.read()), daemon=True)
    last_words.start()
    found: dict[str, Any] = {}
    end = time.monotonic() + timeout
    try:
        while (line := _next_line(lines_, end, found, waiting)) is not None:
            if line.startswith("{"):
                with contextlib.suppress(json.JSONDecodeError):
                    found.update(json.loads(line))
                    heard(found)
        code = process.wait(max(end - time.monotonic(), 0.1))
        last_words.join(1.0)  # a child of the probe may hold it open
    except (TimeoutError, subprocess.TimeoutExpired):
        return {**found, "hung": timeout}
    finally:
        process.kill()
        process.wait()
    return {**found, "code": code, "stderr": "".join(errors)[-2000:]}


def _put_lines(out: IO[str], lines_: queue.Queue[str | None]) -> None:
    for line in out:
        lines_.put(line)
    lines_.put(None)


def _next_line(
    lines_: queue.Queue[str | None], end: float, found: dict[str, Any], waiting: ProgressNotes
) -> str | None:
    """The probe's next line; None at its end.

    Raises:
        TimeoutError: there was none until `end`, on the monotonic clock.
    """
    while time.monotonic() < end:
        try:
            return lines_.get(timeout=min(0.5, max(end - time.monotonic(), 0.01)))
        except queue.Empty:
            waiting.show(found)
    raise TimeoutError
