"""What people type who come from ruff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xla_migrate import __version__

from .conftest import CUDA, XLA, Runner


@pytest.fixture
def train(here: Path) -> Path:
    path = here / "train.py"
    path.write_text(CUDA)
    return path


def test_check_fix_and_check_diff(run: Runner, train: Path) -> None:
    assert run("check", "--diff", "train.py").out == run("--diff", "train.py").out
    assert train.read_text() == CUDA
    assert run("check", "--fix", "train.py").code == 0
    assert train.read_text() == XLA


def test_output_file(run: Runner, train: Path, here: Path) -> None:
    result = run("check", "--format", "json", "-o", "reports/out.json", ".")
    assert (result.code, result.out, result.err) == (1, "", "")
    assert json.loads((here / "reports/out.json").read_text())["summary"]["left"] == 1
    run("check", "--output-file", "out.txt", "train.py")
    assert (here / "out.txt").read_text().startswith("train.py:3:5: XLA101 [*] ")
    (here / "folder").mkdir()
    result = run("check", "-o", "folder", "train.py")
    assert (result.code, result.out) == (2, "")
    assert "folder: cannot be written: a folder has this name" in result.err
    assert run("train.py", "-o", "new.py").code == 0  # without `check`: the new source
    assert (here / "new.py").read_text() == XLA


def test_short_options_and_both_spellings(run: Runner, train: Path) -> None:
    assert run("-V").out == run("check", "-V").out == f"xla-migrate {__version__}\n"
    assert run("check", "-j", "1", "train.py").code == 1
    assert run("check", "-j2", "--format=github", "train.py").out.startswith("::error ")
    assert run("check", "train.py", "--unsafe-fixes", "-q").out.count("\n") == 1
    assert run("--no-unsafe-fixes", "--diff", "train.py").code == 1


@pytest.mark.parametrize("form", ["gitlab", "junit"])
def test_more_formats(run: Runner, train: Path, form: str) -> None:
    result = run("check", "--output-format", form, "train.py")
    assert result.code == 1
    assert "XLA101" in result.out


def test_config_isolated_and_show_settings(run: Runner, train: Path, here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.xla-migrate]\nselect = ['XLA4']\n")
    (here / "other.toml").write_text(
        "[tool.xla-migrate]\nignore = ['cuda-method']\n"
        "[tool.xla-migrate.functions]\n'mylib.f' = 'synchronize'\n"
        "[tool.xla-migrate.per-file-ignores]\n'a\"b' = ['XLA5']\n"
    )
    assert run("check", ".").code == 0
    assert run("check", "--isolated", ".").code == 1
    assert run("check", "--config", "other.toml", ".").code == 0
    assert (
        run("check", "--config", "gone.toml", ".").err == "xla-migrate: gone.toml: no such file\n"
    )
    assert run("check", "--config", "train.py", ".").code == 2
    assert run("check", "--config", "other.toml", "--isolated", ".").code == 2
    shown = run("check", "--show-settings", "--fail-on=speed", ".").out
    assert f"# settings file: {here}/pyproject.toml\n[tool.xla-migrate]\n" in shown
    assert 'select = ["XLA4"]\n' in shown
    assert 'fail-on = "speed"\n' in shown
    # What is shown is a settings file of the same meaning.
    shown = run("--show-settings", "--config", "other.toml").out
    (here / "shown.toml").write_text(shown)
    again = run("--show-settings", "--config", "shown.toml").out
    assert again.splitlines()[1:] == shown.splitlines()[1:]
    assert 'ignore = ["XLA101"]' in again
    assert train.read_text() == CUDA


def test_codes_by_name(run: Runner, train: Path, here: Path) -> None:
    assert run("check", "--select", "cuda-method", "train.py").code == 1
    assert run("check", "--select", "Device-String,XLA4", "train.py").code == 0
    assert run("check", "--ignore", "cuda-method", "train.py").code == 0
    result = run("check", "--ignore", "cuda-methd", "train.py")
    assert "did you mean `cuda-method`?" in result.err
    (here / "pyproject.toml").write_text(
        "[tool.xla-migrate.per-file-ignores]\n'train.py' = ['cuda-method']\n"
    )
    assert run("check", "train.py").code == 0
    train.write_text(CUDA.replace("cuda()", "cuda()  # xla-migrate: ignore[cuda-method]"))
    assert run("check", "--isolated", "train.py").code == 0
    assert run("explain", "cuda-method").out.startswith("XLA101 cuda-method")


def test_ignore_file(run: Runner, train: Path) -> None:
    train.write_text("# xla-migrate: ignore-file\n" + CUDA)
    assert run("check", "train.py").code == 0
    assert run("train.py").out == "Nothing to migrate in 1 file.\n"


def test_explain_all(run: Runner) -> None:
    text = run("explain", "--all").out
    for code in ("XLA001 cannot-parse", "XLA003", "XLA101 cuda-method", "XLA914"):
        assert f"\n{code}" in f"\n{text}"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--dry-run", "train.py"], "did you mean `--diff`?"),
        (["check", "--exclude", "x", "train.py"], "`exclude` is a key of the settings"),
        (["check", "--workers", "2", "train.py"], "did you mean `--jobs`?"),
        (["check", "--verify", "train.py"], "`xla-migrate verify SCRIPT -- ARGS` compares"),
        (["lint", "."], "did you mean `check`?"),
        (["rule", "XLA101"], "did you mean `explain`?"),
        (["migrate", "."], "did you mean `check --fix`?"),
        (["compare", "train.py"], "did you mean `verify`?"),
        (["verify", "train.py", "--format", "json"], "did you mean `--output-format`?"),
    ],
)
def test_hints_are_the_nearest_meaning(
    run: Runner, train: Path, words: list[str], hint: str
) -> None:
    result = run(*words)
    assert result.code == 2
    assert hint in result.err
    assert train.read_text() == CUDA


SLOW = """\
import torch
from xla_migrate import runtime as xla

model = torch.nn.Linear(4, 2).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in xla.MpDeviceLoader(batches):
    loss = model(x).sum()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
    if loss.item() < 0.0:
        break
"""


def test_what_is_about_speed_fails_where_it_is_said(run: Runner, train: Path, here: Path) -> None:
    train.write_text(SLOW)
    result = run("check", "train.py")
    assert "XLA503" in result.out
    assert (result.code, "only about speed" in result.out) == (0, True)
    assert run("train.py").code == 0
    assert run("check", "--fail-on", "speed", "train.py").code == 1
    (here / "pyproject.toml").write_text("[tool.xla-migrate]\nfail-on = 'speed'\n")
    assert run("check", "train.py").code == 1
    assert run("check", "--fail-on", "correctness", "train.py").code == 0
    report = json.loads(run("check", "--format", "json", "train.py").out)
    assert (report["summary"]["exit_code"], report["summary"]["speed"]) == (1, 1)
    assert report["findings"][0]["about"] == "speed"
    (here / "pyproject.toml").write_text("[tool.xla-migrate]\nfail-on = 'sped'\n")
    assert "did you mean `speed`?" in run("check", "train.py").err
    (here / "pyproject.toml").unlink()
    train.write_text(SLOW + "model.cuda()\n")
    assert run("check", "train.py").code == 1


def test_statistics_and_effort_replace_the_list(run: Runner, train: Path, here: Path) -> None:
    (here / "bad.py").write_text("import torch (")
    for option in ("--statistics", "--effort"):
        for words in ([option], [option, "-q"]):
            result = run("check", *words, ".")
            assert result.code == 2
            assert "train.py:3" not in result.out
            assert result.out.startswith("bad.py:1:14: XLA001 ")  # what was not judged is told
