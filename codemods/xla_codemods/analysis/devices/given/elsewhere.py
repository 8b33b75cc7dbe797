"""Values of settings and enumerations that name a device, and that the file itself does not turn into one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...frameworks.arguments import TRAINERS
from ...index import Tree
from ...inference.values import DEVICE, GIVEN, STRING
from ...projects.callees import derives
from ...script import Script
from ...syntax import keyword, name_of
from ..specs import is_device_name

# Fields of settings that name a device and that something outside the code fills: a YAML file, a command line.


def is_filled_field(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a field `device: str` of an object whose class is filled from outside the code."""
    if not isinstance(node, ast.Attribute) or not is_device_name(node.attr):
        return False
    definition = script.value(node.value).definition
    return (
        isinstance(definition, ast.ClassDef)
        and _is_text_field(definition, node.attr)
        and (definition.name, node.attr) in script.cached(_filled)
    )


def _is_text_field(definition: ast.ClassDef, name: str) -> bool:
    return any(
        isinstance(field, ast.AnnAssign)
        and ast.unparse(field.target) == name
        and "str" in ast.unparse(field.annotation)
        for field in definition.body
    )


def _filled(script: Script) -> frozenset[tuple[str, str]]:
    """Return the classes of this file with each device field that may hold what the code does not say."""
    found: set[tuple[str, str]] = set()
    for definition, _ in script.index.of(ast.ClassDef):
        for field in definition.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                name = field.target.id
                if (
                    is_device_name(name)
                    and not _is_converted(script, definition, name)
                    and any(_fillings(script, definition, name))
                ):
                    found.add((definition.name, name))
    return frozenset(found)


def _is_converted(script: Script, definition: ast.ClassDef, field: str) -> bool:
    """Return True if the class itself assigns the field, as a `__post_init__` does that makes it a device."""
    assigned = script.index.assignments(f"self.{field}")
    return any(definition in script.ancestors(statement) for statement, _ in assigned)


def _fillings(script: Script, definition: ast.ClassDef, field: str) -> Iterator[bool]:
    """Yield for each use of the class if it fills `field` with what the code does not say."""
    yield script.project.wants(definition.name)
    for node, _ in script.index.names(definition.name):
        yield _fills(script, node, field)
    for node, _ in script.index.names("cls"):
        if definition in script.ancestors(node):
            yield _fills(script, node, field)
    yield any(_is_an(script, each, definition) for each in script.cached(_filled_by_name))


def _is_an(script: Script, node: ast.expr, definition: ast.ClassDef) -> bool:
    """Return True if `node` is an instance of the class, also `self` in its methods."""
    made = script.value(node).definition
    if made is None and isinstance(node, ast.Name) and node.id == "self":
        made = script.class_around(node)
    return made is definition


def _filled_by_name(script: Script) -> list[ast.expr]:
    """Return the objects whose fields are set by names that are data: `setattr(args, key, value)`."""
    found = []
    for call, _ in (*script.index.calls_of("setattr"), *script.index.calls_of("replace")):
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[owner, name, _]):
                if not isinstance(name, ast.Constant):
                    found.append(owner)
            case ast.Call(args=[owner], keywords=keywords) if any(k.arg is None for k in keywords):
                found.append(owner)
    for call, _ in script.index.calls_of("update"):
        match call.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="vars"), args=[owner])):
                found.append(owner)
            case ast.Attribute(value=ast.Attribute(value=owner, attr="__dict__")):
                found.append(owner)
    return found


def _fills(script: Script, name: ast.Name, field: str) -> bool:
    parent = script.parent(name)
    if isinstance(parent, ast.Call) and parent.func is name:
        given = keyword(parent, field)
        if given is not None:
            value = script.value(given)
            return not isinstance(given, ast.Constant) and (not value.kinds or value.has(GIVEN))
        spread = any(argument.arg is None for argument in parent.keywords)
        return spread or any(isinstance(argument, ast.Starred) for argument in parent.args)
    if isinstance(parent, ast.arg):  # `@pyrallis.wrap()` makes it from the annotation
        function = script.parent(script.parent(parent) or parent)
        return bool(getattr(function, "decorator_list", ()))
    return isinstance(parent, (ast.Call, ast.keyword, ast.Tuple, ast.List))


def is_from_elsewhere(script: Script, part: ast.expr) -> bool:
    """`cfg.device` in a file that trains and does not define `cfg`."""
    match part:
        case (
            ast.Attribute(value=owner, attr=name)
            | ast.Subscript(value=owner, slice=ast.Constant(value=str(name)))
        ):
            pass
        case _:
            return False
    if name.lower() != "device" or not is_settings(owner) or not script.trains:
        return False
    if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
        return False
    if _are_of_a_trainer(script, owner):
        return False
    known = script.value(part).kinds or script.value(owner).kinds
    if known or script.dotted(owner) is not None or is_made_device(script, part):
        return False
    others = sorted(script.project.programs & script.project.modules.with_word(name))
    homes = filter(None, map(script.project.modules.whole, others))
    return not any(is_made_device(home, part) for home in homes)


def _are_of_a_trainer(script: Script, owner: ast.expr) -> bool:
    """Return True for `self.args` of a subclass of transformers' Trainer, whose device is the one that it trains on."""
    definition = script.class_around(owner)
    if definition is None or ast.unparse(owner) != "self.args":
        return False
    return derives(script, definition, TRAINERS.__contains__)


def is_filled(script: Script, part: ast.expr) -> bool:
    """Return True if `part` is a field that a file of settings or a command line fills with a text."""
    return is_filled_field(script, part) and not is_made_device(script, part)


def is_made_device(home: Tree, given: ast.expr) -> bool:
    """True if the module puts a torch.device in its place: `args.device = torch.device(...)`."""
    text = ast.unparse(given)
    short = ".".join(text.split(".")[-2:])  # `args.device` and `self.args.device` are one
    found = (home.index.assignments(spelling) for spelling in (text, short))
    values = (home.value(statement.value, scope) for each in found for statement, scope in each)
    return any(value.has(DEVICE) and not value.has(STRING) for value in values)


def is_settings(node: ast.expr) -> bool:
    """True if `node` is called like options or an object's own: `args`, `cfg`, `self`, `self.config`, `train_cfg`."""
    name = name_of(node)
    if name.isupper() and isinstance(node, ast.Attribute):  # yacs: `cfg.MODEL`
        return is_settings(node.value)
    name = name.lower().lstrip("_")
    return name in _SETTINGS or name.rpartition("_")[2] in _PARTS_OF_SETTINGS


_SETTINGS = frozenset(
    "self cls args arg opt opts options option cfg conf config configs hparams hps hp params settings flags".split()
)
_PARTS_OF_SETTINGS = frozenset(
    "args opts options cfg conf config configs hparams settings flags".split()
)
