"""`foreach=` of what clips gradients, which XLA refuses."""

from __future__ import annotations

import pytest

from ..lines import codes, line

HEAD = "from torch.nn.utils import clip_grad_norm_\nmodel.cuda()\n"
MOVED = HEAD.replace("cuda()", "to(xla.xla_device())")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("clip_grad_norm_(p, 1.0, foreach=True)", "clip_grad_norm_(p, 1.0)"),
        ("n = clip_grad_norm_(p, max_norm=c, foreach=args.foreach, norm_type=2)",
         "n = clip_grad_norm_(p, max_norm=c, norm_type=2)"),
        ("torch.nn.utils.clip_grad_norm_(p, 1.0, foreach=True)", "torch.nn.utils.clip_grad_norm_(p, 1.0)"),
        ("torch.nn.utils.get_total_norm(g, foreach=True)", "torch.nn.utils.get_total_norm(g)"),
    ],
)  # fmt: skip
def test_goes(before: str, after: str) -> None:
    assert line(HEAD + before).endswith(after)


@pytest.mark.parametrize(
    "source",
    [
        "clip_grad_norm_(p, 1.0, foreach=False)",
        "clip_grad_norm_(p, 1.0, foreach=None)",
        "clip_grad_norm_(p, 1.0)",
        "model.clip_grad_norm_(1.0, foreach=True)",
    ],
)
def test_stays(source: str) -> None:
    assert "XLA310" not in codes(HEAD + source)
