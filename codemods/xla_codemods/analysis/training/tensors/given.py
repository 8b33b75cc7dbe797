"""What a model is given: the parameters of the functions that run when it computes."""

from __future__ import annotations

import ast
from functools import partial

from ....flow.closure import all_ends
from ...frameworks.hooks import HOOKS_OF_BATCHES, called_in_steps
from ...inference.values import NONE
from ...scopes import Binding
from ...script import Script
from .computed import computing

# Methods whose result has the elements of the tensor.
KEEPING = frozenset(
    (
        "clone contiguous cuda detach expand expand_as flatten flip permute repeat reshape reshape_as roll squeeze t to "
        "transpose unsqueeze view view_as"
    ).split()
)
_ELEMENTS = KEEPING | {"long"}
_REDUCTIONS = frozenset("abs all any float isfinite isinf isnan max mean min norm sum".split())
_COMPARISONS = frozenset("eq ge gt le lt ne".split())
_ASKING = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def is_given(script: Script, node: ast.expr, methods: frozenset[str] = _ELEMENTS) -> bool:
    """Return True if `node` is what a model is given, and nothing else is known of it: `labels`, `target.clone()`."""
    parts, is_end = partial(_given_parts, script, methods), partial(_is_parameter, script)
    return script.runs_accelerated and all_ends([node], parts, is_end)


def _is_parameter(script: Script, node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Name)
        and not script.value(node).kinds - {NONE}
        and script.function(node) in computing(script)
        and all(map(_is_handed, script.reaching(node)))
    )


def _is_handed(binding: Binding) -> bool:
    """Return True for a parameter, an element of something, and `x` of `x, y = ctx.saved_tensors`."""
    saved = isinstance(binding.value, ast.Attribute) and binding.value.attr == "saved_tensors"
    return binding.how in {"for", "parameter"} or saved


def is_of_a_batch(script: Script, node: ast.expr) -> bool:
    """Return True for `inputs["labels"]` and `inputs.pop("labels")` of a batch that a framework has moved to the device."""
    match node:
        case (
            ast.Subscript(value=ast.Name() as batch, slice=ast.Constant(value=str()))
            | ast.Call(
                func=ast.Attribute(value=ast.Name() as batch, attr="get" | "pop"),
                args=[ast.Constant(value=str()), *_],
            )
        ):
            function = script.function(node)
            if function not in called_in_steps(script) or function.name not in HOOKS_OF_BATCHES:
                return False
            named = {parameter.arg for parameter in function.args.args}
            reaching = script.reaching(batch)
            return batch.id in named and all(b.how == "parameter" for b in reaching)
    return False


def is_reduced_from_what_is_given(script: Script, node: ast.expr) -> bool:
    """Return True for `mask`, `mask.any()` and `x.abs().max()` of what a model is given."""
    return is_given(script, node, _ELEMENTS | _REDUCTIONS)


def is_one_number_of_what_is_given(script: Script, node: ast.expr) -> bool:
    """Return True for `mask.any()` and `(target > 0).float().sum()` of what a model is given, and for names of them."""

    def is_a_number(end: ast.expr) -> bool:
        match end:
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]):
                methods = _ELEMENTS | _REDUCTIONS | _COMPARISONS
                return name in _REDUCTIONS - {"float"} and is_given(script, owner, methods)
        return False

    return all_ends([node], partial(_given_parts, script, frozenset()), is_a_number)


def _given_parts(script: Script, methods: frozenset[str], node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in methods:
            return [owner]
        case ast.Compare(left=left, ops=[op]) if methods >= _COMPARISONS and not isinstance(
            op, _ASKING
        ):
            return [left]
        case ast.UnaryOp(op=ast.Invert(), operand=operand) if methods >= _COMPARISONS:
            return [operand]
        case ast.Name():
            values = [binding.whole for binding in script.reaching(node)]
            known = [value for value in values if value is not None]
            return known if len(known) == len(values) else []
    return []
