"""Steps that are not finite are skipped as the original skips them: the same output, weights and counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_codemods.engine import migrate

from .. import warm
from .alone import rounded, run_alone

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = Path(__file__).parent / "scripts" / "skips.py"


def _printed(text: bytes, kind: str, folder: Path, **more: str) -> list[str]:
    python = warm.for_side("target" if b"xla_migrate" in text else "reference")
    done = run_alone(text, kind, folder, python, **more)
    assert done.returncode == 0, done.stderr
    return rounded(done.stdout).splitlines()


@pytest.mark.parametrize("kind", ["by_norm", "by_loss", "turns", "saved"])
def test_it_trains_the_same(kind: str, tmp_path: Path) -> None:
    source = SCRIPT.read_bytes()
    result = migrate(source)
    assert "XLA503" in {
        finding.code for finding in result.left
    }  # the conditions are read, and reported
    after = result.data
    before = source.replace(b'torch.device("cuda")', b'torch.device("cpu")')
    original = _printed(before, kind, tmp_path / "original")
    assert _printed(after, kind, tmp_path / "migrated") == original
    eagerly = _printed(after, kind, tmp_path / "eager", XLA_MIGRATE_BACKEND="eager")
    assert eagerly == original
