"""Every use of a GradScaler in a file, and what becomes of it where losses are not scaled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....edits import Edit, Replace, remove
from ....flow.calls import receives
from ....patterns import Pattern
from ...inference.values import SCALER, TENSOR
from ...nodes import walk
from ...once import once
from ...optimizers import is_scaler, scalers_by_use
from ...parsed_file import ParsedFile
from ...scopes import Scope
from ...syntax import handed_through, keyword, targets_of
from ..replication import Replication
from .branches import Changes, vanishes
from .creations import (
    Creation,
    bound_to,
    creations,
    last_name,
    leaves_the_file,
)
from .scale import fold_scales

_NAME = Pattern("scaler", re.IGNORECASE)
_DROPPED = frozenset(
    "unscale_ update set_growth_factor set_backoff_factor set_growth_interval".split()
)
_ASKING = frozenset({"isinstance", "print", "repr", "str", "id", "type", "hasattr"})


class Uses:
    """What is found: `fixed` places with their edits, and the others by what they want of the scaler."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.fixed: list[tuple[ast.expr | ast.stmt, tuple[Edit, ...]]] = []
        self.flags: list[ast.expr] = []  # whether there is one
        self.unclear: list[ast.expr] = []  # something that has no answer without one
        self.passed = False  # to places of this file
        self.handed_out = False  # to places that are not seen
        self.saved = False  # its state is in checkpoints
        self.creations: list[Creation] = []
        self.names: set[str] = set()  # under which they are used

    def asked(self, script: ParsedFile, gone: set[ast.If | ast.IfExp]) -> bool:
        """True if anything that stays asks if there is a scaler. `gone` are the `if`s that do not stay."""
        return any(not self._goes(flag, script, gone) for flag in self.flags)

    def is_for_others(self, script: ParsedFile, creation: Creation) -> bool:
        """True if another file may use it: it is returned, or kept in a module or object and not used here."""
        if leaves_the_file(script, creation.whole):
            return True
        targets = targets_of(creation.statement)
        kept = [t for t in targets if isinstance(t, ast.Attribute) or script.function(t) is None]
        return any(
            last_name(target) not in self.names or _is_wanted_elsewhere(script, target)
            for target in kept
        )

    def _goes(self, node: ast.expr, script: ParsedFile, gone: set[ast.If | ast.IfExp]) -> bool:
        return any(
            ancestor in gone
            or ancestor in self.changes.removed
            or (isinstance(ancestor, ast.If) and vanishes(ancestor, script, self.changes))
            for ancestor in script.ancestors(node)
        )


def _is_wanted_elsewhere(script: ParsedFile, target: ast.expr) -> bool:
    """True if another module of the project has a use for it."""
    if isinstance(target, ast.Attribute):
        return script.project.uses_attribute(target.attr)
    return script.is_imported_elsewhere(last_name(target))


@once
def uses_of_scalers(script: ParsedFile) -> Uses:
    """All uses of scalers in `script`."""
    finder = _Finder(script)
    for creation in creations(script):
        finder.uses.creations.append(creation)
    seen = set()
    for node in _references(script, finder.uses.creations):
        finder.use(node)
        seen.add(node)
    if _is_read_otherwise(script, finder.uses.creations, seen):
        finder.uses.handed_out = True
    for place, edits in fold_scales(script, finder.scales, finder.uses.changes):
        finder.fix(place, *edits)
    return finder.uses


def _is_read_otherwise(script: ParsedFile, creations: list[Creation], seen: set[ast.expr]) -> bool:
    """True if the file reads an attribute that a scaler is kept in from an object that is not known to have it:
    `self.learn.scaler = GradScaler()` here, and `self.scaler.update()` there.
    """
    names = _attributes(script, creations)
    for node, _ in script.index.of(ast.Attribute):
        if node.attr in names and isinstance(node.ctx, ast.Load) and node not in seen:
            kinds = script.value(node).kinds
            if (not kinds or SCALER in kinds) and not script.is_in_class_of(SCALER, node):
                return True
    for asking in ("getattr", "hasattr"):
        for call, _ in script.index.calls_of(asking):
            match call.args:
                case [_, ast.Constant(value=str(name)), *_] if name in names:
                    return True
    return False


def _attributes(script: ParsedFile, creations: list[Creation]) -> set[str]:
    """Attributes that scalers are kept in, also by way of names and choices: `self.scaler = scaler or GradScaler()`."""
    names = {
        target.attr
        for creation in creations
        for target in bound_to(script, creation)
        if isinstance(target, ast.Attribute)
    }
    if creations:
        for node, _ in script.index.of(ast.Attribute):
            if isinstance(node.ctx, ast.Store) and node.attr not in names:
                statement = script.statement(node)
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value:
                    if _gives_a_scaler(script, statement.value):
                        names.add(node.attr)
    return names


