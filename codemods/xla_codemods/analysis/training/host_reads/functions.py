"""Functions that take or return a deferred value: of this file, and meters of other modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ....flow.calls import argument, call_with, callers
from ....flow.closure import reach
from ....flow.edges import sources
from ...inference.values import ARRAY, CLASS, INSTANCE, MODULE
from ...nodes import FUNCTIONS, walk
from ...projects.attribute_uses import uses_elsewhere
from ...projects.callees import callees_of, derives
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import name_of, parameter_for, returned, unparsed
from .holders import is_of_another, stored_in

_CHANGING = frozenset({ARRAY, INSTANCE, MODULE})
_OF_TIMM = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
_PLAIN_BASES = frozenset({"abc", "builtins", "collections", "enum", "typing"})
_TESTING = (ast.BoolOp, ast.UnaryOp, ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context)
_PLAIN = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.For, ast.If, ast.Assert),
    *(ast.Pass, ast.Continue, ast.BinOp, ast.operator, ast.Name, ast.Attribute, ast.Subscript),
    *(
        ast.Constant,
        ast.Tuple,
        ast.List,
        ast.Slice,
        ast.Call,
        ast.keyword,
        ast.IfExp,
        ast.Compare,
        *_TESTING,
    ),
)
_KEEPING = frozenset("append appendleft extend get is_tensor item items update values".split())


class Taker(NamedTuple):
    """The parameter `name` of `function`."""

    function: FunctionNode
    name: str


def called_function(script: Script, call: ast.Call) -> FunctionNode | None:
    """Return the function of this file that `call` runs, if it does only what its body says."""
    function = script.function_of(call.func)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function))
    return None if yields or any(isinstance(a, ast.Starred) for a in call.args) else function


def passed_to(script: Script, node: ast.expr) -> Taker | None:
    """Return the parameter of a function of this file that takes the argument `node`."""
    call = call_with(script, node)
    function = called_function(script, call) if call is not None else None
    if call is None or function is None:
        return None
    func = call.func
    is_method = isinstance(script.parent(function), ast.ClassDef)
    of_class = isinstance(func, ast.Attribute) and script.value(func.value).has(CLASS)
    if is_method and isinstance(func, ast.Attribute) and unparsed(func.value) != "self":
        if not of_class and maker_of(script, func.value) is None:
            return None  # of a derived class, or an object that other code uses
    name = parameter_for(node, function, call, skip_self=is_method and not of_class)
    if name is None and function.args.kwarg is not None:  # `**stats`
        is_passed = any(keyword.value is node for keyword in call.keywords)
        name = function.args.kwarg.arg if is_passed else None
    if name is None or not _takes_values(script, function, name):
        return None
    return Taker(function, name)


def _takes_values(script: Script, function: FunctionNode, name: str) -> bool:
    """Return True if all calls of `function` pass an immutable value for `name`."""
    if script.is_imported_elsewhere(function.name):
        return False
    given = (argument(script, name, function, call) for call in callers(script, function))
    return not any(value and script.value(value).kinds & _CHANGING for value in given)


def kept_by(script: Script, node: ast.expr) -> tuple[ast.expr, ast.ClassDef | None] | None:
    """Return the object that keeps the argument `node`, with its class: `meter.update(node)`.

    None if its method may do more than sums and lists.
    """
    call = call_with(script, node)
    if call is None:
        return None
    func = call.func
    owner, name = (func.value, func.attr) if isinstance(func, ast.Attribute) else (func, "__call__")
    maker = _class_of_entries(script, owner) or maker_of(script, owner)
    made = script.dotted(maker) or "" if maker is not None else ""
    if made in _OF_TIMM and name == "update":
        return owner, None
    definition: ast.AST | None = script.value(maker).definition if maker is not None else None
    if definition is None:
        found = script.project.definition(made)
        definition = found[0] if found is not None else None
    if not isinstance(definition, ast.ClassDef):
        definition = _returned_class(script, owner)
    if not isinstance(definition, ast.ClassDef) or not only_keeps(definition, name):
        return None
    return owner, definition


def _returned_class(script: Script, owner: ast.expr) -> ast.ClassDef | None:
    """Return the class of the object that a function of any module returns for `owner`: `losses, errors = meters()`."""
    callees, found = callees_of(script), list[ast.ClassDef | None]()
    for binding in script.reaching(owner) if isinstance(owner, ast.Name) else ():
        call = binding.value
        target = callees.called(script.index, call.func) if isinstance(call, ast.Call) else None
        values: list[ast.expr | None] = [None]
        if binding.how == "assign" and target is not None:
            values = [*returned(target.function)] or values
        for value in values:
            made = binding._replace(value=value).part
            if target and isinstance(made, ast.Name):
                made = next(iter(sources(target.home, made)), None)
            is_call = target is not None and isinstance(made, ast.Call)
            class_ = callees.class_of(target.home, made) if target and made and is_call else None
            found.append(class_[1] if class_ is not None else None)
    return found[0] if len(set(found)) == 1 else None


def _class_of_entries(script: Script, owner: ast.expr) -> ast.expr | None:
    """Return the class of `self.meters[key]`, of a `defaultdict(Meter)`, and of `meters.setdefault(key, Meter())`."""
    match owner:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, ast.Call(func=kind)]):
            return kind
        case ast.Subscript(value=ast.Name() | ast.Attribute() as holder):
            made = stored_in(script, holder)
        case _:
            return None
    match made[0]:
        case ast.Call(func=func, args=[kind]) if name_of(func) == "defaultdict":
            return kind
    return None


def only_keeps(definition: ast.ClassDef, name: str) -> bool:
    """Return True if the method, and those that it calls, only compute sums and fill lists."""
    methods = reach([method_of(definition, name)], lambda method: _called_by(definition, method))
    return all(method is not None and _is_plain(definition, method) for method in methods)


def _called_by(
    definition: ast.ClassDef, method: ast.FunctionDef | None
) -> Iterator[ast.FunctionDef]:
    names = (n.attr for n in walk(method) if isinstance(n, ast.Attribute)) if method else ()
    return (called for name in names if (called := method_of(definition, name)) is not None)


def _is_plain(definition: ast.ClassDef, method: ast.FunctionDef) -> bool:
    tests = {n for node in walk(method) for n in walk(getattr(node, "test", ast.Pass()))}
    return all(
        isinstance(node, _PLAIN)
        and (node not in tests or isinstance(node, _TESTING) or _asks_its_kind(node))
        and (not isinstance(node, ast.Call) or _is_plain_call(definition, node))
        and not (isinstance(node, ast.Attribute) and _is_set_elsewhere(node))
        for statement in method.body
        for node in walk(statement)
    )


def _is_set_elsewhere(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") != "self"


def _asks_its_kind(node: ast.AST) -> bool:
    """Return True for `isinstance(...)` and `value is None`, which do not need the value."""
    match node:
        case ast.Compare(ops=ops):
            return all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops)
        case ast.Call(func=func):
            return name_of(func) in {"isinstance", "is_tensor"}
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.Tuple))


def _is_plain_call(definition: ast.ClassDef, call: ast.Call) -> bool:
    name = name_of(call.func)
    if isinstance(call.func, ast.Name):
        return name in {"isinstance", "len"}
    is_own = isinstance(call.func, ast.Attribute) and unparsed(call.func.value) == "self"
    return method_of(definition, name) is not None if is_own else name in _KEEPING


def maker_of(script: Script, owner: ast.expr) -> ast.expr | None:
    """Return the class or function that makes `owner`, a name or `self.meter`."""
    is_own = isinstance(owner, ast.Attribute) and name_of(owner.value) == "self"
    values = sources(script, owner) if is_own or isinstance(owner, ast.Name) else ()
    calls = [value.func for value in values if isinstance(value, ast.Call)]
    is_one = len(calls) == len(values) and len({ast.unparse(func) for func in calls}) == 1
    return calls[0] if is_one else None


def method_of(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method that `definition` itself has."""
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return None if statement.decorator_list else statement
    return None


