"""Names and attributes that hold a value, and the code that reads them."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, TypeGuard

from .... import flow
from ....inference.unpacking import part
from ....inference.values import ARRAY, INSTANCE, NUMBER, STRING, TENSOR
from ....projects.attribute_uses import AttributeUse, is_of_another_class, uses_elsewhere
from ....scopes import Scope
from ..blocked import Blocked
from .modules import node_at, script_of

if TYPE_CHECKING:
    from ....bindings import Binding
    from ....script import Script

Owner = ast.Name | ast.Attribute


def home(script: Script, node: ast.Name) -> tuple[Scope, list[Binding], bool]:
    """Return the scope that owns the name `node`, its bindings, and whether other functions bind it as well.

    Raises `Blocked` if other modules may bind it.
    """
    found = script.index.scope(node).find(node.id)
    if found is None or isinstance(found[0].node, ast.ClassDef):
        raise Blocked(f"`{node.id}` is not of this function alone")
    owner = found[0]
    if isinstance(owner.node, ast.Module) and script.is_imported_elsewhere(node.id):
        raise Blocked(f"`{node.id}` is imported elsewhere")
    others = [
        binding
        for inner in script.inference.scopes.values()
        if inner is not owner and node.id in inner._globals and _is_of(inner, node.id, owner)
        for binding in inner.bindings.get(node.id, ())
    ]
    return owner, [*owner.bindings.get(node.id, ()), *others], bool(others)


def _is_of(scope: Scope, name: str, owner: Scope) -> bool:
    found = scope.find(name)
    return found is not None and found[0] is owner


def part_of(target: ast.expr, place: int, length: int) -> ast.expr | None:
    """Return `b` of `a, b = ...`: the target at `place` of `length`, or None if that is not known."""
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != length:
        return None
    if any(isinstance(part, ast.Starred) for part in target.elts):
        return None
    return target.elts[place]


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


def stores_and_loads(
    script: Script, owner: Owner
) -> tuple[object, list[ast.expr | None], list[Owner]]:
    """Return a key of the name or attribute `owner`, the values that are stored there, and the reads of it."""
    if isinstance(owner, ast.Attribute):
        definition = class_of(script, owner)
        if definition is None:
            raise Blocked(f"`{ast.unparse(owner)}` is not of this file")
        stored = attribute_stores(script, owner.attr, definition)
        return (definition, owner.attr), stored, [*attributes_read(script, owner.attr, definition)]
    scope, bindings, is_shared = home(script, owner)
    read = script.index.reads_of(scope, owner.id)
    key: object = (scope, owner.id)
    if not is_shared:  # `losses = np.mean(losses)`: two values under one name
        reached = {load: flow.reaching(bindings, load, scope, script.parents) for load in read}
        known = reached.get(owner) or flow.reaching(bindings, owner, scope, script.parents)
        read = [load for load in read if any(b in known for b in reached[load])]
        found = [b for b in bindings if b in known or any(b in reached[load] for load in read)]
        if len(found) < len(bindings):
            bindings, key = found, (scope, owner.id, *(b.node for b in found))
    return key, [_bound_to(b) for b in bindings], [*read]


def _bound_to(binding: Binding) -> ast.expr | None:
    """Return `[]` of `losses = []`; of `loss, stats = losses()` the call."""
    if binding.how != "assign":
        return _added(binding.node)
    found = part(binding)
    return binding.value if found is None and isinstance(binding.value, ast.Call) else found


def attribute_stores(script: Script, name: str, definition: ast.ClassDef) -> list[ast.expr | None]:
    """Return the values that this file stores as `name` in objects of `definition`; None for unknown values."""
    stored: list[ast.expr | None] = [
        node.value  # `losses: list = field(default_factory=list)`
        for node, scope in script.index.of(ast.AnnAssign)
        if isinstance(scope.node, ast.ClassDef) and getattr(node.target, "id", "") == name
    ]
    for node, scope in script.index.attributes(name):
        if not isinstance(node.ctx, ast.Load) and not _is_of_another(
            script, node, scope, definition
        ):
            stored.append(_set_to(script, node))
    return stored or [None]


def _is_of_another(
    script: Script, node: ast.Attribute, scope: Scope, definition: ast.ClassDef
) -> bool:
    """Return True if `node` is certainly an attribute of another class than `definition`."""
    if script.project is None:
        return False
    use = AttributeUse(node, scope, script.index, script.project.path)
    return is_of_another_class(script.project, definition.name, use)


def _added(statement: ast.AST) -> ast.expr | None:
    """Return `[loss.item()]` of `losses += [loss.item()]`."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=value):
            return value
    return None


def _set_to(script: Script, node: ast.Attribute) -> ast.expr | None:
    """Return `[]` of `self.losses = []` and of `self.losses, self.step = [], 0`."""
    match parent := script.parent(node):
        case ast.Assign(value=value, targets=[target]) if target is node:
            return value
        case ast.AnnAssign(value=value):
            return value
        case ast.AugAssign():
            return _added(parent)
        case ast.Tuple(elts=targets):
            match script.parent(parent):
                case ast.Assign(value=ast.Tuple(elts=values), targets=[_]):
                    place = targets.index(node)
                    return values[place] if len(values) == len(targets) else None
    return None


def attributes_read(
    script: Script, name: str, definition: ast.ClassDef | None = None
) -> list[ast.Attribute]:
    """Return the reads of an attribute `name`, of `definition` if that is given, except calls of methods."""
    found: list[ast.Attribute] = []
    for node, scope in script.index.attributes(name):
        if not isinstance(node.ctx, ast.Load):
            continue
        parent = script.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            continue
        kinds = script.value(node.value, scope).kinds
        if script.dotted(node, scope) is None and not kinds & {TENSOR, ARRAY, NUMBER, STRING}:
            if definition is None or not _is_of_another(script, node, scope, definition):
                found.append(node)
    return found


def uses_in_other_modules(
    start: Script, script: Script, definition: ast.ClassDef, name: str
) -> Iterator[tuple[Script, ast.expr]]:
    """Yield the reads of the attribute `name` of the class `definition` of `script` in other modules.

    `start` is the file that is analysed. Raises `Blocked` for a module that cannot be parsed.
    """
    if script is not start:  # objects of third modules get their own numbers
        yield from ((start, node) for node in attributes_read(start, name, definition))
        return
    if script.project is None or not script.is_imported_elsewhere(definition.name):
        return
    for use in uses_elsewhere(script.project, definition.name, name):
        if use is None:
            raise Blocked(f"other modules use `{name}` of `{definition.name}`, too")
        other = script_of(start, use.path)
        node = node_at(other, use.node)
        parent = other.parent(node)
        if not isinstance(parent, ast.Call) or parent.func is not node:
            if isinstance(getattr(node, "ctx", None), ast.Load):
                yield other, node


def is_shown_in_steps(script: Script, owner: ast.expr, steps: Container[ast.AST]) -> bool:
    """Return True if a meter is itself printed or passed on in every step, which would wait."""
    if not isinstance(owner, ast.Name):
        return False
    for node, _ in script.index.names(owner.id):
        if isinstance(node.ctx, ast.Load) and node in steps:
            parent = script.parent(node)
            is_called = isinstance(parent, ast.Call) and parent.func is node
            if not (isinstance(parent, (ast.Attribute, ast.Subscript)) or is_called):
                return True
    return False
