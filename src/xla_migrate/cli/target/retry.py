"""`xla-migrate run -- COMMAND`: started again where it dies, from its last whole checkpoint."""

from __future__ import annotations

import argparse
import shutil

from ..subparser import SubcommandParser
from ..usage import fail
from ..verify_arguments import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the command's exit code.

    Raises:
        SystemExit: wrong usage.
    """
    own, command = split(list(words))
    asked = _parser().parse_args(own)
    if not command:
        fail("run: put the command after --")
    if asked.retries < 0 or asked.stuck < 0 or asked.backoff < 0:
        fail("run: --retries, --stuck and --backoff must be at least 0")
    if asked.resume_option and "{checkpoint}" not in asked.resume_option:
        fail(
            "run: --resume-option needs {checkpoint} in place of the path: --resume-option '--resume {checkpoint}'"
        )
    if asked.resume_option and not asked.checkpoints:
        fail("run: --resume-option needs --checkpoints 'PATTERN'")
    if shutil.which(command[0]) is None:
        fail(f"run: {command[0]}: no such command")
    from ...target.run.retrying import RetryOptions, retried

    return retried(
        RetryOptions(
            command,
            retries=asked.retries,
            stuck=asked.stuck,
            backoff=asked.backoff,
            checkpoints=tuple(asked.checkpoints),
            resume_option=asked.resume_option,
            go_on=asked.go_on,
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate run",
        usage="xla-migrate run [options] -- COMMAND",
        description="Run a training. If it dies, start it again from its last complete checkpoint.",
        epilog="exit codes: the command's (128 + N if signal N ended it), 2 for wrong usage",
        examples=["xla-migrate run --checkpoints out/ -- python train.py --output out/"],
    )
    add = parser.add_argument
    add("--retries", type=int, default=3, metavar="N", help="restarts in total (3)")
    add(
        "--stuck",
        type=int,
        default=3,
        metavar="N",
        help="restarts in a row without a new checkpoint (3)",
    )
    add(
        "--backoff",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="before a restart (5; doubles)",
    )
    add(
        "--checkpoints",
        action="append",
        default=[],
        metavar="PATTERN",
        help="pattern of the checkpoints: 'out/*.pt'",
    )
    add(
        "--resume-option",
        default="",
        metavar="WORDS",
        help="the script's option: '--resume {checkpoint}'",
    )
    add(
        "--continue",
        dest="go_on",
        action="store_true",
        help="also resume from checkpoints of earlier runs",
    )
    return parser
