"""Attributes that the body of a class assigns: `class Env: use_gpu = True`, then `self.use_gpu`."""

from __future__ import annotations

import ast

from .calls import File, Nodes, class_named, owner_of


def of_class_body(file: File, node: ast.Attribute) -> list[ast.expr]:
    """Return what the body of the object's class, or of a base, assigns to the name of the attribute `node`."""
    if node.attr not in file.index.cached(_names_of_classes):
        return []
    owner = owner_of(file, node) or class_named(file, node.value)
    lineage = file.inference.lineage(owner) if owner is not None else ()
    bodies = (file.index.cached(_names_of_classes)[node.attr].get(each) for each in lineage)
    return next(filter(None, bodies), [])


def _names_of_classes(index: Nodes) -> dict[str, dict[ast.ClassDef, list[ast.expr]]]:
    """Return what the bodies of the file's classes assign, by name and class."""
    found: dict[str, dict[ast.ClassDef, list[ast.expr]]] = {}
    for definition, _ in index.of(ast.ClassDef):
        for statement in (s for s in definition.body if isinstance(s, ast.Assign)):
            for target in (t for t in statement.targets if isinstance(t, ast.Name)):
                of_name = found.setdefault(target.id, {})
                of_name.setdefault(definition, []).append(statement.value)
    return found