def _gives_a_scaler(script: ParsedFile, value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        return any(_gives_a_scaler(script, element) for element in value.elts)
    return SCALER in script.value(value).kinds


def _references(script: ParsedFile, creations: list[Creation]) -> Iterator[ast.expr]:
    """Yield names, attributes and subscripts that are a scaler when they are read (or deleted)."""
    bound = {
        name for creation in creations for name in map(last_name, targets_of(creation.statement))
    }
    bound |= {text.rpartition(".")[2] for text in scalers_by_use(script)}
    index = script.index
    nodes: list[tuple[ast.Name | ast.Attribute | ast.Subscript, Scope]] = [
        *index.of(ast.Name),
        *index.of(ast.Attribute),
        *index.of(ast.Subscript),
    ]
    for node, _ in nodes:
        last = last_name(node)
        if last not in bound and not _NAME.search(last) and not _is_entry(node):
            continue
        if isinstance(node.ctx, ast.Store) or not is_scaler(script, node):
            continue
        value = script.value(node)
        if value.has(TENSOR) or isinstance(value.definition, ast.ClassDef):
            continue
        if not script.is_in_class_of(SCALER, node):
            yield node


def _is_entry(node: ast.expr) -> bool:
    """`state["scaler"]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


class _Finder:
    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.uses = Uses()
        self.scales: list[ast.Call] = []  # `scaler.get_scale()`

    def fix(self, node: ast.expr | ast.stmt, *edits: Edit) -> None:
        self.uses.fixed.append((node, edits))

    def use(self, node: ast.expr) -> None:
        """One reference, by what stands around it."""
        self.uses.names.add(last_name(node))
        parent = self.script.parent(node)
        if isinstance(parent, ast.Attribute):
            outer = self.script.parent(parent)
            if isinstance(outer, ast.Call) and outer.func is parent:
                self.method(parent.attr, outer)
            else:
                self.attribute(parent)
        elif isinstance(parent, ast.keyword):
            call = self.script.parent(parent)
            self.argument(node, call)
        elif isinstance(parent, ast.Call):
            self.argument(node, parent)
        elif isinstance(parent, ast.Compare) or _is_test(parent, node):
            self.uses.flags.append(node)
        elif isinstance(parent, _MOVES):
            if leaves_the_file(self.script, node) or self.is_one_of_several(parent):
                self.uses.handed_out = True
            else:
                self.uses.passed = True
        else:
            self.uses.handed_out = True

    def is_one_of_several(self, parent: ast.AST) -> bool:
        """`for part in (model, scaler):`, `state["scaler"] = scaler`: what is done with each is done with it, too."""
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return any(isinstance(target, ast.Subscript) for target in targets_of(parent))
        if not isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
            return False
        around = self.script.parent(parent)
        if isinstance(around, ast.Assign):  # `a, b = model, scaler`
            return not all(isinstance(t, (ast.Tuple, ast.List)) for t in around.targets)
        return not isinstance(around, ast.Return)

    def argument(self, node: ast.expr, call: ast.AST | None) -> None:
        """A scaler handed to a call."""
        if not isinstance(call, ast.Call) or call.func is node:
            self.uses.unclear.append(node)
        elif isinstance(call.func, ast.Name) and call.func.id in _ASKING:
            self.uses.flags.append(node)
        elif receives(self.script, call, node) is not None:  # not as one of `*objects`
            self.uses.passed = True
        else:
            self.uses.handed_out = True

    def method(self, name: str, call: ast.Call) -> None:
        """`scaler.<name>(...)`."""
        if name in ("state_dict", "load_state_dict"):
            self.uses.saved = True
            return
        changes = self.uses.changes
        changes.changed.add(call)
        if name == "scale" and (argument := _only_argument(call)) is not None:
            self.scaled(call, argument)
        elif name == "step":
            self.step(call)
        elif name in _DROPPED:
            self.drop(call)
        elif name == "get_scale":
            self.scales.append(call)
        elif name == "is_enabled":
            self.enabled(call)
        else:
            self.uses.unclear.append(call)

    def scaled(self, call: ast.Call, argument: ast.expr) -> None:
        """`scaler.scale(loss)`: the loss itself, and nothing where it keeps its name."""
        statement = self.script.parent(call)
        match statement:
            case ast.Assign(targets=[target]) if ast.unparse(target) == ast.unparse(argument):
                self.uses.changes.removed.add(statement)
                self.fix(call, remove(statement))
            case ast.Assign(targets=[ast.Name() as target]) if isinstance(argument, ast.Name) and (
                used := self.only_use_behind(statement, target)
            ):
                self.uses.changes.removed.add(statement)
                self.uses.changes.replaced[used] = argument
                self.fix(call, remove(statement), Replace(used, argument.id))
            case _:
                self.uses.changes.replaced[call] = argument
                self.fix(call, Replace(call, "{0}", (argument,)))

    def only_use_behind(self, statement: ast.Assign, target: ast.Name) -> ast.Name | None:
        """The `scaled` of `scaled.backward()` right behind `scaled = scaler.scale(loss)`, if that is all of its uses."""
        scope = self.script.index.scope(target)
        uses = [
            node
            for node, inside in self.script.index.names(target.id)
            if isinstance(node.ctx, ast.Load) and inside is scope
        ]
        match uses:
            case [used]:
                pass
            case _:
                return None
        block = self.script.block(statement)
        behind = block[block.index(statement) + 1 :]
        match behind[0] if behind else None:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))) if owner is used:
                return used
        return None

    def step(self, call: ast.Call) -> None:
        """`scaler.step(optimizer, ...)`: what XLA501 makes of `optimizer.step(...)`."""
        optimizer = call.args[0] if call.args else keyword(call, "optimizer")
        if optimizer is None or any(isinstance(a, ast.Starred) for a in call.args):
            self.uses.unclear.append(call)
            return
        given = [(name, value) for name, value in handed_through(call) if value is not optimizer]
        text = "".join(f", {name}{{{k + 1}}}" for k, (name, _) in enumerate(given))
        arguments = [value for _, value in given]
        self.uses.changes.steps[call] = (optimizer, arguments)
        if not self.script.cached(Replication).averages(optimizer):
            text += ", average=False"
        new = f"{self.script.xla}.optimizer_step({{0}}{text})"
        self.fix(call, Replace(call, new, (optimizer, *arguments)))

    def drop(self, call: ast.Call) -> None:
        """A call for its effect on the scaler."""
        statement = self.script.parent(call)
        if isinstance(statement, ast.Expr):
            self.uses.changes.removed.add(statement)
            self.fix(call, remove(statement))
        else:
            self.fix(call, Replace(call, "None"))

    def enabled(self, call: ast.Call) -> None:
        """`scaler.is_enabled()` says whether mixed precision is on: what `enabled=` was given."""
        given = {creation: keyword(creation.call, "enabled") for creation in self.uses.creations}
        match list(given.values()):
            case []:
                self.uses.unclear.append(call)
            case [ast.expr() as value] if self.is_same_there(value, self.script.index.scope(call)):
                self.fix(call, Replace(call, self.script.segment(value)))
            case _:
                self.uses.handed_out = True  # the runtime's, which scales nothing, can be asked

    def is_same_there(self, node: ast.expr, scope: Scope) -> bool:
        """True if `node` means the same in `scope`: constants, names and attributes of the same variable."""
        home = self.script.index.scope(node)
        for part in walk(node):
            if isinstance(part, ast.Name):
                here, there = home.find(part.id), scope.find(part.id)
                if here is None or there is None or here[0] is not there[0]:
                    return False
            elif isinstance(part, (ast.Call, ast.NamedExpr, ast.Await, ast.Lambda)):
                return False
        return True

    def attribute(self, node: ast.Attribute) -> None:
        """`scaler._scale` and the like, not called."""
        self.uses.changes.changed.add(node)
        if node.attr == "_scale" and isinstance(node.ctx, ast.Load):
            scope = self.script.index.scope(node)
            text = f"{self.script.spell('torch.tensor', scope)}(1.0)"
            self.fix(node, Replace(node, text))
        else:
            self.uses.unclear.append(node)


_MOVES = (
    ast.Assign,
    ast.AnnAssign,
    ast.Return,
    ast.Tuple,
    ast.List,
    ast.IfExp,
    ast.BoolOp,
    ast.NamedExpr,
    ast.arguments,
    ast.Delete,
    ast.Starred,
)


def _is_test(parent: ast.AST | None, node: ast.expr) -> bool:
    """Return True if the truth of `node` is tested."""
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, ast.BoolOp):
        return parent.values[-1] is not node
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def _only_argument(call: ast.Call) -> ast.expr | None:
    if len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred):
        return call.args[0]
    return keyword(call, "outputs") if not call.args else None
