"""`--show-settings`: the settings that hold for the named paths, as TOML."""

from __future__ import annotations

import json
import os

from ...settings import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...settings import Finder, Settings
    from ..arguments import Arguments


def show(finder: Finder, given: Arguments) -> int:
    """Print them, once for each settings file; the exit code.

    Raises:
        SettingsError: they cannot be used.
    """
    from ..checks import check_settings

    seen: set[int] = set()
    for path in given.paths or ["."]:
        absolute = os.path.abspath(given.stdin_filename or path if path == "-" else path)
        folder = absolute if os.path.isdir(absolute) else os.path.dirname(absolute)
        settings = finder.of(folder)
        if id(settings) not in seen:
            seen.add(id(settings))
            check_settings(settings)
            print("\n".join(_lines(settings, given)))
    return 0


def _lines(settings: Settings, given: Arguments) -> list[str]:
    """The table with the command line's options applied, as `[tool.xla-migrate]` takes them."""
    where = given.config or (os.path.join(settings.root, NAME) if settings.root else "none")
    values: dict[str, object] = {
        "select": list(settings.select if given.select is None else given.select),
        "ignore": [*settings.ignore, *given.ignore],
        "unsafe": settings.unsafe if given.unsafe is None else given.unsafe,
        "fail-on": given.fail_on or settings.fail_on,
        "from": given.origin or settings.origin,
        "style": given.style or settings.style,
        "exclude": list(settings.excludes_given),
        "baseline": given.baseline or settings.baseline or None,
        "docs-url": settings.docs or None,
        "launch-files": settings.launch_files,
        "target": None if settings.target else "xla",
    }
    lines = [f"# settings file: {where}", "[tool.xla-migrate]"]
    lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    if settings.target:
        lines += ["", "[tool.xla-migrate.target]"]
        lines += [f"{key} = {_toml(value)}" for key, value in settings.target.items()]
    if settings.per_file_given:
        lines += ["", "[tool.xla-migrate.per-file-ignores]"]
        lines += [f"{_toml(p)} = {_toml(list(codes))}" for p, codes in settings.per_file_given]
    for table in sorted({entry.table for entry in settings.own}):
        lines += ["", f"[tool.xla-migrate.{table}]"]
        mapped = (entry for entry in settings.own if entry.table == table)
        lines += [f"{_toml(entry.dotted)} = {_toml(entry.to or True)}" for entry in mapped]
    return lines


def _toml(value: object) -> str:
    """JSON's strings, lists and truth values are TOML's."""
    return json.dumps(value, ensure_ascii=False)
