"""The arguments of `xla-migrate verify` and of `xla-migrate PATH... --verify`."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from ..settings import STYLES
from ..verify.experiments.request import Request
from .subparser import Aligned, unknown_option
from .usage import fail, readable

_USAGE = """\
xla-migrate verify SCRIPT [options] [-- ARGUMENTS OF THE SCRIPT]
       xla-migrate verify SCRIPT --record FILE [options] [-- ARGUMENTS OF THE SCRIPT]
       xla-migrate verify SCRIPT --reference FILE [options] [-- ARGUMENTS OF THE SCRIPT]
       xla-migrate PATH... --verify [options] [-- ARGUMENTS OF THE FIRST SCRIPT]"""
_ABOUT = """\
Run the original (on CUDA, or with its CUDA calls redirected to the CPU) and the migrated script (on XLA), each in a
copy of the project, and compare them step by step. The last form writes the migration if it is proven."""
_CLOSING = """\
exit codes: 0 proven, 1 different or slow on XLA, 2 a script could not run

examples:
  xla-migrate verify train.py -- --epochs 1
  xla-migrate verify train.py --nproc 2 --steps 10 -- --batch-size 8
"""


@dataclass(frozen=True)
class Asked:
    """The parsed arguments.

    Attributes:
        request: how both sides are run and judged.
        writing: it was `xla-migrate PATH... --verify`.
        paths: what must be migrated and written then; the script is the first.
        command: the options that are the command's own then.
        migrated: the migrated script, or the folder with it, to compare with in place of the tool's migration; or None.
        unsafe: also apply unsafe fixes in the migration.
        style: what the migration is written with: "runtime", "native", or "" as the settings say.
        report: where the page goes; "" for a new file in the folder for temporary files, None for no page.
        even_unproven: write what could not be proven, too.
        target: the TPU that the migrated script's graphs are compiled for, too ("v5e"), or "".
        output_format: "text" or "json".
        words: behind `xla-migrate`, as given.
        record: the file to record the original into, or "".
        reference: the recording to check the migrated script against, or "".
        given: names of the request's fields that were given: others may come from a recording.
        against: a revision of git or a folder with the original, or "" to look for it.
    """

    request: Request
    writing: bool
    paths: tuple[Path, ...]
    command: list[str] = field(default_factory=list)
    migrated: str | None = None
    unsafe: bool = False
    report: str | None = ""
    even_unproven: bool = False
    target: str = ""
    output_format: str = "text"
    style: str = ""
    words: tuple[str, ...] = ()
    record: str = ""
    reference: str = ""
    given: frozenset[str] = frozenset()
    against: str = ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{readable(message)} (see `xla-migrate verify --help`)")


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None
        if not (value > 0 and math.isfinite(value)):
            raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
        return value

    return number


def _file(text: str) -> str:
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"{text}: no such file")
    return text


def _file_or_folder(text: str) -> str:
    if not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
    return text


def _new_folder(text: str) -> str:
    if os.path.exists(text) and (not os.path.isdir(text) or os.listdir(text)):
        raise argparse.ArgumentTypeError(f"{text}: not an empty folder")
    return text


def parser() -> argparse.ArgumentParser:
    """Return the parser of all options of both forms."""
    out = _Parser(
        prog="xla-migrate verify",
        usage=_USAGE,
        description=_ABOUT,
        epilog=_CLOSING,
        allow_abbrev=False,
        formatter_class=Aligned,
    )
    add = out.add_argument
    whole, real = positive(int), positive(float)
    add("paths", nargs="*", metavar="SCRIPT", help=argparse.SUPPRESS)
    add(
        "--steps",
        type=whole,
        default=20,
        metavar="N",
        help="optimizer steps after which both are stopped (20)",
    )
    add(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="float32 (default: autocast off, losses to 1e-5), or bfloat16 (by the R criterion)",
    )
    add(
        "--dropout",
        choices=("off", "same"),
        default="off",
        help="off (default), or same: the same masks in both",
    )
    add(
        "--tolerance",
        type=real,
        default=1e-5,
        metavar="X",
        help="relative, of losses in float32 (1e-5)",
    )
    add(
        "--amplification",
        action="store_true",
        help="always compare each step from the original's weights (two more runs; the default does so only if the runs"
        " diverge after the first steps, because training may amplify rounding)",
    )
    add(
        "--metric",
        type=_pattern,
        metavar="REGEX",
        help="a pattern of printed numbers (its first group) that must agree to 0.1 %%",
    )
    add(
        "--nproc",
        type=whole,
        default=1,
        metavar="N",
        help="processes: a rehearsal of a distributed script",
    )
    add(
        "--data-shim",
        type=_file,
        metavar="FILE",
        help="Python code to run before training, such as a stand-in for data",
    )
    add(
        "--migrated",
        type=_file_or_folder,
        metavar="PATH",
        help="compare with this migrated script, and the modules around it, or with this migrated folder",
    )
    add(
        "--against",
        default="",
        metavar="REV|FOLDER",
        help="the original: a revision of git, or a folder (default: `.orig` copies, else the last version in git"
        " before the migration)",
    )
    add(
        "--record",
        default="",
        metavar="FILE",
        help="run the original alone, on CUDA, and record it for a check on another machine",
    )
    add(
        "--reference",
        type=_file,
        metavar="FILE",
        help="compare with a recording instead of running the original; its settings and arguments are the defaults",
    )
    add(
        "--with-weights",
        action="store_true",
        help="with --record: store the initial weights and the first batches (a large file), for --replay",
    )
    add(
        "--replay",
        action="store_true",
        help="with --reference: train with the recorded initial weights and batches",
    )
    add(
        "--max-graphs",
        type=whole,
        metavar="N",
        help="fail if the migrated script compiles more graphs, and report the cause of each (one more run)",
    )
    add("--timeout", type=real, metavar="SECONDS", help="for each run")
    add(
        "--for",
        dest="target",
        default="",
        metavar="TOPOLOGY",
        help="also compile the migrated script's graphs for this TPU: v5e, v5e:2x2 ... (needs the extra tpu-compile)",
    )
    add("--unsafe", action="store_true", help="also apply unsafe fixes in the migration")
    add(
        "--style",
        choices=STYLES,
        default="",
        help="native: torch_xla's own calls in place of `import xla_migrate`",
    )
    add(
        "--report",
        default="",
        metavar="FILE",
        help="path of the page (default: a new file in the temporary folder)",
    )
    add("--no-report", dest="report", action="store_const", const=None, help="no page")
    add(
        "--keep",
        type=_new_folder,
        metavar="FOLDER",
        help="keep both runs' copies, outputs and records in this folder",
    )
    add(
        "--even-unproven",
        action="store_true",
        help="with --verify: write the migration even if it is not proven",
    )
    add("--output-format", choices=("text", "json"), default="text", help="text (default) or json")
    add("--verify", action="store_true", help=argparse.SUPPRESS)
    return out


def parse(words: Sequence[str], writing: bool = False) -> Asked:
    """The arguments.

    Args:
        words: the arguments after `verify`, or all arguments if `--verify` is one of them.
        writing: True for `PATH... --verify`; unknown options then belong to the migrate command.

    Raises:
        SystemExit: wrong usage (2), or `--help` (0).
    """
    ours, args = split(list(words))
    ours, of_command = apart(ours) if writing else (ours, [])
    given, others = parser().parse_known_intermixed_args(ours)
    others = [*of_command, *others]
    if others and not writing:
        known = [text for action in parser()._actions for text in action.option_strings]
        name = others[0].partition("=")[0]
        fail(f"{unknown_option('verify', name, known)}; the script's own arguments go after --")
    if "-" in others:
        fail("verify needs a file: it cannot read the script from standard input (-)")
    paths: list[str] = given.paths
    if not paths or (len(paths) > 1 and not writing):
        fail("verify takes one script; its arguments go after --")
    if not os.path.isfile(paths[0]):
        kind = "a folder: name the script first" if os.path.isdir(paths[0]) else "no such script"
        fail(f"{paths[0]}: {kind}")
    if given.record and given.reference:
        fail(
            "--record and --reference exclude each other: record on one machine, check on the other"
        )
    if writing and (given.record or given.reference):
        fail("--record and --reference work only with `xla-migrate verify`")
    if given.with_weights and not given.record:
        fail("--with-weights needs --record")
    if given.replay and not given.reference:
        fail("--replay needs --reference")
    if writing and given.against:
        fail("--against works only with `xla-migrate verify`")
    if given.max_graphs and (given.record or given.reference):
        fail("--max-graphs needs both runs on this machine: not with --record or --reference")
    if given.reference and (given.against or given.migrated):
        fail(
            "--reference checks the files on disk without the original: not with --against or --migrated"
        )
    if writing and given.migrated is not None:
        fail("--migrated works only with `xla-migrate verify`, which writes nothing")
    request = Request(
        script=Path(paths[0]),
        args=tuple(args),
        steps=given.steps,
        precision=given.precision,
        dropout=given.dropout,
        tolerance=given.tolerance,
        amplification=given.amplification,
        metric=given.metric,
        nproc=given.nproc,
        data_shim=given.data_shim,
        timeout=given.timeout,
        keep=given.keep,
        with_weights=given.with_weights,
        replay=given.replay,
        max_graphs=given.max_graphs,
    )
    return Asked(
        request,
        writing,
        tuple(map(Path, paths)),
        _of_both(given, others),
        given.migrated,
        given.unsafe,
        given.report,
        given.even_unproven,
        _compilable(given.target),
        given.output_format,
        given.style,
        tuple(words) if writing else ("verify", *words),
        given.record,
        given.reference or "",
        _given(words),
        given.against,
    )


_OF_RECORDINGS = {"--steps": "steps", "--nproc": "nproc", "--dropout": "dropout", "--": "args"}


def _given(words: Sequence[str]) -> frozenset[str]:
    """The fields of the request that a recording has, too, and that the user gave."""
    ours, _ = split(list(words))
    names = {word.partition("=")[0] for word in words[: len(ours) + 1] if word.startswith("--")}
    names |= {"--" for word in words if word == "--"}
    return frozenset(field for option, field in _OF_RECORDINGS.items() if option in names)


def _of_both(given: argparse.Namespace, others: list[str]) -> list[str]:
    """The command's own options: `others`, and those that are verify's, too."""
    style = ["--style", given.style] if given.style else []
    return [*others, *(["--unsafe"] if given.unsafe else []), *style]


def _compilable(target: str) -> str:
    """Return `target` if this machine has a compiler for it; fail before both scripts run for minutes."""
    if target:
        from ..target.compile.interpreter import NoCompiler, find
        from ..target.compile.topologies import TopologyError, topology

        try:
            topology(target)
            find(None)
        except (TopologyError, NoCompiler) as error:
            fail(f"--for {target}: {error}")
    return target


def apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split `xla-migrate PATH... --verify` into arguments and the migrate command's options with values.

    Without this their values would be taken for paths.
    """
    from .options import parser as of_command

    verifys = {text for action in parser()._actions for text in action.option_strings}
    own = {
        text
        for action in of_command(False)._actions
        if action.nargs is None
        for text in action.option_strings
        if text not in verifys
    }
    rest: list[str] = []
    options: list[str] = []
    left = iter(words)
    for word in left:
        if word not in own:
            rest.append(word)
            continue
        options += [word, *(value for _, value in zip(range(1), left))]
    return rest, options


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and the script's arguments behind `--`."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]
