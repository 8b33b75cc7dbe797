"""The uses of CUDA-only names in a file, and the uses that no rule reports."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..catalog import HARMLESS, covering
from ..catalog.families import NEXT, is_cuda_only, may_lead_to_one
from ..edits import DropArgument, DropItem, Edit, Replace, ReplaceStatement, Unwrap
from ..finding import Finding
from .nodes import NAMED
from .parsed_file import ParsedFile
from .scopes import MODULES, STAR_EXPORTS, WHOLLY_KNOWN, Scope, resolve
from .type_tests import asks_for_types

# A statement that imports.
Import = ast.Import | ast.ImportFrom


class Use(NamedTuple):
    """One use: the expression (or import) and the dotted name; `called` if it is the callee of a call.

    Of an import that is `unclear` the name is used, but means something else, too: `try: from a import f`, and `def f`.
    """

    node: ast.expr | Import
    dotted: str
    called: bool
    unclear: bool = False


def left_over(
    script: ParsedFile, found: list[Finding], hears: Callable[[str, bool], bool]
) -> list[Use]:
    """Return the unhandled uses: no finding covers them, and no rule has decided that they may stay.

    If a rule that `hears` a name reports nothing, that counts as handled only if the name is harmless on XLA, or is part of
    a type test whose result is False.
    """
    left = [
        u
        for u in uses(script)
        if not (_is_star(u.node) and _brings_known_names(script, u.dotted))
        and not script.project.is_of_its_package(u.dotted)
    ]
    if not left:
        return []
    covered = Covered(script, found)
    return [
        use
        for use in left
        if use.node not in script.settled
        and not (script.is_annotation(use.node) or covered(use.node))
        and not (hears(use.dotted, use.called) and _may_be_silent(script, use))
    ]


def _may_be_silent(script: ParsedFile, use: Use) -> bool:
    if isinstance(use.node, Import):
        is_idle = not (use.unclear or _is_star(use.node) or is_missing_package(script, use))
        return is_idle and use.dotted.startswith("torch.")
    row = covering(use.dotted)
    if row is None or row.left == HARMLESS:
        return True
    return use.dotted.startswith("torch.") and asks_for_types(script, use.node)


def is_missing_package(script: ParsedFile, use: Use) -> bool:
    """True if `use` imports, for nothing and on no condition, from a package that an XLA host does not have."""
    if not isinstance(use.node, Import) or use.dotted.startswith("torch."):
        return False
    return not any(isinstance(around, ast.If) for around in script.ancestors(use.node))


def _is_star(node: ast.AST) -> bool:
    """`from torch.cuda import *`: which names the file uses is unknown."""
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _brings_known_names(script: ParsedFile, home: str) -> bool:
    """Return True if all names of the module are known and no other star import can hide them."""
    known = STAR_EXPORTS[home] if home in WHOLLY_KNOWN else ()
    return any(script.index.module.dotted(name) == f"{home}.{name}" for name in known)


def uses(script: ParsedFile) -> list[Use]:
    """Return every use of a CUDA-only name in the file, in source order: the longest dotted names, and imports that are
    unused, or whose uses are indistinguishable from another meaning.
    """
    imported = [entry for entry in _imported(script) if may_lead_to_one(entry[2])]
    local = {name for _, name, _ in imported} | _at_module_level(script) | _renamed(script)
    found = list(_expressions(script, local))
    ends = [entry for entry in imported if is_cuda_only(entry[2])]
    if ends:
        named: dict[str, list[Scope]] = {}
        for node, scope in script.index.of(ast.Name):
            named.setdefault(node.id, []).append(scope)
        for statement, name, dotted in ends:
            if name not in named:
                if name == "*" or not script.is_imported_elsewhere(name):
                    found.append(Use(statement, dotted, False))
            elif _is_unclear(named[name], name):
                found.append(Use(statement, dotted, False, unclear=True))
    found.sort(key=lambda use: (use.node.lineno, use.node.col_offset))
    return found


def _is_unclear(scopes: list[Scope], name: str) -> bool:
    """True if no use of the imported `name` can be resolved, though other meanings are imports or definitions, too."""
    if any(scope.dotted(name) for scope in scopes):
        return False
    return any(
        binding.how == "import" for s in scopes if (found := s.find(name)) for binding in found[1]
    )


def _imported(script: ParsedFile) -> Iterator[tuple[Import, str, str]]:
    """Import statements with the local name and the dotted one, as it is called outside of the project."""
    outside = script.module.outside
    for statement, _ in script.index.of(ast.Import):
        for alias in statement.names:
            yield statement, alias.asname or alias.name.partition(".")[0], alias.name
    for source, _ in script.index.of(ast.ImportFrom):
        home = "." * source.level + (source.module or "")
        for alias in source.names:
            if alias.name == "*":
                yield source, "*", home
            else:
                dotted = f"{home}{'' if home.endswith('.') else '.'}{alias.name}"
                yield source, alias.asname or alias.name, outside(dotted)


def _at_module_level(script: ParsedFile) -> set[str]:
    """Return local names of modules that have CUDA-only parts, or that re-export them, even if the import's own line holds no
    trigger word.
    """
    found = {"torch", *script.project_modules}  # imported in a function, too
    for name, bindings in script.module.bindings.items():
        if any(b.how == "import" and may_lead_to_one(b.dotted) for b in bindings):
            found.add(name)
    return found


def _renamed(script: ParsedFile) -> set[str]:
    """`cuda = torch.cuda`: second names of modules."""
    kept = script.cached(_modules_kept)
    return {target.id for target, _ in kept if isinstance(target, ast.Name)}


def _modules_kept(script: ParsedFile) -> list[tuple[ast.expr, str]]:
    """What modules are assigned to that have something of CUDA in them, with their dotted names."""
    return [
        (target, dotted)
        for statement, scope in script.index.of(ast.Assign)
        if isinstance(statement.value, (ast.Name, ast.Attribute, ast.Call))
        and (dotted := resolve(statement.value, scope)) is not None
        and may_lead_to_one(dotted)
        for target in statement.targets
    ]


def _expressions(script: ParsedFile, local: set[str]) -> Iterator[Use]:
    yield from _of_names(script, local)
    kept = {
        ast.unparse(target): dotted
        for target, dotted in script.cached(_modules_kept)
        if isinstance(target, ast.Attribute) and not is_cuda_only(dotted)
    }
    if kept:  # `self.dist = torch.distributed`
        last = {text.rpartition(".")[2] for text in kept}
        for node, _ in script.index.of(ast.Attribute):
            if node.attr in last and isinstance(node.ctx, ast.Load):
                home = kept.get(ast.unparse(node))
                rest = _next(script.parents, node)
                if home is not None and rest is not None and is_cuda_only(f"{home}.{rest}"):
                    whole = _longest(script.parents, node)
                    yield Use(whole, f"{home}.{rest}", False)


def _of_names(script: ParsedFile, local: set[str]) -> Iterator[Use]:
    parents = script.parents
    for name, scope in script.index.of(ast.Name):
        if name.id not in local or not isinstance(name.ctx, ast.Load):
            continue
        base = scope.dotted(name.id)
        following = NEXT.get(base) if base else None
        if name.id in script.project_modules:
            following = None
        if following is not None and _next(parents, name) not in following:
            continue
        whole = _longest(parents, name)
        dotted = resolve(whole, scope)
        if dotted is None or not is_cuda_only(dotted):
            continue
        if is_second_name(parents[whole], whole, dotted, scope):
            continue  # its uses are found by the new name
        if _is_fallback(parents[whole], whole, scope):
            continue  # `getattr(torch, device_type, torch.cuda)`, which is found as a whole
        parent = parents[whole]
        yield Use(whole, dotted, isinstance(parent, ast.Call) and parent.func is whole)


def _longest(parents: dict[ast.AST, ast.AST], node: ast.expr) -> ast.expr:
    """The chain that `node` begins: `torch.cuda.amp` of `torch`, also by `getattr(torch, "cuda").amp`."""
    while _next(parents, node) is not None:
        parent = parents[node]
        assert isinstance(parent, ast.expr)
        node = parent
    return node


def _next(parents: dict[ast.AST, ast.AST], node: ast.expr) -> str | None:
    """The attribute that is taken of `node`."""
    match parents[node]:
        case ast.Attribute(attr=attribute):
            return attribute
        case ast.Call(
            func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(attribute)), *_]
        ) if owner is node:
            return attribute
        case ast.Call(
            func=ast.Name(id="getattr"),
            args=[owner, _, ast.Attribute(value=ast.Name(), attr=attribute)],
        ) if owner is node:
            return attribute
    return None


def _is_fallback(parent: ast.AST, node: ast.expr, scope: Scope) -> bool:
    return (
        isinstance(parent, ast.Call)
        and len(parent.args) == 3
        and parent.args[2] is node
        and resolve(parent, scope) == "torch.cuda"
    )


def is_second_name(parent: ast.AST | None, node: ast.expr, dotted: str, scope: Scope) -> bool:
    """True if `parent` gives the module `node` of torch's another name, which means nothing else: `cuda = torch.cuda`."""
    return (
        isinstance(parent, ast.Assign)
        and parent.value is node
        and dotted in MODULES
        and all(isinstance(t, ast.Name) and scope.dotted(t.id) == dotted for t in parent.targets)
    )


class Covered:
    """True if a finding speaks of a place already, or an edit takes the place away."""

    def __init__(self, script: ParsedFile, found: list[Finding]) -> None:
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
            if isinstance(ancestor, NAMED) and ancestor in self.nodes:
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
    """Return True if `edit` removes its contents, except the holes that may lead to `kept`."""
    if isinstance(edit, DropArgument):
        return True
    if isinstance(edit, Unwrap):
        return not kept.intersection(getattr(edit.node, edit.branch))
    if isinstance(edit, DropItem):
        return edit.item in kept
    return isinstance(edit, (Replace, ReplaceStatement)) and not kept.intersection(edit.holes)
