"""Repeated runs: what has not changed is not read, and nothing else is taken from the cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from xla_migrate.cli import work
from xla_migrate.cli.migrate import processes

from .conftest import BY_HAND, CLEAN, CUDA, OWN, Runner

# The findings in CUDA depend on other modules, which may pass a sparse tensor; these do not.
# The comment makes the rewritten file one that is looked at.
ALONE = "import numpy  # no torch.cuda\n\nx = numpy.ones(2).is_cuda\n"
ALONE_ON_XLA = """\
import numpy  # no torch.cuda
from xla_migrate import runtime as xla

x = xla.is_accelerator(numpy.ones(2))
"""

Reads = Callable[[], list[str]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """The names of the files read since the last call."""
    seen: list[str] = []
    real = work.read

    def read(path: str, is_notebook: bool) -> object:
        seen.append(os.path.basename(path))
        return real(path, is_notebook)

    def since() -> list[str]:
        names = sorted(seen)
        seen.clear()
        return names

    monkeypatch.setattr(work, "read", read)
    # On a busy machine the rest would be done in other processes, whose reads are not seen here.
    monkeypatch.setattr(processes, "_TRY", float("inf"))
    return since


@pytest.fixture
def tree(here: Path) -> Path:
    for name, text in [
        ("cuda.py", ALONE),
        ("clean.py", CLEAN),
        ("xla.py", ALONE_ON_XLA),
        ("bad.py", "torch ("),
    ]:
        (here / name).write_text(text)
    time.sleep(0.03)  # files of this very moment are not trusted
    return here


ALL = ["bad.py", "clean.py", "cuda.py", "xla.py"]


def test_an_unchanged_tree_is_not_read_again(run: Runner, tree: Path, reads: Reads) -> None:
    first = run("check", ".")
    assert reads() == ALL
    assert run("check", ".") == first
    assert reads() == []
    assert run("check", "cuda.py", "xla.py", "bad.py").code == 2
    assert reads() == []
    assert run("check", "--no-cache", ".") == first
    assert reads() == ALL


def test_what_changed_is_read(run: Runner, tree: Path, reads: Reads) -> None:
    run("check", ".")
    reads()
    (tree / "clean.py").write_text(CUDA)
    (tree / "new.py").write_text(CUDA)
    result = run("check", ".")
    assert reads() == ["clean.py", "new.py"]
    assert "clean.py:3:5" in result.out
    assert "new.py:3:5" in result.out


def test_the_same_size_and_time_do_not_deceive(run: Runner, tree: Path) -> None:
    run("check", ".")
    times = (tree / "cuda.py").stat()
    (tree / "cuda.py").write_text(CUDA.replace("cuda", "cpu_"))
    os.utime(tree / "cuda.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "cuda.py" not in run("check", ".").out


def test_a_touched_file_is_read_but_not_judged(
    run: Runner, tree: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("check", ".")
    reads()
    os.utime(tree / "cuda.py", (1, 1))
    time.sleep(0.03)
    monkeypatch.setattr(work, "verdict_on", None)
    assert run("check", ".") == first
    assert reads() == ["cuda.py"]
    assert run("check", ".") == first
    assert reads() == []


def test_options_and_settings_have_caches_of_their_own(
    run: Runner, tree: Path, reads: Reads
) -> None:
    run("check", ".")
    for words in (["--select", "XLA4"], ["--ignore", "XLA1"]):
        reads()
        assert "XLA107" not in run("check", *words, ".").out
        assert reads() == ALL
    (tree / "pyproject.toml").write_text('[tool.xla-migrate]\nignore = ["XLA107"]\n')
    assert "XLA107" not in run("check", ".").out
    assert reads() == ALL


def test_other_rules_have_another_cache(
    run: Runner, tree: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("check", ".")
    reads()
    monkeypatch.setattr("xla_migrate.cli.migrate.run.tool_key", lambda: ("another version",))
    run("check", ".")
    assert reads() == ALL


def test_a_rewrite_uses_what_a_check_knows_only_where_nothing_is_to_be_done(
    run: Runner, tree: Path, reads: Reads
) -> None:
    run("check", ".")
    reads()
    assert "1 of 1 finding migrated" in run(".").out
    assert reads() == ["cuda.py"]
    assert (tree / "cuda.py").read_text() == ALONE_ON_XLA
    time.sleep(0.03)
    assert run("check", ".").out.startswith("bad.py:")
    run("check", ".")
    reads()
    assert run(".").code == 2
    assert reads() == []


def test_what_is_left_for_a_person_is_remembered_after_a_rewrite(
    run: Runner, here: Path, reads: Reads
) -> None:
    (here / "pyproject.toml").write_text(OWN)
    (here / "a.py").write_text(BY_HAND)
    time.sleep(0.03)
    first = run("a.py")
    reads()
    assert run("a.py") == first
    assert reads() == []
    assert run("check", "a.py").code == 1
    assert reads() == []


def test_a_diff_is_made_anew_each_time(run: Runner, tree: Path) -> None:
    first = run("--diff", ".")
    assert first.out.startswith("--- cuda.py\n")
    assert run("--diff", ".") == first
    run("check", ".")
    assert run("--diff", ".") == first


def test_a_file_in_another_place_is_another(run: Runner, tree: Path) -> None:
    run("check", ".")
    os.rename(tree / "cuda.py", tree / "clean.py")
    assert run("check", ".").out.splitlines()[1].startswith("clean.py:3:5")


def test_errors_of_ours_are_not_remembered(
    run: Runner, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("xla_codemods.engine.check", lambda *words: 1 / 0)
        assert "internal error" in run("check", "cuda.py").out
    assert "internal error" not in run("check", "cuda.py").out


def test_projects_are_left_clean(run: Runner, tree: Path) -> None:
    run("check", ".")
    assert sorted(os.listdir(tree)) == ALL


ACROSS_MODULES = {
    "a name that is imported": (
        "import torch\nfrom helper import place\nx = torch.ones(2).cuda().to(place)\n",
        "place = 1\n",
        "import torch\nplace = torch.float32\n",
    ),
    "an argument that a caller passes": (
        "import torch\n\n\ndef run(device):\n    return torch.ones(2).to(device)\n",
        "import part\npart.run('cuda:0')\n",
        "import part\npart.run('cpu')\n",
    ),
    "an attribute that a caller's argument sets": (
        "import torch\n\n\nclass Mover:\n    def __init__(self, device):\n        self.device = device\n\n"
        "    def move(self, x):\n        return x.to(self.device)\n",
        "import part\npart.Mover(0).move(1)\n",
        "import part\npart.Mover('cpu').move(1)\n",
    ),
}


@pytest.mark.parametrize("case", ACROSS_MODULES)
def test_a_file_is_judged_again_if_a_module_that_it_depends_on_changed(
    run: Runner, here: Path, case: str
) -> None:
    part, before, after = ACROSS_MODULES[case]
    (here / "part.py").write_text(part)
    (here / "helper.py").write_text(before)
    time.sleep(0.03)
    first = run("check", ".").out
    (here / "helper.py").write_text(after)
    time.sleep(0.03)
    fresh = run("check", "--no-cache", ".").out
    assert first != fresh
    assert run("check", ".").out == fresh
