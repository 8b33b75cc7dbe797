"""The command `xla-migrate`. Modules that a run may not need are imported when they are used."""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run the command with these arguments; the exit code (see `xla-migrate --help`).

    Without arguments it is the program, takes them from the command line and does not return: the interpreter's own
    way out, which takes every syntax tree apart, lasts as long as a check does.
    """
    if words is not None:
        return _run(list(words))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    os._exit(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        # Paths and source lines may hold what the terminal cannot show: better escaped than no report.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _dispatch(words)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 2
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except KeyboardInterrupt:
        from .commands import COMMANDS

        is_writing = not words or words[0] not in COMMANDS
        files = "; each file is either unchanged or completely rewritten" if is_writing else ""
        print(f"xla-migrate: interrupted{files}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _forget_output()  # whoever read the report has gone
        return 2
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            return _internal(error, words)
        _forget_output()
        print(f"xla-migrate: the report cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    except Exception as error:
        return _internal(error, words)


# A device that is full, a quota, a broken device, a descriptor that is not open: of standard output, if there is no
# name of a file.
_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def _forget_output() -> None:
    """The interpreter, too, would complain of what it could not write, at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal(error: Exception, words: list[str]) -> int:
    from .internal import internal_error

    print(
        f"xla-migrate: {internal_error(error, '--verbose' in words or '-v' in words)}",
        file=sys.stderr,
    )
    return 2


def _dispatch(words: Sequence[str]) -> int:
    if words and words[0] in ("-V", "--version"):
        from .arguments import print_version

        print_version()
        return 0
    from .commands import COMMANDS, command

    first = words[0] if words else ""
    own = words[: words.index("--")] if "--" in words else words
    if first in COMMANDS:
        from . import arguments, usage

        problem = arguments.ambiguous(words)
        if problem:
            usage.fail(problem)
        return command(first)(words[1:])
    from .migrate.run import refuse_missing, run

    if "--verify" not in own:
        return run(words, False)
    from .verify import verify_then_write
    from .verify_arguments import apart

    refuse_missing([word for word in apart(own)[0] if not word.startswith("-")][:1])
    return verify_then_write(words, lambda rest: run(rest, False))
