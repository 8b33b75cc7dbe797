"""What docs/guides shows is what the tool makes of it, and trains on XLA and without torch_xla alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate
from xla_migrate.cli import main

from . import warm

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
_BLOCK = re.compile(r'^```(?:python|yaml) title="([^"]*)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> dict[str, str]:
    return dict(_BLOCK.findall(page.read_text(encoding="utf-8")))


def marked(kind: str) -> list[Path]:
    return [path for path in sorted(GUIDES.glob("*.md")) if f"<!-- {kind}" in path.read_text()]


def migrated(files: dict[str, str]) -> dict[str, str]:
    modules = Modules({k: v.encode() for k, v in files.items() if k.endswith(".py")})
    return {
        name: migrate(text.encode(), Options(), name, Project(modules, name)).data.decode()
        if name.endswith(".py")
        else text
        for name, text in files.items()
    }


def originals(page: Path) -> dict[str, str]:
    return {k: v for k, v in blocks(page).items() if not k.endswith(", migrated")}


PAGES = marked("run") + marked("reading")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_shown_is_what_it_becomes(page: Path) -> None:
    before = originals(page)
    shown = {k.removesuffix(", migrated"): v for k, v in blocks(page).items() if k not in before}
    after = migrated(before)
    assert shown == {k: v for k, v in after.items() if v != before[k]}
    assert shown


def test_there_is_a_page_for_each_style() -> None:
    assert len(marked("run")) == 9
    assert not marked("reading")


def results(folder: Path, processes: int, **env: str) -> list[float]:
    python = warm.for_side("reference" if env.get("USE_TORCH_XLA") == "0" else "target")
    command = [python, "train.py"]
    if processes > 1:
        command[0] = warm.for_side("reference")
        command[1:1] = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
        | {"PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1", **env}
        | {"PYTHON_EXEC": python},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("result")]
    return [float(n) for line in lines for n in re.findall(r"\d+\.\d+", line)]


def trained_alike(folder: Path, processes: int = 1, devices: int = 0) -> None:
    on_xla = results(folder, 1 if devices else processes, CPU_NUM_DEVICES=str(devices or 1))
    eager = results(folder, processes, XLA_MIGRATE_BACKEND="eager", USE_TORCH_XLA="0")
    assert on_xla
    assert on_xla == pytest.approx(eager, rel=1e-4)


@pytest.mark.e2e
@pytest.mark.parametrize("page", marked("run"), ids=lambda page: page.stem)
def test_it_trains_on_xla_and_without(page: Path, tmp_path: Path) -> None:
    needed = {
        "hf-trainer": "transformers",
        "accelerate": "accelerate",
        "diffusers": "diffusers",
        "timm": "timm",
        "lightning": "lightning",
    }
    pytest.importorskip(needed.get(page.stem, "torch"))
    pytest.importorskip("torch_xla")
    for name, text in migrated(originals(page)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    text = page.read_text()
    is_sharded = "<!-- run sharded" in text
    trained_alike(tmp_path, 2 if "<!-- run 2" in text or is_sharded else 1, 2 if is_sharded else 0)


STYLES = {
    "plain": "torch",
    "several-modules": "yaml",
    "hf-trainer": "transformers",
    "accelerate": "accelerate",
    "lightning": "lightning",
    "ddp": "torch",
    "fsdp": "torch",
    "notebook": "torch",
}


@pytest.mark.e2e
@pytest.mark.parametrize("style", STYLES)
def test_it_is_proven(style: str, tmp_path: Path) -> None:
    """By the command that the page gives, in a folder that holds nothing else."""
    pytest.importorskip(STYLES[style])
    pytest.importorskip("torch_xla")
    page = GUIDES / f"{style}.md"
    script = "train.py"
    if style == "notebook":
        script = "train.ipynb"
        (tmp_path / script).write_text(notebook(originals(page)))
    else:
        for name, text in originals(page).items():
            (tmp_path / name).write_text(text, encoding="utf-8")
    processes = ["--nproc", "2"] if style in {"ddp", "fsdp"} else []
    shown = " ".join(["xla-migrate verify", script, *processes])
    assert shown in page.read_text(encoding="utf-8")
    command = [warm.choosing(), "-m", "xla_migrate", "verify", script, *processes]
    done = subprocess.run(
        [*command, "--steps", "4", "--no-report", "--"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
        | {"PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"proven: {script} trains the same" in done.stdout


def notebook(cells: dict[str, str]) -> str:
    found = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
         "source": text.splitlines(keepends=True)}
        for text in cells.values()
    ]  # fmt: skip
    return json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.e2e
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_xla")
    cells = originals(GUIDES / "notebook.md")
    assert len(cells) == 2
    book = tmp_path / "train.ipynb"
    book.write_text(notebook(cells))
    monkeypatch.chdir(tmp_path)
    assert main(["--no-cache", "train.ipynb"]) == 0
    found = json.loads(book.read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in found)
    assert ".cuda()" not in text
    assert "xla.optimizer_step(optimizer)" in text
    (tmp_path / "train.py").write_text(text)
    trained_alike(tmp_path)
