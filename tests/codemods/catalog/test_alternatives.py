"""What is offered in place of an operation computes the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from xla_codemods.catalog import alternatives

x, y = torch.randn(2, 4, 7, generator=torch.Generator().manual_seed(0))
a, b, weight = torch.randn(5, 3), torch.randn(5, 4), torch.randn(2, 3, 4)
classes = torch.tensor([0, 2, 2, 1])
# The operation -> what it computes, and the alternative's text with names of its own.
SAME: dict[str, tuple[Callable[[], torch.Tensor], dict[str, object]]] = {
    "median": (lambda: x.median(dim=-1).values, {"x": x}),
    "kthvalue": (lambda: x.kthvalue(3, dim=0).values, {"x": x, "dim": 0, "k": 3}),
    "smooth_l1_loss": (
        lambda: torch.nn.functional.smooth_l1_loss(x, y, beta=0.7),
        {"d": (x - y).abs(), "beta": 0.7},
    ),
    "huber_loss": (
        lambda: torch.nn.functional.huber_loss(x, y, delta=0.7),
        {"d": (x - y).abs(), "delta": 0.7},
    ),
    "trace": (lambda: x.trace(), {"x": x}),
    "_trilinear": (
        lambda: torch.nn.functional.bilinear(a, b, weight),
        {"a": a, "b": b, "weight": weight},
    ),
    "logcumsumexp": (
        lambda: x.logcumsumexp(-1),
        {"x": x, "dim": -1, "m": x.amax(-1, keepdim=True)},
    ),
    "_logcumsumexp": (
        lambda: x.logcumsumexp(0),
        {"x": x, "dim": 0, "m": x.amax(0, keepdim=True)},
    ),
    "histc": (
        lambda: torch.histc(classes.float(), 4, 0, 2).long(),
        {"x": classes.float(), "bins": 4, "low": 0, "high": 2},
    ),
    "bincount": (lambda: torch.bincount(classes), {"x": classes, "classes": 3}),
}


@pytest.mark.parametrize("name", SAME)
def test_it_computes_the_same(name: str) -> None:
    expected, names = SAME[name]
    code = alternatives.alternative(name).split("`")[-2]
    torch.testing.assert_close(eval(code, {"torch": torch, **names}), expected())


def test_products_with_a_fourier_matrix_are_the_spectrum() -> None:
    n_fft, hop, window = 4, 2, torch.hann_window(4)
    k = torch.arange(n_fft // 2 + 1)
    names = {"torch": torch, "n_fft": n_fft, "hop": hop, "window": window, "x": x[0]}
    names["angles"] = -2 * torch.pi * torch.arange(n_fft)[:, None] * k / n_fft
    real, imaginary, assignment = alternatives.alternative("stft").split("`")[1::2]
    exec(assignment, names)
    parts = torch.complex(eval(real, names), eval(imaginary, names))
    expected = torch.stft(x[0], n_fft, hop, window=window, center=False, return_complex=True)
    torch.testing.assert_close(parts.mT, expected)


def test_each_alternative_is_advice_in_words_or_tested() -> None:
    def is_code(text: str) -> bool:
        """Return True for an expression, and False for functions that are only named."""
        return any("(" in span for span in text.split("`")[1::2])

    tested = {*SAME, "stft", "_fft_r2c"}
    assert {k for k, text in alternatives._ALTERNATIVES.items() if is_code(text)} == tested


def test_of_others_nothing_is_said() -> None:
    assert alternatives.alternative("mode") == ""
