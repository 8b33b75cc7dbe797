"""Where a file uses CUDA-only names: the longest dotted names, and imports that nothing in the file uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .catalog.families import ROOTS, is_cuda_only
from .names import MODULES, Scope, resolve

if TYPE_CHECKING:
    from .script import Script

Import = ast.Import | ast.ImportFrom


class Use(NamedTuple):
    """One use: the expression (or import) and the dotted name; `called` where it is the callee of a call."""

    node: ast.expr | Import
    dotted: str
    called: bool


def uses(script: Script) -> list[Use]:
    """Every use of a CUDA-only name in the file, in source order."""
    imported = list(_imported(script))
    local = {name for _, name, _ in imported} | _at_module_level(script) | _renamed(script)
    found = list(_expressions(script, local))
    named = {node.id for node, _ in script.index.of(ast.Name)}
    for statement, name, dotted in imported:
        if is_cuda_only(dotted) and (name not in named or name == "*"):
            found.append(Use(statement, dotted, False))
    found.sort(key=lambda use: (use.node.lineno, use.node.col_offset))
    return found


def _imported(script: Script) -> Iterator[tuple[Import, str, str]]:
    """Import statements that may bring CUDA-only names: with the local name, and the dotted one."""
    for statement, _ in script.index.of(ast.Import):
        for alias in statement.names:
            if alias.name.partition(".")[0] in ROOTS:
                yield statement, alias.asname or alias.name.partition(".")[0], alias.name
    for source, _ in script.index.of(ast.ImportFrom):
        module = source.module or ""
        if source.level == 0 and module.partition(".")[0] in ROOTS:
            for alias in source.names:
                dotted = module if alias.name == "*" else f"{module}.{alias.name}"
                yield source, alias.asname or alias.name, dotted


def _at_module_level(script: Script) -> set[str]:
    """Local names of modules that have CUDA-only parts; also where the import's own line holds no trigger word."""
    found = {"torch"}  # imported in a function, too
    for name, bindings in script.module.bindings.items():
        if any(b.how == "import" and b.dotted.partition(".")[0] in ROOTS for b in bindings):
            found.add(name)
    return found


def _renamed(script: Script) -> set[str]:
    """`cuda = torch.cuda`: second names of modules."""
    found: set[str] = set()
    for statement, scope in script.index.of(ast.Assign):
        if (
            isinstance(statement.value, ast.Attribute)
            and resolve(statement.value, scope) in MODULES
        ):
            found.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return found


def _expressions(script: Script, local: set[str]) -> Iterator[Use]:
    parents = script.parents
    for name, scope in script.index.of(ast.Name):
        if name.id not in local or not isinstance(name.ctx, ast.Load):
            continue
        whole: ast.expr = name
        parent = parents[whole]
        while isinstance(parent, ast.Attribute):
            whole, parent = parent, parents[parent]
        dotted = _cuda_only(whole, scope)
        if dotted is not None and not _names_a_module_again(parent, whole, dotted):
            yield Use(whole, dotted, isinstance(parent, ast.Call) and parent.func is whole)


def _cuda_only(node: ast.expr, scope: Scope) -> str | None:
    dotted = resolve(node, scope)
    return dotted if dotted is not None and is_cuda_only(dotted) else None


def _names_a_module_again(parent: ast.AST, node: ast.expr, dotted: str) -> bool:
    """Whether this is `cuda = torch.cuda`, whose uses are found by the new name."""
    return isinstance(parent, ast.Assign) and parent.value is node and dotted in MODULES
