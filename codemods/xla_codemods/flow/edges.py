"""The edges of the value-flow graph of one file: where a value comes from, and where it goes, one step at a time."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from ..analysis.bindings import ITERATED, Binding
from ..analysis.nodes import FUNCTIONS
from ..analysis.scopes import FunctionNode
from ..analysis.syntax import (
    assigned,
    dict_entries,
    keyword,
    name_of,
    parameters,
    returned,
    text_of,
    unparsed,
    walk_body,
)
from .calls import (
    File,
    Nodes,
    argument,
    call_with,
    class_named,
    derives,
    every_call,
    heirs,
    lambda_calls,
    lambdas,
    mapped,
    named,
    others,
    owner_of,
    prepared,
    properties,
    run_by,
    to_lambda,
    wrappers,
)
from .class_bodies import of_class_body
from .closure import reach
from .iterables import gives_elements, iterable_of

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)

# Decorators whose function returns the same value.
_TRANSPARENT = frozenset(
    "autocast cache classmethod compile enable_grad final inference_mode lru_cache no_grad override staticmethod".split()
)


def sources(file: File, node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions of the file whose value `node` may have; none if they are not known."""
    return file.inference.remembered(_sources, file, node)


def _sources(file: File, node: ast.expr) -> Sequence[ast.expr]:
    match node:
        case ast.IfExp(body=body, orelse=other):
            return [body, other]
        case ast.BoolOp(values=values):
            return values
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return [value]
        case ast.Name(ctx=ast.Load()):
            bindings = [*file.reaching(node), *_in_other_functions(file, node)]
            return [s for b in bindings for s in _bound(file, node, b)]
        case ast.Attribute(ctx=ast.Load()):
            is_self = name_of(node.value) == "self"
            found = [s for a in _attributes(file, node) for s in _stored(file, a)]
            found += [] if is_self else _assigned(file, node)
            found += [*_set(file, node), *_computed(file, node), *_of_field(file, node)]
            found += of_class_body(file, node)
            return list(dict.fromkeys(found))
        case ast.Subscript(ctx=ast.Load(), value=owner, slice=ast.Constant(value=str(key))):
            found = [*_assigned(file, node), *_entries(file, owner, key)]
            return [*found, *_rest(file, owner, key)]
        case ast.Subscript(ctx=ast.Load(), value=owner, slice=ast.Constant(value=int(index))):
            return _rest(file, owner)[index:][:1]
        case ast.Call():
            given = [value for f in run_by(file, node.func) for value in _returned(file, f)]
            return [*given, *_of_lambda(file, node.func)]
    return []


def known_sources(
    file: File, node: ast.Name, joining: tuple[type[ast.operator], ...] = ()
) -> list[ast.expr]:
    """Return all expressions whose value the name `node` may have; none if it may have another value.

    `joining`: operators that join a value with the one before, as `mask |= other` does.
    """
    found: list[ast.expr | None] = []
    for binding in file.reaching(node):
        function = file.function(binding.node) if binding.how == "parameter" else None
        if function is not None:
            found += [p or binding.value for p in _passed(file, node.id, function)] or [None]
        elif isinstance(binding.node, ast.AugAssign):
            found.append(binding.value if isinstance(binding.node.op, joining) else None)
        else:
            found += _bound(file, node, binding) or [None]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else []


def uses(file: File, node: ast.expr) -> list[ast.expr]:
    """Return the expressions of the file that may have the value of `node`: the inverse of `sources`."""
    found = dict.fromkeys(_near(file, node))
    return [use for use in found if any(source is node for source in sources(file, use))]


def unpacked(file: File, node: ast.expr) -> Iterator[tuple[ast.Name, tuple[int, ...]]]:
    """Yield the reads of the names that `node` is unpacked into, each with the path to its part."""
    for read in _reads_of_targets(file, node):
        if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load):
            for binding in file.reaching(read):
                if binding.value is node:
                    yield read, binding.path
                elif binding.value is None and binding.node is file.parent(node):
                    yield read, (ITERATED, ITERATED)  # `*rest`


