"""`.cuda()` by other ways than the method's name."""

from __future__ import annotations

import pytest

from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('getattr(x, "cuda")()', "x.to(xla.xla_device())"),
        ('x = getattr(x, "cuda")(non_blocking=True)', "x = x.to(xla.xla_device())"),
        ('y = getattr(net(x), "cuda")(args.gpu)', "y = net(x).to(xla.xla_device(args.gpu))"),
        (
            'from operator import methodcaller\ny = map(methodcaller("cuda", non_blocking=True), xs)',
            "y = map(lambda x: x.to(xla.xla_device()), xs)",
        ),
    ],
)
def test_called_by_its_name(before: str, after: str) -> None:
    assert line(before) == after


def test_called_by_its_name_with_what_torch_does_not_take() -> None:
    assert codes('getattr(x, "cuda")(1, 2, 3)') == ["XLA101"]


@pytest.mark.parametrize(
    "source",
    [
        'if getattr(args, "cuda"): pass',
        'gpu = getattr(args, "cuda", False)',
        'cuda = getattr(torch, "cuda")',
        'class A:\n    def cuda(self): pass\ngetattr(A(), "cuda")()',
        'from operator import methodcaller\ny = map(methodcaller("size"), xs)',
    ],
)
def test_flags_and_others_of_that_name(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []
