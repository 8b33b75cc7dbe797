"""``FullyShardedDataParallel`` and ``fully_shard`` on XLA: shardings, and the compiler does the rest.

What torch_xla calls FSDPv2. Parameters, and with them gradients and the optimizer's state, are split
over the devices that one process drives (``use_spmd``); the compiler gathers them where they are
needed. The script sees whole tensors: norms, state dicts and checkpoints are the same as on one device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from .._backend import backend
from . import sharded_casts, sharded_modules, sharded_states, spmd
from .meshes import AllDevices
from .modules import xr

Parts = TypeVar("Parts", bound=nn.Module | Iterable[nn.Module])
_INNER = f"{sharded_modules.WRAPPED}."
# Torch's options that say how NCCL and CUDA must be kept busy, or what holds here anyway.
_WITHOUT_EFFECT = frozenset(
    "backward_prefetch device_id forward_prefetch limit_all_gathers reshard_after_forward "
    "shard_placement_fn sync_module_states use_orig_params".split()
)


class FullyShardedDataParallel(nn.Module):
    """``torch.distributed.fsdp.FullyShardedDataParallel`` over the devices of SPMD.

    Args:
        module: The model, or a part of it, on any device.
        auto_wrap_policy: As for torch. Parameters are split one by one, so it only says where
            activations are marked as split along the batch.
        mixed_precision: As for torch: parameters and floating-point inputs are cast in forward,
            parameters and the optimizer's state stay as they are. float16 is bfloat16.
        sharding_strategy: As for torch; NO_SHARD leaves parameters on all devices.
        options: Torch's other arguments; those that concern CUDA have no effect.

    Raises:
        RuntimeError: without ``use_spmd()``.
        NotImplementedError: for what has no counterpart: offloading, ignored modules, hybrid
            strategies, meshes, groups, parameters on "meta".

    Example:
        >>> devices = xla.use_spmd()  # doctest: +SKIP
        >>> model = xla.FullyShardedDataParallel(model, auto_wrap_policy=policy)  # doctest: +SKIP
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        auto_wrap_policy: Any = None,
        mixed_precision: Any = None,
        sharding_strategy: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if getattr(options.get("cpu_offload"), "offload_params", None) is False:
            del options["cpu_offload"]
        _check("FullyShardedDataParallel", module, options)
        strategy = getattr(sharding_strategy, "name", "FULL_SHARD")
        if "HYBRID" in strategy:
            raise NotImplementedError(
                f"FullyShardedDataParallel(sharding_strategy={strategy}) on XLA: the devices are "
                "one mesh; use FULL_SHARD"
            )
        _cast_in_forward(mixed_precision, module)
        self._fsdp_wrapped_module = _on_device(module, split=strategy != "NO_SHARD")
        for part in chosen(module, auto_wrap_policy):
            part.register_forward_hook(_split_output)
        self._register_state_dict_hook(_without_inner)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(_with_inner)  # type: ignore[no-untyped-call]

    @property
    def module(self) -> nn.Module:
        """Return the wrapped module."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.module(*args, **kwargs)
        _split(output)
        return output

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """``torch.nn.utils.clip_grad_norm_`` of all parameters: gradients are whole here."""
        return nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do nothing: the compiler adds gradients up when they are used."""
        yield

    @staticmethod
    def set_state_dict_type(
        module: nn.Module,
        state_dict_type: Any,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Any:
        """Remembered: whole, sharded or local, state dicts hold whole tensors; the settings before."""
        return sharded_states.set_settings(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: nn.Module, *kind: Any, **named: Any) -> Any:
        """As ``set_state_dict_type``, until the block ends."""
        before = FullyShardedDataParallel.set_state_dict_type(module, *kind, **named)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(module, *vars(before).values())

    @staticmethod
    def get_state_dict_type(module: nn.Module) -> Any:
        """Return the arguments of ``set_state_dict_type``, as torch's ``StateDictSettings``."""
        return sharded_states.settings(module)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module: nn.Module, *ignored: Any, **options: Any) -> Iterator[None]:
        """Nothing: parameters are whole."""
        yield

    @staticmethod
    def fsdp_modules(module: nn.Module, root_only: bool = False) -> list[nn.Module]:
        """The wrapped modules in ``module``; with ``root_only`` those that are in no other."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(m) for outer in found for m in outer.modules() if m is not outer}
        return [m for m in found if not (root_only and id(m) in inner)]

    def check_is_root(self) -> bool:
        """True: what is around this cannot be seen from here, and nothing depends on it."""
        return True

    @staticmethod
    def optim_state_dict(
        model: nn.Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> Any:
        """The optimizer's state dict, of whole tensors by the names of parameters."""
        return sharded_states.named(model, optim, optim_state_dict)

    @staticmethod
    def full_optim_state_dict(model: nn.Module, optim: Any, *_: Any, **options: Any) -> Any:
        """As ``optim_state_dict``."""
        return sharded_states.named(model, optim)

    sharded_optim_state_dict = full_optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model: nn.Module,
        optim: Any,
        optim_state_dict: Any,
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> Any:
        """Return the state of ``optim_state_dict``, from here or from CUDA, for ``optim.load_state_dict``."""
        state = sharded_states.numbered(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: Any,
        model: nn.Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> Any:
        """As ``optim_state_dict_to_load``: there is one replica."""
        return sharded_states.numbered(model, optim, full_optim_state_dict)

    shard_full_optim_state_dict = scatter_full_optim_state_dict

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: Any, model: nn.Module, optim: Any
    ) -> Any:
        """As ``optim_state_dict_to_load``."""
        return sharded_states.numbered(model, optim, sharded_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(state: Any, kind: Any, model: nn.Module, *_: Any, **__: Any) -> Any:
        """Not available: ``optim_state_dict`` goes by names, the optimizer's own by numbers."""
        raise NotImplementedError(
            "FullyShardedDataParallel.rekey_optim_state_dict on XLA: save optimizer.state_dict()"
        )

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Not available: the compiler communicates."""
        raise NotImplementedError(
            "FullyShardedDataParallel.register_comm_hook on XLA: the compiler sums gradients, "
            "without hooks; change gradients between backward and step"
        )

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """By the names that they have in the wrapped module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_INNER, ""), parameter

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_fsdp_wrapped_module":
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]  # type: ignore[index]


