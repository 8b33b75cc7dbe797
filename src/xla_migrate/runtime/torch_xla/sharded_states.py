"""State dicts of torch's FSDP, for shards that are whole to the script.

The optimizer's state goes by the names of parameters, as in torch's files, so that either loads the other's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.distributed import fsdp

_KINDS: dict[str, tuple[Any, Any]] = {
    "FULL_STATE_DICT": (fsdp.FullStateDictConfig, fsdp.FullOptimStateDictConfig),
    "SHARDED_STATE_DICT": (fsdp.ShardedStateDictConfig, fsdp.ShardedOptimStateDictConfig),
    "LOCAL_STATE_DICT": (fsdp.LocalStateDictConfig, fsdp.LocalOptimStateDictConfig),
}
_SETTINGS = "_xla_migrate_state_dict_settings"


def settings(module: nn.Module) -> Any:
    """Return the settings that were last set for `module`'s state dicts; by default, whole ones."""
    found = module.__dict__.get(_SETTINGS)
    return found or _settings(fsdp.StateDictType.FULL_STATE_DICT)


def set_settings(module: nn.Module, kind: Any, config: Any, of_optimizer: Any) -> Any:
    """Remember them; those before."""
    before = settings(module)
    module.__dict__[_SETTINGS] = _settings(kind, config, of_optimizer)
    return before


def _settings(kind: Any, config: Any = None, of_optimizer: Any = None) -> Any:
    own, optimizers = _KINDS[kind.name]
    return fsdp.StateDictSettings(kind, config or own(), of_optimizer or optimizers())


def named(model: nn.Module, optimizer: Any, state: Any = None) -> dict[str, Any]:
    """The optimizer's state dict by the names of the parameters."""
    state = optimizer.state_dict() if state is None else state
    return _renamed(state, dict(enumerate(_names(model, optimizer))))


def numbered(model: nn.Module, optimizer: Any, state: Any) -> Any:
    """Return `state` keyed by the optimizer's numbers; without an optimizer, by the numbers in `state`."""
    saved = [name for group in state["param_groups"] for name in group["params"]]
    names = list(_names(model, optimizer)) if optimizer is not None else saved
    if set(saved) != set(names):
        if all(isinstance(name, int) for name in saved):
            return state  # the optimizer's own
        different = sorted(map(str, set(saved) ^ set(names)))
        raise ValueError(
            f"the optimizer's state is of other parameters than the model's: {', '.join(different[:5])}"
        )
    return _renamed(state, {name: number for number, name in enumerate(names)})


def _names(model: nn.Module, optimizer: Any) -> Iterator[Any]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = (group["params"] for group in optimizer.param_groups)
    for number, parameter in enumerate(itertools.chain.from_iterable(parameters)):
        yield names.get(id(parameter), number)


def _renamed(state: Any, names: dict[Any, Any]) -> dict[str, Any]:
    groups = [
        {**group, "params": [names[key] for key in group["params"]]}
        for group in state["param_groups"]
    ]
    renamed = {names[key]: value for key, value in state["state"].items()}
    return {**state, "state": renamed, "param_groups": groups}
