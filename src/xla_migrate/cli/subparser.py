"""The argument parser of the subcommands: one-line errors, suggestions after typos, aligned help."""

from __future__ import annotations

import argparse

from ..reports.width import columns, fitted
from .usage import fail, readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


class SubcommandParser(argparse.ArgumentParser):
    """Parse a subcommand's own arguments, without those after `--`."""

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        settings.setdefault("formatter_class", Aligned)
        super().__init__(allow_abbrev=False, **settings)
        if examples:
            lines = "\n".join(f"  {line}" for line in examples)
            self.epilog = f"{self.epilog or ''}\n\nexamples:\n{lines}\n".lstrip("\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Refuse an unknown option before argparse complains about anything else."""
        command = self.prog.partition(" ")[2]
        known = [text for action in self._actions for text in action.option_strings]
        for word in args or ():
            name = word.partition("=")[0]
            if self._subparsers and not word.startswith("-"):
                break  # the command's own parser checks the rest
            if name.startswith("--") and " " not in name and name not in known:
                fail(unknown_option(command, name, known))
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2."""
        command = self.prog.partition(" ")[2]
        fail(f"{command}: {readable(message)} (see `{self.prog} --help`)")


def unknown_option(command: str, name: str, known: Sequence[str]) -> str:
    """Return the message for an unknown option of a subcommand."""
    hint = suggestion(name, known)
    return f"{command} has no option {name}{hint} (see `xla-migrate {command} --help`)"


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return `; did you mean ...?` with the option that resembles `name`, or an empty string."""
    import difflib

    if name == "--json" and "--output-format" in known:
        return "; did you mean `--output-format json`?"
    # The dashes of all options are alike: compared with them, short names resemble each other.
    names = [text[2:] for text in known if text.startswith("--")]
    typed = name.lstrip("-")
    longer = [text for text in names if text.endswith(f"-{typed}")]  # `--output-format`
    close = longer or difflib.get_close_matches(typed, names, 1, 0.6)
    return f"; did you mean `--{close[0]}`?" if close else ""


class Aligned(argparse.HelpFormatter):
    """Print options in one column, as wide as the terminal. Keep the lines of examples."""

    def __init__(self, prog: str) -> None:
        width = columns()
        super().__init__(prog, max_help_position=min(30, width // 2), width=width)

    def format_help(self) -> str:
        return fitted(super().format_help(), columns())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)
