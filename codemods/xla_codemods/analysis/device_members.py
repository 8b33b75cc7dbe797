"""Members of enumerations, and constants in classes, that say "cuda": `Device.CUDA`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .inference.values import CLASS

if TYPE_CHECKING:
    from .parsed_file import ParsedFile

_MEMBER_IS_TEXT = frozenset({"str", "StrEnum"})


class _Members:
    """By class of the file, the names in it that are "cuda" and nothing else."""

    def __init__(self, script: ParsedFile) -> None:
        self.by_class: dict[ast.ClassDef, set[str]] = {}
        for definition, _ in script.index.of(ast.ClassDef):
            given = [pair for statement in definition.body for pair in _given(statement)]
            says = {name for name, value in given if value == "cuda"}
            says -= {name for name, value in given if value != "cuda"}
            if says:
                self.by_class[definition] = says


def is_member_for_cuda(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is such a text: `Device.CUDA` of a class of constants or texts, `Device.CUDA.value` of an Enum."""
    if not isinstance(node, ast.Attribute):
        return False
    members = script.cached(_Members).by_class
    if not members:
        return False
    if node.attr == "value" and isinstance(node.value, ast.Attribute):
        definition = _owner(script, node.value)
        return definition in members and node.value.attr in members[definition]
    definition = _owner(script, node)
    if definition not in members or node.attr not in members[definition]:
        return False
    bases = {ast.unparse(base).rpartition(".")[2] for base in definition.bases}
    return bool(bases & _MEMBER_IS_TEXT) or not any("Enum" in base for base in bases)


def _owner(script: ParsedFile, node: ast.Attribute) -> ast.ClassDef | None:
    value = script.value(node.value)
    is_class = value.has(CLASS) and isinstance(value.definition, ast.ClassDef)
    return value.definition if is_class else None  # type: ignore[return-value]


def _given(statement: ast.stmt) -> list[tuple[str, object]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, getattr(value, "value", None))]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, getattr(value, "value", None))]
    return []
