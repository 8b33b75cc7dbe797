"""Imports after the edits: the runtime's is added, those that only removed CUDA code used are dropped."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Sequence

from ..analysis.devices.cuda_only.presence import SysModules
from ..analysis.inference.library_types import RUNTIME, VENDORED
from ..analysis.nodes import NAMED, children, walk
from ..analysis.parsed_file import RUNTIME_IMPORT, ParsedFile
from ..analysis.scopes import STAR_EXPORTS, WHOLLY_KNOWN
from ..analysis.syntax import imported_as, imported_modules, is_pure, packages, text_of, used_names
from ..edits import DropAlias, Edit, ReplaceStatement, remove
from ..source import Source
from .chunks import first_line, last_line
from .optional_torch import inserted, insertions, is_imported, late_imports
from .presence_flags import only_complains, presence_imports, settled_flags
from .rewrite import rewrite

_HOMES = frozenset("torch torchvision apex timm transformers deepspeed bitsandbytes".split())
_IMPORTS = (ast.Import, ast.ImportFrom)


def tidy_imports(text: str, script: ParsedFile) -> str:
    """`text`, the edited source of `script`, with its imports brought up to date."""
    source = script.source.edited(text)
    while edits := list(_unused(source.tree, script)):
        parents = {child: node for node in walk(source.tree) for child in children(node)}
        done = rewrite(source, edits, parents).text
        if done == text:
            break
        text = done
        source = source.edited(text)
    return _with_imports(source, script)


def _with_imports(source: Source, script: ParsedFile) -> str:
    """`source` with what the new text in it needs: other modules, and the runtime."""
    wanted = [
        f"import {module}"
        for module in sorted(script.needed)
        if _is_used(module.rpartition(" as ")[2], source) and not _binds(source.tree, module)
    ]
    source = _without_late_imports(source, script.xla)
    if _is_used(script.xla, source) and not is_imported(source.tree, script.xla):
        places = insertions(source.tree, script.tree, script.xla, _brings_torch)
        if places:
            source = source.edited(inserted(source, places, script.xla))
        else:
            wanted.append(f"{RUNTIME_IMPORT}{script.xla}")
    if not wanted:
        return source.text
    line = after_imports(source.tree, script)
    lines = list(source.lines)
    imports = [node for node in source.tree.body if isinstance(node, _IMPORTS)]
    placed = _among_the_others(wanted, imports, line)
    if not imports:
        while line and not lines[line - 1].strip():
            line -= 1  # where those were that are gone
    if all(getattr(node, "module", "") == "__future__" for node in imports):
        _set_apart(wanted, source, line, script)
    elif len(wanted) == 1 and wanted[0].startswith(RUNTIME_IMPORT):
        _make_a_section(wanted, imports, line)
    if line and not lines[line - 1].endswith(("\n", "\r")):
        lines[line - 1] += source.newline
    lines[line:line] = [text + source.newline for text in wanted]
    for place, text in reversed(placed):
        lines[place:place] = [text + source.newline]
    return "".join(lines)


def _without_late_imports(source: Source, name: str) -> Source:
    """Return `source` without the runtime's imports in functions that use it before them, since a module's import serves both."""
    late = late_imports(source.tree, name) if _is_used(name, source) else []
    edits: list[Edit] = []
    for node in late:
        aliases = node.names if isinstance(node, _IMPORTS) else []
        named = [alias for alias in aliases if imported_as(alias) == name]
        drops = [DropAlias(node, alias) for alias in named]  # type: ignore[arg-type]
        edits += drops if len(named) < len(aliases) else [remove(node)]
    if not edits:
        return source
    parents = {child: node for node in walk(source.tree) for child in children(node)}
    return source.edited(rewrite(source, edits, parents).text)


def _among_the_others(
    wanted: list[str], imports: Sequence[ast.Import | ast.ImportFrom], line: int
) -> list[tuple[int, str]]:
    """Move imports of the standard library and of torch out of `wanted`: each with the line after which isort places it.

    They stay if the file has no such imports before `line`: of the standard library anywhere, for torch in the last section.
    """
    before = [
        n for n in imports if last_line(n) <= line and getattr(n, "module", "") != "__future__"
    ]
    library = [node for node in before if _is_of_the_library(node)]
    last = [node for node in _last_section(before) if node not in library]
    found = []
    for text in tuple(wanted):
        is_library = _is_of_the_library(ast.parse(text).body[0])
        if own := library if is_library else last if text == "import torch" else []:
            wanted.remove(text)
            later = (n for n in own if isinstance(n, ast.ImportFrom) or ast.unparse(n) > text)
            place = next((first_line(node) - 1 for node in later), last_line(own[-1]))
            found.append((place, text))
    return sorted(found)


def _last_section(
    imports: Sequence[ast.Import | ast.ImportFrom],
) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports at the end that no other line parts."""
    start = len(imports) - 1
    while start > 0 and last_line(imports[start - 1]) + 1 == first_line(imports[start]):
        start -= 1
    return list(imports[max(start, 0) :])


def _set_apart(wanted: list[str], source: Source, line: int, script: ParsedFile) -> None:
    """The blank lines around what takes the place of the only imports that a file had."""
    if not any(isinstance(node, _IMPORTS) for node in script.tree.body):
        return
    if line and line in {last_line(node) for node in source.tree.body if _is_prelude(node)}:
        wanted.insert(0, "")
    before = _blank_lines(script.source.lines, after_imports(script.tree, script))
    if source.lines[line:]:
        wanted += [""] * (before - _blank_lines(source.lines, line))


def _blank_lines(lines: list[str], line: int) -> int:
    """How many blank lines follow the line `line` (from 1)."""
    after = line
    while after < len(lines) and not lines[after].strip():
        after += 1
    return after - line


def _is_prelude(node: ast.stmt) -> bool:
    return _is_docstring(node) or getattr(node, "module", "") == "__future__"


def _is_used(name: str, source: Source) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\.", source.text) is not None


def _binds(tree: ast.Module, module: str) -> bool:
    """True if the file imports `module` under its own name, or `module as name` so."""
    dotted, _, local = module.partition(" as ")
    return any(
        isinstance(node, ast.Import)
        and any(a.name == dotted and (a.asname or "") == local for a in node.names)
        for node in tree.body
    )


def _make_a_section(
    wanted: list[str], imports: Sequence[ast.Import | ast.ImportFrom], line: int
) -> None:
    """Set the runtime's import apart from the standard library's before it, and from relative ones after it."""
    before = [node for node in imports if last_line(node) <= line]
    if before and all(map(_is_of_the_library, before)):
        wanted.insert(0, "")
    elif imports[0].lineno == line + 1 and getattr(imports[0], "level", None):
        wanted.append("")


def _is_of_the_library(node: ast.stmt) -> bool:
    """Return True for imports of the standard library."""
    names = packages(node)
    return bool(names) and names <= sys.stdlib_module_names


def after_imports(tree: ast.Module, script: ParsedFile) -> int:
    """The line (from 1) behind which a new import goes.

    Behind the run of imports that holds torch's own, so that what a script sets before torch is imported
    (environment variables) stays before; never before the docstring and `__future__`.
    """
    imports = [k for k, node in enumerate(tree.body) if isinstance(node, _IMPORTS)]
    anchor = next((k for k in imports if _brings_torch(tree.body[k])), None)
    if anchor is None:
        anchor = _place_without_torch(tree, imports, script)
        if anchor is not None and getattr(tree.body[anchor], "level", None):
            return tree.body[anchor].lineno - 1
    if anchor is None:
        first = 1 if tree.body and _is_docstring(tree.body[0]) else 0
        return (
            last_line(tree.body[0]) if first else (first_line(tree.body[0]) - 1 if tree.body else 0)
        )
    anchor = _last_before_the_runtime(tree, anchor)
    line = last_line(tree.body[anchor])
    behind = tree.body[anchor + 1 : anchor + 2]
    if behind and behind[0].lineno == line:  # `import numpy; numpy.random.seed(0)`
        return _begins_its_line(tree, anchor)
    return line


def _place_without_torch(tree: ast.Module, imports: list[int], script: ParsedFile) -> int | None:
    """Return the index of the first import of another package, else the last of the standard library's first ones."""
    library = None
    for k in imports:
        node = tree.body[k]
        if _is_of_the_library(node) or getattr(node, "module", "") == "__future__":
            library = k if library in {None, k - 1} else library
        elif not getattr(node, "level", None) and not _is_of_the_project(node, script):
            return k
    if library is None or getattr(tree.body[library], "module", "") != "__future__":
        return library if library is not None or not imports else imports[0]
    return imports[0]


def _is_of_the_project(node: ast.stmt, script: ParsedFile) -> bool:
    locate, names = script.project.modules.locate, imported_modules(node)
    return any(locate(name, script.path) for name in names if not name.startswith("."))


def _last_before_the_runtime(tree: ast.Module, anchor: int) -> int:
    """Return the index of the import after which isort places the runtime's, in the section of `anchor`."""
    last = anchor
    while last + 1 < len(tree.body) and isinstance(tree.body[last + 1], _IMPORTS):
        if tree.body[last + 1].lineno > last_line(tree.body[last]) + 1:
            break
        last += 1
    section = tree.body[anchor : last + 1]
    kinds = [isinstance(node, ast.ImportFrom) for node in section]
    is_mixed = kinds != sorted(kinds)  # isort's `force_sort_within_sections`
    later = (k for k, node in enumerate(section) if k and _sorts_after_the_runtime(node, is_mixed))
    return anchor + next(later, len(section)) - 1


def _sorts_after_the_runtime(node: ast.stmt, is_mixed: bool) -> bool:
    package = RUNTIME.partition(".")[0]
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").lower() > package
    return is_mixed and isinstance(node, ast.Import) and node.names[0].name.lower() > package


def _begins_its_line(tree: ast.Module, anchor: int) -> int:
    """The line before that of the statement `anchor`, where something that is no import shares it."""
    first = tree.body[anchor].lineno
    while anchor and last_line(tree.body[anchor - 1]) >= first:
        anchor -= 1
        first = tree.body[anchor].lineno
    return first - 1


def _brings_torch(node: ast.stmt) -> bool:
    return not _HOMES.isdisjoint(packages(node))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and text_of(node.value) is not None


def _unused(tree: ast.Module, script: ParsedFile) -> Iterator[Edit]:
    """Edits that drop what the source imported and used, and now does not use."""
    before, after = script.cached(_used_before), used_names(tree)
    yield from _idle_stars(tree, script, before - after, after)
    yield from _idle_submodules(tree, script)
    of_origin = _of_origin(tree, script)
    gone = (
        before - after | {imported_as(alias) for node in of_origin for alias in node.names} - after
    )
    gone = {name for name in gone if not script.is_imported_elsewhere(name)}
    if not gone:
        return
    dropped: dict[ast.stmt, list[ast.alias]] = {}
    modules = SysModules(tree, script)
    answered = dict(settled_flags(tree, script, gone, after))
    yield from (ReplaceStatement(guard, text) for guard, text in answered.items())
    nodes = walk(tree)
    telling = {s for node in nodes if isinstance(node, ast.Try) for s in presence_imports(node)}
    for node in nodes:
        if isinstance(node, _IMPORTS) and node not in telling:
            going = [
                a for a in node.names if imported_as(a) in gone and not modules.looks_for(node, a)
            ]
            aliases = [a for a in going if node in of_origin or _may_go(node, a)]
            if aliases:
                dropped[node] = aliases
    whole = {node for node, aliases in dropped.items() if len(aliases) == len(node.names)}  # type: ignore[attr-defined]
    chained = {node.orelse[0] for node in nodes if isinstance(node, ast.If) and node.orelse}
    tries = {n for n in nodes if isinstance(n, ast.Try) and _is_idle(n, whole, gone)}
    tests = {
        node
        for node in nodes
        if isinstance(node, ast.If) and node not in chained and _only_imports(node, whole | tries)
    }
    guards = tests | tries
    guarded = {statement for guard in (*guards, *answered) for statement in guard.body}
    guards -= guarded
    yield from (remove(guard) for guard in guards)
    for node, aliases in dropped.items():
        if node in guarded:
            continue
        if node in whole:
            yield remove(node)
        else:
            yield from (DropAlias(node, alias) for alias in aliases)  # type: ignore[arg-type]


def _used_before(script: ParsedFile) -> set[str]:
    return used_names(script.tree)


