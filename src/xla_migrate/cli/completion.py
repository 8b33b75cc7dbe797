"""`xla-migrate completion bash | zsh | fish`: a script that completes sub-commands, options and paths."""

from __future__ import annotations

import contextlib
import io
import re

from . import arguments, usage
from .commands import COMMANDS, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_USAGE = """\
usage: xla-migrate completion bash | zsh | fish

Prints a script. To use it in every new shell:
  bash   eval "$(xla-migrate completion bash)"         in ~/.bashrc
  zsh    eval "$(xla-migrate completion zsh)"          in ~/.zshrc, below compinit
  fish   xla-migrate completion fish | source          in ~/.config/fish/config.fish
"""


def main(words: Sequence[str]) -> int:
    """Print the completion script for a shell, and return the exit code.

    Raises:
        SystemExit: there is none for it.
    """
    if any(word in ("-h", "--help") for word in words):
        from ..reports.width import columns, fitted

        print(fitted(_USAGE, columns()), end="")
        return 0
    if len(words) != 1 or words[0] not in _SHELLS:
        fault = f"unknown shell {words[0]}" if len(words) == 1 else "completion takes one shell"
        usage.fail(f"{fault}; known shells: {', '.join(_SHELLS)}")
    print(_SHELLS[words[0]](_all_options()), end="")
    return 0


def _all_options() -> dict[str, list[str]]:
    """The long options of the command itself (under the empty name) and of each sub-command."""
    found = {"": arguments.options(False), "check": arguments.options(True)}
    for name in COMMANDS:
        if name not in found:
            found[name] = _from_help(name)
    return {name: sorted(o for o in texts if o.startswith("--")) for name, texts in found.items()}


def _from_help(name: str) -> list[str]:
    """The options in the text that `xla-migrate NAME --help` prints; none if it cannot be imported."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit, ImportError):
        command(name)(["--help"])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text.getvalue())))


def _bash(options: dict[str, list[str]]) -> str:
    words = {**options, **_words()}
    cases = "".join(f"    {n}) words='{' '.join(texts)}' ;;\n" for n, texts in words.items() if n)
    return f"""\
_xla_migrate() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words
  case ${{COMP_WORDS[1]}} in
{cases}    *) words='{" ".join(options[""])}' ;;
  esac
  if [[ $COMP_CWORD -eq 1 ]]; then words='{" ".join([*COMMANDS, *options[""]])}'; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _xla_migrate xla-migrate
"""


def _zsh(options: dict[str, list[str]]) -> str:
    commands = "\n".join(f"    '{n}:{_plain(text)}'" for n, (_, _, text) in COMMANDS.items())
    words = {**options, **_words()}
    cases = "".join(
        f"    {name}) compadd -- {' '.join(texts)} ;;\n"
        for name, texts in words.items()
        if name and texts
    )
    return f"""\
_xla_migrate() {{
  local -a commands=(
{commands}
  )
  (( CURRENT == 2 )) && _describe command commands
  case $words[2] in
{cases}    *) compadd -- {" ".join(options[""])} ;;
  esac
  _files
}}
compdef _xla_migrate xla-migrate
"""


def _fish(options: dict[str, list[str]]) -> str:
    lines = ["complete -c xla-migrate -e"]
    for name, (_, _, text) in COMMANDS.items():
        lines.append(
            f"complete -c xla-migrate -n __fish_use_subcommand -a {name} -d '{_plain(text)}'"
        )
    for name, texts in options.items():
        when = f"__fish_seen_subcommand_from {name}" if name else "__fish_use_subcommand"
        lines += [f"complete -c xla-migrate -n '{when}' -l {text[2:]}" for text in texts]
    for name, words in _words().items():
        when = f"__fish_seen_subcommand_from {name}"
        lines.append(f"complete -c xla-migrate -n '{when}' -f -a '{' '.join(words)}'")
    return "\n".join(lines) + "\n"


def _words() -> dict[str, list[str]]:
    """The words that sub-commands take which take no paths."""
    from ..manuals import names
    from .checks import known_codes

    return {
        "explain": [*known_codes(), *names()],
        "completion": list(_SHELLS),
        "help": list(COMMANDS),
    }


def _plain(text: str) -> str:
    """`text` within single quotes, where a colon ends a field."""
    return text.replace("'", "").replace(":", ",")


_SHELLS: dict[str, Callable[[dict[str, list[str]]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
