"""The value of an expression, by its syntax: one function per kind of `ast` node (calls have a separate module)."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ...flow.calls import Nodes
from ..scopes import Scope, resolve
from ..syntax import is_cuda_string, text_of, unparsed
from . import library_types
from .attributes import is_moved
from .calls import call
from .inference import Inference
from .members import attribute_of, is_settings, section
from .values import (
    ACCEL,
    ARRAY,
    BATCH,
    DEVICE,
    DOUBLE,
    FUNCTION,
    GIVEN,
    HOST,
    INSTANCE,
    MODULE,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    UNKNOWN,
    WEIGHT,
    Value,
    join,
    of,
)


def _name(values: Inference, node: ast.Name, scope: Scope) -> Value:
    dotted = scope.dotted(node.id)
    if dotted is not None:
        return library_types.attribute(dotted)
    return values.name(node, scope)


def _constant(values: Inference, node: ast.Constant, scope: Scope) -> Value:
    value = node.value
    if value is None:
        return of(NONE)
    if isinstance(value, str):
        if is_cuda_string(value):
            return of(STRING, DEVICE, ACCEL)
        return of(STRING, DEVICE, HOST) if value == "cpu" else of(STRING)
    return of(NUMBER) if isinstance(value, (int, float)) else UNKNOWN


def _joined(values: Inference, node: ast.JoinedStr, scope: Scope) -> Value:
    match node.values:
        case [ast.Constant(value=str(start)), *_] if start.startswith("cuda:"):
            return of(STRING, DEVICE, ACCEL)
    return of(STRING)


# What these are of a module, or of a part of one.
_PARAMETERS = frozenset({"bias", "grad", "weight"})
_OF_GRADIENTS = frozenset("abs data detach flatten isfinite isinf isnan norm pow square".split())


def _attribute(values: Inference, node: ast.Attribute, scope: Scope) -> Value:
    dotted = resolve(node, scope)
    if dotted is not None:
        return library_types.attribute(dotted)
    base = values.value(node.value, scope)
    if base.fields is not None and node.attr in base.fields:
        return base.fields[node.attr]
    if base.has(INSTANCE) and isinstance(base.definition, ast.ClassDef):
        found = values.attribute_of(base.definition, node.attr)
        if found != UNKNOWN:
            return found
    if base == UNKNOWN and node.attr in _PARAMETERS:
        if _is_part_of_a_module(values, node, scope) or _is_a_gradient(values, node):
            return of(TENSOR, WEIGHT)
    return attribute_of(base, node.attr)


def _is_part_of_a_module(values: Inference, node: ast.expr, scope: Scope) -> bool:
    """`model.encoder.layers[0].linear`, of a module whose class is not this file's."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
        base = values.value(node, scope)
        if base != UNKNOWN:
            return base.has(MODULE) and base.definition is None
    return False


def _is_a_gradient(values: Inference, node: ast.Attribute) -> bool:
    """Return True for `p.grad`, of which a method of tensors is called: gradients are where the model is."""
    around = values.parents.get(node)
    is_computed = isinstance(around, ast.Attribute) and around.attr in _OF_GRADIENTS
    return node.attr == "grad" and is_computed


def _subscript(values: Inference, node: ast.Subscript, scope: Scope) -> Value:
    value = _entry(values, node, scope)
    if value.kinds >= {BATCH, HOST} and _is_put_on_the_device(values, node, scope):
        return of(*(value.kinds - {HOST}), ACCEL)
    return value


def _is_put_on_the_device(values: Inference, node: ast.Subscript, scope: Scope) -> bool:
    """Return True if a statement above moves the entry `node` of a batch: `batch[k] = batch[k].cuda()`."""
    stores = values.file.index.cached(_stores).get((scope, unparsed(node.value)), ())
    return any(
        (assign.end_lineno or 0) < node.lineno
        and not (isinstance(key, ast.Constant) and unparsed(key) != unparsed(node.slice))
        and values.value(assign.value, scope).has(ACCEL)
        for key, assign in stores
    )


def _stores(index: Nodes) -> dict[tuple[Scope, str], list[tuple[ast.expr, ast.Assign]]]:
    """Scope and text of what has entries -> the keys and statements that assign to its entries."""
    found: dict[tuple[Scope, str], list[tuple[ast.expr, ast.Assign]]] = {}
    for assign, scope in index.of(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Subscript):
                key = scope, unparsed(target.value)
                found.setdefault(key, []).append((target.slice, assign))
    return found


