"""Small questions about `ast` nodes that need no names and no values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeGuard

from ..patterns import Pattern
from .nodes import CHILDREN, FUNCTIONS, LEAVES, walk
from .scopes import FunctionNode


def is_cuda_string(text: str) -> bool:
    """True if `text` is "cuda", "cuda:0" or (yet to be formatted) "cuda:{}"."""
    if text == "cuda":
        return True
    head, colon, index = text.partition(":")
    return (
        head == "cuda"
        and bool(colon)
        and (index.isdigit() or index in {"", "{}", "%d", "%s", "{0}"})
    )


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of the keyword argument `name`."""
    for argument in call.keywords:
        if argument.arg == name:
            return argument.value
    return None


def is_literal(node: ast.AST | None, value: object) -> TypeGuard[ast.Constant]:
    """Return True if `node` is the literal `value`; `1` is not `True`."""
    return (
        isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value
    )


def is_off(node: ast.AST | None) -> TypeGuard[ast.Constant]:
    """Return True if `node` is a literal that is false in a test: `False`, `None`, `0`."""
    return isinstance(node, ast.Constant) and not node.value


def text_of(node: ast.AST | None) -> str | None:
    """Return the string that `node` is the literal of; None for other code."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def texts_of(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the strings among the literals in `nodes`."""
    return [text for node in nodes if (text := text_of(node)) is not None]


def name_of(node: ast.AST | None) -> str:
    """Return `c` of `c` and of `a.b.c`; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def root_of(node: ast.expr, *kinds: type[ast.AST]) -> ast.expr:
    """Return `a` of `a.b.c`; with other `kinds`, `a` of `a[0]` too."""
    while isinstance(node, kinds or ast.Attribute):
        node = node.value  # type: ignore[attr-defined]
    return node


def below(node: ast.expr, names: Collection[str] = ("data", "detach")) -> ast.expr:
    """Return `x` of `x.detach().data`: what is below methods without arguments, and `data`, among `names`."""
    while True:
        match node:
            case (
                ast.Call(func=ast.Attribute(value=inner, attr=name), args=[])
                | ast.Attribute(value=inner, attr="data" as name)
            ) if name in names:
                node = inner
            case _:
                return node


def imported_modules(node: ast.AST) -> list[str]:
    """Return the modules that an import statement names, as they are written: `torch.nn`, `..utils`."""
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def packages(node: ast.AST) -> set[str]:
    """Return the top-level packages that an import statement names; none for a relative one."""
    return {name.partition(".")[0] for name in imported_modules(node)} - {""}


def imported_as(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def unparsed(node: ast.AST) -> str:
    """What `ast.unparse` gives, in a twentieth of the time for `model` and `self.model.encoder`."""
    names: list[str] = []
    whole = node
    while type(whole) is ast.Attribute:
        names.append(whole.attr)
        whole = whole.value
    if type(whole) is not ast.Name:
        return ast.unparse(node)
    names.append(whole.id)
    return ".".join(reversed(names))


def dict_entries(node: ast.AST | None) -> list[tuple[str, ast.expr]]:
    """Return the entries with constant keys of `{"a": 1}` and `dict(a=1)`."""
    match node:
        case ast.Dict(keys=keys, values=values):
            names = (getattr(key, "value", None) for key in keys)
            return [(n, value) for n, value in zip(names, values) if isinstance(n, str)]
        case ast.Call(func=ast.Name(id="dict"), keywords=given):
            return [(k.arg, k.value) for k in given if k.arg is not None]
    return []


def handed_through(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call, with what stands before each: `*`, `closure=`, `**`."""
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            yield "*", argument.value
        else:
            yield "", argument
    for named in call.keywords:
        yield (f"{named.arg}=" if named.arg else "**"), named.value


