"""Models of transformers use attention masks without reading from the device whether anything is padded.

The fault: to omit a mask that masks nothing, transformers calls ``padding_mask.all()`` in every forward: a launch and
a wait for the device each time, and another graph for batches that have no padding. It skips the call under tracing. An XLA
tensor is traced, but transformers does not know. A mask that masks nothing leaves attention unchanged.

To see it: ``xla.metrics()["host_reads"]`` of a forward of BERT that is given its ``attention_mask``.
It can go when this fails: test_transformers_asks_the_device_for_its_masks.

Its warning that inputs may be padded, though no mask is given, needs such a read, too, and is not given on XLA.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("transformers", "5.0")


def apply() -> None:
    """Let one of the questions by which transformers tells that it is traced be answered with yes for XLA tensors."""
    home: Any = importlib.import_module("transformers.utils.import_utils")
    asked = home.is_jax_jitting

    @functools.wraps(asked)
    def is_traced(x: Any) -> bool:
        return (isinstance(x, torch.Tensor) and x.device.type == "xla") or bool(asked(x))

    home.is_jax_jitting = is_traced
