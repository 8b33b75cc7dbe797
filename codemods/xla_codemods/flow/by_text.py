"""Methods called by their name as text, or of the elements of a list, and functions in lists: `self.call("after_step", loss)`.

A runner is a function that calls the method which its parameter names: `getattr(hook, name)(self)`,
or passes it on to a runner, or to objects in a list, which look it up themselves: `hook(name)`.
Values are not followed, since what a parameter is depends on the calls found here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..analysis.scopes import FunctionNode, Scope
from ..analysis.syntax import (
    CALLED_AS_INSTANCE,
    name_of,
    names_given,
    parameters,
    unparsed,
)
from .calls import File, Nodes, argument, functions_of_module, methods, others
from .closure import reach
from .iterables import iterable_of


class CallByText(NamedTuple):
    """A call that runs methods by their name; `passes` has the arguments that these receive."""

    node: ast.Call
    passes: ast.Call


class _Runner(NamedTuple):
    """A function, and its parameter with a method's name, which stands between `prefix` and `suffix`.

    inner: The call in `function` that runs the method, with the arguments that it receives; two runners that differ in
        it alone are one.
    """

    function: FunctionNode
    parameter: str
    prefix: str
    suffix: str
    inner: ast.Call

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Runner) and self[:4] == other[:4]

    def __hash__(self) -> int:
        return hash(self[:4])


def calls_by_text(file: File, method: str) -> list[CallByText]:
    """Return the calls of the file that run `method` of objects by its name."""
    return file.index.cached(_by_method).get(method, [])


def methods_by_text(file: File, call: ast.Call) -> list[str]:
    """Return the names of the methods that `call` runs by text."""
    return file.index.cached(_by_call).get(call, [])


def run_by_text(file: File, call: ast.Call) -> list[FunctionNode]:
    """Return the methods that `call` runs by text, and the functions that it runs of a list."""
    by_name, plain = file.index.cached(methods), file.index.cached(functions_of_module)
    texts = methods_by_text(file, call)
    return [each for text in texts for each in by_name.get(text, plain.get(text, []))]


def is_an_element(name: str, scope: Scope) -> bool:
    """Return True if `name` is the variable of a loop, and nothing else."""
    found = scope.find(name)
    return found is not None and all(binding.how == "for" for binding in found[1])


def _by_method(file: File) -> Mapping[str, list[CallByText]]:
    found: dict[str, list[CallByText]] = {}
    for lookup, _ in file.index.calls_of("getattr"):
        match lookup.args:
            case [_, ast.Constant(value=str(text)), *_]:
                found.setdefault(text, []).extend(CallByText(c, c) for c in _runs(file, lookup))
    for name in file.index.cached(methods):
        for call, scope in file.index.calls_of(name):
            match call.func:
                case ast.Attribute(value=ast.Name(id=owner)) if is_an_element(owner, scope):
                    found.setdefault(name, []).append(CallByText(call, call))
    for call, scope in file.index.of(ast.Call):
        for name in dict.fromkeys(_functions_in_lists(file, call, scope)):
            found.setdefault(name, []).append(CallByText(call, call))
    for runner in _runners(file):
        for call in _calls(file, runner.function):
            match argument(file, runner.parameter, runner.function, call):
                case ast.Constant(value=str(text)):
                    method = runner.prefix + text + runner.suffix
                    found.setdefault(method, []).append(
                        CallByText(call, _passed(file, call, runner))
                    )
    return found


def _functions_in_lists(file: File, call: ast.Call, scope: Scope) -> Iterator[str]:
    """Yield the names of the functions that `hook(loss)` runs in `for hook in self.hooks`."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    found = scope.find(name) if name and is_an_element(name, scope) else None
    for binding in found[1] if found is not None else ():
        if binding.value is not None:
            several, path = _values_of(*iterable_of(binding.value, binding.path[1:]))
            for each in reach([several], lambda e: _lists(file, e)) if not path else ():
                if isinstance(each, (ast.Name, ast.Attribute)):
                    yield name_of(each)


