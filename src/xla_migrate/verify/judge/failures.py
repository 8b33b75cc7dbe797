"""Why a run did not do what was asked, and whose fault it is."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .record_format import ErrorRecord

_NETWORK = (
    "URLError",
    "HTTPError",
    "gaierror",
    "ConnectionError",
    "ConnectTimeout",
    "MaxRetryError",
    "NewConnectionError",
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
)
_NETWORK_WORDS = (
    "couldn't connect to",
    "can't load the configuration",
    "name resolution",
    "name or service not known",
    "max retries exceeded",
    "network is unreachable",
    "download=true",
    "error downloading",
)
# "can't allocate memory: you tried to allocate", "CUDA out of memory", "RESOURCE_EXHAUSTED"; not "is not allocated yet".
_NO_MEMORY = re.compile(
    r"(can't|cannot|unable to|failed to) alloc|out of memory|resource_exhausted|bad_alloc"
)


class Fault(str, Enum):
    """Whose fault it is that a run did not do what was asked. The value is how JSON calls it."""

    SCRIPT = "script"  # its own error
    NETWORK = "network"
    FILE = "file"
    PACKAGE = "package"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    NO_STEP = "no step"
    REDIRECT = "redirect"  # something that the CPU cannot do in place of CUDA
    HARNESS = "harness"
    NOT_RUN = "not run"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Failure:
    """The failure of a run.

    Attributes:
        fault: whose it was.
        message: one line: what, where, and what to do.
        traceback: the script's own frames, as Python prints them, or the end of its output; may be empty.
    """

    fault: Fault
    message: str
    traceback: str = ""


_SHOWN = 12  # lines of the output of a script that exits
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(
    r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?\n(?:(?P<code> {4,}(?!File ").*)\n)?'
)
_RAISED = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)
_MARKERS = re.compile(r"^ +[~^ ]+$\n", re.MULTILINE)  # under a source line, from Python 3.11 on


def printed_error(text: str, project: str) -> ErrorRecord | None:
    """Return the first traceback in `text` through the user's project, such as one that only a worker printed.

    Args:
        text: what the run printed, or a launcher's message.
        project: the folder of the copy.
    """
    for block in text.split(_TRACEBACK)[1:]:
        plain = _MARKERS.sub("", block.lstrip("\n") if block.startswith("\n") else block)
        frames, at = [], 0
        while (match := _FRAME.match(plain, at)) is not None:
            code = (match["code"] or "").strip()
            frames.append((match["path"], int(match["line"]), match["function"] or "", code))
            at = match.end()
        raised = _RAISED.match(plain, at)
        if raised is None or not any(frame[0].startswith(project) for frame in frames):
            continue
        kind = raised["type"].rpartition(".")[2]
        message = raised["message"] or ""
        return {"type": kind, "chain": [kind], "message": message, "frames": frames}
    return None


def of_error(error: ErrorRecord, project: str, harness: str) -> Failure:
    """From the exception that ended the script."""
    # A path may have `..`, as in `sys.path.append("tools/../lib")`.
    paths = [
        (os.path.normpath(path), line, name, code) for path, line, name, code in error["frames"]
    ]
    frames = [f for f in paths if f[0].startswith(project)]
    text = f"{error['type']}: {error['message']}".strip()
    first = text.splitlines()[0][:500].rstrip(":;")
    place = f"{Path(frames[-1][0]).relative_to(project)}:{frames[-1][1]}: " if frames else ""
    return Failure(
        _fault(error, harness),
        place + first + _advice(error, harness),
        _trimmed(frames, text, project),
    )


def _fault(error: ErrorRecord, harness: str) -> Fault:
    chain, message = error["chain"], error["message"].lower()
    if "Unsupported" in chain:
        return Fault.REDIRECT
    if any(name in _NETWORK for name in chain) or any(w in message for w in _NETWORK_WORDS):
        return Fault.NETWORK
    if "attempted relative import" in error["message"]:
        return Fault.SCRIPT
    if error["type"] in ("ModuleNotFoundError", "ImportError"):
        return Fault.PACKAGE
    if error["type"] == "FileNotFoundError":
        return Fault.FILE
    if {"MemoryError", "OutOfMemoryError"} & {*chain} or _NO_MEMORY.search(message):
        return Fault.MEMORY
    innermost = error["frames"][-1][0] if error["frames"] else ""
    if innermost.startswith(f"{harness}/stubs/") and "NotImplementedError" in chain:
        return Fault.REDIRECT
    if innermost.startswith(harness) and error["type"] in ("AttributeError", "TypeError"):
        return Fault.HARNESS
    return Fault.SCRIPT


_ADVICE = {
    Fault.NETWORK: "; download the data before you run verify, or replace it with --data-shim FILE",
    Fault.PACKAGE: "; install the package in the Python environment that runs the script",
    Fault.FILE: "; paths are relative to a copy of the project folder",
    Fault.MEMORY: "; use a smaller batch or model for the verification",
    Fault.HARNESS: "; this is a fault of xla-migrate verify: please report it with this traceback",
}


def _advice(error: ErrorRecord, harness: str) -> str:
    if "attempted relative import" in error["message"]:
        return "; it is a module of a package: call verify from the folder above that package"
    return _ADVICE.get(_fault(error, harness), "")


def _trimmed(frames: list[tuple[str, int, str, str]], text: str, project: str) -> str:
    lines = ["Traceback (the script's own frames):"]
    for path, line, function, code in frames:
        lines.append(f'  File "{Path(path).relative_to(project)}", line {line}, in {function}')
        if code:
            lines.append(f"    {code}")
    return "\n".join([*lines, text])


_OF_TORCHRUN = r"\b(?:(?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT))\b"
_LACKS = re.compile(
    rf"environment variable {_OF_TORCHRUN} expected|KeyError: '{_OF_TORCHRUN}'|torchrun|torch\.distributed\.(?:launch|run)\b"
)
_READS = re.compile(rf"os\.(?:environ|getenv).*{_OF_TORCHRUN}")


def lacks_torchrun(failure: Failure | None) -> bool:
    """Return True if a run failed because variables are missing that torchrun sets for each process."""
    if failure is None or failure.fault is not Fault.SCRIPT:
        return False
    if _LACKS.search(failure.message):
        return True
    *_, code, raised = ["", *failure.traceback.splitlines()] if failure.traceback else ["", ""]
    return raised.startswith("TypeError") and _READS.search(code) is not None


def of_exit(
    code: int, steps: int, output: str, project: str = "", harness: str = ""
) -> Failure | None:
    """Return the failure by exit code if no exception was recorded; None if the run succeeded."""
    printed = printed_error(output, project) if code > 0 and project else None
    if printed is not None:
        return of_error(printed, project, harness)
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if code in (-9, 137):
        return Failure(
            Fault.MEMORY,
            "the run was killed, most likely because the machine ran out of memory"
            + _ADVICE[Fault.MEMORY],
        )
    if code == 2 and "usage:" in output:
        return Failure(Fault.SCRIPT, f"the script did not accept its arguments: {last}")
    if code < 0:
        message = f"the run was ended by signal {-code}; its last line: {last}"
        return Failure(Fault.SCRIPT, message, _last_lines(output))
    if code != 0:
        message = f"the script exited with code {code}; its last line: {last}"
        return Failure(Fault.SCRIPT, message, _last_lines(output))
    if steps == 0:
        return Failure(
            Fault.NO_STEP,
            "the script ended without an optimizer step or a backward pass: does it train with these"
            " arguments?",
        )
    return None


def _last_lines(output: str) -> str:
    """Return the end of the output, for a program that prints its own account of an error; empty if it is one line."""
    lines = [line[:300] for line in output.splitlines() if line.strip()][-_SHOWN:]
    return "\n".join(["The last lines of its output:", *lines]) if len(lines) > 1 else ""
