"""Whether a class derives from a library's, also through classes of other modules of the project."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..parsed_file import ParsedFile
from .callees import callees_of


def derives(script: ParsedFile, definition: ast.ClassDef, is_it: Callable[[str], bool]) -> bool:
    """True if a base of `definition`, or of one of its bases, has a dotted name for which `is_it` holds."""
    return any(map(is_it, script.cached(names_of_bases, definition)))


def names_of_bases(script: ParsedFile, definition: ast.ClassDef) -> set[str]:
    """Return the dotted names of the bases of `definition`, and of the bases of these."""
    callees = callees_of(script)
    lineage = callees.lineage(callees.home, definition)
    names = (index.dotted(base) for index, owner in lineage for base in owner.bases)
    return set(filter(None, names))
