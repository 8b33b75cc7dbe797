"""`xla-migrate explain-target`: the compiler options and environment of a machine, from the profile, and why."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NoReturn

from ...compiler.environment import EnvironmentPlan, plan, shown
from ...compiler.machines import MACHINES, machine_of
from ...compiler.options import OPTIONS
from ...compiler.profile import FOR, Given, OptionError, Profile, known, of_table, of_words
from ...settings import Finder, SettingsError
from ..subparser import Aligned, unknown_option
from ..usage import fail, readable

TABLE = "tool.xla-migrate.target"


def main(words: Sequence[str]) -> int:
    """Print what would be set; the exit code.

    Raises:
        SystemExit: wrong usage, or options that are unknown or contradict something: one line.
    """
    given = _parser().parse_args(list(words))
    try:
        found = planned(
            given.machine,
            {k: v for k, v in vars(given).items() if k in _KEYS and v is not None},
            {} if given.without_environment else os.environ,
        )
    except (OptionError, SettingsError) as error:
        fail(str(error))
    env = {} if given.without_environment else os.environ
    print(_FORMS[given.output_format](found, found.environment(env)), end="")
    return 0


def planned(machine: str | None, words: dict[str, str], env: Mapping[str, str]) -> EnvironmentPlan:
    """Return the profile of a machine from the settings of the working folder and `words` (options by key, as text).

    Args:
        machine: its name; None takes the one that the settings name.
        words: what the command line gives: it wins over the settings.
        env: the environment that the training would have otherwise.

    Raises:
        OptionError: an option is unknown, or contradicts something.
        SettingsError: the settings cannot be used.
    """
    table = Finder().of(os.getcwd()).target
    name = machine_of(machine or table.get(FOR, ""))
    if not name:
        raise OptionError("--for", f"name the machine: {', '.join(MACHINES)}")
    if name not in MACHINES:
        raise OptionError("--for", f"unknown machine {name}; known machines: {', '.join(MACHINES)}")
    profile: dict[str, Given] = of_table(table, name, TABLE)
    profile.update(of_words(words, "command line"))
    return plan(MACHINES[name], _ordered(profile), env)


def _ordered(profile: dict[str, Given]) -> Profile:
    return {row.key: profile[row.key] for row in OPTIONS if row.key in profile}


_KEYS = frozenset(row.key for row in OPTIONS)


class _Parser(argparse.ArgumentParser):
    """Errors as the rest of the command tells them: one line, 2."""

    def error(self, message: str) -> NoReturn:
        word = message.rpartition(": ")[2].split()[0].partition("=")[0]
        if message.startswith("unrecognized") and word.startswith("--"):
            options = [*self._option_string_actions, *(f"--{row.key}" for row in OPTIONS)]
            fail(unknown_option("explain-target", word, options))
        fail(f"explain-target: {readable(message)}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="xla-migrate explain-target",
        description="Print the compiler options and environment variables for a training on a machine, with reasons."
        f" They come from [{TABLE}] in pyproject.toml and from the options below. Nothing is set or run.",
        allow_abbrev=False,
        formatter_class=Aligned,
    )
    parser.add_argument("--for", dest="machine", metavar="MACHINE", help=", ".join(MACHINES))
    parser.add_argument("--output-format", choices=tuple(_FORMS), default="text")
    parser.add_argument(
        "--without-environment",
        action="store_true",
        help="ignore the variables that are set here, for a training on another machine",
    )
    for row in OPTIONS:
        values = ", ".join(shown(v) for v in known(row)) or row.type.__name__
        values = "true, false" if row.type is bool else values
        parser.add_argument(
            f"--{row.key}", dest=row.key, metavar="VALUE", help=f"{row.help} ({values})"
        )
    return parser


def _text(found: EnvironmentPlan, environment: dict[str, str]) -> str:
    machine = found.machine
    out = [f"{machine.name}: {machine.title}", ""]
    for variable, value in environment.items():
        out.append(f"{variable}={shlex.quote(value)}")
        for part in found.parts:
            if part.variable == variable:
                out.append(f"    {part.text:<40} {part.why} [{part.source}]")
    if found.launcher:
        out += ["", f"start with: {found.launcher} SCRIPT ARGS"]
    if found.notes:
        out += ["", *(f"note: {note}" for note in found.notes)]
    return "\n".join(out) + "\n"


def _json(found: EnvironmentPlan, environment: dict[str, str]) -> str:
    return (
        json.dumps(
            {
                "version": 1,
                "machine": found.machine.name,
                "environment": environment,
                "parts": [part._asdict() for part in found.parts],
                "launcher": found.launcher,
                "notes": list(found.notes),
            },
            indent=2,
        )
        + "\n"
    )


def _shell(found: EnvironmentPlan, environment: dict[str, str]) -> str:
    """Lines for a shell: `eval "$(xla-migrate explain-target --for trn1 --output-format shell)"`."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join(lines) + "\n"


_FORMS = {"text": _text, "json": _json, "shell": _shell}
