"""Does the program keep the parameters of an optimizer the same on every process?

Averages of gradients train such parameters right, and all others wrong. In a program without a process group there
is nothing to tell: processes that the runtime starts hold the same. In one with a process group something has to
show it: a wrapper around the model (`DistributedDataParallel` and its like), or an all-reduce of its gradients.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...patterns import Pattern
from ..nodes import walk
from ..syntax import argument_for, keyword, unparsed
from .tensors.parameters_of import Sources

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from ..scopes import Scope

# What to say of a step that averages nothing; the optimizer goes in.
NOT_REPLICATED = (
    "nothing shows that the parameters of `{}` are the same on every process (no DistributedDataParallel, no all-reduce "
    "of their gradients): its step averages nothing"
)
# `init_rpc` gives each process a part of its own.
_GROUPS = ("init_process_group", "init_device_mesh", "init_rpc")
# Classes and functions that make replicas of a model, under the names that people give them.
_WRAPPERS = Pattern(
    r"^_?(?:\w*DDP|Distributed\w*DataParallel\w*|(?:Fully)?ShardedDataParallel|FSDP\w*|fully_shard|deepspeed|horovod"
    r"|(?:convert_)?sync_?b(?:atch_?)?n(?:orm)?\w*|convert_syncbn_model|ZeroRedundancyOptimizer|distribute_module"
    r"|parallelize_module|replicate)$",
    re.IGNORECASE,
)
_WORD = Pattern(r"[A-Za-z_]\w*")
_REDUCES = frozenset({"all_reduce", "allreduce", "all_reduce_coalesced", "reduce_gradients"})
_REDUCED = Pattern(r"all_?reduce\w*\([^()\n]*grad|reduce_gradients\(|(?:average|sync)_grad\w*\(")
_OF_GRADIENTS = Pattern(r"grad(?!_norm|_scal|_acc|ient_acc)")
_HARMLESS = frozenset(
    "print len list tuple iter sum id repr str isinstance type set hasattr".split()
)
_ASKING = (ast.Attribute, ast.Subscript, ast.Compare, ast.BinOp, ast.Expr, ast.If)
_DEEPEST = 4  # functions that a model is followed through


class Replication:
    """What one file, and the programs that load it, say of replicas."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.sources = Sources(script)
        self.has_group = self._says(*_GROUPS)
        self._wrapped: list[ast.expr] = []
        self._is_open = False  # something is wrapped, or reduced, that has another name elsewhere
        if self.has_group:
            self._look()

    def averages(self, optimizer: ast.expr | None) -> bool:
        """True if a step of `optimizer` is to average what no wrapper averages.

        True where there is no process group; where a wrapper, or an all-reduce of gradients, has its parameters; and
        where that cannot be seen, but some model of the program has one. False where none has, or where some of its
        parameters are of what is made in this file and goes to no wrapper.
        """
        if not self.has_group or optimizer is None:
            return True
        if not (self._wrapped or self._is_open):
            return False
        owners = self.sources.of_optimizer(optimizer)
        return not any(self._is_alone(owner) for owner in owners)

    # The program.

    def _says(self, *names: str) -> bool:
        if any(self.script.index.calls_of(name) for name in names):
            return True
        project = self.script.project
        called = tuple(f"{name}(" for name in names)
        return project is not None and project.in_its_programs(project.modules.having(called))

    def _look(self) -> None:
        for call, scope in self.script.index.of(ast.Call):
            if _is_wrapper(call.func):
                self._add(call.args[0] if call.args else keyword(call, "module"), call)
                self._add_targets(call)
            elif _last(call.func) in _REDUCES and self._reduces_gradients(call, scope):
                owners = list(self.sources.of_loop_around(call))
                for owner in owners:
                    self._add(owner, call)
                self._is_open |= not owners
        project = self.script.project
        others = project is not None and project.in_its_programs(
            project.modules.where(_shows_replicas)
        )
        if others or self._hands_on_a_wrapper():
            self._is_open = True

    def _add(self, wrapped: ast.expr | None, call: ast.Call) -> None:
        if not isinstance(wrapped, (ast.Name, ast.Attribute)):
            self._is_open |= wrapped is None
            return
        self._wrapped.append(wrapped)
        self._is_open |= self.sources.is_parameter(wrapped)

    def _add_targets(self, call: ast.Call) -> None:
        statement = self.script.statement(call)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    self._wrapped.append(target)
                else:
                    self._is_open = True
        else:
            self._is_open = True  # returned, kept in a list

    def _hands_on_a_wrapper(self) -> bool:
        """`wrap = DDP`, `partial(DDP, ...)`: what it is called with is not known."""
        index = self.script.index
        nodes: list[tuple[ast.Name | ast.Attribute, Scope]] = [
            *index.of(ast.Name),
            *index.of(ast.Attribute),
        ]
        for node, _ in nodes:
            if not isinstance(node.ctx, ast.Load) or not _is_wrapper(node):
                continue
            parent = self.script.parent(node)
            if isinstance(parent, ast.Attribute) or self.script.is_annotation(node):
                continue
            if isinstance(parent, ast.Call) and (
                parent.func is node or _last(parent.func) in {"isinstance", "issubclass"}
            ):
                continue
            if isinstance(parent, (ast.Tuple, ast.ClassDef, ast.Compare)):
                continue
            return True
        return False

    def _reduces_gradients(self, call: ast.Call, scope: Scope) -> bool:
        """Over all processes: with a group of some it shows nothing of the others."""
        if keyword(call, "group") is not None or len(call.args) > 2:
            return False
        if _last(call.func) == "reduce_gradients":
            return True
        reduced = call.args[0] if call.args else keyword(call, "tensor")
        return reduced is not None and any(
            _OF_GRADIENTS.search(unparsed(node)) for node in self._made_of(reduced, scope)
        )

    def _made_of(self, node: ast.expr, scope: Scope) -> Iterator[ast.expr]:
        yield node
        for part in walk(node):
            if isinstance(part, ast.Name) and (found := scope.find(part.id)) is not None:
                yield from (b.value for b in found[1] if b.value is not None)

    # One model.

    def _is_alone(self, owner: ast.expr) -> bool:
        """True if `owner`, of parameters, is made in this file and wrapped, or reduced, nowhere."""
        if any(_is_same(owner, wrapped) for wrapped in self._wrapped):
            return False
        return self.sources.is_made_here(owner) and not self._escapes(owner, 0)

    def _escapes(self, owner: ast.expr, depth: int) -> bool:
        """True if something may wrap it that is not seen."""
        text = unparsed(owner)
        home = self._home(owner)
        for node, _ in [*self.script.index.of(type(owner))]:
            if not isinstance(getattr(node, "ctx", None), ast.Load) or unparsed(node) != text:
                continue
            if isinstance(node, ast.Name) and self._home(node) is not home:
                continue
            if self._is_handed_on(node, depth):
                return True
        return False

    def _home(self, node: ast.AST) -> object:
        if not isinstance(node, ast.Name):
            return None
        found = self.script.index.scope(node).find(node.id)
        return found[0] if found is not None else None

    def _is_handed_on(self, node: ast.AST, depth: int) -> bool:
        parent = self.script.parent(node)
        if isinstance(parent, _ASKING):
            return False
        while isinstance(parent, (ast.List, ast.Dict)):  # in the groups of an optimizer
            outer = self.script.parent(parent)
            if isinstance(outer, ast.Call) and self._is_of_optimizers(outer):
                return False
            parent = outer
        name = None
        if isinstance(parent, ast.keyword):
            name, parent = parent.arg, self.script.parent(parent)
        if not isinstance(parent, ast.Call):
            return True
        if parent.func is node:
            return False
        dotted = self.script.dotted(parent.func) or ""
        if dotted.startswith("torch."):
            return not (self._is_of_optimizers(parent) or dotted.rpartition(".")[2].islower())
        if isinstance(parent.func, ast.Name) and parent.func.id in _HARMLESS:
            return False
        function = self.script.value(parent.func).definition
        if not isinstance(function, ast.FunctionDef) or depth >= _DEEPEST:
            return True
        return self._escapes_in(function, parent, node, name, depth)

    def _is_of_optimizers(self, call: ast.Call) -> bool:
        return (self.script.dotted(call.func) or "").startswith("torch.optim.")

    def _escapes_in(
        self, function: ast.FunctionDef, call: ast.Call, node: ast.AST, name: str | None, depth: int
    ) -> bool:
        names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        given = [
            n
            for n in names
            if n == name or argument_for(n, function, call, skip_self=False) is node
        ]
        if not given:
            return True
        uses = [
            n
            for n in walk(function)
            if isinstance(n, ast.Name) and n.id == given[0] and isinstance(n.ctx, ast.Load)
        ]
        return any(
            any(w is use for w in self._wrapped) or self._is_handed_on(use, depth + 1)
            for use in uses
        )


def _shows_replicas(text: str) -> bool:
    code = "\n".join(line.partition("#")[0] for line in text.splitlines())
    return _REDUCED.search(code) is not None or any(
        _WRAPPERS.search(word) for word in set(_WORD.findall(code))
    )


def _is_wrapper(func: ast.expr) -> bool:
    if isinstance(func, ast.Attribute) and _last(func.value) == "SyncBatchNorm":
        return True
    return _WRAPPERS.search(_last(func)) is not None


def _is_same(owner: ast.expr, wrapped: ast.expr) -> bool:
    """True if `owner` is what is wrapped, or a part of it."""
    one, other = _path(owner), _path(wrapped)
    return one[: len(other)] == other or one == other[-1:] or one[-1:] == other[-1:]


def _path(node: ast.expr) -> list[str]:
    return [p for p in unparsed(node).split(".") if p != "module"]


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
