"""Why a run did not do what was asked, and whose fault it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Failure:
    """What went wrong.

    Attributes:
        fault: "script" (its own error), "network", "file", "package", "timeout", "memory",
            "no step", "redirect" (something the CPU cannot do in place of CUDA), or "harness".
        message: one line: what, where, and what to do.
        traceback: the script's own frames, as Python prints them; may be empty.
    """

    fault: str
    message: str
    traceback: str = ""


def of_error(error: dict[str, Any], project: str, harness: str) -> Failure:
    """From the exception that ended the script."""
    frames = [f for f in error["frames"] if f[0].startswith(project)]
    text = f"{error['type']}: {error['message']}".strip()
    first = text.splitlines()[0][:500].rstrip(":;")
    place = f"{Path(frames[-1][0]).relative_to(project)}:{frames[-1][1]}: " if frames else ""
    return Failure(
        _fault(error, harness),
        place + first + _advice(error, harness),
        _trimmed(frames, text, project),
    )


def _fault(error: dict[str, Any], harness: str) -> str:
    chain, message = error["chain"], error["message"].lower()
    if "Unsupported" in chain:
        return "redirect"
    if any(name in _NETWORK for name in chain) or any(w in message for w in _NETWORK_WORDS):
        return "network"
    if "attempted relative import" in error["message"]:
        return "script"
    if error["type"] in ("ModuleNotFoundError", "ImportError"):
        return "package"
    if error["type"] == "FileNotFoundError":
        return "file"
    if error["type"] == "MemoryError" or ("alloc" in message and "memory" in message):
        return "memory"
    innermost = error["frames"][-1][0] if error["frames"] else ""
    if innermost.startswith(harness) and error["type"] in ("AttributeError", "TypeError"):
        return "harness"
    return "script"


_ADVICE = {
    "network": "; the run needs the network: load the data beforehand, or give a stand-in"
    " (--data-shim FILE)",
    "package": "; install what the script imports, in the Python that runs it",
    "file": "; paths are relative to a copy of the project folder",
    "memory": "; use a smaller batch or model for the verification",
    "harness": "; this is the verifier's fault, please report it with this traceback",
}


def _advice(error: dict[str, Any], harness: str) -> str:
    if "attempted relative import" in error["message"]:
        return "; it is a module of a package: call verify from the folder above that package"
    return _ADVICE.get(_fault(error, harness), "")


def _trimmed(frames: list[list[Any]], text: str, project: str) -> str:
    lines = ["Traceback (the script's own frames):"]
    for path, line, function, code in frames:
        lines.append(f'  File "{Path(path).relative_to(project)}", line {line}, in {function}')
        if code:
            lines.append(f"    {code}")
    return "\n".join([*lines, text])


def of_exit(code: int, steps: int, output: str) -> Failure | None:
    """From the exit code, where no exception was recorded; None for a run that is as it should be."""
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if code in (-9, 137):
        return Failure(
            "memory",
            "the run was killed from outside, most likely for lack of memory" + _ADVICE["memory"],
        )
    if code == 2 and "usage:" in output:
        return Failure("script", f"the script did not accept its arguments: {last}")
    if code < 0:
        return Failure("script", f"the run was ended by signal {-code}; its last line: {last}")
    if code != 0:
        return Failure("script", f"the script exited with code {code}; its last line: {last}")
    if steps == 0:
        return Failure(
            "no step",
            "the script ended without an optimizer step or a backward pass: does it train with these"
            " arguments?",
        )
    return None
