"""`xla-migrate doctor`: is this machine ready to train on XLA? Each check in words, with what to do about a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from .arguments import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_USAGE = """\
usage: xla-migrate doctor [--output-format text|json] [--timeout SECONDS]

Checks this machine: versions, device, a training step against a known answer, collectives where there are several
devices, the compile cache. exit codes: 0 ready, 1 a fault was found, 2 wrong usage
"""

OK, FAULT, NOTE = "ok", "fault", "note"
TIMEOUT = 300.0  # seconds; a TPU that waits for its other hosts hangs for ever


@dataclass(frozen=True)
class Check:
    """One check: how it came out, what was seen, and what to do about it."""

    name: str
    status: str
    detail: str
    advice: str = ""


def doctor(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    form, timeout = _parse(words)
    checks = diagnose(dict(os.environ), timeout)
    if form == "json":
        print(json.dumps({"version": 1, "checks": [asdict(c) for c in checks]}, indent=2))
    else:
        print("\n".join(lines(checks)))
    return int(any(check.status == FAULT for check in checks))


def _parse(words: Sequence[str]) -> tuple[str, float]:
    form, timeout = "text", TIMEOUT
    rest = list(reversed(words))
    while rest:
        name, equals, value = rest.pop().partition("=")
        if name in ("-h", "--help"):
            print(_USAGE, end="")
            raise SystemExit(0)
        if name not in ("--output-format", "--timeout"):
            fail(f"doctor has no argument {name} (see `xla-migrate doctor --help`)")
        if not equals:
            if not rest:
                fail(f"{name} needs a value")
            value = rest.pop()
        if name == "--output-format":
            if value not in ("text", "json"):
                fail(f"--output-format {value}: there is text and json")
            form = value
        else:
            try:
                timeout = float(value)
            except ValueError:
                fail(f"--timeout must be a number, not {value!r}")
    return form, timeout


def lines(checks: Sequence[Check]) -> list[str]:
    """The checks for people."""
    out = []
    for check in checks:
        out.append(f"{check.status:<6}{check.name}: {check.detail}")
        if check.advice:
            out.append(f"      -> {check.advice}")
    faults = sum(check.status == FAULT for check in checks)
    end = "ready" if not faults else f"not ready: {faults} fault{'s' if faults > 1 else ''}"
    return [*out, end]


def diagnose(
    env: dict[str, str],
    timeout: float = TIMEOUT,
    probe: Callable[[dict[str, str], float], dict[str, Any]] | None = None,
) -> list[Check]:
    """All checks of this machine.

    Args:
        env: environment variables that a training would have.
        timeout: of the probe, in seconds.
        probe: what tries the device, in a process of its own (a test's, in place of ours).
    """
    from .doctor_checks import judge

    return judge((probe or _probe)(env, timeout), env)


def _probe(env: dict[str, str], timeout: float) -> dict[str, Any]:
    """What fresh processes found: a device that is not well may abort or hang."""
    found = _ask([], env, timeout)
    # XLA:CPU has no collectives between processes: they would wait for ever (xla-facts 5.7).
    if found.get("local_devices", 1) > 1 and found.get("device_type") != "CPU" and "step" in found:
        together = _ask(["--collectives"], env, timeout)
        found.update({f"together_{key}": value for key, value in together.items()})
    return found


def _ask(words: list[str], env: dict[str, str], timeout: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "xla_migrate.verify.probe", *words]
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    try:
        done = subprocess.run(
            command,
            env={**env, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        text = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else ""
        return {**_found(text), "hung": timeout}
    return {**_found(done.stdout), "code": done.returncode, "stderr": done.stderr[-2000:]}


def _found(text: str) -> dict[str, Any]:
    """The probe writes a JSON object a line, each step as it is done."""
    out: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                out.update(json.loads(line))
            except json.JSONDecodeError:
                continue
    return out