def _values_of(several: ast.expr, path: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """Return the dictionary whose values the part at `path` of the elements of `several` is, with the rest of `path`."""
    match several:
        case ast.Call(func=ast.Attribute(attr="values", value=owner), args=[]):
            return owner, path
        case ast.Call(func=ast.Attribute(attr="items", value=owner), args=[]) if path[:1] == (1,):
            return owner, path[1:]
    return several, path


def _lists(file: File, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the elements of the list or dictionary `node`, or where it is assigned, extended and passed, by its name."""
    if isinstance(node, (ast.List, ast.Tuple)):
        yield from node.elts
    if isinstance(node, ast.Dict):
        yield from node.values
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return
    text = unparsed(node)
    yield from file.index.values_of(text)
    for call, _ in file.index.calls_of("append"):
        if isinstance(call.func, ast.Attribute) and unparsed(call.func.value) == text:
            yield from call.args[:1]
    yield from file.index.cached(_entries).get(text, ())
    function = file.function(node) if isinstance(node, ast.Name) else None
    if function is not None and isinstance(node, ast.Name):
        yield from _passed_lists(file, function, node.id)


def _entries(index: Nodes) -> dict[str, list[ast.expr]]:
    """Map each dictionary, as the file spells it, to what the file stores in it: `hooks["log"] = log`."""
    found: dict[str, list[ast.expr]] = {}
    for statement, _ in index.of(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                found.setdefault(unparsed(target.value), []).append(statement.value)
    return found


def _passed_lists(file: File, function: FunctionNode, name: str) -> Iterator[ast.expr]:
    """Yield what calls by the name of `function` pass for its parameter `name`."""
    owner, calls = file.parent(function), _calls(file, function)
    if isinstance(owner, ast.ClassDef) and function.name == "__init__":
        calls = [call for call, _ in file.index.calls_of(owner.name)]
    for call in calls:
        if function.args.vararg is not None and function.args.vararg.arg == name:
            yield from others(file, function, call)
        elif (given := argument(file, name, function, call)) is not None:
            yield given


def _by_call(file: File) -> Mapping[ast.Call, list[str]]:
    found: dict[ast.Call, list[str]] = {}
    for method, calls in file.index.cached(_by_method).items():
        for call in calls:
            found.setdefault(call.node, []).append(method)
    return found


def _runners(file: File) -> list[_Runner]:
    places: list[tuple[ast.expr, ast.Call]] = []  # a method's name, and the call that runs it
    for lookup, _ in file.index.calls_of("getattr"):
        if len(lookup.args) > 1:
            places += [(lookup.args[1], call) for call in _runs(file, lookup)]
    for call, scope in file.index.of(ast.Call):
        match call:
            case ast.Call(func=ast.Name(id=name), args=[ast.Name() as given, *others]):
                if is_an_element(name, scope):  # hook(name, self): it looks the name up itself
                    places.append((given, ast.Call(call.func, others, call.keywords)))

    def around(runner: _Runner) -> Iterator[_Runner]:
        for call in _calls(file, runner.function):
            given = argument(file, runner.parameter, runner.function, call)
            for outer in (
                _runner(file, given, _passed(file, call, runner)) if given is not None else ()
            ):
                if not outer.prefix + outer.suffix:
                    yield outer._replace(prefix=runner.prefix, suffix=runner.suffix)
                elif not runner.prefix + runner.suffix:
                    yield outer

    first = (runner for named, call in places for runner in _runner(file, named, call))
    return list(reach(first, around))


def _runs(file: File, lookup: ast.Call) -> list[ast.Call]:
    """Return the calls of what `lookup` finds: `getattr(hook, name)(x)`, or `method(x)` if it is assigned to that name."""
    around = file.parent(lookup)
    if isinstance(around, ast.Call):
        return [around] if around.func is lookup else []
    names = {*names_given(lookup, file.parent)}
    if isinstance(around, ast.NamedExpr):
        names.add(around.target.id)
    function = file.function(lookup)
    calls = (call for name in names for call, _ in file.index.calls_of(name))
    return [call for call in calls if file.function(call) is function]


def _runner(file: File, named: ast.expr, inner: ast.Call) -> Iterator[_Runner]:
    """Yield the function around `named` as a runner, if that is its parameter, also between constant texts."""
    function = file.function(named)
    prefix, name, suffix = _parts(file, named)
    if function is not None and any(name == each.arg for each in parameters(function)):
        yield _Runner(function, name, prefix, suffix, inner)


def _parts(file: File, named: ast.expr) -> tuple[str, str, str]:
    """Return the variable in the text `named`, with what stands before and after it: `f"on_{event}"`."""
    if isinstance(named, ast.Name):
        found = file.index.scope(named).find(named.id)
        binding = found[1][0] if found is not None and len(found[1]) == 1 else None
        if binding is None or binding.how != "assign" or binding.whole is None:
            return "", named.id, ""
        named = binding.whole
    match named:
        case ast.JoinedStr(values=parts):
            pass
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [left, right]
        case _:
            parts = [named]
    texts = [str(part.value) if isinstance(part, ast.Constant) else None for part in parts]
    if texts.count(None) != 1:
        return "", "", ""
    place = texts.index(None)
    part = parts[place]
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    name = inner.id if isinstance(inner, ast.Name) else ""
    return "".join(map(str, texts[:place])), name, "".join(map(str, texts[place + 1 :]))


def _calls(file: File, function: FunctionNode) -> list[ast.Call]:
    """Return the calls by the name of `function`; for `__call__`, those of `self` and of its class's instances."""
    names = {function.name}
    owner = file.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name in CALLED_AS_INSTANCE:
        made = [call for call, _ in file.index.calls_of(owner.name)]
        names = {"self", *(name for call in made for name in names_given(call, file.parent))}
    return [call for name in sorted(names) for call, _ in file.index.calls_of(name)]


def _passed(file: File, call: ast.Call, runner: _Runner) -> ast.Call:
    """Return `runner.inner` with the arguments of `call` in place of the parameters of its function."""
    function, inner = runner.function, runner.inner
    plain = [arg.arg for arg in function.args.args]
    spread = function.args.vararg.arg if function.args.vararg is not None else ""

    def filled(given: ast.expr) -> list[ast.expr]:
        match given:
            case ast.Starred(value=ast.Name(id=name)) if name == spread:
                return others(file, function, call)
            case ast.Name(id=name) if name in plain:
                return [argument(file, name, function, call) or given]
        return [given]

    args = [each for given in inner.args for each in filled(given)]
    keywords = [ast.keyword(k.arg, filled(k.value)[0]) for k in inner.keywords if k.arg]
    if function.args.kwarg is not None:
        keywords += [k for k in call.keywords if k.arg not in plain]
    return ast.Call(inner.func, args, keywords)