def argument_for(
    name: str, function: FunctionNode, call: ast.Call, *, skip_self: bool
) -> ast.expr | None:
    """What `call` passes for the parameter `name` of `function`."""
    given = keyword(call, name)
    if given is not None:
        return given
    positional = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if name not in positional:
        return None
    index = positional.index(name) - (1 if skip_self and not is_static(function) else 0)
    if not 0 <= index < len(call.args) or any(
        isinstance(a, ast.Starred) for a in call.args[: index + 1]
    ):
        return None
    return call.args[index]


def parameters(function: FunctionNode) -> list[ast.arg]:
    """Return the parameters of `function` that have a name of their own: not `*args`, `**kwargs`."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def parameter_for(
    node: ast.AST, function: FunctionNode, call: ast.Call, *, skip_self: bool
) -> str | None:
    """Return the parameter of `function` that takes the argument `node` of `call`."""
    names = (parameter.arg for parameter in parameters(function))
    given = (n for n in names if argument_for(n, function, call, skip_self=skip_self) is node)
    return next(given, None)


def defaults(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Yield the parameters that have a default, with their defaults."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    yield from zip(positional[first:], arguments.defaults)
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if default is not None:
            yield parameter, default


def walk_body(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of these statements, without entering functions and classes inside."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        kind = type(node)
        if kind not in _NOT_ENTERED:
            below = CHILDREN[kind](node)
            below.reverse()
            stack += below


def assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the pairs of `a, b = x, y`, and the target and value of other assignments."""
    match target, value:
        case (
            (ast.Tuple(elts=targets) | ast.List(elts=targets)),
            (ast.Tuple(elts=values) | ast.List(elts=values)),
        ) if len(targets) == len(values):
            if not any(isinstance(each, ast.Starred) for each in (*targets, *values)):
                return list(zip(targets, values))
    return [(target, value)]


def is_size(node: ast.AST) -> bool:
    """Return True for `len(x)`, `x.size(0)` and `x.shape[-1]`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[_]):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def evaluated(node: ast.AST) -> list[ast.AST]:
    """Return the children of `node` that run with it: of a lambda its defaults, of a definition none."""
    if isinstance(node, ast.Lambda):
        return [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    return [] if type(node) in _NOT_ENTERED else CHILDREN[type(node)](node)


_NOT_ENTERED = LEAVES | {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda}


def statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every statement of these, and handlers and cases, without entering functions and classes inside."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if type(node) in _COMPOUND:
            for block in _BLOCKS:
                stack += reversed(getattr(node, block, ()))


_BLOCKS = ("cases", "finalbody", "orelse", "handlers", "body")  # the last is looked at first
_COMPOUND = frozenset(
    kind
    for name in "For AsyncFor While If With AsyncWith Try TryStar ExceptHandler Match match_case".split()
    if (kind := getattr(ast, name, None)) is not None
)


def targets_of(statement: ast.AST | None) -> list[ast.expr]:
    """Return what an assignment binds; nothing if there is none."""
    if isinstance(statement, ast.Assign):
        return [
            element
            for target in statement.targets
            for element in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def class_values(definition: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that the body of a class assigns, with their values: `lr: float = 0.1`."""
    for statement in definition.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield name, value


