"""Names that say "cuda" and nothing else: members of enumerations, constants in classes and modules, of this file or another."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...inference.values import CLASS
from ...scopes import resolve

if TYPE_CHECKING:
    from ...bindings import Binding
    from ...parsed_file import ParsedFile

_MEMBER_IS_TEXT = frozenset({"str", "StrEnum"})


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
    body = definition.body if definition is not None else []
    given = [pair for statement in body for pair in _given(statement)]
    says = {name for name, value in given if value == "cuda"}
    return says - {name for name, value in given if value != "cuda"}


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
    dotted = resolve(node, script.index.scope(node)) if script.project is not None else None
    found = script.project.bound(dotted) if script.project is not None and dotted else None
    return found[0] if found is not None else None


def _given(statement: ast.stmt) -> list[tuple[str, object]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, getattr(value, "value", None))]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, getattr(value, "value", None))]
    return []
