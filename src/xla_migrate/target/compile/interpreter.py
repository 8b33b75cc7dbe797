"""Find the Python that has the TPU compiler: this one, or one in a separate environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "XLA_MIGRATE_TPU_COMPILER"
WORKER = Path(__file__).parent / "worker.py"
_PACKAGES = "jax==0.7.1 jaxlib==0.7.1 libtpu==0.0.21"


class NoCompiler(Exception):
    """There is none that can be used: one line, with what to do."""


@dataclass(frozen=True)
class Compiler:
    """An interpreter with a compiler of these versions."""

    python: str
    jaxlib: str
    libtpu: str

    @property
    def version(self) -> str:
        """Return the versions, for messages and for the cache."""
        return f"libtpu {self.libtpu}, jaxlib {self.jaxlib}"


def home() -> Path:
    """Return the path of the separate environment, in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    return Path(base) / "xla-migrate" / "tpu-compile"


def find(given: str | None = None) -> Compiler:
    """The compiler: of the interpreter that is given, of $XLA_MIGRATE_TPU_COMPILER, of this one, or of `home()`.

    Raises:
        NoCompiler: none of them has one that was tested.
    """
    named = given or os.environ.get(VARIABLE)
    if named:
        found, problem = _ask(named)
        if found is None:
            raise NoCompiler(f"{named}: {problem}")
        return found
    problems = []
    for python in (sys.executable, str(home() / "bin" / "python")):
        if os.path.exists(python):
            found, problem = _ask(python)
            if found is not None:
                return found
            problems.append(problem)
    raise NoCompiler(
        f"no TPU compiler ({problems[0]}). To install it in a separate environment: python3 -m venv {home()} && "
        f"{home()}/bin/pip install {_PACKAGES}"
    )


def _ask(python: str) -> tuple[Compiler | None, str]:
    try:
        done = subprocess.run(
            [python, str(WORKER)],
            input='{"versions": true}\n',
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        said = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return None, f"this Python does not answer ({type(error).__name__})"
    if said["problem"]:
        return None, said["problem"]
    return Compiler(python, said["jaxlib"], said["libtpu"]), ""
