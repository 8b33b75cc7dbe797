"""FSDP: which uses of it the runtime's sharding over one process can take the place of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...patterns import Pattern
from ..script import Script
from ..syntax import keyword
from . import world_sizes

_HOMES = (
    "torch.distributed.fsdp.",
    "torch.distributed.fsdp.fully_sharded_data_parallel.",
    "torch.distributed._composable.fsdp.",
)


# The class that shards a model, as it ends.
CLASS = "FullyShardedDataParallel"


# The function that shards a model, as it ends.
FUNCTION = "fully_shard"


# The class by its dotted names.
CLASSES = tuple(f"{home}{CLASS}" for home in _HOMES)


# The function by its dotted names.
FUNCTIONS = tuple(f"{home}{FUNCTION}" for home in _HOMES)


# Arguments that the runtime takes as torch does, or that have nothing to say on XLA.
_OF_CLASS = frozenset(
    (
        "module auto_wrap_policy backward_prefetch device_id forward_prefetch limit_all_gathers mixed_precision "
        "sharding_strategy sync_module_states use_orig_params"
    ).split()
)


_OF_FUNCTION = frozenset({"module", "reshard_after_forward"})


# Methods that choose what a state dict of shards holds.
TYPES_OF_STATES = ("state_dict_type", "set_state_dict_type")


# What tells that a script works with shards, or that its numbers are those of one process among several.
_UNUSUAL = {
    "sharded or local checkpoints": Pattern(
        r"SHARDED_STATE_DICT|LOCAL_STATE_DICT|torch\.distributed\.checkpoint|optim_state_dict"
    ),
    "DTensors": Pattern(
        r"\bDTensor\b|full_tensor\(|distribute_tensor|to_local\(|summon_full_params"
    ),
    "a device mesh": Pattern(r"init_device_mesh|DeviceMesh"),
    "parameters on meta": Pattern(r"""["']meta["']|init_empty_weights|to_empty\("""),
    "offloading": Pattern(r"offload_params\s*=\s*True|CPUOffloadPolicy|OffloadPolicy"),
    "a hybrid strategy": Pattern(r"HYBRID_SHARD"),
}


def is_sharded_by_the_runtime(script: Script) -> bool:
    """True if every call that shards is rewritten, and there is one."""
    if not script.source.mentions(CLASS.lower(), FUNCTION):
        return False
    calls = list(_calls(script))
    return bool(calls) and not unusual(script) and not any(unusual_call(c, n) for c, n in calls)


def unusual_beside(script: Script, call: ast.Call) -> str | None:
    """Another call of the file that is left: layers and their model are sharded in one way, or not at all."""
    for other, name in _calls(script):
        reason = unusual_call(other, name) if other is not call else None
        if reason is not None:
            return f"another `{name}` beside it that has {reason}"
    return None


def _calls(script: Script) -> Iterator[tuple[ast.Call, str]]:
    for name, names in ((CLASS, CLASSES), (FUNCTION, FUNCTIONS)):
        for call, scope in script.index.of(ast.Call):
            if script.dotted(call.func, scope) in names:
                yield call, name


def unusual_call(call: ast.Call, name: str) -> str | None:
    """What of the arguments of a sharding call the runtime has no equivalent for, in words; None where nothing is.

    `name` is `CLASS` or `FUNCTION`.
    """
    known = _OF_CLASS if name == CLASS else _OF_FUNCTION
    if len(call.args) > 1 or any(isinstance(argument, ast.Starred) for argument in call.args):
        return "positional options"
    for argument in call.keywords:
        if argument.arg is None:
            return "options that cannot be seen"
        if argument.arg == "cpu_offload" and _keeps_on_device(argument.value):
            continue
        if argument.arg not in known:
            return f"`{argument.arg}`"
        if argument.arg == "sharding_strategy" and not isinstance(argument.value, ast.Attribute):
            return "a strategy that cannot be seen"
    return None


def _keeps_on_device(offload: ast.expr) -> bool:
    return ast.unparse(offload).endswith(("None", "offload_params=False)"))


def unusual(script: Script) -> str | None:
    """Why this script would mean something else in one process that drives all devices, or None."""
    text = script.source.text
    for what, pattern in _UNUSUAL.items():
        if pattern.search(text):
            return what
    if not all(map(_is_whole, _types_of_states(script))):
        return "state dicts that may be sharded"
    if next(world_sizes.summed_losses(script), None) is not None:
        return "a loss that is a sum"
    for use in world_sizes.uses(script):
        if use.means != world_sizes.DEVICES:  # Those are rewritten: XLA613.
            return f"`{ast.unparse(use.whole)}`, which counts processes"
    return None


def _types_of_states(script: Script) -> Iterator[ast.expr | None]:
    """What the script asks for: `FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT)`."""
    for name in TYPES_OF_STATES:
        for call, _ in script.index.calls_of(name):
            yield call.args[1] if len(call.args) > 1 else keyword(call, "state_dict_type")


def _is_whole(asked: ast.expr | None) -> bool:
    """State dicts are, on XLA."""
    return isinstance(asked, ast.Attribute) and asked.attr == "FULL_STATE_DICT"
