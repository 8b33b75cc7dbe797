"""Sharding with the frameworks of Hugging Face, and the runtime's patches of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from ...edits import Edit, InsertBefore
from ..flow import has_run
from ..once import once
from ..parsed_file import ParsedFile
from ..script import Script
from ..syntax import keyword
from .arguments import ARGUMENTS, TRAINERS, calls_of_any, makes_trainer
from .passed_values import given
from .values import HYBRID, OFFLOAD, fault_of_fsdp

# accelerate's plugin.
PLUGINS = frozenset(
    f"accelerate.{home}FullyShardedDataParallelPlugin"
    for home in ("", "utils.", "utils.dataclasses.")
)
_STRATEGIES = ("sharding_strategy", "reshard_after_forward")
_UNLIKE = {
    "cpu_offload": OFFLOAD,
    "activation_checkpointing_offload": OFFLOAD,
    "ignored_modules": "each parameter is split on XLA, and the argument raises an exception: remove it",
    "mixed_precision_policy": 'the option fails on XLA: pass `mixed_precision="bf16"` to the Accelerator',
}


def faults_of_plugin(call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """Arguments of accelerate's plugin that the runtime refuses, and why."""
    for argument in call.keywords:
        text = ast.unparse(argument.value)
        if argument.arg in _STRATEGIES and "hybrid" in text.lower():
            yield argument.value, HYBRID
        elif argument.arg in _UNLIKE and text not in ("None", "False"):
            if "offload_params=False" not in text:
                yield argument.value, _UNLIKE[argument.arg]


@once
def accelerator_shards(script: ParsedFile) -> bool:
    """True if the file makes accelerate's plugin for FSDP, in a way that the runtime takes, and no mesh beside it."""
    if "ParallelismConfig(" in script.source.text:
        return False
    calls = calls_of_any(script, PLUGINS)
    return bool(calls) and not any(True for call in calls for _ in faults_of_plugin(call))


def asked_for(script: ParsedFile, call: ast.Call) -> list[ast.expr]:
    """What says in the arguments `call` of a trainer that it shards, or may say so."""
    written = keyword(call, "fsdp")
    nodes = [] if written is None or isinstance(written, ast.Name) else [written]
    nodes += [one.node for one in given(script, call, "fsdp")]
    return [node for node in nodes if not isinstance(node, ast.Constant) or node.value]


def fault(node: ast.expr) -> str:
    """Return why the runtime does not shard as `fsdp` or `fsdp_config` says; empty if it does, or that is unknown."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values)
        return fault_of_fsdp(
            {k.value: getattr(v, "value", None) for k, v in pairs if isinstance(k, ast.Constant)}
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return fault_of_fsdp(ast.unparse(node))
    return fault_of_fsdp(node.value) if isinstance(node, ast.Constant) else ""


def begins_with(script: ParsedFile, call: ast.Call) -> bool:
    """True if the runtime has to know of the arguments `call` of a trainer before they are made.

    Where they say for sure to shard, and the trainer is made here too, the script itself begins with SPMD.
    """
    options = asked_for(script, call)
    if not options or any(map(fault, options)):
        return False
    return not (makes_trainer(script) and trainer_shards(script))


@once
def trainer_shards(script: ParsedFile) -> bool:
    """True if the file gives a trainer arguments that say for sure to shard, in a way that the runtime does."""
    calls = calls_of_any(script, ARGUMENTS)
    options = [node for call in calls for node in _surely(script, call)]
    return bool(options) and not any(map(fault, options))


def _surely(script: ParsedFile, call: ast.Call) -> list[ast.expr]:
    handed = given(script, call, "fsdp")
    unsure = {one.node for one in handed if not one.sure}
    plain = (ast.Constant, ast.List, ast.Tuple)
    return [n for n in asked_for(script, call) if n not in unsure and isinstance(n, plain)]


# What is made with accelerate, and so after `patch_accelerate`.
MADE_WITH_ACCELERATE = (
    TRAINERS | PLUGINS | {"accelerate.Accelerator", "accelerate.accelerator.Accelerator"}
)


def patched_before(
    script: Script,
    call: ast.Call | ast.ClassDef,
    patch: str,
    made: Collection[str],
    is_left: Callable[[ast.Call], bool] = lambda call: False,
) -> Edit | None:
    """The edit that calls the runtime's `patch` before `call`, or before a class.

    None where the file says so already, or where another call of `made`, by dotted name, brings it: one that is not left, and
    has run whenever `call` runs.
    """
    if f"{patch}()" in script.source.text or _is_inside(script, made):
        return None
    calls = script.cached(_calls_by_name)
    for other in (other for name in made for other in calls.get(name, ())):
        comes_first = (other.lineno, other.col_offset) < (call.lineno, call.col_offset)
        if comes_first and not is_left(other):
            if has_run(script.statement(other), call, script.parents):
                return None
    return InsertBefore(script.statement(call), f"{script.xla}.{patch}()")


def _is_inside(script: Script, made: Collection[str]) -> bool:
    """Return True if the file is a module of the framework, which the runtime imports to patch it."""
    return any(map(script.project.is_of_its_package, made))


def _calls_by_name(script: Script) -> dict[str, list[ast.Call]]:
    """Map dotted names of libraries to the calls of the file."""
    found: dict[str, list[ast.Call]] = {}
    for call, _ in script.index.of(ast.Call):
        dotted = script.dotted(call.func)
        if dotted is not None:
            found.setdefault(dotted, []).append(call)
    return found
