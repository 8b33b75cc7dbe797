"""Every `verify` command in the docs compares a project that was migrated in place with its original."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.cli.verify import _sides
from xla_migrate.cli.verify_arguments import parse

ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(r"xla-migrate verify (train\.py[^`\n]*)")
_ORIGINAL = """\
import torch
net = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def commands() -> list[str]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    sources = sorted((ROOT / "src").rglob("*.py"))
    found = {
        match.split(" #")[0].strip()
        for file in (*pages, *sources)
        for match in _COMMAND.findall(file.read_text(encoding="utf-8"))
    }
    special = ("--record", "--reference", "--against", "{", "…")
    return sorted(each for each in found if not any(word in each for word in special))


def test_the_docs_show_such_commands() -> None:
    assert len(commands()) > 3


@pytest.mark.parametrize("command", commands())
def test_a_fault_after_the_migration_is_on_one_side_only(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(_ORIGINAL)
    assert main(["train.py"]) == 0
    script.write_text(script.read_text().replace("lr=0.1", "lr=0.01"))
    sides = _sides(parse(shlex.split(command)))
    original = sides.originals["train.py"]
    assert isinstance(original, bytes)
    assert b"lr=0.1" in original
    migrated = sides.files.get("train.py", script.read_bytes())
    assert b"lr=0.01" in (migrated if isinstance(migrated, bytes) else migrated.encode())
    assert sides.version == "train.py.orig"


def test_what_was_changed_after_the_migration_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(_ORIGINAL)
    assert main(["train.py"]) == 0
    script.write_text(script.read_text().replace("lr=0.1", "lr=0.01"))
    (found,) = [each for each in _sides(parse(["train.py"])).findings if each.after]
    line = script.read_text().splitlines()[found.after - 1]
    assert "lr=0.01" in line
    assert line in found.message


def test_settings_that_were_changed_are_known_and_those_that_the_tool_rewrote_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f'{_ORIGINAL}settings = open("settings.yaml")\n')
    (tmp_path / "settings.yaml").write_text(
        "lr: 0.1\ntrainer:\n  precision: 16-mixed\n  accelerator: gpu\n"
    )
    shutil.copytree(tmp_path, tmp_path / "before")
    assert main(["train.py", "settings.yaml"]) == 0
    settings = tmp_path / "settings.yaml"
    assert "bf16-mixed" in settings.read_text()
    settings.write_text(settings.read_text().replace("0.1", "0.2"))
    sides = _sides(parse(["train.py", "--against", "before"]))
    assert [(f.path, f.after, f.text) for f in sides.findings if f.after] == [
        ("settings.yaml", 1, "lr: 0.2")
    ]


def test_what_was_finished_by_hand_needs_no_manual_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(f"{_ORIGINAL}graph = torch.cuda.CUDAGraph()\n")
    main(["train.py"])
    assert _sides(parse(["train.py"])).left
    done = script.read_text().replace("graph = torch.cuda.CUDAGraph()\n", "")
    script.write_text(done)
    assert not _sides(parse(["train.py"])).left
    other = tmp_path / "finished" / "train.py"
    other.parent.mkdir()
    other.write_text(done)
    script.write_text(f"{_ORIGINAL}graph = torch.cuda.CUDAGraph()\n")
    assert not _sides(parse(["train.py", "--migrated", str(other)])).left
