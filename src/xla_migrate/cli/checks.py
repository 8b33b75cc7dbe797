"""Checks before a run: settings and arguments name things that exist, and a user's own examples hold."""

from __future__ import annotations

import os

from ..results import CANNOT_PARSE, UNUSED_SUPPRESSION
from ..settings import NAME, Settings, SettingsError, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from xla_codemods.analysis.wrappers import Wrapper


def check_settings(settings: Settings) -> None:
    """Check the settings that depend on the rules: codes, and the mappings of a user's own names.

    Raises:
        SettingsError: something is wrong.
    """
    per_file = [code for _, codes in settings.per_file_ignores for code in codes]
    file = os.path.join(settings.root, NAME)
    check_codes((*settings.select, *settings.ignore, *per_file), f"{file}: tool.xla-migrate: ")
    if settings.own:
        _check_own(settings.own, f"{file}: tool.xla-migrate.")


def check_codes(codes: Iterable[str], place: str) -> None:
    """Every code must be that of a rule, or the beginning of one.

    Raises:
        SettingsError: one is not.
    """
    codes = tuple(codes)
    if not codes:
        return
    known = known_codes()
    for code in codes:
        if not any(name.startswith(code) for name in known):
            raise SettingsError(f"{place}no rule has the code {code}{nearest(code, known)}")
        if code == CANNOT_PARSE:
            raise SettingsError(
                f"{place}{code} is reported for files that cannot be analysed: exclude the files instead"
            )


def known_codes() -> tuple[str, ...]:
    """All codes that a finding can have."""
    from xla_codemods.rules import every_rule
    from xla_codemods.wrappers import RULE as OWN_NAME

    from ..target.launch_files.codes import CODES

    python = (
        CANNOT_PARSE,
        UNUSED_SUPPRESSION,
        OWN_NAME.code,
        *(rule.code for rule in every_rule()),
    )
    return (*python, *CODES)


def _check_own(own: tuple[Wrapper, ...], place: str) -> None:
    from xla_codemods.analysis.wrappers import WrapperError, names_of_runtime
    from xla_codemods.engine import failing_examples

    runtime = _runtime_names()
    for entry in own:
        key = f'{place}{entry.table}."{entry.dotted}"'
        for name in names_of_runtime(entry):
            if name not in runtime:
                raise SettingsError(
                    f"{key}: the runtime has no `{name}`{nearest(name, sorted(runtime))}"
                )
    try:
        for entry, expected, got in failing_examples(own):
            key = f'{place}{entry.table}."{entry.dotted}".examples'
            raise SettingsError(f"{key}: {_first_difference(expected, got)}")
    except WrapperError as error:
        raise SettingsError(f"{place}{error}") from error


def _first_difference(expected: str, got: str) -> str:
    wanted, found = expected.strip().splitlines(), got.strip().splitlines()
    for k in range(max(len(wanted), len(found))):
        want = wanted[k] if k < len(wanted) else "nothing"
        have = found[k] if k < len(found) else "nothing"
        if want != have:
            return f"line {k + 1} becomes `{have.strip()}`, and `after` says `{want.strip()}`"
    return "the result differs"


def _runtime_names() -> frozenset[str]:
    """Return the runtime's exports, read from its source: importing it would import torch."""
    import ast

    path = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runtime", "__init__.py"
    )
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            return frozenset(ast.literal_eval(node.value))
    raise AssertionError("the runtime has no __all__")
