"""Lines below a changed line stay aligned with its bracket."""

from __future__ import annotations

import pytest

from xla_codemods.rewriting.aligning import aligned

CASES = {
    "arguments": (
        "    torch.save(model.state_dict(),\n               path)\n    done()\n",
        "    xla.save(model.state_dict(),\n               path)\n    done()\n",
        "    xla.save(model.state_dict(),\n             path)\n    done()\n",
    ),
    "a bracket inside": (
        "torch.save({'a': a,\n            'b': [b,\n                  c]},\n           path)\n",
        "xla.save({'a': a,\n            'b': [b,\n                  c]},\n           path)\n",
        "xla.save({'a': a,\n          'b': [b,\n                c]},\n         path)\n",
    ),
    "lines of an outer bracket": (
        "torch.save({'a': a,\n            'b': b},\n           path,\n           True)\n",
        "xla.save({'a': a,\n            'b': b},\n           path,\n           True)\n",
        "xla.save({'a': a,\n          'b': b},\n         path,\n         True)\n",
    ),
    "an outer bracket that is not aligned": (
        "torch.save({'a': a,\n            'b': b},\n    path)\n",
        "xla.save({'a': a,\n            'b': b},\n    path)\n",
        "xla.save({'a': a,\n          'b': b},\n    path)\n",
    ),
    "further to the right": (
        "loader = DataLoader(data,\n                    shuffle=True)\nother = 1\n",
        "loader = xla.MpDeviceLoader(DataLoader(data,\n                    shuffle=True))\nother = 1\n",
        "loader = xla.MpDeviceLoader(DataLoader(data,\n                                       shuffle=True))\nother = 1\n",
    ),
    "a body below a header": (
        "if torch.cuda.is_available(a,\n                           b):\n                                run()\n",
        "if xla.is_available(a,\n                           b):\n                                run()\n",
        "if xla.is_available(a,\n                    b):\n                                run()\n",
    ),
    "a statement before it was removed": (
        "x.cuda()\ny = torch.save(a,\n               b)\n",
        "y = xla.save(a,\n               b)\n",
        "y = xla.save(a,\n             b)\n",
    ),
    "a bracket in a string": (
        "print('(', torch.name(a,\n                      b))\n",
        "print('(', x.name(a,\n                      b))\n",
        "print('(', x.name(a,\n                  b))\n",
    ),
}


@pytest.mark.parametrize(("before", "text", "after"), CASES.values(), ids=CASES)
def test_lines_are_moved_with_the_bracket(before: str, text: str, after: str) -> None:
    assert aligned(text, before, 100) == after


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("torch.save(\n    a,\n    b)\n", "xla.save(\n    a,\n    b)\n"),  # not aligned
        ("torch.save(a,\n    b)\n", "xla.save(a,\n    b)\n"),
        ("torch.save(a, '''\n           ''')\n", "xla.save(a, '''\n           ''')\n"),
        ("torch.save(a,\n           '''x\n           y''')\n", "xla.save(a,\n           '''x\n           y''')\n"),
        ("x = 1\n", "x = 2\n"),
    ],
)  # fmt: skip
def test_other_lines_stay(before: str, text: str) -> None:
    assert aligned(text, before, 100) == text


def test_lines_below_one_that_will_be_split_stay() -> None:
    before, text = "f(a,\n  b)\n", "xla.later(lambda a=a, b=b: f(a,\n  b))\n"
    assert aligned(text, before, 20) == text


def test_line_ends_are_kept() -> None:
    text = aligned("xla.save(a,\r\n           b)\r\n", "torch.save(a,\r\n           b)\r\n", 100)
    assert text == "xla.save(a,\r\n         b)\r\n"
