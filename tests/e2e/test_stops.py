"""A check that ends the training behind the step leaves what the original leaves: output, log, code and files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xla_codemods.engine import migrate

from .. import warm
from .alone import rounded, run_alone

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = Path(__file__).parent / "scripts" / "stops.py"


def _run(text: bytes, kind: str, folder: Path) -> tuple[int, str, list[str], list[str]]:
    """Its exit code, what it printed, what was logged and the error's last line, and the files that it wrote."""
    side = "target" if b"xla_migrate" in text else "reference"
    python = sys.executable if kind == "fed" else warm.for_side(side)
    done = run_alone(text, kind, folder, python)
    lines = done.stderr.splitlines()
    told = [line for line in lines if line.startswith(("step", "nan"))] + lines[-1:]
    return done.returncode, rounded(done.stdout), told, sorted(p.name for p in folder.glob("*.pt"))


@pytest.mark.parametrize("kind", ["fed", "unfed", "asserted", "caught"])
def test_it_leaves_the_same(kind: str, tmp_path: Path) -> None:
    source = SCRIPT.read_bytes()
    after = migrate(source).data
    assert after.count(b"xla.stop(") == 2
    before = source.replace(b'torch.device("cuda")', b'torch.device("cpu")')
    original = _run(before, kind, tmp_path / "original")
    assert _run(after, kind, tmp_path / "migrated") == original
    assert original[0] == {"fed": 3, "caught": 0}.get(kind, 1)
