"""``nn.Transformer`` uses attention masks without reading from the device whether they are causal.

The fault: the encoder and the decoder compare the mask with a causal one in every forward, and read the result from the
device: a launch and a wait each time. For causal masks ``scaled_dot_product_attention`` accepts a flag in place of
the mask, which is faster on CUDA and computes the same. On XLA the mask is used.

To see it: ``xla.metrics()["host_reads"]`` of a forward of ``nn.Transformer`` that is given ``tgt_mask``.
It can go when this fails: test_transformers_of_torch_ask_the_device_for_their_masks.
"""

from __future__ import annotations

import functools

import torch
from torch.nn.modules import transformer

from ._versions import Versions

VERSIONS = Versions("torch", "2.9")

_detect = transformer._detect_is_causal_mask


def apply() -> None:
    """Treat masks on the device as not causal, unless the caller says otherwise."""
    transformer._detect_is_causal_mask = _is_causal


@functools.wraps(_detect)
def _is_causal(
    mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    if is_causal is None and mask is not None and mask.device.type == "xla":
        return False
    return _detect(mask, is_causal, size)
