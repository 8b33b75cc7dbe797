"""`torch.autocast("cuda")` on the CPU, with CUDA's list of operations.

CUDA's and the CPU's autocast differ in what they cast: under CUDA's, softmax, layer_norm, exp, sum
and norm run in float32, under the CPU's they do not. The reference must round where the GPU rounds,
or the bf16 criterion would compare with a run that never happens. So CUDA's policy (the lists of
ATen/autocast_mode.h) is registered for the CPU's autocast key, for those operations where the two
differ. XLA's list is a third one (fact 1.72); the comparison of bf16 runs allows for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..observe.process.patching import Patches

# Run in float32 on CUDA (AT_FORALL_FP32), without a policy in the CPU's own list.
FP32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm
frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity dist pdist renorm logsumexp
upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d
upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
norm.Scalar norm.ScalarOpt_dim
""".split()
# dtype=float32 unless the caller chose one (AT_FORALL_FP32_SET_OPT_DTYPE).
FP32_DTYPE = """
softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList
""".split()
LOWER = (
    "addmv addr mv lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell einsum chain_matmul"
    " linalg_multi_dot"
).split()
PROMOTE = "addcdiv addcmul atan2 bilinear cross dot vdot index_put tensordot scatter_add".split()

_HALF = (torch.float16, torch.bfloat16)


def _packet(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _cast(dtype: torch.dtype, values: Any) -> Any:
    def one(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x

    return tree_map_only(torch.Tensor, one, values)


def _kernel(name: str, policy: str) -> Callable[..., Any]:
    op = _packet(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableAutocast():
            if policy == "lower":
                args, kwargs = _cast(torch.get_autocast_dtype("cpu"), (args, kwargs))
            elif policy == "fp32":
                args, kwargs = _cast(torch.float32, (args, kwargs))
            elif policy == "promote":
                args, kwargs = _promote(args, kwargs)
            elif kwargs.get("dtype") is None and _is_half(args):
                kwargs = {**kwargs, "dtype": torch.float32}
            return op(*args, **kwargs)

    return kernel


def _is_half(args: tuple[Any, ...]) -> bool:
    return bool(args) and isinstance(args[0], torch.Tensor) and args[0].dtype in _HALF


def _promote(args: Any, kwargs: Any) -> Any:
    dtypes = set()
    tree_map_only(torch.Tensor, lambda x: dtypes.add(x.dtype), (args, kwargs))
    if torch.float32 in dtypes and dtypes & set(_HALF):
        return _cast(torch.float32, (args, kwargs))
    return args, kwargs


def _policy_library() -> torch.library.Library:
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for names, policy in (
        (FP32, "fp32"),
        (FP32_DTYPE, "dtype"),
        (LOWER, "lower"),
        (PROMOTE, "promote"),
    ):
        for name in names:
            library.impl(name, _kernel(name, policy), "AutocastCPU")  # type: ignore[no-untyped-call]
    return library


def _here(device_type: str) -> str:
    return "cpu" if device_type.split(":")[0] == "cuda" else device_type


def install(patches: Patches) -> None:
    """Map CUDA's autocast in all its spellings to the CPU's, under CUDA's policy."""
    library = _policy_library()
    patches.on_undo(library._destroy)
    chosen = {"dtype": torch.float16}  # CUDA's default; set_autocast_gpu_dtype changes it
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__
    enabled, get_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    set_enabled, set_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype
    patches.on_undo(functools.partial(set_enabled, "cpu", enabled("cpu")))
    patches.on_undo(functools.partial(set_dtype, "cpu", get_dtype("cpu")))

    @functools.wraps(init)
    def construct(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(device_type, str) and _here(device_type) != device_type:
            device_type, dtype = "cpu", dtype or chosen["dtype"]
            # CUDA's autocast takes float32 to mean "no lower precision"; the CPU's warns.
            enabled = enabled and dtype in _HALF
        init(self, device_type, dtype, enabled, cache_enabled)

    def get_autocast_dtype(device_type: str) -> torch.dtype:
        if _here(device_type) == device_type or enabled("cpu"):
            return get_dtype(_here(device_type))
        return chosen["dtype"]

    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        if _here(device_type) != device_type:
            chosen["dtype"] = dtype
        set_dtype(_here(device_type), dtype)

    patches.put(autocast, "__init__", construct)
    for name, value in {
        "is_autocast_enabled": lambda device_type="cuda": enabled(_here(device_type)),
        "set_autocast_enabled": lambda first, *rest: (
            set_enabled(_here(first), *rest) if rest else set_enabled("cpu", first)
        ),
        "get_autocast_dtype": get_autocast_dtype,
        "set_autocast_dtype": set_autocast_dtype,
        "get_autocast_gpu_dtype": lambda: get_autocast_dtype("cuda"),
        "set_autocast_gpu_dtype": lambda dtype: set_autocast_dtype("cuda", dtype),
    }.items():
        patches.put(torch, name, value)
