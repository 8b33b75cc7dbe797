"""Who reads a name or an attribute: all of them, or `Blocked` where some are not seen."""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from typing import TYPE_CHECKING, TypeGuard

from .....patterns import Pattern
from .... import flow
from ....inference.unpacking import part
from ....inference.values import ARGUMENTS, ARRAY, INSTANCE, NUMBER, STRING, TENSOR
from ....projects.attribute_uses import (
    AttributeUse,
    is_of_another_class,
    may_be_used_elsewhere,
    uses_elsewhere,
)
from ....scopes import FunctionNode, Scope
from ..blocked import Blocked

if TYPE_CHECKING:
    from ....bindings import Binding
    from ....script import Script

Owner = ast.Name | ast.Attribute
# What options of the command line are called.
OPTIONS = Pattern(r"^(?:args?|opts?|cfg|conf|config|hparams|FLAGS|flags|options)$")
_LISTING = ("asdict", "astuple", "vars")


def home(script: Script, node: ast.Name) -> tuple[Scope, list[Binding], bool]:
    """The function, or module, whose name `node` is, all that binds it, and whether other functions do so, too.

    `Blocked` where other modules may.
    """
    scope = script.index.scope(node)
    found = scope.find(node.id)
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


def loads(script: Script, owner: Scope, name: str) -> list[ast.Name]:
    """Where `name` of `owner` is read, in functions inside, too."""
    return [
        node for node, _ in script.index.names_of(owner, name) if isinstance(node.ctx, ast.Load)
    ]


def _is_of(scope: Scope, name: str, owner: Scope) -> bool:
    found = scope.find(name)
    return found is not None and found[0] is owner


def part_of(target: ast.expr, place: int, length: int) -> ast.expr | None:
    """`b` of `a, b = ...`, which take what stands at `place` of `length`; None where that cannot be seen."""
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != length:
        return None
    if any(isinstance(part, ast.Starred) for part in target.elts):
        return None
    return target.elts[place]


def is_owner(node: ast.expr, script: Script) -> TypeGuard[Owner]:
    """True for what `stores_and_loads` knows: `losses`, `self.losses`, `state.losses` of a class that stands here."""
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Attribute():
            return class_of(script, node) is not None
    return False


def class_of(script: Script, node: ast.Attribute) -> ast.ClassDef | None:
    """The class of this file whose attribute `node` is: of `self.losses`, and of `state.losses`, where `state = State()`."""
    match node.value:
        case ast.Name(id="self"):
            return next((a for a in script.ancestors(node) if isinstance(a, ast.ClassDef)), None)
    value = script.value(node.value)
    definition = value.definition
    if not isinstance(definition, ast.ClassDef) or value.kinds != {INSTANCE}:
        return None
    return definition if script.parents.get(definition) is script.tree else None


def stores_and_loads(
    script: Script, owner: Owner, *, is_known: bool
) -> tuple[object, list[ast.expr | None], list[Owner]]:
    """A name of this function, or `self.losses` of a class: which it is, what it is bound to, and where it is read."""
    if isinstance(owner, ast.Name):
        return _name_stores_and_loads(script, owner)
    definition = class_of(script, owner)
    if definition is None:
        raise Blocked(f"`{ast.unparse(owner)}` is not of this file")
    if not is_known:
        refuse_imported_class(script, definition, owner.attr)
    refuse_listed_attributes(script, definition, owner.attr)
    stored = attribute_stores(script, owner.attr, definition)
    return (definition, owner.attr), stored, [*attributes_read(script, owner.attr, definition)]


def _name_stores_and_loads(
    script: Script, owner: ast.Name
) -> tuple[object, list[ast.expr | None], list[Owner]]:
    """Of a name that is other things elsewhere, as in `losses = np.mean(losses)`, what it is where it is `owner`."""
    scope, bindings, is_shared = home(script, owner)
    read = loads(script, scope, owner.id)
    key: object = (scope, owner.id)
    if not is_shared:
        reached = {load: flow.reaching(bindings, load, scope, script.parents) for load in read}
        known = reached.get(owner) or flow.reaching(bindings, owner, scope, script.parents)
        read = [load for load in read if any(b in known for b in reached[load])]
        found = [b for b in bindings if b in known or any(b in reached[load] for load in read)]
        if len(found) < len(bindings):
            bindings, key = found, (scope, owner.id, *(b.node for b in found))
    return key, [_bound_to(b) for b in bindings], [*read]


