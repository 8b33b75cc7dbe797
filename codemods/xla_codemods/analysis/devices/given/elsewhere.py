"""Values of settings and enumerations that name a device, and that the file itself does not turn into one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...inference.values import DEVICE, STRING
from ...syntax import is_cuda_string, name_of
from .filled_fields import is_filled_field

if TYPE_CHECKING:
    from ...script import Script


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
    known = script.value(part).kinds or script.value(owner).kinds
    return not known and script.dotted(owner) is None and not is_made_device(script, part)


def is_filled(script: Script, part: ast.expr) -> bool:
    """Return True if `part` is a field that a file of settings or a command line fills with a text."""
    return is_filled_field(script, part) and not is_made_device(script, part)


def is_member(script: Script, given: ast.expr) -> bool:
    """`Kind.CUDA.value`, of an enumeration of this file whose member is `CUDA = "cuda"`."""
    if isinstance(given, ast.Attribute) and given.attr == "value":
        given = given.value
    if not isinstance(given, ast.Attribute):
        return False
    owner = script.value(given.value).definition
    return isinstance(owner, ast.ClassDef) and any(
        isinstance(member, ast.Assign)
        and ast.unparse(member.targets[0]) == given.attr
        and isinstance(member.value, ast.Constant)
        and is_cuda_string(str(member.value.value))
        and any("Enum" in ast.unparse(base) for base in owner.bases)
        for member in owner.body
    )


def is_made_device(script: Script, given: ast.expr) -> bool:
    """True if the file puts a torch.device in its place: `args.device = torch.device(...)`."""
    text = ast.unparse(given)
    short = ".".join(text.split(".")[-2:])  # `args.device` and `self.args.device` are one
    for spelling in (text, short):
        for statement, scope in script.index.assignments(spelling):
            value = script.value(statement.value, scope)
            if value.has(DEVICE) and not value.has(STRING):
                return True
    return False


def is_settings(node: ast.expr) -> bool:
    """True if `node` is called like options or an object's own: `args`, `cfg`, `self`, `self.config`."""
    name = name_of(node)
    if name.isupper() and isinstance(node, ast.Attribute):  # yacs: `cfg.MODEL`
        return is_settings(node.value)
    return name.lower().lstrip("_") in _SETTINGS


_SETTINGS = frozenset(
    "self cls args arg opt opts options option cfg conf config configs hparams hps hp params settings flags exp_config".split()
)
