"""`xla-migrate tune SCRIPT --vary NAME=VALUES ... -- ARGS`: which settings train fastest, and no differently."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from ..migrated_project import migrated_or_fail, tell_what_is_left
from ..subparser import SubcommandParser
from ..usage import fail
from ..verify_arguments import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...target.tune.judge import TuneOutcome
    from ...target.tune.price import Price
    from ...target.tune.settings import Setting
    from ...target.tune.trials import Trial


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    from ...target.tune.judge import judge

    own, args = split(list(words))
    asked = _parser().parse_args(own)
    settings, prices = _checked(asked)
    try:
        outcome = judge(*_tried(asked, args, settings), asked.loss_tolerance)
    except ValueError as error:
        print(f"xla-migrate: {error}", file=sys.stderr)
        return 2
    return _report(outcome, asked, args, prices)


def _checked(asked: argparse.Namespace) -> tuple[list[Setting], list[Price]]:
    from ...compiler.machines import MACHINES, machine_of
    from ...target.tune.price import PriceError, of_instance, read
    from ...target.tune.settings import SettingError, combinations, parse

    if not os.path.isfile(asked.script):
        fail(f"{asked.script}: no such script")
    if asked.machine and machine_of(asked.machine) not in MACHINES:
        fail(f"tune: --for: unknown machine {asked.machine}; known machines: {', '.join(MACHINES)}")
    if asked.repeats < 1 or asked.steps < 2 or asked.warmup < 1 or not asked.loss_tolerance >= 0:
        fail(
            "tune: --repeats and --warmup must be at least 1, --steps at least 2, --loss-tolerance at least 0"
        )
    try:
        settings = combinations(parse(asked.vary), asked.alone)
        for setting in settings:
            setting.environment(os.environ)
        prices = read(Path(asked.price)) if asked.price else []
        prices = of_instance(prices, asked.machine) if prices and asked.machine else prices
    except (SettingError, PriceError, OSError) as error:
        fail(str(error))
    if len(settings) > asked.limit:
        fail(
            f"{len(settings)} settings, each run {asked.repeats + 1} times, exceed --limit {asked.limit}:"
            " vary fewer values, use --alone, or raise --limit"
        )
    return settings, prices


def _tried(
    asked: argparse.Namespace, args: list[str], settings: list[Setting]
) -> tuple[list[list[Trial]], list[Trial]]:
    from ...target.tune.trials import TuneOptions, all_trials
    from ...verify.experiments.workspace import WorkspaceError, mark

    proposed = migrated_or_fail(Path(asked.script), asked.unsafe)
    tell_what_is_left(proposed)
    order = TuneOptions(
        Path(asked.script), args, proposed.files, asked.warmup, asked.steps, asked.timeout
    )

    def tell(turn: int, trial: Trial) -> None:
        if asked.quiet:
            return
        what = f"round {turn} of {asked.repeats}" if turn else "losses"
        figure = f"{trial.throughput:.4g} samples/s" if turn else f"{len(trial.losses)} steps"
        print(f"{what}: {trial.setting.name}: {trial.failure or figure}", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="xla-migrate-tune-") as folder:
        mark(Path(folder))
        try:
            return all_trials(settings, asked.repeats, order, Path(folder), tell)
        except WorkspaceError as error:
            fail(str(error))


def _report(
    outcome: TuneOutcome, asked: argparse.Namespace, args: list[str], prices: list[Price]
) -> int:
    from ...target.tune import page, text

    rows = text.price_rows(outcome, prices, asked.epoch_samples)
    conclusion = text.conclusion(outcome, asked.script, args, os.environ, asked.machine)
    print("\n".join(text.table(outcome)))
    print()
    if rows:
        print("\n".join([*text.price_table(rows), ""]))
    print("\n".join(conclusion))
    about = page.About(
        asked.script,
        args,
        f"{asked.repeats} rounds of {asked.steps} steps after {asked.warmup}",
        conclusion,
        rows,
    )
    report = asked.report or f"{tempfile.mkdtemp(prefix='xla-migrate-tune-')}/tune.html"
    try:
        if asked.csv:
            Path(asked.csv).write_text(text.as_csv(outcome), encoding="utf-8")
        page.save(outcome, about, Path(report))
    except OSError as error:
        print(f"xla-migrate: not written: {error}", file=sys.stderr)
        return 2
    print(f"page: {report}" + (f", table: {asked.csv}" if asked.csv else ""))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate tune",
        usage="xla-migrate tune SCRIPT --vary NAME=A,B ... [options] [-- ARGUMENTS OF THE SCRIPT]",
        description="Train with several settings of the runtime and of the script, each in its own process, and"
        " report which of them trains fastest with the same losses.",
        epilog="exit codes: 0 done, 2 the script could not run",
        examples=[
            "xla-migrate tune train.py --vary loader_prefetch=2,8 -- --epochs 1",
            "xla-migrate tune train.py --vary workers=2,4 --for trn1.32xlarge --price prices.csv",
        ],
    )
    add = parser.add_argument
    add("script")
    add("--vary", action="append", default=[], required=True, metavar="NAME=A,B",
        help="batches_per_execution, loader_prefetch, device_prefetch, transfer_threads, read_ahead,"
        " workers, precision, torch_compile, optimization; option:NAME of the script (on, off for a"
        " flag); env:NAME")  # fmt: skip
    add("--alone", action="store_true", help="each value by itself, not all combinations")
    add("--repeats", type=int, default=3, metavar="N", help="timed runs of each setting (3)")
    add("--steps", type=int, default=32, metavar="N", help="steps that are timed (32)")
    add("--warmup", type=int, default=8, metavar="N", help="steps before them (8)")
    add("--loss-tolerance", type=float, default=1e-5, metavar="X",
        help="relative, of losses at equal samples seen (1e-5, as verify)")  # fmt: skip
    add("--for", dest="machine", default="", metavar="MACHINE",
        help="machine or instance type of the training, such as trn1.32xlarge: its price, and what"
        " does not transfer to it")  # fmt: skip
    add("--price", metavar="FILE", help="CSV or TOML: instance, dollars_per_hour, relative_speed")
    add(
        "--epoch-samples", type=float, metavar="N", help="samples of an epoch, to compute its price"
    )
    add("--limit", type=int, default=24, metavar="N", help="maximum number of settings (24)")
    add("--timeout", type=float, default=1800.0, metavar="SECONDS", help="for each run (1800)")
    add("--report", default="", metavar="FILE", help="path of the page (a temporary file)")
    add("--csv", metavar="FILE", help="write the table there")
    add("--unsafe", action="store_true", help="also apply unsafe fixes in the migration")
    add("--quiet", action="store_true", help="print no progress")
    return parser
