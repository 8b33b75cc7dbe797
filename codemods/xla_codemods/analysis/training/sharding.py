"""FSDP: which uses of it the runtime's sharding over one process can take the place of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...flow.calls import outer_calls
from ...flow.closure import all_ends, reach, without_fault
from ...flow.conditions import conditions
from ...flow.containers import ANY, held
from ...flow.edges import sources
from ...patterns import Pattern
from ..inference import library_types
from ..nodes import walk
from ..once import once
from ..script import Script
from ..syntax import text_of
from . import meshes, world_sizes

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


_OF_FUNCTION = frozenset("module mp_policy reshard_after_forward shard_placement_fn".split())


# Functions of the class that say what state dicts hold, and make them.
OF_STATES = (
    "flatten_sharded_optim_state_dict fsdp_modules full_optim_state_dict get_state_dict_type optim_state_dict "
    "optim_state_dict_to_load scatter_full_optim_state_dict set_state_dict_type shard_full_optim_state_dict "
    "sharded_optim_state_dict state_dict_type"
).split()


# Torch's functions for state dicts of whatever is sharded, which the runtime has, too.
GATHERING = tuple(
    f"torch.distributed.checkpoint.state_dict.{name}"
    for name in (
        "get_model_state_dict",
        "get_optimizer_state_dict",
        "get_state_dict",
        "set_model_state_dict",
        "set_optimizer_state_dict",
        "set_state_dict",
    )
)


_SHARDS = Pattern(r"FullyShardedDataParallel|fully_shard|FSDPModule")


_BY_HAND = "DTensors"
_OF_SHARDS = Pattern(
    r"\bDTensor\b|full_tensor\(|distribute_tensor|to_local\(|summon_full_params|\bShardedTensor\b|local_shards\("
)


# Signs that a script works with shards, or that its numbers are per process.
_UNUSUAL = {
    "state dicts of torch's shards": Pattern(
        r"_patch_(?:model|optimizer)_state_dict|load_sharded_optimizer_state_dict|rekey_optim_state_dict"
    ),
    _BY_HAND: _OF_SHARDS,
    "a device mesh": Pattern(r"DeviceMesh(?:\(|\.from_group)"),
    "hooks of reductions": Pattern(
        r"set_(?:gradient|reduce_scatter)_divide_factor|set_all_reduce_hook|set_custom_(?:all_gather|reduce_scatter)"
        r"|register_fsdp_forward_method"
    ),
    "offloading": Pattern(r"offload_params\s*=\s*True|CPUOffloadPolicy|OffloadPolicy"),
    "a hybrid strategy": Pattern(r"HYBRID_SHARD"),
}


_ON_META = Pattern(r"""["']meta["']|init_empty_weights|to_empty\(""")
# What makes parameters that `fully_shard` splits; FSDP's class takes them apart before.
_MADE = Pattern(r"\w\.to_empty\(|\bset_(?:model_)?state_dict\(")


@once
def is_sharded_by_the_runtime(script: Script) -> bool:
    """True if every call that shards is rewritten, and there is one."""
    calls = list(_calls(script))
    return (
        bool(calls)
        and not unusual(script)
        and not any(unusual_call(script, c, n) for c, n in calls)
    )


def is_sharded_elsewhere(script: Script) -> bool:
    """True if other modules of the programs that load this one shard, all by the runtime: this one only saves, or asks."""
    if any(True for _ in _calls(script)):
        return False
    text, paths = script.project.modules.text, script.project.program_paths
    verdicts = [script.of_module(p, _by_the_runtime) for p in paths if _SHARDS.search(text(p))]
    return True in verdicts and False not in verdicts


def _by_the_runtime(other: Script) -> bool | None:
    """Return True if the sharding calls of a module are the runtime's, or will be; None if it has none."""
    if any(True for _ in _calls(other)):
        return is_sharded_by_the_runtime(other)
    own = (f"{library_types.RUNTIME}.{name}" for name in (CLASS, FUNCTION))
    calls = (
        c
        for name in own
        for c, s in other.index.calls_of(name.rpartition(".")[2])
        if other.dotted(c.func, s) == name
    )
    return True if next(calls, None) is not None else None


def unusual_beside(script: Script, call: ast.Call) -> str | None:
    """Another call of the file that is left: layers and their model are sharded in one way, or not at all."""
    for other, name in _calls(script):
        reason = unusual_call(script, other, name) if other is not call else None
        if reason is not None:
            return f"another `{name}` that has {reason}"
    return None


def _calls(script: Script) -> Iterator[tuple[ast.Call, str]]:
    for name, names in ((CLASS, CLASSES), (FUNCTION, FUNCTIONS)):
        for call, _ in script.index.of(ast.Call):
            if script.dotted(call.func) in names:
                yield call, name


def guards(script: Script) -> Iterator[tuple[ast.Compare, ast.expr]]:
    """Yield tests without which nothing is sharded, each with its number of processes: `if world_size > 1: FSDP(model)`."""
    calls = [call for call, _ in _calls(script)]
    places = reach(calls, lambda each: outer_calls(script, each))
    tests = [test for place in places for test, _ in conditions(script, place, refusals=False)]
    for part in dict.fromkeys(part for test in tests for part in walk(test)):
        match part:
            case ast.Compare(left=number, comparators=[ast.Constant(value=0 | 1 | 2)]) | (
                ast.Compare(left=ast.Constant(value=0 | 1 | 2), comparators=[number])
            ) if world_sizes.is_counted(number, script.index.scope(part)):
                yield part, number


def unusual_call(script: Script, call: ast.Call, name: str) -> str | None:
    """Return the arguments of a sharding call that the runtime has no equivalent for, in words; None if there are none.

    `name` is `CLASS` or `FUNCTION`.
    """
    known = _OF_CLASS if name == CLASS else _OF_FUNCTION
    if len(call.args) > 1 or any(isinstance(argument, ast.Starred) for argument in call.args):
        return "positional options"
    for option, value in _options(script, call):
        if option is None:
            return "unknown options"
        if option == "cpu_offload" and _keeps_on_device(value):
            continue
        if option in meshes.ARGUMENTS:
            if _is_over_all_devices(script, value):
                continue
            return "a mesh that has several dimensions or other uses"
        if option not in known:
            return f"`{option}`"
        if option == "sharding_strategy" and not _is_a_strategy(script, value):
            return "an unknown strategy"
    return None


def _is_a_strategy(script: Script, value: ast.expr) -> bool:
    """Return True if `value` is one of torch's strategies, also chosen by a name: `{"full": FULL_SHARD}[name]`."""

    def parts(node: ast.expr) -> Sequence[ast.expr]:
        match node:
            case ast.Subscript(value=ast.Dict(values=values)):
                return values
            case ast.Subscript(value=owner):
                return held(script, owner, ANY) or sources(script, node)
            case ast.Call(func=ast.Attribute(value=owner, attr="get")):
                return held(script, owner, ANY)
        return sources(script, node)

    def is_one(node: ast.expr) -> bool:
        return ".ShardingStrategy." in (script.dotted(node) or "")

    # A setting is one of them, too: the runtime refuses those that it does not have.
    return isinstance(value, ast.Attribute) or all_ends([value], parts, is_one)


def _options(script: Script, call: ast.Call) -> Iterator[tuple[str | None, ast.expr]]:
    """By name; None as the name of what may be any."""
    for argument in call.keywords:
        if argument.arg is not None:
            yield argument.arg, argument.value
            continue
        written = written_options(script, argument.value)
        yield from [(None, argument.value)] if written is None else written


def _is_over_all_devices(script: Script, mesh: ast.expr) -> bool:
    """Return True for a mesh of all devices, and for `mesh["dp"]` of one."""

    def parts(node: ast.expr) -> Sequence[ast.expr]:
        return [node.value] if isinstance(node, ast.Subscript) else sources(script, node)

    return all_ends([mesh], parts, lambda node: meshes.is_over_all_devices(script, node))


def _keeps_on_device(offload: ast.expr) -> bool:
    return ast.unparse(offload).endswith(("None", "offload_params=False)"))


def unusual(script: Script) -> str | None:
    """Why this script would mean something else in one process that drives all devices, or None."""
    text = script.source.text
    for what, pattern in _UNUSUAL.items():
        if pattern.search(text):
            return what
    made = script.index.calls_of(meshes.FUNCTION)
    if not all(meshes.is_over_all_devices(script, call) for call, _ in made):
        return "a device mesh"
    if _ON_META.search(text) and not _makes_what_is_on_meta(script):
        return "parameters on meta"
    modules, programs = script.project.modules, script.project.programs
    for path in sorted(modules.with_word_like(_SHARDS) & programs):
        if _OF_SHARDS.search(modules.text(path)):
            return f"{_BY_HAND} in {path}"
    if next(world_sizes.summed_losses(script), None) is not None:
        return "a loss that is a sum"
    for use in world_sizes.uses(script):
        if use.means != world_sizes.DEVICES:  # Those are rewritten: XLA613.
            return f"`{ast.unparse(use.whole)}`, which counts processes"
    return None


def _makes_what_is_on_meta(script: Script) -> bool:
    """True if `fully_shard` alone shards here, and parameters are made by `to_empty` or by a state dict."""
    text = script.source.text
    if "init_empty_weights" in text or not _MADE.search(text):
        return False
    return all(name == FUNCTION for _, name in _calls(script))


_Option = tuple[str, ast.expr]
_READS = frozenset({"get", "keys", "values", "items", "copy"})


def written_options(script: Script, node: ast.expr) -> list[_Option] | None:
    """Return the options in `node`, which follows `**`, or None if it may have others.

    A literal, or a name that is one wherever it is bound, gets only constant keys, and is passed to nothing else.
    """
    options: list[_Option] = []

    def parts(each: ast.expr) -> Sequence[ast.expr] | None:
        """Return the dictionaries that `each` has the options of, besides its own."""
        entries: list[tuple[ast.expr | None, ast.expr]]
        match each:
            case ast.IfExp():
                return sources(script, each)
            case ast.Name():
                found = [binding.whole for binding in script.bindings(each)]
                for use in script.index.reads(each) if found else ():
                    found += _added(script, use)
                known = [part for part in found if part is not None]
                return known if known and len(known) == len(found) else None
            case ast.Dict(keys=keys, values=values):
                entries = [*zip(keys, values)]
            case ast.Call(func=ast.Name(id="dict"), args=args, keywords=given):
                named = [(ast.Constant(k.arg) if k.arg else None, k.value) for k in given]
                entries = [*((None, argument) for argument in args), *named]
            case _:
                return None
        own = [(text, value) for key, value in entries if (text := text_of(key)) is not None]
        options.extend(own)
        others = [value for key, value in entries if key is None]
        return others if len(own) + len(others) == len(entries) else None

    return options if without_fault([node], parts) else None


def _added(script: Script, use: ast.Name) -> list[ast.expr | None]:
    """Return the dictionaries that one use of a dictionary adds to it, or None among them if it may add anything."""
    parent = script.parent(use)
    match parent, script.parent(parent) if parent is not None else None:
        case (ast.keyword(arg=None) | ast.Compare(), _):
            return []
        case ast.Subscript(slice=ast.Constant(value=str())) as entry, around if entry.value is use:
            if isinstance(around, ast.Assign) and around.targets == [entry]:
                return [ast.Dict([entry.slice], [around.value])]
            return [] if isinstance(entry.ctx, ast.Load) else [None]
        case ast.Attribute(attr=name), ast.Call(args=args, keywords=given, func=func) if (
            func is parent
        ):
            match name, args:
                case "update", _:
                    return [ast.Call(ast.Name("dict"), args, given)]
                case "setdefault", [key, value]:
                    return [ast.Dict([key], [value])]
            return [] if name in _READS else [None]
    return [None]
