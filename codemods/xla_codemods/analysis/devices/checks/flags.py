"""Flags and constants that say whether the program runs on CUDA: `on_gpu = device == "cuda"`, `CUDA = "cuda"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....flow.closure import reach
from ....flow.edges import sources
from ....patterns import Pattern
from ...bindings import Binding
from ...inference.library_types import RUNTIME
from ...inference.values import CLASS
from ...parsed_file import ParsedFile
from ...syntax import class_values, is_cuda_string, is_literal, name_of, text_of
from ..availability import asks_availability
from ..specs import Devices, last_name

_NAMED = Pattern(r"cuda|(?<![a-z])(?:gpu|accel)", re.IGNORECASE)
_DEVICES = frozenset({"cpu", "cuda"})


def is_question(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` itself tests for an accelerator: a call, a comparison, `x.is_cuda`."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            devices = [n for n in (left, right) if getattr(n, "value", None) not in _DEVICES]
            return len(devices) == 1 and _is_device(script, devices[0])
        case ast.Call(func=func) if (script.dotted(func) or "").startswith(RUNTIME):
            return name_of(func) in {"is_available", "is_accelerator"}
        case ast.Call():
            return asks_availability(script, node)
    return isinstance(node, ast.Attribute) and node.attr == "is_cuda"


def is_flag(script: ParsedFile, node: ast.AST) -> bool:
    """Return True if `node` is a flag for CUDA by its name, or if a test for CUDA sets it."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    if script.dotted(node):  # `torch.cuda` itself, a module's constant
        return isinstance(node, ast.Name) and asks_availability(script, node)
    name = last_name(node)
    return name is not None and (bool(_NAMED.search(name)) or any(questions_of(script, node)))


def questions_of(script: ParsedFile, flag: ast.AST) -> Iterator[ast.expr]:
    """Yield the questions for an accelerator that set `flag`, in this file."""
    for node in reach([flag], lambda node: _given(script, node)):
        if isinstance(node, ast.expr) and is_question(script, node):
            yield node


def _given(script: ParsedFile, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what makes `node` True: the parts of a condition, and the values of a name."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            yield from values
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            yield inner
        case ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call():
            yield from sources(script, node)


def _is_device(script: ParsedFile, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="type"):
            node = owner
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            node = inner
    return script.cached(Devices).is_device(node)


_MEMBER_IS_TEXT = frozenset({"str", "StrEnum"})


def is_member(script: ParsedFile, node: ast.expr) -> bool:
    """Return True for `Kind.CUDA.value` and `Kind.CUDA` of an enumeration with a member `CUDA = "cuda"`."""
    if isinstance(node, ast.Attribute) and node.attr == "value":
        node = node.value
    definition = _class(script, node.value) if isinstance(node, ast.Attribute) else None
    if definition is None or not any("Enum" in ast.unparse(base) for base in definition.bases):
        return False
    return is_cuda_string(text_of(dict(class_values(definition)).get(name_of(node))) or "")


def is_name_for_cuda(script: ParsedFile, node: ast.expr) -> bool:
    """True for `Device.CUDA` of a class of constants or texts, `Device.CUDA.value` of an Enum, `CUDA = "cuda"`."""
    match node:
        case ast.Attribute(attr="value", value=ast.Attribute(value=owner, attr=name)):
            return name in _says_cuda(_class(script, owner))
        case ast.Attribute(value=owner, attr=name) if name != "value":
            definition = _class(script, owner)
            if definition is None:
                return _is_constant(_elsewhere(script, node))
            if name not in _says_cuda(definition):
                return False
            bases = {ast.unparse(base).rpartition(".")[2] for base in definition.bases}
            return bool(bases & _MEMBER_IS_TEXT) or not any("Enum" in base for base in bases)
        case ast.Name(id=name):
            bindings = script.bindings(node)
            if len(bindings) != 1:
                return False
            is_import = bindings[0].how == "import"
            return _is_constant(_elsewhere(script, node) if is_import else bindings[0])
    return False


def _says_cuda(definition: ast.ClassDef | None) -> set[str]:
    """The names in a class that are "cuda" and nothing else."""
    given = [*class_values(definition)] if definition is not None else []
    others = {name for name, value in given if not is_literal(value, "cuda")}
    return {name for name, _ in given} - others


def _is_constant(binding: Binding | None) -> bool:
    return (
        binding is not None
        and binding.how == "assign"
        and not binding.path
        and getattr(binding.value, "value", None) == "cuda"
    )


def _class(script: ParsedFile, owner: ast.expr) -> ast.ClassDef | None:
    value = script.value(owner)
    if value.has(CLASS) and isinstance(value.definition, ast.ClassDef):
        return value.definition
    binding = _elsewhere(script, owner)
    return binding.node if binding and isinstance(binding.node, ast.ClassDef) else None


def _elsewhere(script: ParsedFile, node: ast.expr) -> Binding | None:
    """What binds `node` in another module of the project."""
    dotted = script.index.dotted(node)
    found = script.project.bound(dotted) if dotted else None
    return found[0] if found is not None else None
