"""The sub-commands. Dispatch, `--help`, completion and "did you mean" all read this one table.

To add one: a module in this folder with `main(words: Sequence[str]) -> int` (the exit code), and a line here. Its
`--help` prints usage; completion takes its options from that text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Name -> (module in this package, plus `:function` unless it is `main`; arguments; one line of help).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "check": ("migrate.run:check", "PATH...", "report findings (--fix: rewrite)"),
    "explain": ("explain", "CODE | NAME", "explain a rule or a CUDA name"),
    "verify": (
        "verify:verify",
        "SCRIPT -- ARGS",
        "run original and migrated, and compare them",
    ),
    "compile": (
        "target.compile",
        "SCRIPT --for v5e -- ARGS",
        "compile the graphs for a TPU without one",
    ),
    "profile": (
        "target.profile",
        "SCRIPT -- ARGS",
        "measure the steps on XLA, and write a trace",
    ),
    "tune": (
        "target.tune",
        "SCRIPT --vary ... -- ARGS",
        "find the settings that train fastest",
    ),
    "run": ("target.retry", "-- COMMAND", "restart a training from its last checkpoint"),
    "explain-target": (
        "target.explain_target",
        "--for MACHINE",
        "print compiler options and environment",
    ),
    "precompile": ("target.precompile", "-- COMMAND", "fill the compile cache before a training"),
    "sagemaker": (
        "target.sagemaker",
        "rehearse SCRIPT",
        "run a launch script's job on XLA:CPU",
    ),
    "doctor": ("doctor", "", "check whether this machine can train on XLA"),
    "completion": ("completion", "SHELL", "print completion for bash, zsh or fish"),
    "help": ("help", "[COMMAND]", "print this help, or the help of a subcommand"),
}


def command(name: str) -> Callable[[Sequence[str]], int]:
    """The function behind a sub-command: from its words to the exit code."""
    from importlib import import_module

    module, _, function = COMMANDS[name][0].partition(":")
    found: Callable[[Sequence[str]], int] = getattr(
        import_module(f"{__package__}.{module}"), function or "main"
    )
    return found


# What other tools call the same.
_MEANING = {
    "lint": "check",
    "scan": "check",
    "analyze": "check",
    "rule": "explain",
    "rules": "explain --all",
    "docs": "explain",
    "man": "explain",
    "compare": "verify",
    "prove": "verify",
    "test": "verify",
    "env": "doctor",
    "info": "doctor",
    "diagnose": "doctor",
    "fix": "check --fix",
    "format": "check --fix",
    "migrate": "check --fix",
    "convert": "check --fix",
    "rewrite": "check --fix",
    "version": "--version",
    "diff": "check --diff",
}


# Words for the way back, which is git's.
_UNDOING = frozenset({"undo", "revert", "restore", "reset", "rollback"})
_UNDO = ": to undo a migration, use `git checkout FILE`, or move `FILE.orig` back"


def meant(word: str) -> str:
    """`; did you mean ...?` where `word` is like a sub-command's name, or means one; else empty."""
    if word.lower() in _UNDOING:
        return _UNDO
    if word.lower() in _MEANING:
        return f"; did you mean `{_MEANING[word.lower()]}`?"
    import difflib

    close = difflib.get_close_matches(word.lower(), COMMANDS, 1, 0.6)
    return f"; did you mean `{close[0]}`?" if close else ""
