"""Kernels of Triton are for GPUs: in a redirected run, whoever can do without the package does not find it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import importlib.util
import torch
from xla_migrate.verify import redirect

patches = redirect.install()
assert importlib.util.find_spec("triton") is None
assert importlib.util.find_spec("numpy") is not None
try:
    import triton
    print("found")
except ImportError:
    print("not found")
import triton
print(triton.__name__)
patches.undo()
assert importlib.util.find_spec("triton") is not None
"""


def test_triton_is_found_only_where_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script)]  # a warm one may have loaded it
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "not found\ntriton\n", done.stderr
