"""Every use of a GradScaler in a file, and what becomes of it where losses are not scaled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....edits import Edit, Replace, remove
from ....patterns import Pattern
from ...inference.values import CLASS, SCALER, TENSOR
from ...nodes import walk
from ...scopes import Scope
from ...syntax import keyword
from ..replication import Replication
from .branches import Changes, vanishes
from .scale import fold_scales

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

# What makes a GradScaler.
MAKERS = tuple(
    f"{home}.{name}"
    for home, names in {
        "torch.amp": ("GradScaler",),
        "torch.amp.grad_scaler": ("GradScaler",),
        "torch.cuda.amp": ("GradScaler",),
        "torch.cuda.amp.grad_scaler": ("GradScaler",),
        "torch.cpu.amp": ("GradScaler",),
        "torch.distributed.fsdp.sharded_grad_scaler": ("ShardedGradScaler",),
        "fairscale.optim.grad_scaler": ("GradScaler", "ShardedGradScaler"),
    }.items()
    for name in names
)
_OTHERS = frozenset({"cpu", "mps", "xpu", "hpu", "npu", "mtia"})
_NAME = Pattern("scaler", re.IGNORECASE)
_DROPPED = frozenset(
    "unscale_ update set_growth_factor set_backoff_factor set_growth_interval".split()
)
_ASKING = frozenset({"isinstance", "print", "repr", "str", "id", "type", "hasattr"})


class Creation(NamedTuple):
    """`call` makes a scaler; `whole` is it, or the `... if amp else None` around it; `statement` only binds it."""

    call: ast.Call
    whole: ast.expr
    statement: ast.stmt | None


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
        targets = _targets(creation.statement)
        kept = [t for t in targets if isinstance(t, ast.Attribute) or script.function(t) is None]
        return any(
            _last(target) not in self.names or _is_wanted_elsewhere(script, target)
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
        return script.project is not None and script.project.uses_attribute(target.attr)
    return script.is_imported_elsewhere(_last(target))


def classify(script: ParsedFile) -> Uses:
    """All uses of scalers in `script`."""
    finder = _Finder(script)
    for creation in _creations(script):
        finder.uses.creations.append(creation)
    for node, scope in _references(script, finder.uses.creations):
        finder.use(node, scope)
    for place, edits in fold_scales(script, finder.scales, finder.uses.changes):
        finder.fix(place, *edits)
    return finder.uses


def leaves_the_file(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is returned by a function that nothing in this file calls."""
    statement = script.statement(node)
    function = script.function(statement)
    return (
        isinstance(statement, ast.Return)
        and function is not None
        and not script.index.calls_of(function.name)
    )


def in_a_scaler(script: ParsedFile, node: ast.AST) -> bool:
    """True if `node` stands in a class that derives from GradScaler."""
    return any(
        isinstance(a, ast.ClassDef)
        and SCALER in script.inference.base_kind(a, script.index.scope(a))
        for a in script.ancestors(node)
    )


def _creations(script: ParsedFile) -> Iterator[Creation]:
    names = {"GradScaler", "ShardedGradScaler"}
    names |= {n for n in script.module.bindings if script.module.dotted(n) in MAKERS}
    for call, scope in script.index.of(ast.Call):
        func = call.func
        last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if last not in names or script.dotted(func, scope) not in MAKERS:
            continue
        if not in_a_scaler(script, call) and not _is_for_another_device(call):
            yield _creation(script, call)


def _is_for_another_device(call: ast.Call) -> bool:
    device = call.args[0] if call.args else keyword(call, "device")
    return isinstance(device, ast.Constant) and device.value in _OTHERS


def _creation(script: ParsedFile, call: ast.Call) -> Creation:
    whole: ast.expr = call
    above = script.parent(call)
    while isinstance(above, (ast.IfExp, ast.BoolOp)) and _chooses(above, whole):
        whole, above = above, script.parent(above)
    if isinstance(above, ast.Tuple) and all(_makes(script, e) for e in above.elts):
        above = script.parent(above)  # `scaler_g, scaler_d = GradScaler(), GradScaler()`
    statement = above if isinstance(above, (ast.Assign, ast.AnnAssign)) else None
    if not all(isinstance(t, (ast.Name, ast.Attribute)) for t in _targets(statement)):
        statement = None
    return Creation(call, whole, statement)


def idle_bindings(script: ParsedFile, creation: Creation) -> Iterator[ast.stmt]:
    """`scaler = None` beside the statement that makes it."""
    targets = {_place(script, target) for target in _targets(creation.statement)}
    for statement, _ in script.index.of(ast.Assign):
        if isinstance(statement.value, ast.Constant) and statement.value.value is None:
            if all(_place(script, target) in targets for target in statement.targets):
                yield statement


