"""The values in dictionaries: what a file stores under a key, wherever the dictionary is created or changed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from ..analysis.bindings import ITERATED
from ..analysis.syntax import name_of, text_of, unparsed
from .calls import File, class_of_self, every_call, mapped
from .closure import reach
from .edges import sources
from .iterables import iterable_of

ANY = ""  # stands for all keys
_LONGEST = 4  # keys of a nested entry; `d = d["next"]` leads to ever more
_COPIES = frozenset({"dict", "OrderedDict", "copy", "deepcopy"})

_Place = tuple[
    ast.expr, tuple[str, ...]
]  # an expression, and the keys that lead to the wanted value


def held(file: File, node: ast.expr, *keys: str) -> list[ast.expr]:
    """Return the values under `keys` in the dictionaries that `node` may be."""
    reached = reach([(node, keys)], lambda place: _step(file, *place))
    return [value for value, rest in reached if not rest]


def elements(file: File, node: ast.Name) -> list[ast.expr]:
    """Return the values that a loop over dictionaries gives `node`: `v` of `for k, v in d.items()`."""
    return [value for owner in dictionaries(file, node) for value in held(file, owner, ANY)]


def appended(file: File, node: ast.expr) -> list[ast.expr]:
    """Return what is appended to the lists that `node` may be."""
    calls = [call for call, _ in file.index.calls_of("append") if len(call.args) == 1]
    lists = reach([node], lambda each: sources(file, each)) if calls else ()
    variables = [each for each in lists if isinstance(each, (ast.Name, ast.Attribute))]
    return [
        call.args[0]
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and any(_is_same(file, variable, call.func.value) for variable in variables)
    ]


def dictionaries(file: File, node: ast.Name) -> list[ast.expr]:
    """Return the dictionaries over whose values a loop gives them to `node`."""
    found = []
    for binding in file.reaching(node):
        iterated, path = binding.value if binding.how == "for" else None, binding.path
        around = file.parent(binding.node)  # the parameters of a lambda
        for several in mapped(file, file.parent(around) if around is not None else None):
            iterated, path = several, (ITERATED,)
        match iterable_of(iterated, path[1:]) if iterated is not None else None:
            case (ast.Call(func=ast.Attribute(value=owner, attr="items")), (1,)) | (
                ast.Call(func=ast.Attribute(value=owner, attr="values")),
                (),
            ):
                found.append(owner)
    return found


def view_below(node: ast.AST | None, wrappers: Collection[str]) -> ast.Call | None:
    """Return `d.items()` or `d.values()` of `sorted(d.items())`, below calls of `wrappers`."""
    while isinstance(node, ast.Call) and name_of(node.func) in wrappers and node.args:
        node = node.args[0]
    match node:
        case ast.Call(func=ast.Attribute(attr="items" | "values")):
            return node
    return None


def iterates_keys(file: File, loop: ast.AST) -> bool:
    """Return True if `loop` is over a dictionary, from which it takes the values: `for k in batch: batch[k]`."""
    match loop:
        case ast.For(target=ast.Name(id=key), iter=(ast.Name() | ast.Attribute()) as owner) | (
            ast.comprehension(target=ast.Name(id=key), iter=(ast.Name() | ast.Attribute()) as owner)
        ):
            return any(
                isinstance(part.slice, ast.Name)
                and part.slice.id == key
                and unparsed(part.value) == unparsed(owner)
                for part, _ in file.index.of(ast.Subscript)
            )
    return False


def _step(file: File, node: ast.expr, keys: tuple[str, ...]) -> Iterator[_Place]:
    """Yield where the wanted value is one step before."""
    if not keys:
        return
    if len(keys) < _LONGEST:
        match node:
            case ast.Subscript(value=owner, slice=index):
                yield owner, (_key(index), *keys)
            case ast.Call(func=ast.Attribute(attr="get" | "pop", value=owner), args=[index, *_]):
                yield owner, (_key(index), *keys)
    match node:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            yield from ((left, keys), (right, keys))
        case ast.Dict():
            yield from _entries(zip(node.keys, node.values), keys)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _COPIES:
            yield from _given(node, keys)
            if isinstance(node.func, ast.Attribute):
                yield node.func.value, keys  # options.copy()
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[_, default]):
            yield default, keys
        case ast.Name() | ast.Attribute():
            yield from _changes(file, node, keys)
            yield from _named_arguments(file, node, keys)
    yield from ((source, keys) for source in sources(file, node))


def _key(index: ast.expr) -> str:
    text = text_of(index)
    return ANY if text is None else text


def _entries(
    entries: Iterator[tuple[ast.expr | None, ast.expr]], keys: tuple[str, ...]
) -> Iterator[_Place]:
    """Yield the values of a display; a key of None is `**`."""
    for key, value in entries:
        if key is None:
            yield value, keys
        elif keys[0] in (ANY, getattr(key, "value", None)):
            yield value, keys[1:]


def _given(
    call: ast.Call, keys: tuple[str, ...], dictionaries: Iterable[ast.expr] | None = None
) -> Iterator[_Place]:
    """Yield the arguments of `dict(...)` and `options.update(...)`."""
    given = call.args if dictionaries is None else dictionaries
    yield from ((argument, keys) for argument in given)
    named = ((ast.Constant(k.arg) if k.arg else None, k.value) for k in call.keywords)
    yield from _entries(named, keys)


def _named_arguments(
    file: File, node: ast.Name | ast.Attribute, keys: tuple[str, ...]
) -> Iterator[_Place]:
    """Yield what calls pass for the parameter `**node`."""
    for binding in file.reaching(node) if isinstance(node, ast.Name) else ():
        function = file.function(node)
        if function is not None and binding.node is function.args.kwarg:
            for call in every_call(file, function):
                yield from _given(call, keys, ())


def _changes(
    file: File, owner: ast.Name | ast.Attribute, keys: tuple[str, ...]
) -> Iterator[_Place]:
    """Yield what is put into the dictionary `owner`: `options["a"] = 1`, `options.update(a=1)`."""
    stores = file.index.of(ast.Subscript) if keys[0] == ANY else file.index.subscripts(keys[0])
    for target, _ in stores:
        statement = file.parent(target)
        if isinstance(statement, ast.Assign) and target in statement.targets:
            if _is_same(file, owner, target.value):
                yield statement.value, keys[1:]
    for statement, _ in file.index.of(ast.AugAssign):
        if isinstance(statement.op, ast.BitOr) and _is_same(file, owner, statement.target):
            yield statement.value, keys
    for method in ("update", "setdefault"):
        for call, _ in file.index.calls_of(method):
            if not isinstance(call.func, ast.Attribute):
                continue
            if not _is_same(file, owner, call.func.value):
                continue
            if method == "update":
                yield from _given(call, keys)
            elif len(call.args) == 2:
                yield from _entries(iter([(call.args[0], call.args[1])]), keys)


def _is_same(file: File, one: ast.expr, other: ast.expr) -> bool:
    """Return True if both are the same variable, or the same attribute of one class or object."""
    match one, other:
        case ast.Name(id=name), ast.Name(id=same) if name == same:
            homes = [file.index.scope(node).find(name) for node in (one, other)]
            return homes[0] is not None and homes[1] is not None and homes[0][0] is homes[1][0]
        case ast.Attribute(attr=name), ast.Attribute(attr=same) if name == same:
            is_spelled_alike = unparsed(one) == unparsed(other)
            return is_spelled_alike and class_of_self(file, one) is class_of_self(file, other)
    return False
