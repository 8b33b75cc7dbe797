"""Modules that are as their constructor has made them, on the CPU: nothing has moved them yet."""

from __future__ import annotations

import ast

from ..inference.values import MODULE
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..syntax import keyword

_STAYING = frozenset(
    "buffers eval load_state_dict named_buffers named_modules named_parameters modules parameters requires_grad_ state_dict"
    " train zero_grad".split()
)
_ASKING = frozenset("callable hasattr id isinstance len print repr str type".split())


def is_as_made(script: ParsedFile, owner: ast.expr, place: ast.AST) -> bool:
    """Return True if `owner`, a local name, is a module that its function made, not moved or passed on before `place`."""
    function = script.function(place)
    if not isinstance(owner, ast.Name) or function is None:
        return False
    found = script.index.scope(owner).find(owner.id)
    reaching = script.reaching(owner)
    if found is None or found[0].node is not function or len(reaching) != 1:
        return False
    (binding,) = reaching
    made = binding.value
    if binding.how != "assign" or binding.path or not isinstance(made, ast.Call):
        return False
    of = _object_of_class(made.func)
    if of is None and any(isinstance(part, ast.Call) for part in walk(made.func)):
        return False  # Net().to(device)
    if not _makes_a_module(script, made) or "set_default_device" in script.source.text:
        return False
    lines = range(made.lineno, getattr(place, "lineno", 0))
    uses = script.index.names_in(function, owner.id)
    return all(_leaves_it(script, use) for use in uses if use.lineno in lines)


def _makes_a_module(script: ParsedFile, made: ast.Call) -> bool:
    """`Net()`, and `cls(...)` in a class method of a possible module, if no device is given."""
    if any(keyword(made, name) is not None for name in ("device", "device_map")):
        return False
    of = _object_of_class(made.func)
    is_own = isinstance(made.func, ast.Name) and made.func.id == "cls"
    is_own = is_own or (isinstance(of, ast.Name) and of.id == "self")
    definition: ast.AST | None = script.value(of if of is not None else made.func).definition
    if of is not None and not is_own:
        return isinstance(definition, ast.ClassDef) and not _moves_itself(definition)
    if is_own:
        definition = script.class_around(made)
    if isinstance(definition, ast.ClassDef) and _moves_itself(definition):
        return False
    return is_own or script.value(made).has(MODULE)


def _object_of_class(func: ast.expr) -> ast.expr | None:
    """The `model` of `type(model)` and `model.__class__`."""
    match func:
        case ast.Call(func=ast.Name(id="type"), args=[of], keywords=[]):
            return of
        case ast.Attribute(value=of, attr="__class__"):
            return of
    return None


def _moves_itself(definition: ast.ClassDef) -> bool:
    """True if the constructor moves something: `self.net = Net().cuda()`."""
    constructors = (
        node
        for node in definition.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    return any(
        isinstance(node, ast.Attribute) and node.attr in {"cuda", "to"}
        for constructor in constructors
        for node in walk(constructor)
    )


def _leaves_it(script: ParsedFile, use: ast.Name) -> bool:
    if isinstance(use.ctx, ast.Store):
        return True
    parent = script.parent(use)
    if isinstance(parent, ast.Call):
        return parent.func is use or getattr(parent.func, "id", "") in _ASKING  # model(x)
    last = parent
    while isinstance(parent, ast.Attribute):  # model.encoder.load_state_dict(...)
        last, parent = parent, script.parent(parent)
    if isinstance(last, ast.Attribute) and isinstance(last.ctx, ast.Del):
        return True
    return isinstance(last, ast.Attribute) and last.attr in _STAYING
