"""`xla-migrate help`: the help of the command, or of a sub-command."""

from __future__ import annotations

from .arguments import print_help
from .commands import COMMANDS, command, meant
from .usage import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Print the help; the exit code.

    Raises:
        SystemExit: there is no such sub-command.
    """
    if not words or words[0] in ("-h", "--help", "help"):
        print_help(checking=False)
        return 0
    if words[0] not in COMMANDS:
        fail(f"no command `{words[0]}`{meant(words[0])} (see `xla-migrate help`)")
    return command(words[0])(["--help"])
