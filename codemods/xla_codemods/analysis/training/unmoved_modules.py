"""Modules that are as their constructor has made them, on the CPU: nothing has moved them yet."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .. import flow
from ..inference.values import MODULE
from ..nodes import walk

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

_STAYING = frozenset({"eval", "load_state_dict", "requires_grad_", "state_dict", "train"})


def is_as_made(script: ParsedFile, owner: ast.expr, place: ast.AST) -> bool:
    """True if `owner`, a local name, is a module that its function has made, and not moved or handed on before `place`."""
    function = script.function(place)
    if not isinstance(owner, ast.Name) or function is None:
        return False
    scope = script.index.scope(owner)
    found = scope.find(owner.id)
    if found is None or found[0].node is not function:
        return False
    reaching = flow.reaching(found[1], owner, found[0], script.parents)
    if len(reaching) != 1:
        return False
    (binding,) = reaching
    made = binding.value
    if binding.how != "assign" or binding.path or not isinstance(made, ast.Call):
        return False
    if any(isinstance(part, ast.Call) for part in walk(made.func)):
        return False  # Net().to(device)
    if not script.value(made).has(MODULE) or "set_default_device" in script.source.text:
        return False
    lines = range(made.lineno, getattr(place, "lineno", 0))
    uses = (n for n, _ in script.index.of(ast.Name) if n.id == owner.id and n.lineno in lines)
    return all(_leaves_it(script, use) for use in uses if script.function(use) is function)


def _leaves_it(script: ParsedFile, use: ast.Name) -> bool:
    if isinstance(use.ctx, ast.Store):
        return True
    parent = script.parent(use)
    return isinstance(parent, ast.Attribute) and parent.attr in _STAYING