def _entry(values: Inference, node: ast.Subscript, scope: Scope) -> Value:
    base = values.value(node.value, scope)
    index = node.slice
    if base.items == () and not isinstance(index, ast.Slice):
        return values.appended(node.value)
    if isinstance(index, ast.Constant):
        if isinstance(index.value, str) and base.fields is not None:
            return base.fields.get(index.value, base.element or UNKNOWN)
        if isinstance(index.value, int):
            return base.item(index.value)
        if isinstance(index.value, str) and resolve(node.value, scope) == "os.environ":
            return of(STRING, GIVEN)
        if isinstance(index.value, str) and is_settings(base):
            return section(base)
    if base.fields is not None and not isinstance(index, ast.Constant):
        return (
            join(*base.fields.values()) if base.fields else base.element or values.entry(node.value)
        )
    if base.has(TENSOR):
        return Value(base.kinds)
    return base.element or (join(*base.items) if base.items else UNKNOWN)


def _binary(values: Inference, node: ast.BinOp, scope: Scope) -> Value:
    left, right = values.value(node.left, scope), values.value(node.right, scope)
    if isinstance(node.op, ast.Mod) and left.has(STRING):
        return left
    if isinstance(node.op, ast.Add) and left.has(STRING):
        return left
    return _arithmetic(left, right)


def _unary(values: Inference, node: ast.UnaryOp, scope: Scope) -> Value:
    if isinstance(node.op, ast.Not):
        return of(NUMBER)
    return values.value(node.operand, scope)


def _compare(values: Inference, node: ast.Compare, scope: Scope) -> Value:
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return of(NUMBER)
    return _arithmetic(values.value(node.left, scope), values.value(node.comparators[0], scope))


def _bool(values: Inference, node: ast.BoolOp, scope: Scope) -> Value:
    return join(*(values.value(value, scope) for value in node.values))


def _if(values: Inference, node: ast.IfExp, scope: Scope) -> Value:
    body, orelse = values.value(node.body, scope), values.value(node.orelse, scope)
    if isinstance(node.orelse, ast.Name) and is_moved(node.body, node.orelse.id):
        return body
    if isinstance(node.body, ast.Name) and is_moved(node.orelse, node.body.id):
        return orelse
    found = join(body, orelse)
    if UNKNOWN in (body, orelse) and found.has(DEVICE):
        return found._replace(kinds=found.kinds - {HOST})  # `config.device if cuda else "cpu"`
    return found


def _display(values: Inference, node: ast.Tuple | ast.List | ast.Set, scope: Scope) -> Value:
    if any(isinstance(element, ast.Starred) for element in node.elts):
        return Value(element=join(*(values.value(e, scope) for e in node.elts)))
    return Value(items=tuple(values.value(element, scope) for element in node.elts))


def _dict(values: Inference, node: ast.Dict, scope: Scope) -> Value:
    fields: dict[str, Value] = {}
    for key, value in zip(node.keys, node.values):
        if (text := text_of(key)) is not None:
            fields[text] = values.value(value, scope)
        elif key is None:
            fields.update(values.value(value, scope).fields or {})
    return Value(fields=fields)


def _comprehension(
    values: Inference, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, scope: Scope
) -> Value:
    return Value(element=values.value(node.elt, values.inner(node, scope)))


def _dict_comprehension(values: Inference, node: ast.DictComp, scope: Scope) -> Value:
    value = values.value(node.value, values.inner(node, scope))
    return Value(value.kinds & {BATCH, TENSOR, ACCEL, HOST}, element=value, fields={})


def _inside(
    values: Inference, node: ast.Await | ast.NamedExpr | ast.Starred, scope: Scope
) -> Value:
    return values.value(node.value, scope)


def _lambda(values: Inference, node: ast.Lambda, scope: Scope) -> Value:
    return of(FUNCTION)


def _arithmetic(left: Value, right: Value) -> Value:
    if left.has(TENSOR) or right.has(TENSOR):
        places = (
            (left.kinds | right.kinds) & {ACCEL, HOST, WEIGHT}
            if left.has(TENSOR) and right.has(TENSOR)
            else ((left if left.has(TENSOR) else right).kinds & {ACCEL, HOST, WEIGHT})
        )
        if ACCEL in places:
            places = frozenset({ACCEL})
        return Value(frozenset({TENSOR, *places}))
    if left.has(ARRAY) or right.has(ARRAY):
        return of(ARRAY, *((left.kinds | right.kinds) & {DOUBLE}))
    return of(NUMBER) if left.has(NUMBER) and right.has(NUMBER) else UNKNOWN


EXPRESSIONS: dict[type[ast.AST], Callable[..., Value]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.JoinedStr: _joined,
    ast.Attribute: _attribute,
    ast.Call: call,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.IfExp: _if,
    ast.Tuple: _display,
    ast.List: _display,
    ast.Set: _display,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.NamedExpr: _inside,
    ast.Await: _inside,
    ast.Starred: _inside,
    ast.Lambda: _lambda,
}
