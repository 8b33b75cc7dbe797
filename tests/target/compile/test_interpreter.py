"""Finding the compiler, and saying what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xla_migrate.target.compile import interpreter, jaxlib_private, worker


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (("0.7.1", "0.0.21"), ""),
        (("", ""), "jaxlib and libtpu not installed: pip install jax==0.7.1"),
        (("0.7.1", ""), "libtpu not installed"),
        (("0.10.2", "0.0.52"), "jaxlib 0.10.2 with libtpu 0.0.52 is not tested"),
    ],
)
def test_versions(found: tuple[str, str], part: str) -> None:
    said = jaxlib_private.problem(found)
    assert part in said
    assert bool(said) == bool(part)
    assert "\n" not in said


def test_none_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(interpreter.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(interpreter, "_ask", lambda python: (None, "libtpu not installed"))
    with pytest.raises(interpreter.NoCompiler, match=r"pip install jax==") as error:
        interpreter.find()
    assert "\n" not in str(error.value)


def test_one_that_is_named_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(interpreter.NoCompiler, match="does not answer"):
        interpreter.find(str(tmp_path / "python"))


def test_the_worker_answers_from_any_python() -> None:
    found, problem = interpreter._ask(sys.executable)
    assert found is not None or "install" in problem or "not tested" in problem


def test_collectives_are_counted_once_each() -> None:
    hlo = """
  %a = f32[8] all-reduce-start(%x), channel_id=1
  %b = f32[8] all-reduce-done(%a)
  %c = f32[8] all-reduce(%y), channel_id=2
  %d = f32[8] fusion(%all-reduce.3), kind=kLoop
  %e = f32[16] all-gather(%y), channel_id=3
"""
    assert worker.collectives(hlo) == {"all-reduce": 2, "all-gather": 1}
