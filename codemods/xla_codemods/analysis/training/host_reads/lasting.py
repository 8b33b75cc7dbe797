"""Expressions with the same value when a call is deferred."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TypeGuard

from ....patterns import Pattern
from ...flow import has_run
from ...inference.values import ARGUMENTS, INSTANCE, LOADER, MODULE, Value
from ...nodes import LOOPS
from ...script import Script
from ...syntax import name_of, root_of
from .sinks import STREAMS

# Names of the options of a command line.
OPTIONS = Pattern(r"^(?:args?|opts?|cfg|conf|config|hparams|FLAGS|flags|options)$")
_LOOKING = frozenset({"get", "items", "keys", "values"})
_LOADER = Pattern(r"loader$|dataset$|(?:^|_)dl$|_set$")


def is_stable(script: Script, node: ast.AST) -> bool:
    """Options, and the lengths of loaders: the same at every evaluation."""
    if script.dotted(node) in STREAMS:
        return True
    match node:
        case ast.Attribute(value=ast.Name(id=name) as owner):
            named = OPTIONS.search(name) or script.value(owner).has(ARGUMENTS)
            is_set = bool(script.index.stores(node.attr))
            return bool(named) and is_bound_once(script, owner) and not is_set
        case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
            root = root_of(inner)
            if not isinstance(root, ast.Name) or not is_bound_once(script, root):
                return False
            return script.value(inner).has(LOADER) or _LOADER.search(name_of(inner)) is not None
    return False


def is_bound_once(script: Script, node: ast.Name) -> bool:
    """True if `node` is the same object until the program ends, or the function that it stands in."""
    bindings = script.bindings(node)
    if all(b.how in {"import", "fallback", "def", "class"} for b in bindings):
        return True
    if len(bindings) > 1 or bindings[0].how not in {"assign", "parameter"}:
        return False
    home = script.index.scope(bindings[0].node).node
    inside = takewhile(lambda around: around is not home, script.ancestors(bindings[0].node))
    return not any(isinstance(around, LOOPS) for around in inside)


def holds_objects(value: Value) -> bool:
    """True for an object that may be another later, and for a list, tuple or dict of such."""
    if value.has(INSTANCE) or value.has(MODULE):
        return True
    inside = (*(value.items or ()), *(value.fields or {}).values())
    parts = (*inside, value.element) if value.element is not None else inside
    return any(map(holds_objects, parts))


def is_set_again(script: Script, node: ast.Attribute) -> bool:
    """True if `self.bar` is set in a loop, or in a function other than the one that makes the object."""
    for store in script.index.stores(node.attr):
        function = script.function(store)
        if function is not None and function.name != "__init__":
            return True
        if any(isinstance(ancestor, LOOPS) for ancestor in script.ancestors(store)):
            return True
    return False


def may_be_changed(script: Script, name: str) -> bool:
    """True if methods of it are called, other than those that look into a dict, or its attributes set."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr not in _LOOKING
        and (isinstance(script.parent(node), ast.Call) or not isinstance(node.ctx, ast.Load))
        for used, _ in script.index.names(name)
        for node in (script.parent(used),)
        if getattr(node, "value", None) is used
    )


def is_bound_before(script: Script, node: ast.Name, call: ast.AST) -> bool:
    """True if `node` has a value in every step: a parameter, of the loop, or of a statement that stands above."""
    around = [call, *script.ancestors(call)]
    for binding in script.bindings(node):
        if binding.how == "parameter":
            return True
        made = script.statement(binding.node)
        while (block := script.parent(made)) not in around and _runs_whole(block):
            made = block
        if made in around:
            if isinstance(made, (ast.For, ast.AsyncFor, ast.With)):
                return True
        elif has_run(made, call, script.parents):
            return not isinstance(made, (*LOOPS, ast.If, ast.Try))
    return False


def _runs_whole(block: ast.AST | None) -> TypeGuard[ast.With]:
    """True for `with autocast():`, whose body runs to its end, or the function ends with its exception."""
    return isinstance(block, ast.With) and not any(
        name_of(getattr(item.context_expr, "func", None)) == "suppress" for item in block.items
    )