def _bound(file: File, node: ast.Name, binding: Binding) -> list[ast.expr]:
    """Return what `binding` gives the name `node`."""
    if binding.how == "assign":
        if binding.whole is None and isinstance(binding.value, ast.Call):
            return _elements(file, binding.value, binding.path)
        return [] if binding.whole is None else [binding.whole]
    if binding.how == "for":
        return _elements(file, binding.value, binding.path)
    if binding.how == "with" and isinstance(binding.value, ast.Call):
        yielded = _yielded(file, binding.value, ["contextmanager"])
        return [*yielded, *_entered(file, binding.value)]
    home = file.index.scope(node).find(node.id)
    function = home[0].node if home is not None else None
    if binding.how != "parameter" or not isinstance(function, FUNCTIONS):
        passed = [
            a for call in lambda_calls(file, function) for a in to_lambda(node.id, function, call)
        ]
        return [
            *passed,
            *(e for each in mapped(file, function) for e in _elements(file, each, (ITERATED,))),
        ]
    given = (*_passed(file, node.id, function), binding.value)
    return [value for value in given if value is not None]


def _passed(file: File, name: str, function: FunctionNode) -> list[ast.expr | None]:
    """Return what each call of the file passes for the parameter `name` of `function`, or None."""
    calls = (*every_call(file, function), *prepared(file, function))
    return [argument(file, name, function, call) for call in calls]


def _in_other_functions(file: File, node: ast.Name) -> list[Binding]:
    """Return the bindings of the variable `node` in functions that declare it `global` or `nonlocal`."""
    if not file.index.of(ast.Global) and not file.index.of(ast.Nonlocal):
        return []
    inside, home = file.index.scope(node), file.index.scope(node).find(node.id)
    stores = (name for name in file.index.same(node) if isinstance(name.ctx, ast.Store))
    others = dict.fromkeys(scope for name in stores if (scope := file.index.scope(name)) != inside)
    found = (scope for scope in others if home is not None and scope != home[0])
    return [binding for scope in found for binding in scope.bindings.get(node.id, ())]


def _elements(file: File, several: ast.expr | None, path: tuple[int, ...]) -> list[ast.expr]:
    """Return what `path` takes of the elements: `loader` of `for name, loader in (("a", x), ("b", y))`."""
    if not path:
        return [] if several is None else [several]
    taken: list[ast.expr] = []
    if path[0] == ITERATED and several is not None:
        inner, rest = iterable_of(several, path[1:])
        if inner is not several:
            return _elements(file, inner, (ITERATED, *rest))
    match several:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            taken = parts if path[0] == ITERATED else parts[path[0] : path[0] + 1]
        case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
            taken = [element] if path[0] == ITERATED else []
        case ast.Call() if path[0] == ITERATED:
            taken = _yielded(file, several, [])
        case ast.Call():
            taken = [e for made in _tuples(file, several) for e in made.elts[path[0] : path[0] + 1]]
        case ast.Name() if path[0] == ITERATED:
            taken = _rest(file, several)
    return [each for element in taken for each in _elements(file, element, path[1:])]


def _tuples(file: File, call: ast.Call) -> list[ast.Tuple]:
    """Return the tuples that `call` may return, also those that a function gets from another and returns."""

    def step(node: ast.expr) -> list[ast.expr]:
        functions = run_by(file, node.func) if isinstance(node, ast.Call) else ()
        return [value for function in functions for value in _returned(file, function)]

    start: list[ast.expr] = [call]
    return [made for made in reach(start, step) if isinstance(made, ast.Tuple)]


