"""Every subcommand suggests the right option after a typo, and shows examples."""

from __future__ import annotations

import pytest

from .conftest import Runner

TYPOS = [
    (["verify", "--step", "3", "a.py"], "verify", "--steps"),
    (["compile", "--stpes", "3", "a.py"], "compile", "--steps"),
    (["profile", "--outptu", "x", "a.py"], "profile", "--output"),
    (["tune", "--repeat", "2", "a.py"], "tune", "--repeats"),
    (["run", "--retry", "2", "--", "true"], "run", "--retries"),
    (["precompile", "--batch", "2", "--", "true"], "precompile", "--batches"),
    (["sagemaker", "rehearse", "--replica", "2", "a.py"], "sagemaker rehearse", "--replicas"),
    (["doctor", "--device"], "doctor", "--devices"),
    (["explain", "--logs", "x"], "explain", "--log"),
]


@pytest.mark.parametrize(("words", "command", "option"), TYPOS)
def test_a_typo_gets_a_suggestion(run: Runner, words: list[str], command: str, option: str) -> None:
    result = run(*words)
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith(f"xla-migrate: {command} has no ")
    assert f"did you mean `{option}`?" in line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["sagemaker", "rehears", "a.py"], "unknown value `rehears`; did you mean `rehearse`?"),
        (["verify", "a.py", "--precision", "fp16"], "unknown value `fp16`; known: `float32`"),
        (["explain-target", "--form", "trn1"], "no option --form; did you mean `--for`?"),
    ],
)
def test_the_message_about_a_wrong_value_suggests_one(
    run: Runner, words: list[str], problem: str
) -> None:
    assert problem in run(*words).err


def test_an_option_that_resembles_none_gets_no_suggestion(run: Runner) -> None:
    assert "did you mean" not in run("profile", "--zzzzzz", "a.py").err
    assert "sagemaker has no option --zzzzzz" in run("sagemaker", "--zzzzzz", "a.py").err


@pytest.mark.parametrize(
    "command",
    [
        "verify",
        "compile",
        "profile",
        "tune",
        "run",
        "precompile",
        "sagemaker rehearse",
        "explain",
        "doctor",
    ],
)
def test_help_shows_an_example(run: Runner, command: str) -> None:
    printed = run(*command.split(), "--help").out
    assert f"\n  xla-migrate {command} " in printed.partition("examples:")[2]
    assert max(map(len, printed.splitlines())) <= 120


def test_the_first_help_aligns_its_commands(run: Runner) -> None:
    usage = run("--help").out.partition("\n\n")[0].splitlines()
    columns = {len(line) - len(line[7:].split("  ")[-1].lstrip()) for line in usage}
    assert len(columns) == 1
    assert "examples:" in run("--help").out