def fully_shard(module: Parts, *, mp_policy: Any = None, **options: Any) -> Parts:
    """``torch.distributed.fsdp.fully_shard`` over the devices of SPMD; the module itself, changed.

    Args:
        module: The model, a part of it, or a list of parts. Parameters on "meta" are split once ``to_empty`` has
            made them.
        mp_policy: As for torch: parameters, and floating-point inputs and outputs, are cast in forward, and the
            parameters stay as they are. float16 is bfloat16.
        options: Torch's; ``reshard_after_forward``, ``shard_placement_fn`` and a ``mesh`` of one dimension have no
            effect.

    Returns:
        ``module``.

    Raises:
        RuntimeError: without ``use_spmd()``.
        NotImplementedError: for other options.

    Example:
        >>> devices = xla.use_spmd()  # doctest: +SKIP
        >>> model = xla.fully_shard(model)  # doctest: +SKIP
    """
    parts = [module] if isinstance(module, nn.Module) else list(module)
    for part in parts:
        _check("fully_shard", part, options, takes_meta=True)
        _cast_by_hooks(part, mp_policy)
        part.register_forward_hook(_split_output)
    for part in parts:
        part._apply(_to_device)  # type: ignore[no-untyped-call]
        sharded_modules.shard_module(part)
    return module


def shard_in_place(module: nn.Module, policy: Any = None, *, split: bool = True) -> None:
    """Split the parameters, and mark what the module and the parts that `policy` would wrap give as split along the batch."""
    for part in (module, *chosen(module, policy)):
        part.register_forward_hook(_split_output)
    _on_device(module, split)


def _cast_by_hooks(module: nn.Module, policy: Any) -> None:
    """The casts of one module by a ``MixedPrecisionPolicy``."""
    dtype = sharded_casts.computed(getattr(policy, "param_dtype", None))
    output = sharded_casts.computed(getattr(policy, "output_dtype", None))
    managed = sharded_modules.managed_modules(module)
    sharded_casts.cast_states("fully_shard(mp_policy=...)", managed, dtype)
    if dtype is not None and policy.cast_forward_inputs:
        sharded_casts.cast_inputs(module, dtype)
    if output is not None:
        sharded_casts.cast_output(module, output)


def _to_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_meta else tensor.to(backend().device())


def _check(
    what: str, module: nn.Module, options: Mapping[str, Any], takes_meta: bool = False
) -> None:
    if not xr.is_spmd():
        raise RuntimeError(
            f"{what} on XLA: call xla.use_spmd(batch_per_device=True) at the beginning of the "
            "script, and start it once, with python"
        )
    for name, value in options.items():
        if not (value is None or name in _WITHOUT_EFFECT or isinstance(value, AllDevices)):
            raise NotImplementedError(
                f"{what}({name}=...) has no counterpart on XLA; remove it, or shard by hand "
                "with torch_xla.distributed.spmd.mark_sharding"
            )
    if not takes_meta and any(parameter.is_meta for parameter in module.parameters()):
        raise NotImplementedError(f"{what} of parameters on 'meta': build the model on the CPU")


def _on_device(module: nn.Module, split: bool) -> nn.Module:
    module.to(backend().device())
    if split:
        sharded_modules.keep_split(module)
    return module


def _cast_in_forward(policy: Any, module: nn.Module) -> None:
    """The casts of a wrapped module by a ``MixedPrecision``."""
    dtype = sharded_casts.computed(getattr(policy, "param_dtype", None))
    buffers = sharded_casts.computed(getattr(policy, "buffer_dtype", None))
    managed = sharded_modules.managed_modules(module)
    sharded_casts.cast_states(
        "FullyShardedDataParallel(mixed_precision=...)", managed, dtype, buffers
    )
    if dtype is not None and getattr(policy, "cast_root_forward_inputs", True):
        sharded_casts.cast_inputs(module, dtype)


def chosen(module: nn.Module, policy: Any) -> Iterator[nn.Module]:
    """Yield the modules that a policy of torch would wrap separately; none if it is not a function."""
    for part in module.modules() if callable(policy) else ():
        amount = sum(parameter.numel() for parameter in part.parameters())
        if part is not module and policy(module=part, recurse=False, nonwrapped_numel=amount):
            yield part


def _split_output(module: nn.Module, args: Any, output: Any) -> None:
    _split(output)


def _split(output: Any) -> None:
    if isinstance(output, torch.Tensor):
        spmd.split_activation(output)
    elif isinstance(output, Mapping):
        _split(list(output.values()))
    elif isinstance(output, list | tuple):
        for item in output:
            _split(item)


def _without_inner(module: nn.Module, state: Any, prefix: str, metadata: Any) -> None:
    """State dicts have the names of the wrapped module, as torch's full ones have."""
    inner = prefix + _INNER
    for key in [key for key in state if key.startswith(inner)]:
        state[prefix + key.removeprefix(inner)] = state.pop(key)


def _with_inner(state: Any, prefix: str, *ignored: Any) -> None:
    for key in [key for key in state if key.startswith(prefix)]:
        state[prefix + _INNER + key.removeprefix(prefix)] = state.pop(key)
