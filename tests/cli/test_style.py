"""`--style native`: the copy of the runtime beside the scripts, in every way that the command writes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.files import vendored

SCRIPT = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
torch.cuda.synchronize()
"""
MIGRATED = """\
import torch
import xla_runtime as xla
import torch_xla
import torch_xla.core.xla_model as xm

model = torch.nn.Linear(2, 2).to(xla.xla_device())
torch_xla.sync()
xm.wait_device_ops()
"""
NATIVE = ("--style", "native")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below, with its bytes and when it was written."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_in_place_and_again(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NATIVE, str(script)]) == 0
    assert script.read_text() == MIGRATED
    assert "xla_runtime" in capsys.readouterr().err
    assert vendored.known_names(str(script.parent / "xla_runtime")) == {"xla_device"}
    before = contents(script.parent)
    for words in ([*NATIVE, str(script.parent)], [str(script.parent)], [str(script)]):
        assert main(words) == 0
        assert contents(script.parent) == before
    assert main(["check", str(script.parent)]) == 0
    assert "Nothing to migrate in 1 file" in capsys.readouterr().out


def test_the_settings_ask_and_the_option_takes_their_place(script: Path) -> None:
    (script.parent / "pyproject.toml").write_text('[tool.xla-migrate]\nstyle = "native"\n')
    assert main(["--style", "runtime", str(script)]) == 0
    assert "from xla_migrate import runtime as xla" in script.read_text()
    script.write_text(SCRIPT)
    assert main([str(script)]) == 0
    assert script.read_text() == MIGRATED


def test_a_diff_writes_nothing(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NATIVE, "--diff", str(script)]) == 1
    shown = capsys.readouterr()
    assert "+import xla_runtime as xla" in shown.out
    assert "would be written" in shown.err
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]


def test_written_elsewhere(script: Path, tmp_path: Path) -> None:
    assert main([*NATIVE, "-o", str(tmp_path / "out" / "new.py"), str(script)]) == 0
    assert (tmp_path / "out" / "new.py").read_text() == MIGRATED
    assert vendored.is_ours(str(tmp_path / "out" / "xla_runtime"))
    assert not (tmp_path / "xla_runtime").exists()


@pytest.mark.parametrize("taken", ["xla_runtime/__init__.py", "xla_runtime.py", "xla_runtime"])
def test_what_a_user_has_of_that_name_is_left(
    script: Path, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = script.parent / taken
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine = 1\n")
    assert main([*NATIVE, str(script)]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert own.read_text() == "mine = 1\n"
    assert script.read_text() == SCRIPT


def test_a_copy_that_somebody_has_changed_is_kept_beside(script: Path) -> None:
    assert main([*NATIVE, str(script)]) == 0
    changed = script.parent / "xla_runtime" / "devices.py"
    changed.write_text("# mine\n")
    assert main([*NATIVE, str(script)]) == 0
    assert changed.read_text() != "# mine\n"
    assert changed.with_name("devices.py.orig").read_text() == "# mine\n"


def test_a_folder_gets_one_copy_for_its_modules_and_one_for_scripts_that_are_run_elsewhere(
    script: Path,
) -> None:
    root = script.parent
    script.write_text("from utils import tools\nfrom package import deep\n" + SCRIPT)
    for folder in ("utils", "package", "examples"):
        (root / folder).mkdir()
    (root / "package" / "__init__.py").touch()
    (root / "package" / "deep.py").write_text("def f(x):\n    return x.cuda(), x.is_cuda\n")
    (root / "utils" / "tools.py").write_text("def f(x):\n    return x.cuda()\n")
    (root / "examples" / "run.py").write_text(SCRIPT + "if __name__ == '__main__':\n    pass\n")
    assert main([*NATIVE, str(root)]) == 0
    copies = sorted(str(p.relative_to(root)) for p in root.rglob("xla_runtime"))
    assert copies == ["examples/xla_runtime", "xla_runtime"]
    assert vendored.known_names(str(root / "xla_runtime")) == {"xla_device", "is_accelerator"}
    assert main([*NATIVE, str(root / "utils" / "tools.py")]) == 0
    assert not (root / "utils" / "xla_runtime").exists()


def test_a_later_script_adds_to_the_copy(script: Path) -> None:
    assert main([*NATIVE, str(script)]) == 0
    other = script.with_name("other.py")
    other.write_text("import torch\nprint(torch.cuda.memory_allocated())\n")
    assert main([*NATIVE, str(other)]) == 0
    known = vendored.known_names(str(script.parent / "xla_runtime"))
    assert known == {"xla_device", "memory_info"}


def test_standard_input(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", *NATIVE, "-"],
        input=SCRIPT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == MIGRATED
    assert "to have it written, pass the script as a file" in done.stderr


def test_every_name_can_be_copied_and_no_copy_needs_the_rest_of_us() -> None:
    """A copy of all: each module that one imports relatively is in it, and none imports ours by name."""
    copied = vendored.files(vendored.homes())
    assert any(name.endswith("torch_xla/rehearsed_shards.py") for name in copied)
    for name, text in copied.items():
        folder = name.split("/")[:-1]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert not any(a.name.startswith("xla_") for a in node.names), name
            if not isinstance(node, ast.ImportFrom):
                continue
            assert node.level or not (node.module or "").startswith("xla_"), name
            if node.level and not {"eager", "_choice"} & set((node.module or "").split(".")):
                base = folder[: len(folder) - node.level + 1] + (node.module or "").split(".")
                path = "/".join(part for part in base if part)
                known = {f"{path}.py", f"{path}/__init__.py"} & copied.keys()
                assert known or not node.module, (name, ast.unparse(node))
