"""`xla-migrate compile`: what its arguments come to; tracing and compiler are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.cli import main
from xla_migrate.target.compile import judge, session, tracing
from xla_migrate.target.compile.interpreter import NoCompiler
from xla_migrate.target.compile.topologies import Topology

CUDA = "import torch\n\nx = torch.ones(2)\nx = x.cuda()\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(CUDA)
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls; a batch of more than 32 does not fit."""
    calls: list[dict[str, Any]] = []

    def compile_script(
        script: Path, args: list[str], topology: Topology, options: Any, replace: Any
    ) -> session.CompileOutcome:
        calls.append({"args": args, "topology": topology, "options": options, "replace": replace})
        batch = next((int(a.partition("=")[2]) for a in args if "batch" in a), 1)
        graph = tracing.Traced("", "train.py:5", "step mark", ["backward"])
        status = judge.FITS if batch <= 32 else judge.TOO_LARGE
        one = judge.Verdict(graph, status, "" if batch <= 32 else "Used 20.00G of 15.75G hbm")
        found = tracing.Tracing([graph], {}, ["train.py:9"], 3)
        return session.CompileOutcome(topology, "libtpu 0.0.21, jaxlib 0.7.1", found, [one])

    monkeypatch.setattr(session, "compile_script", compile_script)
    return calls


def test_a_cuda_script_is_migrated_in_a_copy(
    script: Path, asked: list[dict[str, Any]], capsys: Any
) -> None:
    assert (
        main(["compile", "train.py", "--for", "v5e:2x2", "--optimization", "O1", "--", "--x", "1"])
        == 0
    )
    assert asked[0]["args"] == ["--x", "1"]
    assert asked[0]["topology"].chips == 4
    assert asked[0]["options"].level == "O1"
    assert b"xla_device" in asked[0]["replace"]["train.py"]
    assert script.read_text() == CUDA
    said = capsys.readouterr().out
    # The line is the one of the script as it is: the migration adds an import above it.
    assert "train.py:4: graph 1" in said
    assert "Compiled does not mean run" in said


def test_one_for_xla_is_taken_as_it_is(
    script: Path, asked: list[dict[str, Any]], capsys: Any
) -> None:
    assert main(["compile", "train.py", "--for", "v5e", "--as-is"]) == 0
    assert asked[0]["replace"] == {}


def test_too_large_is_exit_1_with_the_figure(
    script: Path, asked: list[dict[str, Any]], capsys: Any
) -> None:
    assert main(["compile", "train.py", "--for", "v5e", "--", "--batch=64"]) == 1
    assert "Used 20.00G of 15.75G hbm" in capsys.readouterr().out


def test_fit_names_the_largest(script: Path, asked: list[dict[str, Any]], capsys: Any) -> None:
    words = [
        "compile",
        "train.py",
        "--for",
        "v5e",
        "--fit",
        "batch=8..512",
        "--output-format",
        "json",
    ]
    assert main([*words, "--", "--batch=8"]) == 0
    fitted = json.loads(capsys.readouterr().out)["fit"]
    assert (fitted["largest"], fitted["too_large"]) == (32, 64)
    assert len(asked) == 3


def test_not_even_the_smallest_fits(script: Path, asked: list[dict[str, Any]], capsys: Any) -> None:
    assert main(["compile", "train.py", "--for", "v5e", "--fit", "batch=64..512"]) == 1
    assert "not even 64 fits v5e:1x1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nowhere.py", "--for", "v5e"], "nowhere.py: no such script"),
        (["train.py", "--for", "h100"], "unknown TPU"),
        (["train.py", "--for", "trn1.32xlarge"], "AWS Trainium has no compiler here, only TPUs"),
        (["train.py", "--for", "v5e", "--fit", "batch"], "write a range such as"),
        (["train.py"], "--for"),
        (
            ["train.py", "--for", "v5e", "--optimization", "O9"],
            "--optimization: unknown value `O9`; known: `O0`",
        ),
        (["train.py", "--for", "v5e", "--steps", "-1"], "a number from 0"),
    ],
)
def test_wrong_usage(
    script: Path, asked: list[dict[str, Any]], capsys: Any, words: list[str], part: str
) -> None:
    assert main(["compile", *words]) == 2
    assert part in capsys.readouterr().err
    assert not asked


def test_without_a_compiler_it_says_so(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def none(*_: Any) -> None:
        raise NoCompiler("no TPU compiler: pip install")

    monkeypatch.setattr(session, "compile_script", none)
    assert main(["compile", "train.py", "--for", "v5e"]) == 2
    assert "no TPU compiler: pip install" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--ops", "xla"], ["--ops", "tpu"], ["--max-graphs", "3"]])
def test_without_torch_xla_it_is_one_line(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, words: list[str]
) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    assert main(["compile", "train.py", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("xla-migrate: torch_xla is not installed in ")
    assert printed.err.count("\n") == 1
