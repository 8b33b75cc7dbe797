"""`[tool.xla-migrate]` of the nearest pyproject.toml: read, checked, and as plain data.

The settings of a file are those of the nearest pyproject.toml above it that has the table: each part of a
repository may have its own, and nothing is merged. A file outside any of them has the defaults.
"""

from __future__ import annotations

import os
import sys

from .files.ignore import Patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from xla_codemods.own import Own

NAME = "pyproject.toml"

# Folders in which nobody writes training scripts by hand.
DEFAULT_EXCLUDES = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "*.egg-info",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)

TARGETS = ("xla",)


class SettingsError(Exception):
    """Settings that cannot be used: one line with the file and the key."""


class Settings:
    """What is set for one folder and all below it. `root` is the folder of the pyproject.toml, if there is one."""

    __slots__ = (
        "baseline",
        "docs",
        "exclude",
        "ignore",
        "key",
        "own",
        "per_file_ignores",
        "root",
        "select",
        "unsafe",
    )

    def __init__(self, root: str = "", table: dict[str, Any] | None = None) -> None:
        read = _Reader(os.path.join(root, NAME), table or {})
        self.root = root
        self.select: tuple[str, ...] = read.codes("select")
        self.ignore: tuple[str, ...] = read.codes("ignore")
        self.unsafe: bool = read.flag("unsafe")
        self.baseline: str = read.text("baseline")
        self.docs: str = read.address("docs-url")
        self.own: tuple[Own, ...] = read.own()
        excludes = (
            *(read.texts("exclude") if "exclude" in read.table else DEFAULT_EXCLUDES),
            *read.texts("extend-exclude"),
        )
        per_file = read.per_file_ignores()
        self.exclude = Patterns(excludes)
        self.per_file_ignores: tuple[tuple[Patterns, tuple[str, ...]], ...] = tuple(
            (Patterns([pattern]), codes) for pattern, codes in per_file
        )
        read.target()
        # What the findings depend on.
        self.key: tuple[object, ...] = (
            root,
            self.select,
            self.ignore,
            self.unsafe,
            self.own,
            per_file,
        )

    def excludes(self, path: str, is_folder: bool) -> bool:
        """Whether the absolute `path` by itself is left out of a walk through its folder."""
        return bool(self.exclude.decide(self._relative(path), is_folder))

    def excludes_named(self, path: str, is_folder: bool = False) -> bool:
        """Whether the absolute `path`, or a folder that it lies in, is left out."""
        return self.exclude.covers(self._relative(path), is_folder)

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """Codes that are not wanted in the file with the absolute `path`."""
        ignored = list(self.ignore)
        if self.per_file_ignores:
            relative = self._relative(path)
            for patterns, codes in self.per_file_ignores:
                if patterns.covers(relative):
                    ignored += codes
        return tuple(ignored)

    def _relative(self, path: str) -> str:
        """`path` as patterns see it: below the root if it is there, else without the first slash."""
        prefix = self.root if self.root.endswith(os.sep) else self.root + os.sep
        relative = path[len(prefix) :] if path.startswith(prefix) else path.lstrip(os.sep)
        return relative if os.sep == "/" else relative.replace(os.sep, "/")


class Finder:
    """The settings of folders, each pyproject.toml read once."""

    def __init__(self) -> None:
        self._known: dict[str, Settings] = {}
        self._default = Settings()

    def of(self, folder: str) -> Settings:
        """The settings of the absolute `folder`.

        Raises:
            SettingsError: the nearest pyproject.toml cannot be used.
        """
        found = self._known.get(folder)
        if found is None:
            own = load(folder)
            parent = os.path.dirname(folder)
            if own is not None:
                found = own
            else:
                found = self._default if parent == folder else self.of(parent)
            self._known[folder] = found
        return found

    def below(self, folder: str, settings: Settings, has_file: bool) -> Settings:
        """The settings of `folder`, whose parent has `settings`; `has_file`: there is a pyproject.toml in it."""
        found = self._known.get(folder)
        if found is None:
            found = (load(folder) or settings) if has_file else settings
            self._known[folder] = found
        return found


