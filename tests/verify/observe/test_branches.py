"""The `if` statement by which two graphs differ, found from the lines that led to their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.verify.observe.device import branches
from xla_migrate.verify.observe.process import where

SCRIPT = """\
def evaluate(model):
    return model(1)


for step in range(9):
    loss = model(step)
    if step % 4 == 0:
        optimizer.step()
        if verbose:
            print(loss)
    elif step > 5:
        evaluate(model)
    scale = (
        loss.mean() if step else
        loss.sum()
    )
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setattr(where, "_project", (f"{tmp_path}/",))
    branches._branches.cache_clear()
    branches._around.cache_clear()


def _stack(*lines: int) -> tuple[str, ...]:
    return tuple(f"train.py:{line}" for line in lines)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ([6, 8], [6], "if step % 4 == 0 (train.py:7)"),
        ([6], [6, 8], "if step % 4 == 0 (train.py:7)"),
        ([6, 8, 10], [6, 8], "if verbose (train.py:9)"),
        ([6, 8, 10], [6], "if step % 4 == 0 (train.py:7)"),
        ([14], [15], "if step (train.py:14)"),
        ([6, 8], [6, 8], ""),
        ([6], [5], ""),
        ([6, 8], [1], ""),  # the earlier graph did not reach the `if`
    ],
)
def test_the_outermost_branch_is_reported(now: list[int], before: list[int], expected: str) -> None:
    found = branches.differing([_stack(n) for n in now], [_stack(n) for n in before])
    assert found == expected


@pytest.mark.usefixtures("project")
def test_a_function_called_in_a_branch_counts_as_the_branch() -> None:
    now = [_stack(6), _stack(2, 12)]
    # Line 12 is in the `else` of the first `if`, and in the body of its `elif`.
    assert branches.differing(now, [_stack(6)]) == "if step % 4 == 0 (train.py:7)"
    assert branches.differing(now, [_stack(6), _stack(11)]) == "if step > 5 (train.py:11)"


@pytest.mark.usefixtures("project")
def test_a_statement_that_runs_once_is_no_branch(tmp_path: Path) -> None:
    source = "f(1)\nif __name__ == '__main__':\n    for x in y:\n        f(x)\n"
    (tmp_path / "main.py").write_text(source)
    assert branches.differing([("main.py:4",)], [("main.py:1",)]) == ""


BEFORE_THE_LOOP = """\
def main(model, loader):
    if cuda:
        model.cuda()
    for x in loader:
        if step % 4 == 0:
            penalty(x)
        model(x)
"""


@pytest.mark.usefixtures("project")
def test_a_branch_before_the_loop_does_not_cause_graphs_of_the_loop() -> None:
    Path(where.in_project("train.py")).write_text(BEFORE_THE_LOOP)
    assert branches.differing([_stack(7)], [_stack(3), _stack(7)]) == ""
    found = branches.differing([_stack(6), _stack(7)], [_stack(3), _stack(7)])
    assert found == "if step % 4 == 0 (train.py:5)"


@pytest.mark.usefixtures("project")
def test_a_place_in_a_branch() -> None:
    branch = "if step % 4 == 0 (train.py:7)"
    assert branches.contains(branch, "train.py:8")
    assert not branches.contains(branch, "train.py:6")


@pytest.mark.usefixtures("project")
def test_a_file_that_cannot_be_read_has_no_branches() -> None:
    assert branches.differing([("gone.py:3",)], []) == ""
