"""Calls that shard a model, or cut it into stages, and that no rule rewrites."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ....patterns import Pattern
from ...projects.project import Modules
from ...script import Script
from ...syntax import keyword
from ..sharding import CLASSES, FUNCTIONS, is_sharded_by_the_runtime

# Parts of the names that these calls have, in small letters.
_WORDS = (
    "fully_shard",
    "fullyshardeddataparallel",
    "parallelize_module",
    "distribute_module",
    "pippy",
    "fairscale",
    "torchgpipe",
)
# Both stand in a file that cuts a model into stages with torch. Pipelines of other kinds are common.
_STAGES = ("pipelin", "torch.distributed")
_LEFT = Pattern(
    r"torch\.distributed\.(?:_?pipelin\w*\.(?:\w+\.)*(?:PipelineStage|pipeline|build_stage|Pipe|Schedule\w+)"
    r"|tensor\.parallel\.(?:\w+\.)*parallelize_module|_?tensor\.(?:\w+\.)*distribute_module"
    r"|_composable\.(?:\w+\.)*replicate|fsdp\.wrap\.(?:auto_)?wrap)"
    r"|pippy\.\w*(?:\.?\w+)*|torchgpipe\.(?:\w+\.)*GPipe"
    r"|fairscale\.nn\.(?:\w+\.)*(?:FullyShardedDataParallel|ShardedDataParallel|Pipe|auto_wrap|wrap)"
)
_MODELS = ("module", "model", "mod", "root_module")
_SHARDS = frozenset((*CLASSES, *FUNCTIONS))


class LeftCall(NamedTuple):
    """One such call: its name, and the expression of the model that it receives."""

    call: ast.Call
    name: str
    model: ast.expr | None


def may_have_some(script: Script) -> bool:
    """True if the file's text holds such a word: asked first, as it costs nothing."""
    mentions = script.source.mentions
    return mentions(*_WORDS) or (mentions(_STAGES[0]) and _shards(script.source.text))


def _shards(text: str) -> bool:
    """Return True if a module with this text may have such a call."""
    lowered = text.lower()
    return any(word in lowered for word in _WORDS) or all(word in lowered for word in _STAGES)


def sharding_modules(modules: Modules) -> frozenset[str]:
    """Return the paths of the modules, except tests, that may have such calls."""
    return modules.where(_shards) - modules.tests


def may_be_in_the_project(script: Script) -> bool:
    """True if another module of the same programs holds such a word; the texts are searched once a project."""
    project = script.project
    having = sharding_modules(project.modules) - {project.path}
    return bool(having) and not having.isdisjoint(project.modules.graph.connected(project.path))


def left_calls(script: Script) -> list[LeftCall]:
    """All in the file, also by a name that is bound to one: `shard = partial(fully_shard, mesh=mesh)`."""
    if not may_have_some(script):
        return []
    left = _Names(script)
    bound = {
        target.id: name
        for statement, _ in script.index.of(ast.Assign)
        if (name := left.handed_on(statement.value))
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for call, scope in script.index.of(ast.Call):
        name = left.of(call.func)
        if name is None and isinstance(call.func, ast.Name) and call.func.id in bound:
            here = scope.find(call.func.id)
            name = bound[call.func.id] if here is not None else None
        if name is None and isinstance(call.func, ast.Call):
            name = left.handed_on(call.func)  # `partial(FSDP, mesh=mesh)(model)`
        if name is not None:
            found.append(LeftCall(call, name, model_of(call)))
    return found


def model_of(call: ast.Call) -> ast.expr | None:
    """The model that `call` is given: its first argument, or the one by name."""
    if call.args and not isinstance(call.args[0], ast.Starred):
        return call.args[0]
    return next((m for name in _MODELS if (m := keyword(call, name)) is not None), None)


class _Names:
    """Which names of one file shard, and are left."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.shards_itself = is_sharded_by_the_runtime(script)

    def of(self, func: ast.AST) -> str | None:
        dotted = self.script.dotted(func)
        if dotted is None:
            return None
        if dotted in _SHARDS and not self.shards_itself:
            return dotted.rpartition(".")[2]
        return dotted.rpartition(".")[2] if _LEFT.fullmatch(dotted) else None

    def handed_on(self, node: ast.expr) -> str | None:
        """`fully_shard`, `partial(fully_shard, mesh=mesh)`, `lambda m: fully_shard(m, mesh=mesh)`."""
        if isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call):
            return self.of(node.body.func)
        if isinstance(node, ast.Call):
            made_by = self.script.dotted(node.func) or ""
            if made_by.rpartition(".")[2] == "partial" and node.args:
                return self.of(node.args[0])
            return None
        return self.of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
