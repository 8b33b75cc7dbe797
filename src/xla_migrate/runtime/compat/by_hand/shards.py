"""``XlaFullyShardedDataParallel`` where torch_xla is not the backend: torch's ``fully_shard``, a process for each device.

Each process has a part of every parameter and trains it, as there; ``state_dict`` is that of its parts, and goes into a file of
its own, with ``get_shard_metadata()``. What is put together from those files has the names of the module that was wrapped.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from glob import glob
from math import prod
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from ... import _gradients
from ...devices import xla_device
from ...eager.fully_sharded import bring
from ...processes import in_group, init_process_group, rank, rendezvous, world_size
from .meshes import recursive_wrap

_INNER = "_fsdp_wrapped_module."
_PART = "_fsdp_shard."
# What tells XLA how to lay out and fuse its graph.
_OF_GRAPHS = frozenset(
    "flatten_parameters execute_sharding_on_init optimization_barrier_in_forward optimization_barrier_in_backward "
    "sync_on_finalization disable_reshard_on_root shard_param_on_dim_0 pin_layout_in_collective_ops "
    "reduce_scatter_bucket_size_mb coalesce_all_gather_ops _shard_size_multiple _use_xla_patched_linear _debug_msg "
    "_debug_print".split()
)

_BY_POSITION = 6  # the number of them between `reshard_after_forward` and `compute_dtype`


class XlaFullyShardedDataParallel(nn.Module):
    """torch_xla's wrapper around a module that ``fully_shard`` splits over the processes."""

    def __init__(
        self,
        module: nn.Module,
        reshard_after_forward: bool = True,
        *of_graphs: Any,
        compute_dtype: torch.dtype | None = None,
        buffer_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        auto_wrap_policy: Callable[..., bool] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], None] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(module, XlaFullyShardedDataParallel):
            raise RuntimeError("Cannot wrap a module that is already wrapped with FSDP.")
        if len(of_graphs) > _BY_POSITION:
            raise TypeError("XlaFullyShardedDataParallel: pass arguments after the seventh by name")
        for name, value in options.items():
            if value and name not in _OF_GRAPHS:
                raise NotImplementedError(
                    f"XlaFullyShardedDataParallel({name}=...): without torch_xla every process has its part of every "
                    "parameter; shard by hand with torch.distributed.fsdp.fully_shard(module, mesh=...)"
                )
        super().__init__()
        own = {
            "reshard_after_forward": reshard_after_forward,
            "compute_dtype": compute_dtype,
            "buffer_dtype": buffer_dtype,
            "fp32_reduce_scatter": fp32_reduce_scatter,
            "param_init_fn": param_init_fn,
        }
        if auto_wrap_policy is not None:
            wrapper = auto_wrapper_callable or XlaFullyShardedDataParallel
            recursive_wrap(
                module, auto_wrap_policy, wrapper, (), (), only_wrap_children=True, **own
            )
        self.compute_dtype = compute_dtype or torch.float32
        self.rank, self.world_size = rank(), world_size()
        _materialize(module, param_init_fn)
        self._buffer_types = _cast_buffers(module, buffer_dtype or self.compute_dtype)
        self._is_root = True
        for inner in module.modules():
            if isinstance(inner, XlaFullyShardedDataParallel):
                inner._is_root = False
        bring([module])
        self._fsdp_wrapped_module = module
        self._is_split = self.world_size > 1 or self.compute_dtype != torch.float32
        if self._is_split:
            self._split(reshard_after_forward, compute_dtype, fp32_reduce_scatter)
        self._register_state_dict_hook(_as_parts)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_from_parts)  # type: ignore[no-untyped-call]

    def _split(self, reshard: bool, computed: torch.dtype | None, in_float32: bool) -> None:
        if self.world_size > 1:
            rendezvous("fsdp")  # A script for torch_xla makes no group.
        elif not in_group():
            init_process_group()
        mesh = init_device_mesh(xla_device().type, (self.world_size,))
        policy = MixedPrecisionPolicy(
            param_dtype=computed, reduce_dtype=torch.float32 if in_float32 else None
        )
        fully_shard(self.module, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
        _gradients.leave_to(self)

    @property
    def module(self) -> nn.Module:
        return self._fsdp_wrapped_module

    @property
    def params_with_grad(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.grad is not None]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, groups: Any = None
    ) -> torch.Tensor:
        norm = nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        if not self._is_split:
            yield
            return
        sharded: Any = self.module
        sharded.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            sharded.set_requires_gradient_sync(True)

    def get_original_names_and_sharded_parameters(self) -> list[tuple[str, nn.Parameter]]:
        return [(n.replace(_INNER, ""), p) for n, p in self.named_parameters()]

    def get_shard_metadata(self) -> dict[str, Any]:
        """Return what ``consolidate_sharded_state_dicts`` needs to know about the parts."""
        named = self.get_original_names_and_sharded_parameters()
        return {
            "shard_info": {
                "": {
                    _PART + name: {"_orig_name": name, "_orig_size": tuple(parameter.shape)}
                    for name, parameter in named
                }
            },
            "flatten_info": {},
            "buffer_info": {
                (prefix + name).replace(_INNER, ""): {"_orig_dtype": dtype}
                for prefix, wrapper in _wrappers(self)
                for name, dtype in wrapper._buffer_types.items()
            },
            "world_size": self.world_size,
            "rank": self.rank,
        }

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self.module, name)

    def __getitem__(self, key: Any) -> Any:
        return self.module.__getitem__(key)  # type: ignore[operator]