def _bound_to(binding: Binding) -> ast.expr | None:
    """`[]` of `losses = []`; of `loss, stats = losses()` the call."""
    if binding.how != "assign":
        return _added(binding.node)
    found = part(binding)
    return binding.value if found is None and isinstance(binding.value, ast.Call) else found


def attribute_stores(script: Script, name: str, definition: ast.ClassDef) -> list[ast.expr | None]:
    """What `x.name` of objects of `definition` is set to in this file; None for what cannot be seen."""
    stored: list[ast.expr | None] = [
        node.value  # `losses: list = field(default_factory=list)`
        for node, scope in script.index.of(ast.AnnAssign)
        if isinstance(scope.node, ast.ClassDef) and getattr(node.target, "id", "") == name
    ]
    for node, scope in script.index.attributes(name):
        if not isinstance(node.ctx, ast.Load):
            if not is_of_another(script, node, scope, definition):
                stored.append(_set_to(script, node))
    return stored or [None]


def is_of_another(
    script: Script, node: ast.Attribute, scope: Scope, definition: ast.ClassDef
) -> bool:
    """True if `node` is an attribute of what is surely no object of `definition`: of the `self` of another class."""
    if script.project is None:
        return False
    use = AttributeUse(node, scope, script.index, script.project.path)
    return is_of_another_class(script.project, definition.name, use)


def _added(statement: ast.AST) -> ast.expr | None:
    """`[loss.item()]` of `losses += [loss.item()]`."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=value):
            return value
    return None


def _set_to(script: Script, node: ast.Attribute) -> ast.expr | None:
    """`[]` of `self.losses = []` and of `self.losses, self.step = [], 0`."""
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
    """Where an attribute called `name` is read, of anything that may be the object in question, of the class `definition`
    where it is known; methods called are none.
    """
    found: list[ast.Attribute] = []
    for node, scope in script.index.attributes(name):
        if not isinstance(node.ctx, ast.Load):
            continue
        parent = script.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            continue
        kinds = script.value(node.value, scope).kinds
        if script.dotted(node, scope) is None and not kinds & {TENSOR, ARRAY, NUMBER, STRING}:
            if definition is None or not is_of_another(script, node, scope, definition):
                found.append(node)
    return found


def is_asked_elsewhere(script: Script, function: FunctionNode) -> bool:
    """True if other modules ask for the property `function` of a class of this file."""
    owner = script.parent(function)
    if not isinstance(owner, ast.ClassDef) or script.project is None:
        return False
    return may_be_used_elsewhere(script.project, owner.name, function.name)


def refuse_imported_class(script: Script, definition: ast.ClassDef, name: str) -> None:
    """Raises `Blocked` where other modules import the class, and have something with an attribute `name`."""
    if not (
        script.is_imported_elsewhere(definition.name) or _is_seen_elsewhere(script, definition)
    ):
        return
    uses = uses_elsewhere(script.project, definition.name, name) if script.project else [None]
    if not all(use is not None and _only_adds(use) for use in uses):
        raise Blocked(f"other modules use `{name}` of `{definition.name}`, too")


def _only_adds(use: AttributeUse) -> bool:
    """`agent.logs["loss"].append(loss)`, `agent.logs["loss"] = 3`, `agent.losses += [loss]`: nothing is asked for."""
    node: ast.AST = use.node
    parent = use.home.parents.get(node)
    while isinstance(parent, ast.Subscript) and parent.value is node:
        node, parent = parent, use.home.parents.get(parent)
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return isinstance(parent, ast.Assign)
    match parent:
        case ast.Attribute(attr="append" | "clear" | "extend"):
            call = use.home.parents.get(parent)
            return isinstance(call, ast.Call) and isinstance(use.home.parents.get(call), ast.Expr)
    return False


def _is_seen_elsewhere(script: Script, definition: ast.ClassDef) -> bool:
    """True if the class derives from another module's, or its objects are handed to functions of other modules."""
    project = script.project
    if project is None:
        return False
    lineage = script.inference.lineage(definition)
    for base in (base for owner in lineage for base in owner.bases):
        if (dotted := script.dotted(base)) is not None and project.has(dotted):
            return True
    for call, scope in script.index.of(ast.Call):
        dotted = script.dotted(call.func, scope)
        if dotted is None or not project.has(dotted):
            continue
        for given in (*call.args, *(k.value for k in call.keywords)):
            if isinstance(given, ast.Name) and _is_one(script, given, scope, lineage):
                return True
    return False


