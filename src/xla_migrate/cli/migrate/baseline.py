"""Findings that are known and accepted: a file that holds them, robust against lines that move.

A finding is known by its file, its code, the text of its line (without regard to spaces), and which of the equal ones
in the file it is.
"""

from __future__ import annotations

import json
import os

from ...reports.fingerprints import fingerprints
from ...results import CANNOT_PARSE, Diagnostic, FileOutcome
from ...settings import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT = "xla-migrate-baseline.json"
_VERSION = 1


class Baseline:
    """The known findings of one baseline file: path (relative to it) -> fingerprint -> code."""

    def __init__(self, path: str, codes: dict[str, dict[str, str]]) -> None:
        self.folder = os.path.dirname(os.path.abspath(path))
        self.codes = codes
        self._gone: dict[str, dict[str, str]] | None = None  # of files that are no more
        self.matched = 0
        self.stale = 0

    def new(self, path: str, rows: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
        """Return the findings in the file at the absolute `path` that are not in the baseline."""
        prints = fingerprints(rows)
        known = self.codes.get(_relative(path, self.folder))
        if known is None:
            known = self._moved(prints) if rows else {}
        new = tuple(row for row, print_ in zip(rows, prints) if print_ not in known)
        self.matched += len(rows) - len(new)
        self.stale += len(known.keys() - set(prints))
        return new

    def _moved(self, prints: list[str]) -> dict[str, str]:
        """Return the entries of a file that is gone, if at least half of them are in the file with these `prints`."""
        if self._gone is None:
            self._gone = {
                name: known
                for name, known in self.codes.items()
                if not os.path.exists(os.path.join(self.folder, name))
            }
        name = max(self._gone, key=lambda name: len(self._gone_in(name, prints)), default=None)
        if name is None or 2 * len(self._gone_in(name, prints)) < len(self._gone[name]):
            return {}
        return self._gone.pop(name)

    def _gone_in(self, name: str, prints: list[str]) -> set[str]:
        return (self._gone or {}).get(name, {}).keys() & set(prints)


def load(path: str) -> Baseline:
    """The baseline at `path`.

    Raises:
        SettingsError: the file does not exist, or is not a baseline of xla-migrate.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if content["version"] != _VERSION:
            raise SettingsError(
                f"{path}: has version {content['version']}, and this xla-migrate reads version {_VERSION}"
            )
        codes = {
            name: {str(entry["fingerprint"]): str(entry["code"]) for entry in entries}
            for name, entries in content["files"].items()
        }
    except OSError as error:
        hint = "; create it with --write-baseline" if isinstance(error, FileNotFoundError) else ""
        raise SettingsError(
            f"{path}: the baseline cannot be read: {error.strerror}{hint}"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SettingsError(f"{path}: not a baseline; create one with --write-baseline") from error
    return Baseline(path, codes)


def kept(path: str, judged: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """Return the baseline's entries for files that exist and are not among the absolute paths `judged`."""
    try:
        known = load(path)
    except SettingsError:
        return {}  # there is none yet, or none that could be kept
    anew = {_relative(file, known.folder) for file in judged}
    return {
        name: [{"code": code, "fingerprint": print_} for print_, code in entries.items()]
        for name, entries in known.codes.items()
        if name not in anew and os.path.exists(os.path.join(known.folder, name))
    }


def written(
    path: str, outcomes: Iterable[tuple[str, FileOutcome]], others: dict[str, list[dict[str, str]]]
) -> str:
    """The text of a baseline at `path` with the findings of (absolute path, outcome), and with `others`."""
    folder = os.path.dirname(os.path.abspath(path))
    files = dict(others)
    for file, outcome in outcomes:
        rows = tuple(row for row in outcome.verdict.left if row.code != CANNOT_PARSE)
        if rows:
            files[_relative(file, folder)] = sorted(
                (
                    {"code": row.code, "fingerprint": print_}
                    for row, print_ in zip(rows, fingerprints(rows))
                ),
                key=lambda entry: (entry["code"], entry["fingerprint"]),
            )
    content = {"version": _VERSION, "files": dict(sorted(files.items()))}
    return json.dumps(content, indent=1) + "\n"


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")