def load(folder: str) -> Settings | None:
    """The settings in `folder`'s own pyproject.toml, or None where it has none for us.

    Raises:
        SettingsError: it cannot be read, or a key or value in it is wrong.
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    # Most have no table for us, and a TOML parser takes longer to import than this whole file.
    if b"xla-migrate" not in data:
        return None
    table = _parse(data, path).get("tool", {})
    table = table.get("xla-migrate") if isinstance(table, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: tool.xla-migrate must be a table")
    return Settings(folder, table)


def _parse(data: bytes, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(data.decode())
        return table
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error


class _Reader:
    """Takes typed values out of the table; whatever is wrong is a `SettingsError` that names file and key."""

    def __init__(self, path: str, table: dict[str, Any]) -> None:
        self.path = path
        self.table = table
        unknown = [key for key in table if key not in KEYS]
        if unknown:
            self.refuse(unknown[0], f"no such setting{nearest(unknown[0], KEYS)}")

    def refuse(self, key: str, reason: str) -> NoReturn:
        raise SettingsError(f"{self.path}: tool.xla-migrate.{key}: {reason}")

    def flag(self, key: str) -> bool:
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, f"must be true or false, not {_shown(value)}")
        return value

    def text(self, key: str) -> str:
        value = self.table.get(key, "")
        if not isinstance(value, str) or (key in self.table and not value):
            self.refuse(key, f"must be a string, not {_shown(value)}")
        return value

    def address(self, key: str) -> str:
        value = self.text(key)
        if value and not value.startswith(("https://", "http://", "file:///")):
            self.refuse(key, f"must be the address of a site, not {_shown(value)}")
        return value

    def texts(self, key: str, value: object = None) -> tuple[str, ...]:
        value = self.table.get(key, []) if value is None else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, f"must be a list of strings, not {_shown(value)}")
        return tuple(value)

    def codes(self, key: str, value: object = None) -> tuple[str, ...]:
        codes = self.texts(key, value)
        for code in codes:
            if not is_code(code):
                self.refuse(key, f'"{code}" is no code: codes are like "XLA101" or "XLA1"')
        return codes

    def target(self) -> None:
        target = self.text("target")
        if target and target not in TARGETS:
            self.refuse("target", f'"{target}" is no target{nearest(target, TARGETS)}')

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        table = self.table.get("per-file-ignores", {})
        if not isinstance(table, dict):
            self.refuse("per-file-ignores", f"must be a table of patterns, not {_shown(table)}")
        return tuple(
            (pattern, self.codes(f'per-file-ignores."{pattern}"', codes))
            for pattern, codes in table.items()
        )

    def own(self) -> tuple[Own, ...]:
        if not any(key in self.table for key in OWN):
            return ()
        from xla_codemods import own

        try:
            return own.read({key: self.table[key] for key in OWN if key in self.table})
        except own.OwnError as error:
            self.refuse(error.key, error.reason)


# The tables of a user's own names; see `xla_codemods.own`.
OWN = ("devices", "optimizers", "loaders", "functions")
KEYS = (
    "baseline",
    "docs-url",
    "exclude",
    "extend-exclude",
    "ignore",
    "per-file-ignores",
    "select",
    "target",
    "unsafe",
    *OWN,
)


def is_code(text: str) -> bool:
    """Whether `text` is a code, or the beginning of one."""
    return text.startswith("XLA") and len(text) <= 6 and (text == "XLA" or text[3:].isdigit())


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """`; did you mean "..."?`, or what there is."""
    import difflib

    close = difflib.get_close_matches(word, known, 1, 0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return "; there is " + ", ".join(f'"{name}"' for name in known) if len(known) < 20 else ""


def _shown(value: object) -> str:
    return "true" if value is True else "false" if value is False else repr(value)
