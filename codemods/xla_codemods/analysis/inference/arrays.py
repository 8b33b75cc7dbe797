"""numpy's arrays that become float64 tensors, because float64 is numpy's default type."""

from __future__ import annotations

import ast

from ..scopes import Scope, resolve
from ..syntax import keyword
from .inference import Inference
from .values import ARRAY, DOUBLE, Value, of

_DOUBLES = frozenset({"torch.float64", "torch.double", "numpy.float64", "numpy.double"})
# What makes float64 out of nothing.
_MAKING = frozenset(
    {
        f"numpy.{name}"
        for name in "empty eye geomspace hamming hanning identity linspace logspace ones zeros".split()
    }
    | {
        f"numpy.random.{name}"
        for name in "exponential gamma normal rand randn random random_sample standard_normal uniform".split()
    }
)
# What makes a place for numbers.
_PLACES = frozenset({"numpy.empty", "numpy.ones", "numpy.zeros"})
# What takes the type as its second argument as well.
_SECOND = frozenset(f"numpy.{name}" for name in "array asarray empty identity ones zeros".split())
# What gives the type of its arguments.
_KEEPING = frozenset(
    f"numpy.{name}"
    for name in (
        "abs append array asarray ascontiguousarray clip concatenate cos cumprod cumsum diff exp flip hstack log maximum"
        " minimum outer power repeat reshape sin sqrt square stack tanh tile transpose vstack where"
    ).split()
)


def is_double(dtype: ast.expr, scope: Scope) -> bool:
    """True if `dtype` says float64: torch's, numpy's, or by its name."""
    if isinstance(dtype, ast.Constant):
        return dtype.value in {"float64", "double", "f8"}
    return resolve(dtype, scope) in _DOUBLES


def array(values: Inference, dotted: str, node: ast.Call, scope: Scope) -> Value:
    """What calling a function of numpy returns."""
    dtype = keyword(node, "dtype")
    if dtype is None and dotted in _SECOND and len(node.args) > 1:
        dtype = node.args[1]
    if dtype is not None:
        return of(ARRAY, DOUBLE) if is_double(dtype, scope) else of(ARRAY)
    if dotted in _PLACES and _is_without_elements(node):
        return of(ARRAY)
    if dotted in _MAKING or (dotted in _KEEPING and _has_doubles(values, node, scope)):
        return of(ARRAY, DOUBLE)
    return of(ARRAY)


def _is_without_elements(node: ast.Call) -> bool:
    """`np.empty(0)`, `np.zeros((0, 4))`: something else takes its place."""
    shape = node.args[0] if node.args else keyword(node, "shape")
    sizes = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else [shape]
    return any(isinstance(s, ast.Constant) and s.value == 0 for s in sizes)


def _has_doubles(values: Inference, node: ast.Call, scope: Scope) -> bool:
    return any(
        values.value(argument, scope).has(DOUBLE) or _is_written_so(argument)
        for argument in node.args
    )


def _is_written_so(node: ast.expr) -> bool:
    """`[0.485, 0.456]`."""
    return isinstance(node, (ast.List, ast.Tuple)) and any(
        _is_written_so(element)
        or (isinstance(element, ast.Constant) and isinstance(element.value, float))
        for element in node.elts
    )


def of_array(tensor: Value, source: Value) -> Value:
    """`tensor`, made of `source`: it has the type of an array."""
    if source.has(ARRAY) and source.has(DOUBLE):
        return tensor._replace(kinds=tensor.kinds | {DOUBLE})
    return tensor