def caught(handler: ast.ExceptHandler) -> set[str]:
    """Return the last names of the exceptions that `handler` catches."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {"BaseException" if kind is None else name_of(kind) for kind in kinds}


def position(node: ast.expr) -> tuple[int, int]:
    """Return the line and column at which `node` starts, to compare and sort by."""
    return node.lineno, node.col_offset


def identifiers(node: ast.AST) -> set[str]:
    """Return the names that are used in `node`."""
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def returned(function: FunctionNode) -> Iterator[ast.expr]:
    """Yield the expressions that `function` returns."""
    for node in statements(function.body):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def is_static(function: FunctionNode) -> bool:
    """True if `function` is a static method."""
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)


def is_pure(test: ast.expr, only_answers: Callable[[ast.Call], bool] = lambda call: False) -> bool:
    """True if evaluating `test` can be left out: names, attributes and comparisons, questions of torch's, a dict's or a
    builtin's, what is called as questions are, and calls of which `only_answers` knows that they do nothing else.
    """
    for node in walk(test):
        if isinstance(node, ast.Call):
            func = node.func
            last = name_of(func)
            asks = last in _QUESTIONS or _PREDICATE.search(last) is not None
            if not asks and not only_answers(node):
                return False
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True


_QUESTIONS = frozenset(
    (
        "is_available device_count get keys is_enabled get_scale hasattr getattr isinstance len bool "
        "get_device_properties max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_info "
        "memory_reserved"
    ).split()
)


_PREDICATE = Pattern(r"^_?(?:is|has)_\w+$|^find_spec$")  # `is_apex_available()`


def is_handed_on(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return True if `node`, a function or class that is not called here, may be called elsewhere: it is bound to a name,
    returned, or passed to a call; not compared, listed, annotated, derived from, patched or tested.
    """
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return False
    parent = parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = parents.get(parent)
        return isinstance(parent, ast.Call)
    if isinstance(parent, ast.Call):
        func = parent.func
        last = name_of(func)
        return last not in _ASKING and not _is_decorator(parent, parents)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return parent.value is node
    if isinstance(parent, ast.IfExp):
        return parent.test is not node
    if isinstance(parent, ast.Dict):
        return node in parent.values
    if isinstance(parent, FUNCTIONS):
        return node in parent.decorator_list
    return isinstance(parent, (ast.Return, ast.arguments, ast.Lambda))


_ASKING = frozenset(
    "isinstance issubclass hasattr getattr callable signature getsource register setattr patch "
    "getfullargspec getargspec getsourcefile getfile getdoc getmodule wraps update_wrapper".split()
)


def _is_decorator(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> bool:
    owner = parents.get(call)
    return call in getattr(owner, "decorator_list", ())


def is_elif(node: ast.If, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """True if `node` is the `elif` of another `if`, or all that stands in its `else`."""
    parent = parents.get(node)
    return isinstance(parent, ast.If) and node in parent.orelse


def used_names(tree: ast.Module) -> set[str]:
    """Names that are read anywhere, in string annotations, casts and `__all__` too."""
    used: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.Name(ctx=ast.Load() | ast.Del()):
                used.add(node.id)
            case ast.arg(annotation=ast.expr() as hint) | ast.AnnAssign(annotation=hint):
                used |= _words(hint)
            case ast.FunctionDef(returns=ast.expr() as hint):
                used |= _words(hint)
            case ast.AsyncFunctionDef(returns=ast.expr() as hint):
                used |= _words(hint)
            case ast.Call(func=ast.Name(id="cast") | ast.Attribute(attr="cast"), args=[hint, _]):
                used |= _words(hint)
            case ast.Assign(targets=[ast.Name(id="__all__"), *_], value=hint):
                used |= _words(hint)
    return used


def _words(node: ast.expr) -> set[str]:
    """The words in the strings of an annotation, or of a list of names."""
    texts = (part.value for part in walk(node) if isinstance(part, ast.Constant))
    return {word for text in texts if isinstance(text, str) for word in re.findall(r"\w+", text)}


# Methods that run when the instance itself is called.
CALLED_AS_INSTANCE = frozenset({"__call__", "forward"})


def names_given(made: ast.expr, parent: Callable[[ast.AST], ast.AST | None]) -> Iterator[str]:
    """The last names of what the object `made` is bound to: `criterion`, of `self.criterion = Loss().to(device)`, too."""
    node: ast.AST = made
    around = parent(node)
    while isinstance(around, (ast.Attribute, ast.Call)):  # .to(device), DDP(...)
        node, around = around, parent(around)
    statement = parent(around) if isinstance(around, ast.Tuple) else around
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(around, ast.Tuple):  # model, criterion = Model(), Loss()
            if not isinstance(target, ast.Tuple) or len(target.elts) != len(around.elts):
                continue
            target = target.elts[next(k for k, e in enumerate(around.elts) if e is node)]
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr
