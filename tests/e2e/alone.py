"""A script by itself in a folder of its own, as a person runs it on XLA:CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def rounded(text: str) -> str:
    """Return the text with its fractions to five digits: XLA:CPU rounds the last ones by the processor that it runs on."""
    return re.sub(r"\d+\.\d{6,}", lambda found: f"{float(found[0]):.5g}", text)


def run_alone(
    text: bytes, kind: str, folder: Path, python: str = sys.executable, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `python train.py kind` to its end; `more` is added to the environment.

    `python` may be a warm interpreter, except in tests of how a process ends.
    """
    folder.mkdir()
    (folder / "train.py").write_bytes(text)
    env = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **more,
    }
    command = [python, "train.py", kind]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
