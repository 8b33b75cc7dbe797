"""Steps that are not finite are skipped by the device as the original skips them: the same output, weights and counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_codemods.engine import migrate

from ..runtime.rehearsal import QUICK_COMPILES

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = Path(__file__).parent / "scripts" / "skips.py"


def _printed(text: bytes, kind: str, folder: Path, **more: str) -> list[str]:
    folder.mkdir()
    (folder / "train.py").write_bytes(text)
    env = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XLA_FLAGS": QUICK_COMPILES,
        **more,
    }
    command = [sys.executable, "train.py", kind]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["by_norm", "by_loss", "turns", "saved"])
def test_it_trains_the_same(kind: str, tmp_path: Path) -> None:
    source = SCRIPT.read_bytes()
    after = migrate(source).data
    assert after.count(b"where=") == 4
    before = source.replace(b'torch.device("cuda")', b'torch.device("cpu")')
    original = _printed(before, kind, tmp_path / "original")
    assert _printed(after, kind, tmp_path / "migrated") == original
    eagerly = _printed(after, kind, tmp_path / "eager", XLA_MIGRATE_BACKEND="eager")
    assert eagerly == original