def _rest(file: File, owner: ast.expr, key: str = "") -> list[ast.expr]:
    """Return what calls pass for the parameter `*owner`, or for the entry `key` of `**owner`."""
    found: list[ast.expr | None] = []
    for binding in file.reaching(owner) if isinstance(owner, ast.Name) else ():
        arguments = file.parent(binding.node)
        function = file.parent(arguments) if isinstance(arguments, ast.arguments) else None
        if not isinstance(arguments, ast.arguments) or not isinstance(function, FUNCTIONS):
            continue
        if binding.node is arguments.kwarg:
            found += [keyword(call, key) for call in every_call(file, function)]
        elif binding.node is arguments.vararg and not key:
            calls = every_call(file, function)
            found += [value for call in calls for value in others(file, function, call)]
    return [value for value in found if value is not None]


def _returned(file: File, function: FunctionNode) -> list[ast.expr]:
    if isinstance(function, ast.AsyncFunctionDef):
        return []
    is_kept = all(name in _TRANSPARENT for name in wrappers(file, function))
    return list(returned(function)) if is_kept else []


def _of_lambda(file: File, func: ast.expr) -> list[ast.expr]:
    """Return what the lambda called `func` returns."""
    return [each.body for each in lambdas(file, func)]


def _entered(file: File, call: ast.Call) -> list[ast.expr]:
    """Return what `__enter__` of the object that `call` makes returns, the object itself for `self`."""
    made = class_named(file, call.func)
    method = file.inference.method(made, "__enter__") if made is not None else None
    values = returned(method[0]) if method is not None else ()
    return [call if name_of(value) == "self" else value for value in values]


def _of_field(file: File, node: ast.Attribute) -> list[ast.expr]:
    """Return what the calls that make the object pass for the field `node` of a dataclass, and its default."""
    found: list[ast.expr | None] = []
    for definition in file.index.cached(_dataclasses).get(node.attr, ()):
        if definition is owner_of(file, node):
            place = [name for name, _ in _fields(definition)].index(node.attr)
            made = [call for call, _ in file.index.calls_of(definition.name)]
            if name_of(node.value) != "self":
                values = _values(file, node.value)
                made = [call for call in made if call in values]
            for call in made:
                found += [keyword(call, node.attr), *call.args[place : place + 1]]
            found.append(_fields(definition)[place][1])
    return [value for value in found if value is not None]


def _dataclasses(index: Nodes) -> dict[str, list[ast.ClassDef]]:
    """Return the dataclasses of a file by the names of their fields."""
    found: dict[str, list[ast.ClassDef]] = {}
    for definition, _ in index.of(ast.ClassDef):
        given = (d.func if isinstance(d, ast.Call) else d for d in definition.decorator_list)
        for name, _ in _fields(definition) if "dataclass" in map(name_of, given) else ():
            found.setdefault(name, []).append(definition)
    return found


def _fields(definition: ast.ClassDef) -> list[tuple[str, ast.expr | None]]:
    named = (s for s in definition.body if isinstance(s, ast.AnnAssign))
    return [(name_of(each.target), each.value) for each in named]


def _yielded(file: File, call: ast.Call, decorators: list[str]) -> list[ast.expr]:
    """Return what the functions that `call` may run yield, if they have these decorators."""
    functions = (f for f in run_by(file, call.func) if wrappers(file, f) == decorators)
    nodes = (node for function in functions for node in walk_body(function.body))
    yields = (node.value for node in nodes if isinstance(node, ast.Yield))
    return [value for value in yields if value is not None]


def _computed(file: File, node: ast.Attribute) -> list[ast.expr]:
    """Return what the property `node` returns."""
    if node.attr not in file.index.cached(properties):
        return []
    function = named(file, node)
    is_property = function in file.index.cached(properties)[node.attr]
    return list(returned(function)) if function is not None and is_property else []


def _attributes(file: File, read: ast.Attribute) -> Iterator[ast.Attribute]:
    """Yield each store of the attribute `read`, in objects of its class, a base or a derived class."""
    stores = file.index.stores(read.attr)
    owner = owner_of(file, read) if stores else None
    for node in stores if owner is not None else ():
        other = owner_of(file, node)
        if other is not None and owner is not None:
            if other is owner or derives(file, owner, other) or derives(file, other, owner):
                yield node