def _of_origin(tree: ast.Module, script: ParsedFile) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of the library rewritten with `--from` that are unused after the rewrite: not in a `try`, which tests
    for the library, and only if no string still names one of its devices.
    """
    if not script.origin or any(
        isinstance(node, ast.Constant) and node.value in _DEVICES_BY_NAME for node in walk(tree)
    ):
        return []
    asking = {s for t in walk(tree) if isinstance(t, ast.Try) for s in walk(t)}
    return [
        node
        for node in walk(tree)
        if isinstance(node, _IMPORTS)
        and node not in asking
        and script.origin in packages(node)
        and (node.names[0].name != "*" or not _needs_stars(tree))
    ]


def _needs_stars(tree: ast.Module) -> bool:
    """True if a name is used that nothing in the file binds, or that a star import is known to bring."""
    names = [n for n in walk(tree) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if not isinstance(n.ctx, ast.Load)} | set(dir(builtins))
    for node in walk(tree):
        if isinstance(node, _IMPORTS):
            bound |= {imported_as(alias) for alias in node.names}
        elif isinstance(node, NAMED):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            bound.add(node.name or "")
        elif isinstance(node, ast.MatchMapping):
            bound.add(node.rest or "")
    used = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    known = frozenset().union(*(v for k, v in STAR_EXPORTS.items() if k.startswith("torch_xla.")))
    return bool(used - bound - {"__file__", "__name__", "__doc__"} or used & known)


_DEVICES_BY_NAME = ("xla", "xla:0", "openxla")


def _idle_stars(
    tree: ast.Module, script: ParsedFile, gone: set[str], left: set[str]
) -> Iterator[Edit]:
    """`from torch.cuda.amp import *` of which nothing is used any more."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            known = STAR_EXPORTS.get(node.module or "", frozenset())
            if node.module in WHOLLY_KNOWN and known & gone and not known & left:
                if not any(script.is_imported_elsewhere(name) for name in known):
                    yield remove(node)


def _idle_submodules(tree: ast.Module, script: ParsedFile) -> Iterator[Edit]:
    """`import torch.cuda.amp` of which nothing is used any more, where another import brings `torch`."""
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    named = [(node, a) for node in imports for a in node.names if not a.asname]
    of_cuda = [(node, a) for node, a in named if a.name.startswith("torch.cuda")]
    others = [
        a for _, a in named if imported_as(a) == "torch" and not a.name.startswith("torch.cuda")
    ]
    if not of_cuda or not others:
        return
    before, after = _chains(script.tree), _chains(tree)
    idle = [
        (node, alias)
        for node, alias in of_cuda
        if _is_below(alias.name, before) and not _is_below(alias.name, after)
    ]
    for node in dict.fromkeys(node for node, _ in idle):
        going = [alias for of, alias in idle if of is node]
        if len(going) == len(node.names):
            yield remove(node)
        else:
            yield from (DropAlias(node, alias) for alias in going)


def _is_below(module: str, chains: set[str]) -> bool:
    return any(f"{chain}.".startswith(f"{module}.") for chain in chains)


def _chains(tree: ast.Module) -> set[str]:
    """The attribute chains of names, as they are written: `torch.cuda.amp.autocast`."""
    return {
        ast.unparse(node)
        for node in walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def _may_go(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Not what is imported for its effect: torch itself, torch_xla, the copy of the runtime that mends them, the future."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] not in {
            "__future__",
            "torch_xla",
            "xla_migrate",
            VENDORED,
        }
    if alias.name == VENDORED:
        return False
    return bool(alias.asname) or alias.name.partition(".")[0] not in {"torch", "torch_xla"}


def _is_idle(guard: ast.Try, whole: set[ast.stmt], gone: set[str]) -> bool:
    """True if `try: import ...` has nothing left to do: all of it goes, and the handlers only complain."""
    if guard.orelse or guard.finalbody or not all(s in whole for s in guard.body):
        return False
    return all(only_complains(s, gone) for handler in guard.handlers for s in handler.body)


def _only_imports(guard: ast.If, whole: set[ast.stmt]) -> bool:
    """True if `if is_apex_available(): import ...` has nothing left to do: all of it goes."""
    return not guard.orelse and is_pure(guard.test) and all(s in whole for s in guard.body)
