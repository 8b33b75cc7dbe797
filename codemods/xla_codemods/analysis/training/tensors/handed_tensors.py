"""Tensors that training steps of other modules pass to a function: `meter.update(loss)`, also if it tests for a tensor."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ...scopes import FunctionNode
from ...syntax import unparsed

if TYPE_CHECKING:
    from ...projects.callers import Callers
    from ...script import Script

_TENSORS = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.nn.Parameter"})


def is_handed_a_tensor(script: Script, node: ast.expr) -> bool:
    """True if `node` is a parameter, or an attribute or entry of one, that is a tensor in training steps of other modules.

    Where a test around `node` asks for a tensor, numbers that callers have read count too: they will pass the tensors.
    """
    if is_tested(script, node):
        return any(_handed(script, node))
    root = node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else node
    if not isinstance(root, ast.Name) or (called := _called_by_others(script, node)) is None:
        return False
    is_parameter = all(binding.how == "parameter" for binding in script.reaching(root))
    return is_parameter and called.callers.hand_a_tensor_for(node, called.function, called.owner)


def is_handed_numbers_alone(script: Script, read: ast.AST) -> bool:
    """True for the `v.item()` of a test, where other modules only hand numbers that they have read."""
    match read:
        case ast.Call(func=ast.Attribute(value=node)) if is_tested(script, node):
            return _handed(script, node) == (False, True)
    return False


def _handed(script: Script, node: ast.expr) -> tuple[bool, bool]:
    """Whether other modules hand over tensors in their steps, and numbers that they have read of some."""
    called = _called_by_others(script, node)
    if called is None:
        return False, False
    callers, function, owner = called
    tensors = callers.hand_tensors_in_steps(function, owner)
    return tensors, callers.hand_numbers_in_steps(function, owner)


class _Called(NamedTuple):
    """A function, its class or "", and the calls of it in other modules."""

    callers: Callers
    function: FunctionNode
    owner: str


def _called_by_others(script: Script, node: ast.expr) -> _Called | None:
    """The function around `node`, if other modules of a program for an accelerator are known."""
    function, callers = script.function(node), script.callers
    if not script.runs_accelerated or function is None or callers is None:
        return None
    owner = script.parent(function)
    return _Called(callers, function, owner.name if isinstance(owner, ast.ClassDef) else "")


def is_tested(script: Script, node: ast.expr) -> bool:
    """True if a test around `node` says that it is a tensor."""
    text = unparsed(node)
    child: ast.AST = node
    for ancestor in script.ancestors(node):
        match ancestor:
            case ast.If(test=test, body=body) if any(child is s for s in body):
                if _asks(script, test, text):
                    return True
            case ast.IfExp(test=test, body=body) if child is body and _asks(script, test, text):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return False
        child = ancestor
    return False


def _asks(script: Script, test: ast.expr, text: str) -> bool:
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_asks(script, value, text) for value in values)
        case ast.Call(func=ast.Name(id="isinstance"), args=[asked, kind]):
            kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
            return unparsed(asked) == text and all(script.dotted(k) in _TENSORS for k in kinds)
        case ast.Call(func=func, args=[asked]):
            return unparsed(asked) == text and script.dotted(func) == "torch.is_tensor"
    return False
