"""Samplers of the project that make batches of different sizes: as many samples as fit into a number of tokens."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.calls import class_named, named
from ....flow.closure import reach
from ....flow.edges import sources
from ...nodes import FUNCTIONS, LOOPS, walk
from ...parsed_file import ParsedFile
from ...scopes import FunctionNode
from ...syntax import name_of, walk_body
from .cutting import length_of

_OF_LISTS = frozenset(f"torch.{name}" for name in ("LongTensor", "as_tensor", "tensor"))
_DIVIDING = (ast.Div, ast.FloorDiv)


def uneven_batches(script: ParsedFile) -> Iterator[ast.expr]:
    """Yield the batches of samplers whose sizes differ: `batch` of `yield batch`, or of `batches.append(batch)`."""
    for function in dict.fromkeys(_sampling(script)):
        for node in walk_body(function.body):
            match node:
                case ast.Yield(value=ast.expr() as batch):
                    pass
                case ast.Call(func=ast.Attribute(attr="append"), args=[batch]):
                    pass
                case _:
                    continue
            if _is_filled_to_a_limit(script, batch) or _is_cut_at_a_quotient(script, batch):
                yield batch


def uneven_tensors(script: ParsedFile) -> Iterator[ast.Call]:
    """Yield the tensors of a project's own loader that are made of lists which a condition fills: sampled neighbours."""
    for definition, _ in script.index.of(ast.ClassDef):
        is_loader = definition.name.endswith(("Loader", "Sampler"))
        methods = [*_methods(definition)] if is_loader else []
        if not any(method.name == "__iter__" for method in methods):
            continue
        for call in (n for method in methods for n in walk_body(method.body)):
            if isinstance(call, ast.Call) and call.args and script.dotted(call.func) in _OF_LISTS:
                lists = (n for n in walk(call.args[0]) if isinstance(n, ast.Name))
                if any(_is_filled_by_chance(script, each) for each in lists):
                    yield call


def _is_filled_by_chance(script: ParsedFile, several: ast.Name) -> bool:
    """Return True if a condition in a loop decides whether something is appended to the list `several`."""
    return any(
        any(isinstance(around, ast.If) for around in script.ancestors(call))
        and _is_in_a_loop(script, call)
        for call in _appends(script, several)
    )


def _sampling(script: ParsedFile) -> Iterator[FunctionNode]:
    """Yield the methods of samplers, and the functions that make what is passed as `batch_sampler`."""
    for definition, _ in script.index.of(ast.ClassDef):
        if any(name_of(_class(base)).endswith("Sampler") for base in definition.bases):
            yield from _methods(definition)
    given = [k.value for k, _ in script.index.of(ast.keyword) if k.arg == "batch_sampler"]
    for node in reach(given, lambda each: _made_of(script, each)):
        if isinstance(node, ast.Call):
            made, function = class_named(script, node.func), named(script, node.func)
            if made is not None:
                yield from _methods(made)
            elif function is not None:
                yield function


def _class(base: ast.expr) -> ast.expr:
    """Return `Sampler` of `Sampler[list[int]]`."""
    return base.value if isinstance(base, ast.Subscript) else base


def _methods(definition: ast.ClassDef) -> Iterator[FunctionNode]:
    return (part for part in definition.body if isinstance(part, FUNCTIONS))


def _made_of(script: ParsedFile, node: ast.expr) -> list[ast.expr]:
    return [*sources(script, node), *(node.args if isinstance(node, ast.Call) else ())]


def _is_filled_to_a_limit(script: ParsedFile, batch: ast.expr) -> bool:
    """Return True for a list that a loop fills until something else than its length says that it is full."""
    if not isinstance(batch, ast.Name) or not _is_filled(script, batch):
        return False
    for child, around in script.upward(batch):
        if isinstance(around, LOOPS):
            return False  # each turn makes a batch
        if isinstance(around, ast.If) and child in around.body:
            return _is_in_a_loop(script, around) and not _is_full(around.test, batch.id)
    return False


def _is_filled(script: ParsedFile, batch: ast.Name) -> bool:
    """Return True if samples are appended to `batch`, one by one."""
    return any(True for _ in _appends(script, batch))


def _appends(script: ParsedFile, several: ast.Name) -> Iterator[ast.Call]:
    for name in script.index.same(several):
        method = script.parent(name)
        call = script.parent(method) if isinstance(method, ast.Attribute) else None
        if isinstance(call, ast.Call) and name_of(call.func) == "append":
            yield call


def _is_in_a_loop(script: ParsedFile, node: ast.AST) -> bool:
    function = script.function(node)
    return any(
        isinstance(around, LOOPS) and script.function(around) is function
        for around in script.ancestors(node)
    )


def _is_full(test: ast.expr, batch: str) -> bool:
    """Return True for `len(batch) == self.batch_size`, also if more is needed."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_full(value, batch) for value in values)
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]),
            ops=[ast.Eq() | ast.GtE()],
            comparators=[ast.Name() | ast.Attribute() | ast.Constant()],
        ):
            return name == batch
    return False


def _is_cut_at_a_quotient(script: ParsedFile, batch: ast.expr) -> bool:
    """Return True for `order[i : i + size]` after `size = max_tokens // longest` in a loop."""
    match batch:
        case ast.Subscript(slice=ast.Slice() as part):
            size = length_of(part)
        case _:
            return False
    values = [b.value for b in script.reaching(size)] if isinstance(size, ast.Name) else [size]
    return any(
        isinstance(inner, ast.BinOp)
        and isinstance(inner.op, _DIVIDING)
        and _is_in_a_loop(script, inner)
        for value in values
        if value is not None
        for inner in walk(value)
    )
