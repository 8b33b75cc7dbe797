"""Calls in the defaults of generated lambdas."""

from __future__ import annotations

import pytest

from xla_codemods.rewriting.defaults import without_calls

LATER = "    xla.later(lambda step=step, rate=s.get_last_lr()[0]: print(step, rate))\n"


def test_a_call_gets_a_name_before_the_statement() -> None:
    assert without_calls(f"for step in x:\n{LATER}", "", "xla") == (
        "for step in x:\n"
        "    rate = s.get_last_lr()[0]\n"
        "    xla.later(lambda step=step, rate=rate: print(step, rate))\n"
    )


def test_a_name_that_the_file_uses_is_left_alone() -> None:
    after = without_calls(f"rate = 1\nfor step in x:\n{LATER}", "", "xla")
    assert after.splitlines()[2:] == [
        "    rate_2 = s.get_last_lr()[0]",
        "    xla.later(lambda step=step, rate=rate_2: print(step, rate))",
    ]


def test_calls_keep_their_order() -> None:
    line = "text = xla.computed(lambda a=next(x), b=next(x), ü=ü: f'{a} {b} {ü}')\n"
    assert without_calls(line, "", "xla").splitlines() == [
        "a = next(x)",
        "b = next(x)",
        "text = xla.computed(lambda a=a, b=b, ü=ü: f'{a} {b} {ü}')",
    ]


@pytest.mark.parametrize(
    ("text", "original"),
    [
        (f"for step in x:\n{LATER}", LATER),  # the user's own line
        ("xla.later(lambda a=x.count, b=x.add(): print(a, b))\n", ""),  # `x.add()` may change it
        ("if a: xla.later(lambda b=f(): print(b))\n", ""),
        ("other.later(lambda b=f(): print(b))\n", ""),
    ],
)
def test_it_stays_if_that_could_change_something(text: str, original: str) -> None:
    assert without_calls(text, original, "xla") == text