def _targets(statement: ast.stmt | None) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return [
            element
            for target in statement.targets
            for element in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def _place(script: ParsedFile, target: ast.expr) -> tuple[str, ast.AST]:
    """Which variable `target` is: its text, in its class or its function."""
    kinds: tuple[type[ast.AST], ...] = (ast.ClassDef, ast.Module)
    if isinstance(target, ast.Name):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    owner = next((a for a in script.ancestors(target) if isinstance(a, kinds)), script.tree)
    return ast.unparse(target), owner


def _makes(script: ParsedFile, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in MAKERS


def _chooses(parent: ast.IfExp | ast.BoolOp, node: ast.expr) -> bool:
    """`node if amp else None`, `amp and node`."""
    if isinstance(parent, ast.BoolOp):
        return isinstance(parent.op, ast.And) and parent.values[-1] is node
    other = parent.orelse if node is parent.body else parent.body
    return node is not parent.test and isinstance(other, ast.Constant) and other.value is None


def _references(script: ParsedFile, creations: list[Creation]) -> Iterator[tuple[ast.expr, Scope]]:
    """Names, attributes and subscripts that stand for a scaler where they are read (or deleted)."""
    bound = {name for creation in creations for name in _bound_names(creation)}
    bound |= {text.rpartition(".")[2] for text in script.scalers_by_use}
    index = script.index
    nodes: list[tuple[ast.Name | ast.Attribute | ast.Subscript, Scope]] = [
        *index.of(ast.Name),
        *index.of(ast.Attribute),
        *index.of(ast.Subscript),
    ]
    for node, scope in nodes:
        last = _last(node)
        if last not in bound and not _NAME.search(last) and not _is_entry(node):
            continue
        if isinstance(node.ctx, ast.Store) or not script.is_scaler(node):
            continue
        value = script.value(node, scope)
        if value.has(TENSOR) or isinstance(value.definition, ast.ClassDef):
            continue
        if not in_a_scaler(script, node):
            yield node, scope


def _is_entry(node: ast.expr) -> bool:
    """`state["scaler"]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _bound_names(creation: Creation) -> Iterator[str]:
    yield from (_last(target) for target in _targets(creation.statement))


class _Finder:
    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.uses = Uses()
        self.scales: list[ast.Call] = []  # `scaler.get_scale()`

    def fix(self, node: ast.expr | ast.stmt, *edits: Edit) -> None:
        self.uses.fixed.append((node, edits))

    def use(self, node: ast.expr, scope: Scope) -> None:
        """One reference, by what stands around it."""
        self.uses.names.add(_last(node))
        parent = self.script.parent(node)
        if isinstance(parent, ast.Attribute):
            outer = self.script.parent(parent)
            if isinstance(outer, ast.Call) and outer.func is parent:
                self.method(parent.attr, outer, scope)
            else:
                self.attribute(parent, scope)
        elif isinstance(parent, ast.keyword):
            call = self.script.parent(parent)
            self.argument(node, call, scope)
        elif isinstance(parent, ast.Call):
            self.argument(node, parent, scope)
        elif isinstance(parent, ast.Compare) or _is_test(parent, node):
            self.uses.flags.append(node)
        elif isinstance(parent, _MOVES):
            if leaves_the_file(self.script, node):
                self.uses.handed_out = True
            else:
                self.uses.passed = True
        elif isinstance(parent, ast.Expr):
            pass
        else:
            self.uses.handed_out = True

    def argument(self, node: ast.expr, call: ast.AST | None, scope: Scope) -> None:
        """A scaler handed to a call."""
        if not isinstance(call, ast.Call) or call.func is node:
            self.uses.unclear.append(node)
        elif isinstance(call.func, ast.Name) and call.func.id in _ASKING:
            self.uses.flags.append(node)
        elif self.is_local(call, scope):
            self.uses.passed = True
        else:
            self.uses.handed_out = True

    def is_local(self, call: ast.Call, scope: Scope) -> bool:
        value = self.script.value(call.func, scope)
        if isinstance(value.definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return True
        if isinstance(value.definition, ast.ClassDef) and value.has(CLASS):
            return self.script.inference.method(value.definition, "__init__") is not None
        return self.script.local_method(call.func, scope) is not None

    def method(self, name: str, call: ast.Call, scope: Scope) -> None:
        """`scaler.<name>(...)`."""
        if name in ("state_dict", "load_state_dict"):
            self.uses.saved = True
            return
        changes = self.uses.changes
        changes.changed.add(call)
        if name == "scale" and (argument := _only_argument(call)) is not None:
            changes.replaced[call] = argument
            self.fix(call, Replace(call, "{0}", (argument,)))
        elif name == "step":
            self.step(call)
        elif name in _DROPPED:
            self.drop(call)
        elif name == "get_scale":
            self.scales.append(call)
        elif name == "is_enabled":
            self.enabled(call, scope)
        else:
            self.uses.unclear.append(call)

    def step(self, call: ast.Call) -> None:
        """`scaler.step(optimizer, ...)`: what XLA501 makes of `optimizer.step(...)`."""
        optimizer = call.args[0] if call.args else keyword(call, "optimizer")
        if optimizer is None or any(isinstance(a, ast.Starred) for a in call.args):
            self.uses.unclear.append(call)
            return
        given = [("", a) for a in call.args if a is not optimizer]
        given += [
            (f"{k.arg}=" if k.arg else "**", k.value)
            for k in call.keywords
            if k.value is not optimizer
        ]
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

    def enabled(self, call: ast.Call, scope: Scope) -> None:
        """`scaler.is_enabled()` says whether mixed precision is on: what `enabled=` was given."""
        given = {creation: keyword(creation.call, "enabled") for creation in self.uses.creations}
        values = list(given.values())
        if len(values) != 1:
            self.uses.unclear.append(call)
        elif values[0] is None:
            self.fix(call, Replace(call, "True"))
        elif self.is_same_there(values[0], scope):
            self.fix(call, Replace(call, self.script.segment(values[0])))
        else:
            self.uses.unclear.append(call)

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

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        """`scaler._scale` and the like, not called."""
        self.uses.changes.changed.add(node)
        if node.attr == "_enabled" and isinstance(node.ctx, ast.Load):
            self.uses.unclear.append(node)
        elif node.attr == "_scale" and isinstance(node.ctx, ast.Load):
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
    """True if `node` is asked for its truth."""
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, ast.BoolOp):
        return parent.values[-1] is not node
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def _only_argument(call: ast.Call) -> ast.expr | None:
    if len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred):
        return call.args[0]
    return keyword(call, "outputs") if not call.args else None