def callers_of(script: Script, function: FunctionNode) -> list[ast.Call]:
    """Return the calls of `function`; none if some may be unknown."""
    if _is_called_elsewhere(script, function):
        return []
    used = [*_uses(script, function)]
    calls = [script.parent(node) for node in used]
    known = [c for c, node in zip(calls, used) if isinstance(c, ast.Call) and c.func is node]
    return known if len(known) == len(used) else []


def _is_called_elsewhere(script: Script, function: FunctionNode) -> bool:
    """Return True if other modules or a library's base class may call `function`."""
    owner, name = script.parent(function), function.name
    if isinstance(owner, ast.ClassDef) and not name.startswith("_"):
        if _is_of_a_library(script, owner):
            return True
        return any(True for _ in uses_elsewhere(script.project, owner.name, name))
    return isinstance(owner, ast.Module) and script.is_imported_elsewhere(name)


def _is_of_a_library(script: Script, owner: ast.ClassDef) -> bool:
    """Return True if a library's base class may call its methods; `nn.Module` does not."""

    def may_call(dotted: str) -> bool:
        known = dotted.startswith("torch.nn.") or dotted.partition(".")[0] in _PLAIN_BASES
        is_ours = script.project.has(dotted)
        return bool(dotted) and not known and not is_ours

    return derives(script, owner, may_call)


def _uses(script: Script, function: FunctionNode) -> Iterable[ast.expr]:
    """Return the uses of `function` in its file."""
    owner, name = script.parent(function), function.name
    match owner:
        case ast.Module():
            return script.index.reads_of(script.module, name)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope = script.inference.scopes[owner]
            return script.index.reads_of(scope, name) if len(scope.bindings[name]) == 1 else []
        case ast.ClassDef() if name == "__call__":
            called = [
                (call.func, script.value(call.func, s)) for call, s in script.index.of(ast.Call)
            ]
            return [f for f, value in called if value.definition is owner and value.has(INSTANCE)]
        case ast.ClassDef() if not name.startswith("__"):
            used = script.index.attributes(name)
            return [node for node, _ in used if not is_of_another(script, node, owner)]
    return []


def is_tried(script: Script, node: ast.AST) -> bool:
    """Return True if an exception at `node` may be caught in its function."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, FUNCTIONS):
            return False
        if isinstance(ancestor, ast.Try):
            return True
    return False
