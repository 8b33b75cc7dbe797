"""Names and attributes that hold a deferred value, and the expressions of the file that read them.

Code of other modules that reads one gets a number that resolves itself on use.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeGuard

from ....flow.containers import iterates_keys
from ...bindings import Binding
from ...inference.values import ARRAY, INSTANCE, NUMBER, STRING, TENSOR
from ...projects.attribute_uses import AttributeUse, is_of_another_class, uses_elsewhere
from ...script import Script
from ...syntax import assigned

Owner = ast.Name | ast.Attribute


def is_owner(node: ast.expr, script: Script) -> TypeGuard[Owner]:
    """Return True for `losses`, `self.losses`, and `state.losses` of a class of this file."""
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Attribute():
            return class_of(script, node) is not None
    return False


def class_of(script: Script, node: Owner) -> ast.ClassDef | None:
    """Return the class of this file whose attribute `node` is: of `self.losses`, `state.losses`."""
    if isinstance(node, ast.Name):
        return None
    match node.value:
        case ast.Name(id="self"):
            return script.class_around(node)
    value = script.value(node.value)
    definition = value.definition
    if not isinstance(definition, ast.ClassDef) or value.kinds != {INSTANCE}:
        return None
    return definition if script.parents.get(definition) is script.tree else None


def key_of(script: Script, owner: Owner) -> object:
    """Return a key that is equal for all spellings of the name or attribute `owner`."""
    if isinstance(owner, ast.Attribute):
        return owner.attr
    found = script.index.scope(owner).find(owner.id)
    return (found[0] if found is not None else None, owner.id)


def is_shared(script: Script, node: ast.Name) -> bool:
    """Return True if several functions use the name `node`."""
    scope = script.index.scope(node)
    found = scope.find(node.id)
    if found is None or found[0] is not scope:
        return True
    others = script.inference.scopes.values()
    return any(node.id in s._globals and s.find(node.id) == found for s in others)


def is_read_elsewhere(script: Script, owner: Owner) -> bool:
    """Return True if other modules read the name or attribute."""
    if isinstance(owner, ast.Name):
        found = script.index.scope(owner).find(owner.id)
        is_of_module = found is not None and isinstance(found[0].node, ast.Module)
        return is_of_module and script.is_imported_elsewhere(owner.id)
    definition = class_of(script, owner)
    if definition is None:
        return False
    used = uses_elsewhere(script.project, definition.name, owner.attr)
    return script.is_imported_elsewhere(definition.name) and any(
        use is None or isinstance(use.node.ctx, ast.Load) for use in used
    )


def reads_of(script: Script, owner: Owner, bindings: Sequence[Binding]) -> list[ast.expr]:
    """Return the expressions that read `owner`; of a name those that may see one of `bindings`."""
    if isinstance(owner, ast.Attribute):
        return [*attributes_read(script, owner.attr, class_of(script, owner))]
    loads = script.index.reads(owner)
    if is_shared(script, owner):
        return [*loads]
    return [load for load in loads if any(b in bindings for b in script.reaching(load))]


def stored_in(script: Script, owner: Owner) -> list[ast.expr | None]:
    """Return the values that `owner` may have, None for an unknown one."""
    if isinstance(owner, ast.Attribute):
        definition = class_of(script, owner)
        return [None] if definition is None else attribute_stores(script, owner.attr, definition)
    bindings = script.bindings(owner) if is_shared(script, owner) else script.reaching(owner)
    return [_bound_to(binding) for binding in bindings] or [None]


def _bound_to(binding: Binding) -> ast.expr | None:
    """Return `[]` of `losses = []`, and `[loss.item()]` of `losses += [loss.item()]`."""
    return binding.whole if binding.how == "assign" else _added(binding.node)


def attribute_stores(script: Script, name: str, definition: ast.ClassDef) -> list[ast.expr | None]:
    """Return the values that this file stores as `name` in objects of `definition`."""
    stored: list[ast.expr | None] = [
        node.value  # `losses: list = field(default_factory=list)`
        for node, scope in script.index.of(ast.AnnAssign)
        if isinstance(scope.node, ast.ClassDef) and getattr(node.target, "id", "") == name
    ]
    stored += [
        _set_to(script, node)
        for node, scope in script.index.attributes(name)
        if not isinstance(node.ctx, ast.Load) and not is_of_another(script, node, definition)
    ]
    return stored or [None]


def is_of_another(script: Script, node: ast.Attribute, definition: ast.ClassDef) -> bool:
    """Return True if `node` is certainly an attribute of another class than `definition`."""
    use = AttributeUse(node, script.index)
    return is_of_another_class(script.project, definition.name, use)


def _added(statement: ast.AST) -> ast.expr | None:
    match statement:
        case ast.AugAssign(op=ast.Add(), value=value):
            return value
    return None


def _set_to(script: Script, node: ast.Attribute) -> ast.expr | None:
    """Return `[]` of `self.losses = []` and of `self.losses, self.step = [], 0`."""
    match statement := script.statement(node):
        case ast.Assign(value=value, targets=[target]):
            return next((part for one, part in assigned(target, value) if one is node), None)
        case ast.AnnAssign(value=value):
            return value
    return _added(statement)


def attributes_read(
    script: Script, name: str, definition: ast.ClassDef | None = None
) -> list[ast.Attribute]:
    """Return the reads of an attribute `name`, of `definition` if given, except method calls."""
    found: list[ast.Attribute] = []
    for node, _ in script.index.attributes(name):
        parent = script.parent(node)
        is_called = isinstance(parent, ast.Call) and parent.func is node
        if not isinstance(node.ctx, ast.Load) or is_called:
            continue
        kinds = script.value(node.value).kinds
        if script.dotted(node) is None and not kinds & {TENSOR, ARRAY, NUMBER, STRING}:
            if definition is None or not is_of_another(script, node, definition):
                found.append(node)
    return found


def part_of(target: ast.expr, place: int, length: int) -> ast.expr | None:
    """Return `b` of `a, b = ...`: the target at `place` of `length`, or None if it is unknown."""
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != length:
        return None
    if any(isinstance(part, ast.Starred) for part in target.elts):
        return None
    return target.elts[place]


def is_container(node: ast.expr | None) -> bool:
    """Return True for a new list or dict."""
    match node:
        case ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return True
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add(), right=right):
            return isinstance(left, ast.List) or isinstance(right, ast.List)  # [0.0] * 3
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[] | [ast.GeneratorExp()]):
            return True
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field"), keywords=given):
            made = [k.value for k in given if k.arg == "default_factory"]  # of a dataclass
            return [getattr(m, "id", "") for m in made] in (["list"], ["dict"])
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in {"Counter", "defaultdict", "deque", "fromkeys", "OrderedDict"}
    return False


def is_a_dict(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a dict: what is stored there is one, or it is indexed by its elements."""
    if script.value(node).fields is not None:
        return True
    loop = script.parent(node)
    return loop is not None and iterates_keys(script, loop)
