"""``torch.inference_mode`` of libraries switches off gradients, as ``torch.no_grad`` does.

The fault: a view of an XLA tensor in inference mode raises an exception, because it sets a version
counter, which tensors made in inference mode don't have. Scripts call ``xla.inference_mode``, but
functions of libraries use torch's: ``segmentation_models_pytorch.metrics.get_stats`` is one.

To see it: ``with torch.inference_mode(): x[0]`` with an XLA tensor ``x``: "Cannot set version_counter
for inference tensor". It can go when this fails: test_torch_xla_has_no_views_in_inference_mode.
"""

from __future__ import annotations

import torch
from torch.autograd.grad_mode import inference_mode

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")


def apply() -> None:
    """Replace how the context begins; how it ends is torch's."""
    inference_mode.__enter__ = _without_gradients  # type: ignore[method-assign]


def _without_gradients(self: inference_mode) -> None:
    self._inference_mode_context = torch.set_grad_enabled(not self.mode)  # type: ignore[assignment]
