"""Autocast runs each operation in the type that CUDA's autocast runs it in.

The fault: torch_xla's list is shorter. Under CUDA's autocast sums, powers, exponentials, logarithms,
norms and losses run in float32; under torch_xla's they run in the type of their inputs, bfloat16, and
``scaled_dot_product_attention`` runs in float32 (fact 1.72). So losses come out less precise than the
original's in every step. And what CUDA leaves alone, such as ``relu``, torch_xla casts.

To see it: the type of ``torch.exp(x)`` of a bfloat16 tensor in ``torch.autocast("xla")``.
It can go when this fails: test_fact_1_72_torch_xlas_own_list_differs_from_cudas.

Operations have the dispatcher's names. If torch_xla's own kernel follows CUDA's policy, it is
kept: it is written in C++, and the ones here cost a few microseconds more for each call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("torch_xla", "2.9")

# The tables of ATen/autocast_mode.h, without the kernels of cuDNN and of fused recurrent cells.
LOWER_PRECISION = """
_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell
rnn_relu_cell scaled_dot_product_attention
""".split()
FLOAT32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim
nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
""".split()
# In float32 unless the call says which type.
FLOAT32_BY_DTYPE = """
prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int log_softmax.Dimname
cumprod cumprod.dimname cumsum cumsum.dimname linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList sum.dim_DimnameList
""".split()
NORMS = "norm.Scalar norm.ScalarOpt_dim norm.names_ScalarOpt_dim".split()
WIDEST = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()
# What CUDA's autocast leaves alone and torch_xla's casts. (The others that torch_xla casts are the same
# in the end, such as cross_entropy_loss, or do not exist in half precision on CUDA, such as svd.)
LEFT_ALONE = """
_softmax batch_norm index_copy index_copy.dimname max_pool2d reflection_pad1d reflection_pad2d relu
replication_pad1d replication_pad2d replication_pad3d trace
""".split()

# The kernels are there as long as their library is.
_kept: list[Any] = []


def apply() -> None:
    """Put CUDA's policy for each operation where torch_xla has none, or another."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.append(library)
    theirs = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastXLA")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that theirs are overridden
        policies = (
            (LOWER_PRECISION, _lower_precision),
            (FLOAT32, _float32),
            (FLOAT32_BY_DTYPE, _float32_by_dtype),
            (NORMS, _norm),
            (WIDEST, _widest),
        )
        for names, policy in policies:
            for name in set(names) - theirs:
                library.impl(name, policy(_operation(name)), "AutocastXLA")
        for name in theirs.intersection(LEFT_ALONE):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastXLA")


def _operation(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _lower_precision(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("xla")
        with torch._C._DisableAutocast():
            return _cast_call(operation, args, kwargs, dtype)

    return kernel


def _float32(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableAutocast():
            return _cast_call(operation, args, kwargs, torch.float32)

    return kernel


def _float32_by_dtype(operation: Any) -> Callable[..., Any]:
    place = next(
        (
            i
            for i, a in enumerate(operation._schema.arguments)
            if a.name == "dtype" and not a.kwarg_only
        ),
        None,
    )

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("dtype")
        if given is None and place is not None and len(args) > place:
            given = args[place]
        if given is None and _is_cast(args[0]):
            args = args if place is None else args[:place]
            kwargs = {**kwargs, "dtype": torch.float32}
        with torch._C._DisableAutocast():
            return operation(*args, **kwargs)

    return kernel


def _norm(operation: Any) -> Callable[..., Any]:
    """These have no ``dtype``; their inputs in float32 give what theirs with one would."""
    return _float32(operation)


def _widest(operation: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtypes = [t.dtype for t in _tensors((*args, *kwargs.values())) if _is_cast(t)]
        with torch._C._DisableAutocast():
            if len(set(dtypes)) < 2:
                return operation(*args, **kwargs)
            widest = torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype("xla")
            return _cast_call(operation, args, kwargs, widest)

    return kernel


def _cast_call(operation: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
    args = [_cast(argument, dtype) for argument in args]
    if kwargs:
        kwargs = {name: _cast(argument, dtype) for name, argument in kwargs.items()}
    return operation(*args, **kwargs)


def _cast(argument: Any, dtype: torch.dtype) -> Any:
    if isinstance(argument, torch.Tensor):
        return (
            argument.to(dtype) if argument.dtype is not dtype and _is_cast(argument) else argument
        )
    if isinstance(argument, list | tuple):
        return [_cast(item, dtype) for item in argument]
    return argument


def _is_cast(value: Any) -> bool:
    """As torch has it: tensors of the device in a floating-point type, except for float64."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and value.is_xla  # type: ignore[attr-defined]
    )


def _tensors(arguments: Iterable[Any]) -> Iterable[torch.Tensor]:
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _tensors(argument)
