"""Statements and settings that someone changed after the migration: they come first when a cause is looked for."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath

from ..judge.blame import MigrationFinding
from ..judge.source_lines import SourceLines

_SETTINGS = {".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".gin"}
Statement = tuple[str, int]  # its own code in one spelling, without what it contains, and its line


def later_edits(
    name: str,
    original: str,
    written: str,
    given: str,
    unsafe: Callable[[], Mapping[str, tuple[str, str]]],
) -> Iterator[MigrationFinding]:
    """Yield a finding for each statement of `given` that the tool did not write.

    Comments, empty lines and the layout do not count, since formatters change them.

    Args:
        name: path of the file in the project.
        original: text before the migration.
        written: text that the tool writes.
        given: text of the migrated side.
        unsafe: makes the (original, migrated) texts with the tool's unsafe fixes, by path.
    """
    mine, theirs = _statements(written), _statements(given)
    if mine is None or theirs is None:
        return
    texts = [text for text, _ in mine], [text for text, _ in theirs]
    if texts[0] == texts[1]:
        return
    with_unsafe_fixes = unsafe().get(name, ("", written))[1]
    known = {text for text, _ in _statements(with_unsafe_fixes) or ()}
    lines = SourceLines({name: (original, given)})
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        for text, line in theirs[j:j_end]:
            if text not in known or text in texts[0]:
                yield _edit(name, lines.original(name, line), line, "changed", text)
        if kind == "delete" and theirs:
            line = theirs[min(j, len(theirs) - 1)][1]
            for text, _ in mine[i:i_end]:
                # It was not moved, and no unsafe fix removes it.
                if text not in texts[1] and text in known:
                    yield _edit(name, lines.original(name, line), line, "removed", text)


def later_settings(
    name: str, original: str, written: str, given: str
) -> Iterator[MigrationFinding]:
    """Yield a finding for each line of a settings file that the tool did not write.

    Args:
        name: path of the file in the project.
        original: text before the migration.
        written: text that the tool writes.
        given: text of the migrated side.
    """
    mine, theirs = ([line.strip() for line in text.splitlines()] for text in (written, given))
    lines = SourceLines({name: (original, given)})
    matcher = difflib.SequenceMatcher(None, mine, theirs, autojunk=False)
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        for at in range(j, j_end):
            yield _edit(name, lines.original(name, at + 1), at + 1, "changed", theirs[at])
        if kind == "delete" and theirs:
            at = min(j, len(theirs) - 1)
            for text in mine[i:i_end]:
                yield _edit(name, lines.original(name, at + 1), at + 1, "removed", text)


def are_settings(name: str, texts: Iterable[str]) -> bool:
    """Return True for a settings file whose name one of the texts holds: sources, and arguments of the script."""
    path = PurePath(name)
    named = re.compile(rf"(?<![\w-]){re.escape(path.stem)}(?:{re.escape(path.suffix)})?(?![\w-])")
    return path.suffix in _SETTINGS and any(named.search(text) for text in texts)


def _edit(name: str, line: int, after: int, what: str, text: str) -> MigrationFinding:
    message = f"{what} after the migration: `{text}`"
    return MigrationFinding("", name, line, message, False, text, after=after)


def _statements(text: str) -> list[Statement] | None:
    """Return the statements in the order of their lines; None if Python cannot parse the text."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return [(_own_code(node), node.lineno) for node in found if not _is_text(node)]


def _own_code(node: ast.stmt) -> str:
    code = ast.unparse(node)
    return code.partition("\n")[0] if hasattr(node, "body") else code


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
