"""The command `xla-migrate`. Every import that a run may not need is made where it is needed."""

from __future__ import annotations

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
    code = _run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 2
    os._exit(code)


def _run(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        # Paths and source lines may hold what the terminal cannot show: better escaped than no report.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(words)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    except KeyboardInterrupt:
        print("xla-migrate: interrupted; every file is as it was, or done", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the report has gone; the interpreter would complain of it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except Exception as error:
        from .internal import told

        print(f"xla-migrate: {told(error, '--verbose' in words or '-v' in words)}", file=sys.stderr)
        return 2


def _dispatch(words: Sequence[str]) -> int:
    from . import arguments

    first = words[0] if words else ""
    if first in arguments.COMMANDS:
        problem = arguments.ambiguous(words)
        if problem:
            arguments.fail(problem)
        if first == "explain":
            from .explain import explain

            return explain(words[1:])
        if first == "verify":
            from .verify import verify

            return verify(words[1:])
        if first == "doctor":
            from .doctor import doctor

            return doctor(words[1:])
    from .run import run

    if "--verify" in (words[: words.index("--")] if "--" in words else words) and first != "check":
        from .verify import verify_then_write

        return verify_then_write(words, lambda own: run(own, False))
    return run(words[1:] if first == "check" else words, first == "check")
