"""Launch files in a run: found in folders, judged where they are named, rewritten, left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.files.find import Walk
from xla_migrate.settings import Finder

PYTHON = "import torch\nx = torch.ones(2).cuda()\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_MIGRATE_CACHE_DIR", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    (tmp_path / "train.py").write_text(PYTHON)
    (tmp_path / "requirements.txt").write_text("flash-attn\nnumpy\n")
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile.gpu").write_text("FROM nvidia/cuda:1-base-ubuntu22.04\n")
    (tmp_path / "values.yaml").write_text("torch: true\n")
    (tmp_path / "README.md").write_text("pip install flash-attn\n")
    return tmp_path


def test_a_folder_check_tells_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the second time from the cache
        assert main(["check", ".", "--output-format", "json"]) == 1
        told = json.loads(capsys.readouterr().out)
        found = [(row["path"], row["code"]) for row in told["findings"]]
        assert found == [
            ("docker/Dockerfile.gpu", "XLA951"),
            ("requirements.txt", "XLA953"),
            ("train.py", "XLA101"),
        ]
        assert told["summary"]["files"] == 3
        assert told["findings"][0]["url"].endswith("rules/XLA951.md")


def test_a_run_rewrites_them_and_keeps_the_originals(project: Path) -> None:
    assert main([".", "-q"]) == 0
    assert (project / "requirements.txt").read_text() == "numpy\n"
    assert (project / "requirements.txt.orig").read_text() == "flash-attn\nnumpy\n"
    assert (project / "docker" / "Dockerfile.gpu").read_text() == "FROM ubuntu:22.04\n"
    assert main(["check", "."]) == 0


def test_a_named_one_is_judged_as_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "requirements.txt"]) == 1
    assert "requirements.txt:1:1: XLA953" in capsys.readouterr().out
    assert main(["check", "values.yaml"]) == 0


def test_codes_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--select", "XLA951"]) == 1
    assert main(["check", ".", "--ignore", "XLA95,XLA101"]) == 0
    assert main(["explain", "XLA953"]) == 0
    assert "A package needs CUDA." in capsys.readouterr().out


@pytest.mark.parametrize(
    "settings",
    ["launch-files = false", 'extend-exclude = ["docker", "requirements*.txt", "*.yaml"]'],
)
def test_they_can_be_left_out(settings: str, project: Path) -> None:
    (project / "pyproject.toml").write_text(f"[tool.xla-migrate]\n{settings}\n")
    assert [file.shown for file in Walk(Finder()).files(["."])] == ["train.py"]


def test_gitignore_holds_for_them(project: Path) -> None:
    (project / ".gitignore").write_text("Dockerfile.gpu\nrequirements.txt\n")
    assert [file.shown for file in Walk(Finder()).files(["."])] == ["train.py", "values.yaml"]


def test_another_machine_is_another_verdict(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "run.sh").write_text("torchrun --nproc_per_node=8 train.py\n")
    assert main(["check", "run.sh"]) == 0
    (project / "pyproject.toml").write_text(
        '[tool.xla-migrate.target]\nfor = "trn1"\ndevices = 32\n'
    )
    assert main(["check", "run.sh"]) == 1
    assert "8 processes for 32 devices" in capsys.readouterr().out


def test_the_same_line_of_many_scripts_is_one_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for k in range(5):
        (folder / f"run{k}.sh").write_text("export CUDA_VISIBLE_DEVICES=0\npython train.py\n")
    (folder / "other.sh").write_text("export NCCL_DEBUG=INFO\n")
    assert main(["check", "--no-cache", "scripts"]) == 0
    out = capsys.readouterr().out
    notes = [line for line in out.splitlines() if "XLA954" in line]
    assert len(notes) == 2
    assert "run0.sh:1:8" in notes[1]
    assert "(the same line occurs 5 times)" in notes[1]
    assert "6 notes" in out


def test_two_places_of_a_line_are_printed_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for k in range(2):
        (folder / f"run{k}.sh").write_text("export CUDA_VISIBLE_DEVICES=0\n")
    assert main(["check", "--no-cache", "scripts"]) == 0
    assert capsys.readouterr().out.count("XLA954") == 2


def test_a_script_that_gets_transformers_parser_changes_its_shell_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.sh").write_text("python train.py --output_dir out --fp16 --tf32\n")
    for script, count in (("import argparse\n", 0), ("from t import HfArgumentParser\n", 2)):
        (tmp_path / "train.py").write_text(script)
        main(["check", str(tmp_path)])
        assert capsys.readouterr().out.count("XLA959 [") == count
