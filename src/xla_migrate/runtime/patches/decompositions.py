"""Operations without a kernel, such as `glu` and `grid_sample`, are computed on the device by others.

The fault: torch_xla has no kernel for these operations or for their gradients. They run on the CPU, with copies from and
to the device, and end the graph in each step. The gradient of ELU, CELU and SELU has a kernel that takes the
input for the output, silently: where x < 0 it is ``x + 1`` in place of ``exp(x)``. torch's own decompositions
give the same values, and gradients by the operations that they consist of.

To see it: ``aten::glu_backward`` in torch_xla's counters; the gradient of ``elu`` at -2, -1 in place of 0.135.
It can go when these fail: test_torch_xla_has_no_kernel, test_elus_have_wrong_gradients.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._decomp import global_decomposition_table

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9", "2.10")

OPERATIONS = """
_weight_norm_interface channel_shuffle col2im glu grid_sampler_2d huber_loss im2col linalg_cross
logaddexp multi_margin_loss renorm sinc special_entr
""".split()

# The decompositions are in place as long as their library is.
_kept: list[Any] = []


def apply() -> None:
    """Decompose them before torch notes what to differentiate, so that it differentiates the parts."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.append(library)
    decompositions: Any = global_decomposition_table["post_autograd"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch's are overridden
        for name in OPERATIONS:
            operation = getattr(torch.ops.aten, name).default
            library.impl(operation, decompositions[operation], "AutogradXLA")
        gradient = torch.ops.aten.elu_backward.default
        library.impl(gradient, decompositions[gradient], "XLA")
