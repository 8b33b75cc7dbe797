"""The guard of the original's files leaves files alone that are open already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from multiprocessing import shared_memory
from xla_migrate.verify.observe.process import guard

guard.install(sys.argv[1], sys.argv[2])
shared = shared_memory.SharedMemory(create=True, size=64)
shared.close()
shared.unlink()
"""


def test_shared_memory_is_created(tmp_path: Path) -> None:
    """It is sized by `os.ftruncate`, whose audit event has a file descriptor in place of a path."""
    folders = [str(tmp_path / "original"), str(tmp_path / "copy")]
    subprocess.run([sys.executable, "-c", CODE, *folders], check=True)
