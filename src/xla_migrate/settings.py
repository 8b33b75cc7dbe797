"""`[tool.xla-migrate]` of the nearest pyproject.toml: read, checked, and as plain data.

A file's settings are in the nearest pyproject.toml above it that has the table. Each part of a
repository may have its own table, and tables are not merged. Without a table, defaults apply.
"""

from __future__ import annotations

import os
import sys

from .files.ignore import Patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    from xla_codemods.analysis.wrappers import Wrapper

NAME = "pyproject.toml"

# Folders that hold no training scripts written by hand.
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
# The library that scripts were written for. The default is the first; scripts for torch_xla stay unless it is given.
ORIGINS = ("cuda", "torch_xla")
# What the output is written with: the runtime, or torch_xla and a copy of parts of the runtime.
STYLES = ("runtime", "native")
# What makes a run end with 1: findings about correctness only, or those about speed, too.
FAIL_ON = ("correctness", "speed")


class SettingsError(Exception):
    """Settings that cannot be used: one line with the file and the key."""


class Settings:
    """The settings of one folder and all below it. `root` is the folder of the pyproject.toml, if there is one."""

    __slots__ = (
        "baseline",
        "docs",
        "exclude",
        "excludes_given",
        "fail_on",
        "ignore",
        "key",
        "launch_files",
        "origin",
        "own",
        "per_file_given",
        "per_file_ignores",
        "root",
        "select",
        "style",
        "target",
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
        self.own: tuple[Wrapper, ...] = read.own()
        excludes = (
            *(read.texts("exclude") if "exclude" in read.table else DEFAULT_EXCLUDES),
            *read.texts("extend-exclude"),
        )
        per_file: tuple[tuple[str, tuple[str, ...]], ...] = read.per_file_ignores()
        self.excludes_given = excludes
        self.per_file_given = per_file
        self.exclude = Patterns(excludes)
        self.per_file_ignores: tuple[tuple[Patterns, tuple[str, ...]], ...] = tuple(
            (Patterns([pattern]), codes) for pattern, codes in per_file
        )
        self.fail_on: str = read.one_of("fail-on", FAIL_ON)
        # Options of compilers by name; see `compiler.profile`.
        self.target: dict[str, Any] = read.target()
        self.launch_files: bool = read.flag("launch-files", True)
        self.origin: str = read.one_of("from", ORIGINS)
        self.style: str = read.one_of("style", STYLES)
        # What the findings depend on.
        self.key: tuple[object, ...] = (
            root,
            self.select,
            self.ignore,
            self.unsafe,
            self.origin,
            self.style,
            self.own,
            per_file,
            repr(self.target) if self.target else "",
        )

    def excludes(self, path: str, is_folder: bool) -> bool:
        """True if the absolute `path` by itself is left out of a walk through its folder."""
        return bool(self.exclude.decide(self._relative(path), is_folder))

    def excludes_named(self, path: str, is_folder: bool = False) -> bool:
        """True if the absolute `path`, or a folder that it lies in, is left out."""
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
    """The settings of folders, each pyproject.toml read once.

    Args:
        everywhere: these settings for all folders, whatever files there are (`--config`, `--isolated`).
    """

    def __init__(self, everywhere: Settings | None = None) -> None:
        self._known: dict[str, Settings] = {}
        self._default = Settings()
        self._everywhere = everywhere

    def of(self, folder: str) -> Settings:
        """The settings of the absolute `folder`.

        Raises:
            SettingsError: the nearest pyproject.toml cannot be used.
        """
        if self._everywhere is not None:
            return self._everywhere
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
        if self._everywhere is not None:
            return self._everywhere
        found = self._known.get(folder)
        if found is None:
            found = (load(folder) or settings) if has_file else settings
            self._known[folder] = found
        return found


def load(folder: str) -> Settings | None:
    """Return the settings in `folder`'s pyproject.toml, or None if it has no table for xla-migrate.

    Raises:
        SettingsError: it cannot be read, or a key or value in it is wrong.
    """
    path = os.path.join(folder, NAME)
    data = _content(path)
    if data is None:
        return None
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


def load_file(path: str) -> Settings:
    """The settings in the TOML file at `path`, whatever its name; patterns are relative to its folder.

    Raises:
        SettingsError: it cannot be read, has no table for us, or a key or value in it is wrong.
    """
    data = _content(path)
    if data is None:
        raise SettingsError(f"{path}: no such file")
    table = _parse(data, path).get("tool", {})
    table = table.get("xla-migrate") if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: has no table tool.xla-migrate")
    return Settings(os.path.dirname(os.path.abspath(path)), table)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error


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

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.table.get(key, default)
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
            self.refuse(key, f"must be a URL, not {_shown(value)}")
        return value

    def texts(self, key: str, value: object = None) -> tuple[str, ...]:
        value = self.table.get(key, []) if value is None else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, f"must be a list of strings, not {_shown(value)}")
        return tuple(value)

    def codes(self, key: str, value: object = None) -> tuple[str, ...]:
        codes = self.texts(key, value)
        try:
            return codes_of(codes)
        except SettingsError as error:
            self.refuse(key, str(error))

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return one of the words `known`; the first if the key is missing."""
        value = self.text(key)
        if value and value not in known:
            self.refuse(key, f'"{value}" is not one of the choices{nearest(value, known)}')
        return value or known[0]

    def target(self) -> dict[str, Any]:
        """Return the checked table `target`; empty if the key only names the target."""
        table = self.table.get("target")
        if isinstance(table, dict):
            from .compiler.machines import machine_of
            from .compiler.profile import FOR, OptionError, read

            try:
                read(table)
            except OptionError as error:
                self.refuse(f"target.{error.key}", error.reason)
            return {**table, FOR: machine_of(table[FOR])} if FOR in table else table
        target = self.text("target")
        if target and target not in TARGETS:
            self.refuse("target", f'"{target}" is not a target{nearest(target, TARGETS)}')
        return {}

    def per_file_ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        table = self.table.get("per-file-ignores", {})
        if not isinstance(table, dict):
            self.refuse("per-file-ignores", f"must be a table of patterns, not {_shown(table)}")
        return tuple(
            (pattern, self.codes(f'per-file-ignores."{pattern}"', codes))
            for pattern, codes in table.items()
        )

    def own(self) -> tuple[Wrapper, ...]:
        if not any(key in self.table for key in OWN):
            return ()
        from xla_codemods.analysis import wrappers

        try:
            return wrappers.read({key: self.table[key] for key in OWN if key in self.table})
        except wrappers.WrapperError as error:
            self.refuse(error.key, error.reason)


# The tables of a user's own names; see `xla_codemods.wrappers`.
OWN = ("devices", "optimizers", "loaders", "functions")
KEYS = (
    "baseline",
    "docs-url",
    "exclude",
    "extend-exclude",
    "fail-on",
    "from",
    "ignore",
    "launch-files",
    "per-file-ignores",
    "select",
    "style",
    "target",
    "unsafe",
    *OWN,
)


def codes_of(words: Iterable[str]) -> tuple[str, ...]:
    """The codes that `words` stand for: codes and their beginnings in capitals, names of rules by their codes.

    Raises:
        SettingsError: one of them is neither.
    """
    return tuple(word.upper() if is_code(word.upper()) else _code_named(word) for word in words)


def _code_named(name: str) -> str:
    from .manuals import code_of, names

    code = code_of(name.lower())
    if code is None:
        hint = nearest(name.lower(), names())
        like = "" if hint else ": use a code such as XLA101, or a prefix such as XLA1"
        raise SettingsError(f'"{name}" is neither a code nor the name of a rule{like}{hint}')
    return code


def is_code(text: str) -> bool:
    """True if `text` is a code, or the beginning of one."""
    return text.startswith("XLA") and len(text) <= 6 and (text == "XLA" or text[3:].isdigit())


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """Return a suggestion from `known`, or all of `known` if it is short."""
    import difflib

    close = difflib.get_close_matches(word, known, 1, 0.6)
    if close:
        return f"; did you mean `{close[0]}`?"
    return "; known: " + ", ".join(f"`{name}`" for name in known) if len(known) < 20 else ""


def _shown(value: object) -> str:
    return "true" if value is True else "false" if value is False else repr(value)