def _set(file: File, node: ast.Attribute) -> list[ast.expr]:
    """Return what `setattr` stores in the attribute `node`."""
    found = []
    for call, _ in file.index.calls_of("setattr"):
        match call.args:
            case [owner, ast.Constant(value=name), value] if name == node.attr:
                is_self = unparsed(owner) == "self"
                if unparsed(owner) == unparsed(node.value):
                    if not is_self or file.class_around(call) is file.class_around(node):
                        found.append(value)
    return found


def _assigned(file: File, node: ast.expr) -> list[ast.expr]:
    """Return what the file assigns to an attribute or entry that is spelled like `node`."""
    return file.index.values_of(unparsed(node))


def _entries(file: File, owner: ast.expr, key: str) -> list[ast.expr]:
    """Return the entry `key` of the dictionaries that `owner` may be."""
    entries = (entry for made in _values(file, owner) for entry in dict_entries(made))
    return [value for name, value in entries if name == key]


def _values(file: File, owner: ast.expr) -> Collection[ast.expr]:
    """Return what `owner` may be, through names and functions."""

    def step(node: ast.expr) -> Sequence[ast.expr]:
        return sources(file, node) if isinstance(node, (ast.Call, ast.Name)) else ()

    return reach([owner], step)


def _stored(file: File, target: ast.Attribute) -> list[ast.expr]:
    """Return what an assignment gives `target`."""
    around = file.parent(target)
    match around, file.parent(around) if around is not None else None:
        case ((ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value)), _):
            return [value] if isinstance(target.ctx, ast.Store) else []
        case ast.Tuple() as targets, ast.Assign(value=value):
            return [part for each, part in assigned(targets, value) if each is target]
    return []


