"""`xla-migrate compile SCRIPT --for v5e -- ARGS`: the script's graphs, compiled by the real TPU compiler."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ...settings import SettingsError
from ...target.compile import fit, report, session
from ...target.compile.interpreter import NoCompiler
from ...target.compile.topologies import TopologyError, topology
from ...target.compile.tracing import Tracing, TracingError
from ...target.kernels import report as kernels
from ...target.kernels import targets
from ...target.kernels.targets import TargetError
from ...verify.experiments.migration import ProjectMigration
from ...verify.judge import graph_count
from ..migrated_project import migrated_or_fail, places
from ..subparser import SubcommandParser
from ..usage import fail
from ..verify_arguments import positive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ABOUT = """\
Trace the script's training steps, evaluation and checkpoints without running them, and compile each graph for a TPU.
No TPU is needed. A CUDA script is migrated first, in a copy. The report shows for each graph the line that ends it,
its share of the chip's memory, FLOPs, bytes and collectives. Compiled does not mean run.
"""
_CODES = """\
exit codes: 0 all graphs fit; 1 a graph does not fit or is refused, there are more than --max-graphs, or an operation of
--ops has no kernel; 2 unknown"""


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    own, args = _split(list(words))
    asked = _parser().parse_args(own)
    script = Path(asked.script)
    if not asked.target and (asked.fit or (asked.max_graphs is None and asked.ops is None)):
        fail("compile needs --for TOPOLOGY, --ops TARGET or --max-graphs N")
    if not script.is_file():
        fail(f"{asked.script}: no such script")
    try:
        target = topology(asked.target) if asked.target else None
        wanted = fit.parse(asked.fit) if asked.fit else None
        proposed = ProjectMigration() if asked.as_is else migrated_or_fail(script, asked.unsafe)
        show = _shower()
        options = _options(asked, show)

        if target is None:
            traced = session.trace_script(script, args, options, proposed.files)
            show("")
            _tell_traced(traced, asked, options.ops, places(proposed))
            return _code_of_traced(traced, asked)

        def compiled(args: Sequence[str]) -> session.CompileOutcome:
            return session.compile_script(script, args, target, options, proposed.files)

        if wanted is not None:
            return _fitted(compiled, wanted, args, asked, places(proposed), show)
        outcome = compiled(args)
    except (
        TopologyError,
        fit.FitError,
        NoCompiler,
        TracingError,
        SettingsError,
        TargetError,
    ) as error:
        fail(str(error))
    show("")
    _tell(outcome, asked, options.ops, places(proposed))
    return outcome.exit_code or _code_of_traced(outcome.tracing, asked)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate compile",
        usage="xla-migrate compile SCRIPT [--for TOPOLOGY] [--ops TARGET] [options] -- ARGUMENTS",
        description=_ABOUT,
        epilog=_CODES,
        examples=[
            "xla-migrate compile train.py --for v5e -- --batch-size 32",
            "xla-migrate compile train.py --ops tpu -- --epochs 1",
        ],
    )
    add = parser.add_argument
    add("script", metavar="SCRIPT")
    add(
        "--for",
        dest="target",
        default="",
        metavar="TOPOLOGY",
        help="v4, v5e, v5p, v6e, or a slice: v5e:2x2",
    )
    add(
        "--steps",
        type=_count,
        default=4,
        metavar="N",
        help="batches of each pass over a DataLoader (4); 0 for all",
    )
    add(
        "--patience",
        type=_count,
        default=16,
        metavar="N",
        help="optimizer steps without a new graph after which the script is stopped (16)",
    )
    add(
        "--optimization",
        choices=session.LEVELS,
        default="",
        help="the compiler's effort; its default is like O2",
    )
    add(
        "--fit",
        metavar="OPTION=LOW..HIGH",
        help="the largest value of the script's option that fits, doubling from LOW; LOW..HIGH:STEP for every STEP",
    )
    add(
        "--max-graphs",
        type=positive(int),
        metavar="N",
        help="fail if the whole training compiles more graphs, and report their causes; works without --for",
    )
    add(
        "--ops",
        metavar="TARGET",
        help="fail if an operation has no kernel for the target, and report its line: tpu (torch_tpu), xla (torch_xla; with "
        "--for the default), or neuron=FILE with the output of torch_neuronx.get_fallback_ops(); works without --for",
    )
    add(
        "--execute-on-cpu",
        action="store_true",
        help="compute on XLA:CPU while tracing, so that the script reads real values",
    )
    add(
        "--jobs",
        type=_count,
        default=0,
        metavar="N",
        help="maximum number of compiling processes (default: one per core)",
    )
    add("--timeout", type=float, metavar="SECONDS", help="for the tracing, and for each graph")
    add(
        "--compiler",
        metavar="PYTHON",
        help="the interpreter with jaxlib and libtpu (else $XLA_MIGRATE_TPU_COMPILER, this one, or one in the cache folder)",
    )
    add("--no-cache", action="store_true", help="compile again, even if an earlier run did")
    add("--unsafe", action="store_true", help="also apply unsafe fixes in the migration")
    add(
        "--as-is",
        action="store_true",
        help="do not migrate the script: it is written for XLA already",
    )
    add("--output-format", choices=("text", "json"), default="text")
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a number from 0, not {text!r}")
    return int(text)


def _options(asked: argparse.Namespace, show: Callable[[str], None]) -> session.CompileOptions:
    ops = asked.ops or ("xla" if asked.target else None)
    return session.CompileOptions(
        level=asked.optimization,
        steps=asked.steps,
        patience=asked.patience,
        # What runs on the CPU needs values.
        execute=asked.execute_on_cpu or not (asked.target or asked.max_graphs),
        explain=asked.max_graphs is not None,
        ops=targets.parse(ops) if ops else None,
        jobs=asked.jobs,
        timeout=asked.timeout,
        cache=not asked.no_cache,
        compiler=asked.compiler,
        progress=show,
    )


def _shower() -> Callable[[str], None]:
    """Shows progress in one line of a terminal; elsewhere a line for each stage."""
    last = [""]

    def show(line: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif line.startswith("compiling") and line != last[0]:
            print(f"xla-migrate: {line}", file=sys.stderr, flush=True)
        last[0] = line

    return show


def _fitted(
    compiled: Callable[[Sequence[str]], session.CompileOutcome],
    wanted: fit.Range,
    args: Sequence[str],
    asked: argparse.Namespace,
    place: Callable[[str], str],
    show: Callable[[str], None],
) -> int:
    outcomes: dict[int, session.CompileOutcome] = {}

    def fits(value: int) -> bool:
        outcome = compiled(fit.with_option(args, wanted.option, value))
        if outcome.exit_code == 2:
            _tell(outcome, asked, None, place)
            fail(
                f"--{wanted.option}={value}: {outcome.tracing.problem or 'not all graphs were compiled'}"
            )
        outcomes[value] = outcome
        return outcome.fits

    found = fit.search(wanted, fits)
    show("")
    best = outcomes[found.largest] if found.largest is not None else outcomes[min(outcomes)]
    if asked.output_format == "json":
        print(json.dumps(report.plain(best, place, found), indent=2))
    else:
        print(
            "\n".join([*report.lines(best, place), *report.fitted_lines(found, best.topology.name)])
        )
    return 0 if found.largest is not None else 1


def _tell_traced(
    traced: Tracing,
    asked: argparse.Namespace,
    ops: targets.KernelTarget | None,
    place: Callable[[str], str],
) -> None:
    """Print what the tracing alone tells: the number of graphs and operations without a kernel."""
    if asked.output_format == "json":
        plain = _plain_traced(traced, asked, ops, place)
        problem = report.placed(traced.problem, place) or None
        # Without --for, the number of graphs is the document itself.
        print(
            json.dumps({**plain.pop("number_of_graphs", {}), **plain, "problem": problem}, indent=2)
        )
        return
    if asked.max_graphs is not None:
        print("\n".join(report.count_lines(traced, asked.max_graphs, place)))
    if ops is not None:
        print("\n".join(kernels.lines(traced.kernels, ops, traced.steps, place)))
    if asked.max_graphs is None and not asked.target:
        print("".join(f"{line}\n" for line in report.problem_lines(traced, place)), end="")


def _plain_traced(
    traced: Tracing,
    asked: argparse.Namespace,
    ops: targets.KernelTarget | None,
    place: Callable[[str], str],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if asked.max_graphs is not None:
        found["number_of_graphs"] = report.plain_count(traced, place)
    if ops is not None:
        found["kernels"] = kernels.plain(traced.kernels, ops, traced.steps, place)
    return found


def _code_of_traced(traced: Tracing, asked: argparse.Namespace) -> int:
    is_over = False
    if asked.max_graphs is not None:
        causes = graph_count.groups(traced.causes, traced.steps)
        is_over = graph_count.predicted(causes, traced.left_out) > asked.max_graphs
    if is_over or (asked.ops and traced.kernels.missing):
        return 1
    is_empty = asked.ops is not None and not traced.kernels.operations
    return 2 if traced.problem or is_empty else 0


def _tell(
    outcome: session.CompileOutcome,
    asked: argparse.Namespace,
    ops: targets.KernelTarget | None,
    place: Callable[[str], str],
) -> None:
    if asked.output_format == "json":
        plain = report.plain(outcome, place)
        plain |= _plain_traced(outcome.tracing, asked, ops, place)
        print(json.dumps(plain, indent=2))
        return
    print("\n".join(report.lines(outcome, place)))
    _tell_traced(outcome.tracing, asked, ops, place)
