"""`xla-migrate profile SCRIPT -- ARGS`: where the time of a training on XLA goes, and a trace of it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ...verify.judge import graph_count
from ...verify.judge.judgement import Status
from ..migrated_project import migrated_or_fail, places, tell_what_is_left
from ..subparser import SubcommandParser
from ..usage import fail
from ..verify_arguments import positive, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...target.profile.command import Profiled


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    own, args = split(list(words))
    asked = _parser().parse_args(own)
    if asked.skip < 0 or asked.steps < 1 or asked.nproc < 1:
        fail("profile: --skip must be at least 0, --steps and --nproc at least 1")
    if not os.path.isfile(asked.script):
        fail(f"{asked.script}: no such script")
    from ...target.profile.command import profiled
    from ...verify.experiments.workspace import WorkspaceError

    proposed = migrated_or_fail(Path(asked.script), asked.unsafe)
    tell_what_is_left(proposed)
    try:
        found = profiled(
            Path(asked.script),
            args,
            Path(asked.output),
            proposed.files,
            skip=asked.skip,
            steps=asked.steps,
            nproc=asked.nproc,
            stop=not asked.run_on,
            op_lines=asked.op_lines,
            count_graphs=asked.max_graphs is not None,
        )
    except WorkspaceError as error:
        fail(str(error))
    return _report(found, asked.output) or _judged(found, asked.max_graphs, places(proposed))


def _judged(found: Profiled, limit: int | None, place: Callable[[str], str]) -> int:
    """Print the number of graphs and their causes; return 1 if there are more than `limit`."""
    if limit is None:
        return 0
    causes = graph_count.groups(found.graphs, found.steps)
    print(f"{graph_count.total(causes, 0)} in {found.steps} steps, at most {limit} allowed:")
    for group in causes:
        print(f"  {graph_count.shown(group, place)}")
    return int(graph_count.judge(found.graphs, found.steps, limit).status is Status.FAILED)


def _report(found: Profiled, folder: str) -> int:
    for replica, text in found.summaries.items():
        print(f"\n{replica}:\n{text}" if replica else f"\n{text}", end="")
    if found.code:
        print(f"xla-migrate: the script ended with exit code {found.code}", file=sys.stderr)
        return 2
    if not found.traces:
        why = "no optimizer was created, or the training has fewer steps than --skip"
        print(f"xla-migrate: no trace: {why}", file=sys.stderr)
        return 2
    print("\ntraces:")
    for path in found.traces:
        print(f"  {os.path.relpath(path)}")
    print(f"open: the .json file in https://ui.perfetto.dev, or `xprof --logdir {folder}`")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate profile",
        usage="xla-migrate profile SCRIPT [options] [-- ARGUMENTS OF THE SCRIPT]",
        description="Migrate the script if necessary, run it in a copy of its project, and record a trace of its"
        " training steps.",
        epilog="exit codes: 0 done, 1 more graphs than --max-graphs, 2 the script could not run",
        examples=["xla-migrate profile train.py --steps 20 -- --epochs 1"],
    )
    add = parser.add_argument
    add("script")
    add("--output", default="profile", metavar="FOLDER", help="for traces and summary (profile)")
    add("--skip", type=int, default=3, metavar="N", help="training steps before the trace (3)")
    add("--steps", type=int, default=20, metavar="N", help="training steps in the trace (20)")
    add(
        "--max-graphs",
        type=positive(int),
        metavar="N",
        help="fail if more graphs are compiled; reports causes",
    )
    add("--run-on", action="store_true", help="let the script continue after the traced steps")
    add("--nproc", type=int, default=1, metavar="N", help="processes; each profiles itself")
    add("--op-lines", action="store_true", help="the line of each device operation (slower)")
    add("--unsafe", action="store_true", help="also apply unsafe fixes in the migration")
    return parser
