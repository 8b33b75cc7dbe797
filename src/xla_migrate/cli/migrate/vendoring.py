"""`--style native`: the copy of the runtime that the scripts of a run import, put where Python finds it."""

from __future__ import annotations

import os
import re
import sys

from ...files import vendored
from ...files.read import ReadError, read
from ..usage import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...files.find import FoundFile
    from ...results import FileOutcome
    from ..work import RunOptions

_FOLDERS_ABOVE = 8


def refuse_others(files: Sequence[FoundFile], options: RunOptions) -> None:
    """Before anything is written: where the copy would come, nothing else may be.

    Raises:
        SystemExit: something of the user's has the copy's name.
    """
    if not options.rewriting:
        return
    native = (f for f in files if options.style_of(f.settings) == "native")
    roots = {_import_root(options.destinations.get(f.path, f.path)) for f in native}
    for root in sorted(roots):
        place = os.path.join(root, vendored.NAME)
        if os.path.exists(f"{place}.py") or (
            os.path.lexists(place) and not vendored.is_ours(place)
        ):
            fail(
                f"{place} exists and is not a copy of the runtime, which --style native writes there: rename it;"
                " nothing was written"
            )


def update(files: Sequence[FoundFile], options: RunOptions) -> list[str]:
    """Write the copies that the files need as they are now; what to tell the user, a line each."""
    if not options.rewriting or options.diff:
        return []
    sources: dict[str, bytes] = {}
    for found in files:
        if options.style_of(found.settings) != "native" and not _has_copy(found.path):
            continue
        path = options.destinations.get(found.path, found.path)
        try:
            data = program(path, read(path, path.endswith(".ipynb"))[0])
        except ReadError:
            continue
        if vendored.names_in(data):
            sources[path] = data
    return [line for root, names in needed(sources).items() for line in _write(root, names)]


def _has_copy(path: str) -> bool:
    """True if the file is of that style already."""
    above = os.path.dirname(path)
    for _ in range(_FOLDERS_ABOVE):
        if vendored.is_ours(os.path.join(above, vendored.NAME)):
            return True
        above = os.path.dirname(above)
    return False


def program(path: str, data: bytes) -> bytes:
    """The Python source of a file; of a notebook its cells."""
    if not path.endswith(".ipynb") or vendored.NAME.encode() not in data:
        return data
    from ...files.notebook import Notebook, NotebookError

    try:
        return Notebook(data).program.encode()
    except NotebookError:
        return b""


def announced(outcomes: Iterable[FileOutcome]) -> list[str]:
    """Return the message of `--diff` about copies, which no diff shows."""
    changed = [o.path for o in outcomes if f"import {vendored.NAME}".encode() in o.diff]
    if not changed:
        return []
    return [f"{vendored.NAME}/, which {changed[0]} imports, would be written next to it"]


def needed(sources: Mapping[str, bytes]) -> dict[str, frozenset[str]]:
    """Folder that a copy belongs into -> the names that it must have.

    Args:
        sources: absolute path -> content, of files that import the copy.
    """
    roots: dict[str, frozenset[str]] = {}
    for path, data in sorted(sources.items(), key=lambda item: _import_root(item[0])):
        own = _import_root(path)
        # What is run by itself finds the copy beside it alone; a module finds that of the program that imports it.
        root = own if b"__main__" in data else _outer(own, roots, sources) or own
        roots[root] = roots.get(root, frozenset()) | vendored.names_in(data)
    return roots


def _outer(own: str, roots: Iterable[str], sources: Mapping[str, bytes]) -> str:
    """The folder above `own` that has a copy already, or gets one and imports from `own`; or ""."""
    above = own
    for _ in range(_FOLDERS_ABOVE):
        inner, above = above, os.path.dirname(above)
        if above == inner:
            return ""
        if vendored.is_ours(os.path.join(above, vendored.NAME)):
            return above
        if above in roots:
            package = re.escape(os.path.basename(inner).encode())
            imports = re.compile(rb"^\s*(?:from|import)\s+" + package + rb"\b", re.MULTILINE)
            if any(_import_root(p) == above and imports.search(d) for p, d in sources.items()):
                return above
    return ""


def _import_root(path: str) -> str:
    """The folder from which the file at `path` is imported, or run."""
    folder = os.path.dirname(os.path.abspath(path))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _write(root: str, names: frozenset[str]) -> list[str]:
    from ...files.find import shown
    from ...files.write import WriteError, create

    place = os.path.join(root, vendored.NAME)
    here = shown(place, os.getcwd())
    if os.path.lexists(place) and not vendored.is_ours(place):
        fail(f"{here} exists and is not a copy of the runtime: rename it")
    lines = []
    written = 0
    for name, text in vendored.files(names | vendored.known_names(place)).items():
        path = os.path.join(place, *name.split("/"))
        if _holds(path, text.encode()):
            continue
        try:
            copy = create(path, text.encode(), keep=True)
        except WriteError as error:
            fail(f"{path}: {error}")
        written += 1
        if copy:
            lines.append(f"the previous {path} is kept as {copy}")
    if written:
        lines.append(
            f"{here}{os.sep} contains the parts of the runtime that the scripts next to it use ({written} files written)"
        )
    return lines


def _holds(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read() == data
    except OSError:
        return False


def tell(lines: Iterable[str]) -> None:
    """Print them on standard error."""
    for line in lines:
        print(f"xla-migrate: {line}", file=sys.stderr)
