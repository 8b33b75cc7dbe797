"""Find the calls of `step` that are torch's, and the steps that are marked elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from ...flow.calls import callers
from ...patterns import Pattern
from ..inference.values import CLASS, FUNCTION, NONE, NUMBER, OPTIMIZER, TENSOR
from ..parsed_file import ParsedFile
from ..projects.callees import derives
from ..scopes import FunctionNode
from ..syntax import identifiers

_CLOSURE_NAME = Pattern(r"closure|func|fn|callback", re.IGNORECASE)
_REMOTE = frozenset({"rpc_sync", "rpc_async", "remote"})


def takes_only_a_closure(script: ParsedFile, call: ast.Call, optimizer: ast.expr) -> bool:
    """True unless `call` hands an optimizer of an unknown class what `step` of torch.optim does not take: a closure it is.

    `optimizer.step(loss)` is a class's own method, which computes the gradients itself.
    """
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg)]
    if script.value(optimizer).has(OPTIMIZER):
        return not any(_is_no_closure(script, argument) for argument in given)
    return all(_may_be_a_closure(script, argument) for argument in given)


def _is_no_closure(script: ParsedFile, argument: ast.expr) -> bool:
    """True for tensors, numbers and lists of them: what an optimizer of the project's own takes."""
    value = script.value(argument)
    is_list = isinstance(argument, (ast.List, ast.ListComp, ast.Tuple))
    is_list = is_list or value.items is not None or value.element is not None
    return is_list or bool(value.kinds & {NUMBER, TENSOR})


def _may_be_a_closure(script: ParsedFile, argument: ast.expr) -> bool:
    match argument:
        case ast.Lambda() | ast.Starred():
            return True
        case ast.Call(func=function):
            return bool(_CLOSURE_NAME.search(ast.unparse(function)))
    value = script.value(argument)
    if value.kinds:
        return bool(value.kinds & {FUNCTION, CLASS, NONE})
    return bool(_CLOSURE_NAME.search(ast.unparse(argument)))


def is_element_of(script: ParsedFile, loop: ast.For, optimizer: ast.expr) -> bool:
    """True if each turn of `loop` has another `optimizer`: its variable, or what the turn looks up or makes by it."""
    turns = identifiers(loop.target)
    names = identifiers(optimizer)
    if names & turns:
        return True
    made = [_made_in(script, loop, name) for name in names]
    return any(values and all(turns & identifiers(value) for value in values) for values in made)


def _made_in(script: ParsedFile, loop: ast.For, name: str) -> list[ast.expr]:
    """What `name` is bound to in the turns of `loop`."""
    found = script.index.scope(loop).find(name)
    bindings = found[1] if found else []
    return [b.value for b in bindings if b.value and loop in script.ancestors(b.node)]


def is_marked_elsewhere(script: ParsedFile, call: ast.Call, optimizer: ast.expr) -> bool:
    """True if another place marks the step `call`: another process, or whoever steps the optimizer around this one."""
    match optimizer:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _REMOTE:
            return True
    function = script.function(call)
    if function is None or not is_of_an_optimizer(script, call):
        return False
    return function.name == "step" or _is_called_by_its_class_alone(script, function)


def _is_called_by_its_class_alone(script: ParsedFile, function: FunctionNode) -> bool:
    """Return True if `step`, or another method of the class, calls `function`, and nothing else does."""
    home, name = script.parent(function), function.name
    is_private = name.startswith("_") or not script.project.is_alone
    if not is_private or script.project.uses_attribute(name):
        return False
    calls = [call for call, _ in script.index.calls_of(name)]
    return bool(calls) and all(any(a is home for a in script.ancestors(c)) for c in calls)


def is_of_an_optimizer(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` is in a method of a class of optimizers or scalers: part of a step that others take."""
    function = script.function(node)
    home = script.parent(function) if function is not None else None
    return isinstance(home, ast.ClassDef) and derives(script, home, _is_optimizer_class)


def _is_optimizer_class(dotted: str) -> bool:
    """Return True for torch's optimizers and scalers, and for other packages' classes with such a name."""
    if dotted.startswith("torch.optim."):
        return "lr_sched" not in dotted
    return "." in dotted.strip(".") and dotted.endswith(("Optimizer", "GradScaler"))


def steps_its_elements(
    script: ParsedFile, loop: ast.For, body: Iterable[ast.AST], stepped: Iterable[ast.expr]
) -> bool:
    """Return True for `for optimizer in optimizers: apply(optimizer)`, of a function that steps what it is given."""
    functions = {script.function(optimizer): optimizer for optimizer in stepped}
    for node in body:
        match node:
            case ast.Expr(value=ast.Call(args=[_, *_] as given) as call):
                if any(is_element_of(script, loop, argument) for argument in given):
                    function = script.function_of(call.func)
                    if function in functions and _is_a_parameters(function, functions[function]):
                        return True
    return False


def _is_a_parameters(function: ast.AST | None, stepped: ast.expr) -> bool:
    """Return True if `stepped` is a parameter of `function`, or is looked up by one."""
    if not isinstance(function, ast.FunctionDef):
        return False
    return bool(
        ({argument.arg for argument in function.args.args} - {"self"}) & identifiers(stepped)
    )


def calls_of(script: ParsedFile, function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls of `function` in this file; none if it may be called from elsewhere in the project."""
    if script.is_imported_elsewhere(function.name) or _is_a_method_used_elsewhere(script, function):
        return []
    return callers(script, function)


def _is_a_method_used_elsewhere(script: ParsedFile, function: ast.FunctionDef) -> bool:
    is_method = isinstance(script.parent(function), ast.ClassDef)
    return is_method and script.project.uses_attribute(function.name)
