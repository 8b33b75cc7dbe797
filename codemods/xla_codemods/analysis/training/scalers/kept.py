"""Scalers that stay in one module: their uses in other modules stay as well.

Otherwise losses would not be scaled, and gradients still be divided by the scale, or the reverse.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....source import Source
from ...frameworks.accelerator import uses_accelerate
from ...syntax import is_handed_on, name_of
from .creations import MAKERS, creations, is_disabled, maker_names
from .uses import Uses, classify

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile


def uses_of_scalers(script: ParsedFile) -> Uses:
    """All uses of scalers in `script`, found once."""
    return script.cached(classify)


def keeps_scalers(script: ParsedFile) -> bool:
    """True if the scalers that this file makes or uses stay: removed in part, they would lack what the rest asks for."""
    return script.cached(_keeps)


def handed_on(script: ParsedFile) -> Iterator[ast.expr]:
    """Yield the classes of scalers that are not called here: `make = partial(GradScaler, enabled=amp)`."""
    names = maker_names(script)
    nodes: list[ast.expr] = [
        n for kind in (ast.Name, ast.Attribute) for n, _ in script.index.of(kind)
    ]
    for node in nodes:
        if name_of(node) in names and script.dotted(node) in MAKERS:
            if is_handed_on(node, script.parents):
                yield node


def _keeps(script: ParsedFile) -> bool:
    if uses_of_scalers(script).unclear:
        return True
    project = script.project
    if project is None or next(creations(script), None) is not None:
        return False
    paths = project.modules.with_word("GradScaler") & project.programs
    return any(_is_kept_in(script, path) for path in sorted(paths))


def _is_kept_in(script: ParsedFile, path: str) -> bool:
    assert script.project is not None
    modules = script.project.modules
    return modules.remembered(("keeps a scaler", path), lambda: _read(script, path))


def _read(script: ParsedFile, path: str) -> bool:
    assert script.project is not None
    modules = script.project.modules
    if modules.scope(path) is None:
        return False
    project = type(script.project)(modules, path)
    other = type(script)(Source(modules.files[path]), path, project=project)
    made = [creation for creation in creations(other) if not is_disabled(creation)]
    if uses_accelerate(other):
        return bool(made) or next(handed_on(other), None) is not None
    return bool(made) and bool(uses_of_scalers(other).unclear)
