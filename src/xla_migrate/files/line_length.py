"""The line length of a project's Python files: the setting of its formatter, linter or editor."""

from __future__ import annotations

import configparser
import functools
import os
import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = 100
_FORMATTERS_DEFAULT = 88  # of ruff and black, if they are configured without a length
_SHORTEST = 40
_EVERY_PYTHON_FILE = re.compile(r"(?:\*\*?/?)?\*\.(?:py|\{(?:[^}]*,)?\s*py\s*(?:,[^}]*)?\})$")


@functools.lru_cache(maxsize=4096)
def line_length(folder: str) -> int:
    """Return the line length that holds in `folder`: of the nearest folder above it that sets one, or 100."""
    found = _toml(folder) or _ini(folder) or _editors(folder)
    parent = os.path.dirname(folder)
    if found is None and parent != folder and not os.path.exists(os.path.join(folder, ".git")):
        return line_length(parent)
    return DEFAULT if found is None else max(found, _SHORTEST)


def _toml(folder: str) -> int | None:
    """Return the length that ruff or black uses."""
    for name in (".ruff.toml", "ruff.toml"):
        table = _read_toml(os.path.join(folder, name))
        if table is not None:
            return _length(table)
    tools = (_read_toml(os.path.join(folder, "pyproject.toml")) or {}).get("tool", {})
    for name in ("ruff", "black"):
        if isinstance(tools, dict) and isinstance(tools.get(name), dict):
            return _length(tools[name])
    return None


def _length(table: dict[str, Any]) -> int:
    length = table.get("line-length", table.get("line_length"))
    return length if isinstance(length, int) else _FORMATTERS_DEFAULT


def _read_toml(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            table: dict[str, Any] = tomllib.load(file)
            return table
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def _ini(folder: str) -> int | None:
    """Return the length that flake8 or pycodestyle accepts."""
    for name in (".flake8", "setup.cfg", "tox.ini"):
        settings = _read_ini(os.path.join(folder, name))
        for section in ("flake8", "pycodestyle"):
            if settings.has_section(section):
                for key in ("max-line-length", "max_line_length"):
                    if (length := _number(settings.get(section, key, fallback=""))) is not None:
                        return length
    return None


def _editors(folder: str) -> int | None:
    """Return `max_line_length` of .editorconfig, for Python files or for all."""
    settings = _read_ini(os.path.join(folder, ".editorconfig"))
    found = None
    for section in settings.sections():
        if section == "*" or _EVERY_PYTHON_FILE.match(section):
            length = _number(settings.get(section, "max_line_length", fallback=""))
            found = length if length is not None else found
    return found


def _read_ini(path: str) -> configparser.ConfigParser:
    settings = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        with open(path, encoding="utf-8") as file:
            settings.read_string("[top of the file]\n" + file.read())
    except (OSError, UnicodeDecodeError, configparser.Error):
        pass
    return settings


def _number(text: str) -> int | None:
    text = text.split("#")[0].split(";")[0].strip()
    return int(text) if text.isdigit() else None
