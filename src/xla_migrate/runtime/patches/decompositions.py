"""Operations without a right kernel are decomposed into others: `glu`, `embedding_bag`, ELU's gradient.

The fault: torch_xla has no kernel for the operations below, or for their gradients. They run on the
CPU, with copies from and to the device, and end the graph in each step. The gradient of ELU, CELU and
SELU has a kernel that takes the input for the output, silently: where x < 0 it is ``x + 1`` in place of
``exp(x)``. torch has decompositions of them, and `operations._missing_kernels` has more.

To see it: ``aten::glu_backward`` in torch_xla's counters; the gradient of ``elu`` at -2 is -1, not 0.135.
The gradients of max pooling have silently no gradient, as gradient penalties need it. `count_nonzero` counts in the
type of its input, silently: in booleans there is at most one (fact 3.72). `pixel_shuffle` ignores that its factor has
changed, silently (fact 3.74); `pdist` of the orders 0 and inf and `_chunk_cat` are wrong, silently. The loss of one sample without a batch dimension ends the process (fact 3.75).
It can go when these fail: test_torch_xla_has_no_kernel, test_elus_have_wrong_gradients,
test_gradients_of_pooling_have_no_gradients, test_fact_3_72_torch_xla_counts_in_the_type_of_the_input,
test_fact_3_74_the_second_factor_is_ignored, test_fact_3_75_the_loss_of_one_sample_ends_the_process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import global_decomposition_table

from ._versions import Versions
from .operations._kernels import put
from .operations._missing_kernels import BELOW_AUTOGRAD, DECOMPOSITIONS

VERSIONS = Versions("torch_xla", "2.9", "2.10")

OPERATIONS = """
_chunk_cat _weight_norm_interface channel_shuffle col2im glu grid_sampler_2d heaviside huber_loss im2col
isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor isposinf linalg_cross logaddexp
multi_margin_loss pixel_shuffle renorm sinc special_entr special_xlog1py
""".split()


def apply() -> None:
    """Decompose operations before autograd records them: it then records and differentiates their parts.

    `torch.inference_mode` skips autograd, so each is also decomposed behind it.
    """
    decompositions: Any = global_decomposition_table["post_autograd"]
    parts = {operation: decompositions[operation] for operation in map(_operation, OPERATIONS)}
    parts |= DECOMPOSITIONS
    gradient = torch.ops.aten.elu_backward.default
    put(__name__, parts, "AutogradXLA", "XLA")
    put(__name__, {gradient: decompositions[gradient], **BELOW_AUTOGRAD}, "XLA")


def _operation(name: str) -> Any:
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")
