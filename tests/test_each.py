"""What stands for `parametrize` runs every case, and tells of each that fails."""

from __future__ import annotations

import pytest

from .each import each


def test_every_case_runs_and_those_that_fail_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EACH_APART", raising=False)
    seen = []

    @each("word, size", [("one", 3), ("two", 4), ("three", 6), ("four", 4)])
    def sizes(word: str, size: int, more: str) -> None:
        seen.append(word + more)
        assert len(word) == size, f"{word} has another size"

    with pytest.raises(pytest.fail.Exception) as failure:
        sizes(more="!")
    assert seen == ["one!", "two!", "three!", "four!"]
    told = str(failure.value)
    assert told.startswith("2 of 4 fail\n")
    assert "--- two" in told
    assert "--- three" in told
    assert "two has another size" in told
    assert "--- four" not in told
    assert __file__ in told


def test_no_cases_are_a_failure() -> None:
    @each("word", lambda: [])
    def nothing(word: str) -> None: ...

    with pytest.raises(AssertionError, match="no cases"):
        nothing()


@each("number", range(3))
def test_fixtures_are_given(number: int, tmp_path: object) -> None:
    assert tmp_path
    assert number < 3


def test_cases_can_be_tests_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EACH_APART", "1")

    @each("number", [1, 2], ids=lambda number: f"no-{number}")
    def apart(number: int) -> None: ...

    (mark,) = apart.pytestmark  # type: ignore[attr-defined]
    assert mark.args == (["number"], [(1,), (2,)])
    assert mark.kwargs["ids"] == ["no-1", "no-2"]