def _near(file: File, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that may have `node` among their sources."""
    parent = file.parent(node)
    if isinstance(parent, ast.expr):
        yield parent
    yield from _reads_of_entry(file, node, parent)
    yield from _reads_of_targets(file, node)
    if isinstance(parent, ast.Tuple):
        for call in reach(_calls_around(file, node), lambda call: _calls_around(file, call)):
            yield from _reads_of_targets(file, call)
    match parent:
        case ast.Return() | ast.Yield():
            function = file.index.scope(parent).function
            for call in every_call(file, function) if function is not None else ():
                yield call
                yield from _reads_of_targets(file, call)
            if function is not None and function.name in file.index.cached(properties):
                yield from (read for read, _ in file.index.attributes(function.name))
            owner = file.parent(function) if function is not None else None
            if isinstance(owner, ast.ClassDef) and function and function.name == "__enter__":
                for heir in heirs(file, owner):
                    for made, _ in file.index.calls_of(heir.name):
                        yield from _reads_of_targets(file, made)
        case ast.Lambda():
            reads = (file.parent(read) for read in _reads_of_targets(file, parent))
            yield from (call for call in reads if isinstance(call, ast.Call))
        case ast.Assign(targets=targets) if isinstance(file.parent(parent), ast.ClassDef):
            for target in targets:
                yield from (read for read, _ in file.index.attributes(name_of(target)))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield from (read for read, _ in file.index.attributes(name))
        case ast.arguments():
            owner = file.parent(parent)
            yield from _parameters(file, owner) if isinstance(owner, FUNCTIONS) else ()
        case ast.Call() | ast.keyword():
            around = call_with(file, node)
            for function in _passes_to(file, around) if around is not None else ():
                yield from _parameters(file, function)
            for each in lambdas(file, around.func) if around is not None else ():
                yield from _reads_in_lambda(file, each)
            definition = class_named(file, around.func) if around is not None else None
            for name, _ in _fields(definition) if definition is not None else ():
                yield from (read for read, _ in file.index.attributes(name))
            match around:
                case ast.Call(args=[_, ast.Constant(value=str(name)), _]):
                    yield from (read for read, _ in file.index.attributes(name))


def _calls_around(file: File, node: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls of the function that returns `node`, alone or in a tuple."""
    around = file.parent(node)
    while isinstance(around, ast.Tuple):
        around = file.parent(around)
    function = file.index.scope(around).function if isinstance(around, ast.Return) else None
    yield from every_call(file, function) if function is not None else ()


def _passes_to(file: File, call: ast.Call) -> list[FunctionNode]:
    """Return the functions of the file that `call` may run, or that `partial` prepares."""
    is_partial = name_of(call.func) == "partial" and call.args
    return run_by(file, call.args[0] if is_partial else call.func)


def _reads_of_targets(file: File, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the reads of the variables that `node`, or an element of it, is bound to."""
    around = file.parent(node)
    while isinstance(around, (ast.Tuple, ast.List, *_COMPREHENSIONS)) or gives_elements(around):
        if isinstance(around, ast.Call):
            yield from _reads_of_lambdas(file, around)
        around = file.parent(around) if around is not None else None
    around = file.parent(around) if isinstance(around, ast.Attribute) else around  # `x.sort(...)`
    match around:
        case ast.Assign(targets=targets):
            yield from _loads(file, targets)
        case (
            ast.AnnAssign(target=target)
            | ast.NamedExpr(target=target)
            | ast.For(target=target)
            | ast.comprehension(target=target)
            | ast.withitem(optional_vars=ast.expr() as target)
        ):
            yield from _loads(file, [target])
        case ast.Call():
            yield from _reads_of_lambdas(file, around)


def _reads_of_lambdas(file: File, call: ast.Call) -> Iterator[ast.expr]:
    """Yield the reads of the parameters of the lambdas that `call` runs on each element."""
    given = (*call.args[:1], *(k.value for k in call.keywords))
    for function in (each for each in given if isinstance(each, ast.Lambda)):
        yield from _reads_in_lambda(file, function) if mapped(file, function) else ()


def _reads_in_lambda(file: File, function: ast.Lambda) -> Iterator[ast.expr]:
    """Yield the reads of the parameters of `function`."""
    scope = file.index.scope(function.body)
    for arg in function.args.args:
        yield from (load for load, _ in file.index.names_of(scope, arg.arg))


def _reads_of_entry(file: File, node: ast.expr, parent: ast.AST | None) -> Iterator[ast.expr]:
    """Yield the subscripts that may read the value `node` of a dictionary."""
    keys: list[ast.expr | None] = []
    if isinstance(parent, ast.Dict):
        keys = [key for key, value in zip(parent.keys, parent.values) if value is node]
    elif isinstance(parent, ast.keyword) and parent.arg is not None:
        keys = [ast.Constant(parent.arg)]
    for key in keys:
        if (text := text_of(key)) is not None:
            yield from (read for read, _ in file.index.subscripts(text))


def _loads(file: File, targets: list[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        match target:
            case ast.Name():
                yield from file.index.same(target)
            case ast.Attribute(attr=name):
                yield from (node for node, _ in file.index.attributes(name))
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                yield from (node for node, _ in file.index.subscripts(key))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from _loads(file, parts)
            case ast.Starred(value=several):
                yield from _loads(file, [several])


def _parameters(file: File, function: FunctionNode) -> Iterator[ast.expr]:
    scope = file.index.scope(function.body[0])
    for arg in parameters(function):
        yield from (load for load, _ in file.index.names_of(scope, arg.arg))
    for rest in filter(None, (function.args.vararg, function.args.kwarg)):
        for load, _ in file.index.names_of(scope, rest.arg):
            around = file.parent(load)
            yield from [around] if isinstance(around, ast.Subscript) else ()
            yield from _reads_of_targets(file, load)
