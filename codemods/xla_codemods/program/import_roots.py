"""The folders that a program puts on Python's path, read off its layout and its texts."""

from __future__ import annotations

from ..patterns import Pattern
from .texts import Texts

# Folders of usual layouts: they contain the packages of a project and are not packages themselves.
_LAYOUTS = frozenset({"python", "src"})
_ADDING = ("sys.path", "addsitedir(", "package_dir", "find_packages(")
_ADDED = Pattern(r"(?:sys\.path\.\w+|addsitedir|find_packages)\(([^\n]*)|package_dir\s*=([^\n]*)")
_STRING = Pattern(r"[\"']([^\"'\n]*)[\"']")
_ASSIGNED = Pattern(r"(?m)^[ \t]*(\w+)[ \t]*=[ \t]*([^=\n][^\n]*)$")
_WORD = Pattern(r"[^\W\d]\w*")


def import_roots(texts: Texts, folders: frozenset[str]) -> list[str]:
    """Return those of `folders` that Python searches for modules, other than the folders above a module.

    These are `src`, the folders of other `setup.py` files, and folders whose name a module adds to `sys.path` or
    gives to setuptools. A folder that is a package is none of them.
    """
    adding = texts.having(_ADDING)
    names = _LAYOUTS.union(*(_added(texts.text(path), path) for path in adding))
    return sorted(
        folder
        for folder in folders
        if f"{folder}/__init__.py" not in texts.files
        and (folder.rpartition("/")[2] in names or f"{folder}/setup.py" in texts.files)
    )


def _added(text: str, path: str) -> set[str]:
    """Return the names of the folders that `text` adds: in the call, or in what its names are assigned.

    A module about paths, `_init_paths.py`, may add them through a function: all its strings count.
    """
    if "path" in path.rpartition("/")[2]:
        return _last_parts(text)
    calls = " ".join(map("".join, _ADDED.compiled.findall(text)))
    words = set(_WORD.compiled.findall(calls))
    values = (value for name, value in _ASSIGNED.compiled.findall(text) if name in words)
    return _last_parts(" ".join((calls, *values)))


def _last_parts(text: str) -> set[str]:
    strings = _STRING.compiled.findall(text)
    return {part for part in (s.rstrip("/").rpartition("/")[2] for s in strings) if part}