def _is_one(script: Script, name: ast.Name, scope: Scope, lineage: list[ast.ClassDef]) -> bool:
    around = next((a for a in script.ancestors(name) if isinstance(a, ast.ClassDef)), None)
    if name.id == "self":
        return around in lineage
    return script.value(name, scope).definition in lineage


def refuse_listed_attributes(script: Script, definition: ast.ClassDef, asked: str = "") -> None:
    """Raises `Blocked` where the `__dict__` of the class is used, but to format it, its fields are listed, or the
    attribute `asked` is asked for by its name.
    """
    for name in _LISTING:
        for call, scope in script.index.calls_of(name):
            if call.args and not OPTIONS.search(ast.unparse(call.args[0])):
                if not script.value(call.args[0], scope).has(ARGUMENTS):
                    raise Blocked(f"`{name}` lists what objects hold")
    for call, scope in script.index.calls_of("getattr"):
        match call.args:
            case [_, key, *_] if not _may_spell(key, asked):
                continue
            case [owner, *_] if _may_be(script, owner, scope, definition):
                raise Blocked(f"`getattr` may ask for it by its name, of `{ast.unparse(owner)}`")
    for call, _ in script.index.calls_of("attrgetter"):
        if any(asked in str(getattr(a, "value", asked)).split(".") for a in call.args):
            raise Blocked("`attrgetter` may ask for it by its name")
    for node, scope in script.index.of(ast.Attribute):
        if node.attr == "__dict__" and _may_be(script, node.value, scope, definition):
            parent = script.parent(node)
            around = script.parent(parent) if parent is not None else None
            func = getattr(around, "func", None)
            if not (isinstance(func, ast.Attribute) and func.attr == "format"):
                raise Blocked(f"`__dict__` of `{definition.name}` is used")


def _may_spell(key: ast.expr, name: str) -> bool:
    """True if `key` may be the text `name`: `f"suggest_{kind}"` is none of `total`. Any text may be "", which is not known."""
    match key:
        case ast.Constant(value=text):
            return bool(text == name)
        case ast.JoinedStr(values=parts) if name:
            texts = (
                re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".*" for p in parts
            )
            return re.fullmatch("".join(texts), name) is not None
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Add()) if name:
            return name.startswith(text)
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=str(text))) if name:
            return name.endswith(text)
    return True


def _may_be(script: Script, node: ast.expr, scope: Scope, definition: ast.ClassDef) -> bool:
    """True if `node` is an object of the class `definition`, or may be one."""
    around = next((a for a in script.ancestors(node) if isinstance(a, ast.ClassDef)), None)
    if isinstance(node, ast.Name) and node.id == "self" and around is not None:
        return around is definition
    value = script.value(node, scope)
    if value.kinds:
        return value.definition is definition or (value.definition is None and value.has(INSTANCE))
    return script.dotted(node, scope) is None and not OPTIONS.search(ast.unparse(node))


def refuse_shown_meter(
    script: Script, owner: ast.expr, always: Container[ast.AST], *, is_own: bool
) -> None:
    """Raises `Blocked` where the meter itself is shown in every step: that would wait. `is_own`: what it gives when it is
    called is followed.
    """
    if not isinstance(owner, ast.Name):
        return
    for node, _ in script.index.names(owner.id):
        if isinstance(node.ctx, ast.Load) and node in always:
            parent = script.parent(node)
            is_called = is_own and isinstance(parent, ast.Call) and parent.func is node
            if not (isinstance(parent, ast.Attribute) or is_called):
                raise Blocked(f"`{owner.id}` is shown or handed on in every step")
