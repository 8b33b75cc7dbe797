"""Many cases in one test: `each` is `parametrize` for cases of about a millisecond, of which pytest's own part is the most.

All cases run, and a failure names each that failed, with its traceback. With `EACH_APART=1` in the environment every case
is a test of its own, as `parametrize` makes it: to select one by `-k`, or to debug it.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
Cases = Iterable[Any]


def each(
    names: str, cases: Cases | Callable[[], Cases], ids: Callable[[Any], object] = str
) -> Callable[[Test], Test]:
    """Run the test with every case; fixtures are those of one test, so it may leave nothing behind in them.

    Args:
        names: of the arguments, as `parametrize` takes them: "name", or "source, expected".
        cases: values, or tuples of them where there are several names; what makes them where that takes time.
        ids: what a case is called where it fails; of the first value where there are several.
    """
    arguments = [name.strip() for name in names.split(",")]

    def given() -> list[tuple[Any, ...]]:
        made = cases() if callable(cases) else cases
        return [case if len(arguments) > 1 else (case,) for case in made]

    if os.environ.get("EACH_APART"):
        apart = given()
        return pytest.mark.parametrize(arguments, apart, ids=[str(ids(case[0])) for case in apart])

    def decorate(test: Test) -> Test:
        def all_cases(**fixtures: Any) -> None:
            def run(case: tuple[Any, ...]) -> None:
                test(**dict(zip(arguments, case, strict=True)), **fixtures)

            try_all(given(), run, lambda case: ids(case[0]))

        own = inspect.signature(test)
        kept = [p for name, p in own.parameters.items() if name not in arguments]
        all_cases.__name__, all_cases.__doc__ = test.__name__, test.__doc__
        all_cases.__module__, all_cases.__qualname__ = test.__module__, test.__qualname__
        all_cases.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_cases

    return decorate


def try_all(
    cases: Sequence[Any], check: Callable[[Any], None], ids: Callable[[Any], object] = str
) -> None:
    """Check every case; fail with the names and tracebacks of all that fail, or where there are none to try."""
    failed = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            failed.append(f"--- {ids(case)}\n{_told(error)}")
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {len(cases)} fail", *failed]), pytrace=False)
    assert cases, "no cases"


def _told(error: Exception) -> str:
    """The error and where in the test it arose, without this module's own frame."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
