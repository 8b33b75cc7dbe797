"""Where a file uses CUDA-only names, and which of these uses no rule speaks of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .catalog.families import NEXT, is_cuda_only, may_lead_to_one
from .edits import DropArgument, DropItem, Edit, Replace, ReplaceStatement, Unwrap
from .findings import Finding
from .names import MODULES, STAR_EXPORTS, WHOLLY_KNOWN, resolve

if TYPE_CHECKING:
    from .script import Script

Import = ast.Import | ast.ImportFrom
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Use(NamedTuple):
    """One use: the expression (or import) and the dotted name; `called` where it is the callee of a call."""

    node: ast.expr | Import
    dotted: str
    called: bool


def left_over(
    script: Script, found: list[Finding], hears: Callable[[str, bool], bool]
) -> list[Use]:
    """The uses that no finding covers, of names that no rule listens to: its silence would mean something."""
    left = [
        u
        for u in uses(script)
        if not (_is_star(u.node) and _brings_known_names(script, u.dotted))
        and (_is_star(u.node) or is_missing_package(script, u) or not hears(u.dotted, u.called))
    ]
    if not left:
        return []
    covered = _Covered(script, found)
    return [use for use in left if not (script.is_annotation(use.node) or covered(use.node))]


def is_missing_package(script: Script, use: Use) -> bool:
    """Whether `use` imports, for nothing and on no condition, from a package that an XLA host does not have."""
    if not isinstance(use.node, Import) or use.dotted.startswith("torch."):
        return False
    return not any(isinstance(around, ast.If) for around in script.ancestors(use.node))


def _is_star(node: ast.AST) -> bool:
    """`from torch.cuda import *`: what is used of it cannot be told."""
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _brings_known_names(script: Script, home: str) -> bool:
    """But for a module all of whose names are known, where no other star import may hide them."""
    known = STAR_EXPORTS[home] if home in WHOLLY_KNOWN else ()
    return any(script.index.module.dotted(name) == f"{home}.{name}" for name in known)


def uses(script: Script) -> list[Use]:
    """Every use of a CUDA-only name in the file, in source order: the longest dotted names, and unused imports."""
    imported = [entry for entry in _imported(script) if may_lead_to_one(entry[2])]
    local = {name for _, name, _ in imported} | _at_module_level(script) | _renamed(script)
    found = list(_expressions(script, local))
    unused = [entry for entry in imported if is_cuda_only(entry[2])]
    if unused:
        named = {node.id for node, _ in script.index.of(ast.Name)}
        for statement, name, dotted in unused:
            if name == "*" or not (name in named or script.is_imported_elsewhere(name)):
                found.append(Use(statement, dotted, False))
    found.sort(key=lambda use: (use.node.lineno, use.node.col_offset))
    return found


def _imported(script: Script) -> Iterator[tuple[Import, str, str]]:
    """Import statements with the local name and the dotted one."""
    for statement, _ in script.index.of(ast.Import):
        for alias in statement.names:
            yield statement, alias.asname or alias.name.partition(".")[0], alias.name
    for source, _ in script.index.of(ast.ImportFrom):
        if source.level == 0 and source.module:
            for alias in source.names:
                dotted = source.module if alias.name == "*" else f"{source.module}.{alias.name}"
                yield source, alias.asname or alias.name, dotted


def _at_module_level(script: Script) -> set[str]:
    """Local names of modules that have CUDA-only parts; also where the import's own line holds no trigger word."""
    found = {"torch"}  # imported in a function, too
    for name, bindings in script.module.bindings.items():
        if any(b.how == "import" and may_lead_to_one(b.dotted) for b in bindings):
            found.add(name)
    return found


def _renamed(script: Script) -> set[str]:
    """`cuda = torch.cuda`: second names of modules."""
    found: set[str] = set()
    for statement, scope in script.index.of(ast.Assign):
        value = statement.value
        if isinstance(value, ast.Attribute) and value.attr in _LAST_OF_MODULES:
            if resolve(value, scope) in MODULES:
                found.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return found


_LAST_OF_MODULES = frozenset(name.rpartition(".")[2] for name in MODULES)


def _expressions(script: Script, local: set[str]) -> Iterator[Use]:
    parents = script.parents
    for name, scope in script.index.of(ast.Name):
        if name.id not in local or not isinstance(name.ctx, ast.Load):
            continue
        whole: ast.expr = name
        parent = parents[whole]
        base = scope.dotted(name.id)
        following = NEXT.get(base) if base else None
        if following is not None and not (
            isinstance(parent, ast.Attribute) and parent.attr in following
        ):
            continue
        while isinstance(parent, ast.Attribute):
            whole, parent = parent, parents[parent]
        dotted = resolve(whole, scope)
        if dotted is None or not is_cuda_only(dotted):
            continue
        if isinstance(parent, ast.Assign) and parent.value is whole and dotted in MODULES:
            continue  # `cuda = torch.cuda`: its uses are found by the new name
        yield Use(whole, dotted, isinstance(parent, ast.Call) and parent.func is whole)


class _Covered:
    """Whether a finding speaks of a place already, or an edit takes the place away."""

    def __init__(self, script: Script, found: list[Finding]) -> None:
        self.script = script
        self.nodes = {finding.node for finding in found}
        self.open = {finding.node for finding in found if not finding.edits}
        self.gone: dict[ast.AST, list[Edit]] = {}
        for finding in found:
            for edit in finding.edits:
                node = edit.argument if isinstance(edit, DropArgument) else edit.node
                self.gone.setdefault(node, []).append(edit)

    def __call__(self, node: ast.AST) -> bool:
        if any(part in self.nodes for part in _parts(node)):
            return True
        parent = self.script.parent(node)
        if parent in self.nodes and isinstance(
            parent, (ast.Call, ast.Attribute, ast.Subscript, ast.withitem)
        ):
            return True
        kept = {node}
        within_statement = True
        for ancestor in self.script.ancestors(node):
            if within_statement and ancestor in self.open:
                return True
            if isinstance(ancestor, _DEFINITIONS) and ancestor in self.nodes:
                return True
            if any(_takes_away(edit, kept) for edit in self.gone.get(ancestor, ())):
                return True
            within_statement = within_statement and not isinstance(ancestor, ast.stmt)
            kept.add(ancestor)
        return False


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """`a.b.c`, `a.b`, `a`."""
    while True:
        yield node
        if not isinstance(node, ast.Attribute):
            return
        node = node.value


def _takes_away(edit: Edit, kept: set[ast.AST]) -> bool:
    """Whether `edit` removes what stands in it: but for its holes, through which `kept` may lead."""
    if isinstance(edit, DropArgument):
        return True
    if isinstance(edit, Unwrap):
        return not kept.intersection(getattr(edit.node, edit.branch))
    if isinstance(edit, DropItem):
        return edit.item in kept
    return isinstance(edit, (Replace, ReplaceStatement)) and not kept.intersection(edit.holes)
