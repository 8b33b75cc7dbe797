"""The calls that make a GradScaler, and the names that hold it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...inference.values import SCALER
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...syntax import is_literal, keyword, name_of, targets_of

# What makes a GradScaler.
MAKERS = tuple(
    f"{home}.{name}"
    for home, names in {
        "torch": ("GradScaler",),
        "torch.amp": ("GradScaler",),
        "torch.amp.grad_scaler": ("GradScaler",),
        "torch.cuda.amp": ("GradScaler",),
        "torch.cuda.amp.grad_scaler": ("GradScaler",),
        "torch.cpu.amp": ("GradScaler",),
        "torch.distributed.fsdp.sharded_grad_scaler": ("ShardedGradScaler",),
        "torch_xla.amp": ("GradScaler",),
        "torch_xla.amp.grad_scaler": ("GradScaler",),
        "fairscale.optim.grad_scaler": ("GradScaler", "ShardedGradScaler"),
    }.items()
    for name in names
)
_OTHERS = frozenset({"cpu", "mps", "xpu", "hpu", "npu", "mtia"})


class Creation(NamedTuple):
    """`call` makes a scaler; `whole` is it, or the `... if amp else None` around it; `statement` only binds it."""

    call: ast.Call
    whole: ast.expr
    statement: ast.stmt | None


def maker_names(script: ParsedFile) -> set[str]:
    """Last names under which the file may call one of `MAKERS`."""
    imported = {n for n in script.module.bindings if script.module.dotted(n) in MAKERS}
    return {"GradScaler", "ShardedGradScaler"} | imported


def creations(script: ParsedFile) -> Iterator[Creation]:
    """Where the file makes scalers for CUDA, in its order."""
    names = maker_names(script)
    for call, _ in script.index.of(ast.Call):
        func = call.func
        last = name_of(func)
        if last not in names or script.dotted(func) not in MAKERS:
            continue
        if not script.is_in_class_of(SCALER, call) and not _is_for_another_device(call):
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
    if not all(isinstance(t, (ast.Name, ast.Attribute)) for t in targets_of(statement)):
        statement = None
    return Creation(call, whole, statement)


def _chooses(parent: ast.IfExp | ast.BoolOp, node: ast.expr) -> bool:
    """`node if amp else None`, `amp and node`."""
    if isinstance(parent, ast.BoolOp):
        return isinstance(parent.op, ast.And) and parent.values[-1] is node
    other = parent.orelse if node is parent.body else parent.body
    return node is not parent.test and is_literal(other, None)


def _makes(script: ParsedFile, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in MAKERS


def is_disabled(creation: Creation) -> bool:
    """Return True if it is disabled explicitly."""
    match creation.call:
        case ast.Call(
            args=[], keywords=[ast.keyword(arg="enabled", value=ast.Constant(value=False))]
        ):
            return True
    return False


def idle_bindings(script: ParsedFile, creation: Creation) -> Iterator[ast.stmt]:
    """`scaler = None` beside the statement that makes it."""
    targets = {_place(script, target) for target in targets_of(creation.statement)}
    for statement, _ in script.index.of(ast.Assign):
        if is_literal(statement.value, None):
            if all(_place(script, target) in targets for target in statement.targets):
                yield statement


def _place(script: ParsedFile, target: ast.expr) -> tuple[str, ast.AST]:
    """Which variable `target` is: its text, in its class or its function."""
    kinds: tuple[type[ast.AST], ...] = (ast.ClassDef, ast.Module)
    if isinstance(target, ast.Name):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    owner = next((a for a in script.ancestors(target) if isinstance(a, kinds)), script.tree)
    return ast.unparse(target), owner


def bound_to(script: ParsedFile, creation: Creation) -> list[ast.expr]:
    """What it is assigned to, also as one of several: `self.model, self.scaler = model, GradScaler()`."""
    if creation.statement is not None:
        return targets_of(creation.statement)
    values = script.parent(creation.whole)
    statement = script.parent(values) if isinstance(values, ast.Tuple) else values
    if not isinstance(statement, ast.Assign):
        return []
    return [
        part for target in statement.targets for part in walk(target) if isinstance(part, ast.expr)
    ]


def leaves_the_file(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is returned by a function that nothing in this file calls."""
    statement = script.statement(node)
    function = script.function(statement)
    return (
        isinstance(statement, ast.Return)
        and function is not None
        and not script.index.calls_of(function.name)
    )


def last_name(node: ast.expr) -> str:
    """The name, or the attribute, that a variable or an entry of it goes by."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return name_of(node)