def _wrappers(root: nn.Module) -> Iterator[tuple[str, XlaFullyShardedDataParallel]]:
    for name, module in root.named_modules():
        if isinstance(module, XlaFullyShardedDataParallel):
            yield f"{name}." if name else "", module


def _materialize(module: nn.Module, initialize: Callable[[nn.Module], None] | None) -> None:
    """Parameters on "meta" get memory and values, as torch_xla gives them."""
    if not any(parameter.is_meta for parameter in module.parameters()):
        return
    if initialize is not None:
        initialize(module)
    else:
        module.to_empty(device="cpu")
        with torch.no_grad():
            module.reset_parameters()  # type: ignore[operator]


def _cast_buffers(module: nn.Module, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """Buffers of floating-point numbers in this type; which types they had."""
    had = {}
    for path, part in module.named_modules():
        for name, buffer in part.named_buffers(recurse=False):
            if buffer.is_floating_point() and buffer.dtype != dtype:
                had[f"{path}.{name}" if path else name] = buffer.dtype
                part._buffers[name] = buffer.to(dtype)
    return had


def _as_parts(wrapper: Any, state: Any, prefix: str, metadata: Any) -> None:
    """The names of what was wrapped; this process's part of each parameter that is split, under a name that says so."""
    for key in [key for key in state if key.startswith(prefix)]:
        value, name = state.pop(key), key.removeprefix(prefix).replace(_INNER, "")
        if wrapper._is_root and hasattr(value, "to_local"):
            value, name = value.to_local(), _PART + name
        state[prefix + (name if wrapper._is_root else _INNER + name)] = value


def _from_parts(wrapper: Any, state: Any, prefix: str, *_: Any) -> None:
    if not wrapper._is_root:
        return
    for name, own in [*wrapper.named_parameters(), *wrapper.named_buffers()]:
        short = name.replace(_INNER, "")
        split = hasattr(own, "to_local")
        key = prefix + (_PART if split else "") + short
        if key in state:
            value = state.pop(key)
            state[prefix + name] = _whole(value, own, short) if split else value


def _whole(part: torch.Tensor, own: Any, name: str) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    if part.shape != own.to_local().shape:
        raise RuntimeError(
            f"{name}: this process has a part of {tuple(own.to_local().shape)}, and the file one of {tuple(part.shape)}; a "
            "training of other processes, or with torch_xla, is loaded from its consolidated file, before the model is wrapped"
        )
    part = part.to(own.device)
    return DTensor.from_local(
        part, own.device_mesh, own.placements, run_check=False, shape=own.shape, stride=own.stride()
    )


def consolidate_sharded_state_dicts(
    state_dict_list: Sequence[dict[str, Any]], shard_metadata: dict[str, Any]
) -> OrderedDict[str, Any]:
    """Return the whole model's state dict, joined from the state dicts of all processes in order."""
    assert len(state_dict_list) == shard_metadata["world_size"]
    info, types = shard_metadata["shard_info"].get("", {}), shard_metadata.get("buffer_info", {})
    whole: OrderedDict[str, Any] = OrderedDict()
    for name, value in state_dict_list[0].items():
        if name not in info:
            if "_fsdp_shard" in name or "flat_param_" in name:
                raise RuntimeError(
                    f"{name} is of torch_xla's: consolidate such files with torch_xla installed, by "
                    "python -m torch_xla.distributed.fsdp.consolidate_sharded_ckpts"
                )
            whole[name] = value.to(types[name]["_orig_dtype"]) if name in types else value
            continue
        size = tuple(info[name]["_orig_size"])
        parts = [state[name] for state in state_dict_list]
        joined = torch.cat([part.reshape(-1) for part in parts])
        whole[info[name]["_orig_name"]] = joined[: prod(size)].view(size)
    return whole


def consolidate_sharded_model_checkpoints(
    ckpt_prefix: str, ckpt_suffix: str = "*.pth", save_path: str = "", save_model: bool = True
) -> tuple[OrderedDict[str, Any], str | None]:
    """Join the files of all processes; return the whole model's state dict and its path."""
    paths = glob(ckpt_prefix + ckpt_suffix)
    assert paths, f"Cannot find any files matching {ckpt_prefix + ckpt_suffix}."
    # What is beside the model, an optimizer's state of parts, may be of classes that only trusted files may have.
    found = [torch.load(path, map_location="cpu", weights_only=False) for path in paths]
    found.sort(key=lambda checkpoint: checkpoint["shard_metadata"]["rank"])
    for number, checkpoint in enumerate(found):
        told = checkpoint["shard_metadata"]
        assert (told["rank"], told["world_size"]) == (number, len(found)), (
            f"{ckpt_prefix + ckpt_suffix}: {len(found)} files, of which one is of rank {told['rank']} of "
            f"{told['world_size']}; remove the files of other training runs"
        )
    whole = consolidate_sharded_state_dicts(
        [checkpoint["model"] for checkpoint in found], found[0]["shard_metadata"]
    )
    if not save_model:
        return whole, None
    saved = save_path or f"{ckpt_prefix}_consolidated.pth"
    torch.save({"model": whole}, saved)
    return whole, saved
