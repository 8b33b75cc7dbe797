"""`xla-migrate precompile -- COMMAND`: fill Neuron's compile cache with a training's graphs, before the training."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from ...compiler.machines import MACHINES, NEURON, machine_of
from ...compiler.profile import FOR, OptionError
from ...settings import Finder, SettingsError
from ..subparser import SubcommandParser
from ..usage import fail

BATCHES = 5  # of each loop; published trial runs take 4 to 15 steps


def main(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code: 0, 1 if nothing was or not all could be compiled, or the command's.

    Raises:
        SystemExit: wrong usage.
    """
    own, command = list(words), []
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    given = _parser().parse_args(own)
    if not command:
        fail(
            "precompile: put the command after --: xla-migrate precompile -- torchrun ... train.py"
        )
    if given.batches < 1:
        fail(f"precompile: --batches must be at least 1, not {given.batches}")
    try:
        return _precompile(given, command)
    except (OptionError, SettingsError) as error:
        fail(f"precompile: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="xla-migrate precompile",
        description="Run COMMAND for a few batches of every loop, so that the graphs of training, evaluation and"
        " checkpoints are in Neuron's compile cache. Uses neuron_parallel_compile with the cache and the options of"
        " [tool.xla-migrate.target]. torch_xla 2.9 cannot read its cache on TPUs and on the CPU.",
        examples=["xla-migrate precompile --for trn1 -- python train.py"],
        usage="xla-migrate precompile [--for MACHINE] [--batches N] [--cache PLACE] -- COMMAND",
    )
    parser.add_argument("--for", dest="machine", metavar="MACHINE", help=", ".join(MACHINES))
    parser.add_argument(
        "--batches", type=int, default=BATCHES, metavar="N", help=f"of each loop ({BATCHES})"
    )
    parser.add_argument(
        "--cache",
        metavar="PLACE",
        help="folder or bucket of the cache (default: that of the settings)",
    )
    return parser


def _precompile(given: argparse.Namespace, command: list[str]) -> int:
    from ...target.precompile import (
        NEURON_CACHE,
        NotHere,
        PrecompileOutcome,
        on_neuron,
        size_of,
    )
    from .explain_target import planned

    name = given.machine or Finder().of(os.getcwd()).target.get(FOR, "") or _here(os.environ)
    name = machine_of(name)
    if name not in MACHINES:
        fail(f"precompile: --for: unknown machine {name}; known machines: {', '.join(MACHINES)}")
    if MACHINES[name].kind != NEURON:
        print(
            f"precompile: nothing was run: torch_xla 2.9 writes its compile cache on {name} but cannot read it, so the next"
            " start compiles again (`xla-migrate doctor --cache -- COMMAND` shows it)"
        )
        return 1
    words = {"cache": given.cache} if given.cache else {}
    env = {**os.environ, **planned(name, words, os.environ).environment(os.environ)}
    env["XLA_MIGRATE_BATCHES_PER_LOOP"] = str(given.batches)
    place = env.get("NEURON_COMPILE_CACHE_URL", NEURON_CACHE)
    before = size_of(place)
    try:
        outcome: PrecompileOutcome = on_neuron(command, env)
    except NotHere as error:
        fail(f"precompile: {error}")
    _tell(outcome, place, before, size_of(place))
    return outcome.code or int(bool(outcome.failed))


def _here(env: Mapping[str, str]) -> str:
    named = env.get("PJRT_DEVICE", "").lower()
    if named:
        return named
    if any(os.path.exists(f"/dev/neuron{k}") for k in range(16)):
        return "neuron"
    if any(os.path.exists(path) for path in ("/dev/accel0", "/dev/vfio/0")):
        return "tpu"
    fail("precompile: name the machine with --for: this one has no XLA device")


def _tell(outcome: object, place: str, before: tuple[int, int], after: tuple[int, int]) -> None:
    from ...target.precompile import PrecompileOutcome

    assert isinstance(outcome, PrecompileOutcome)
    said = []
    for number, what in (
        (outcome.hits, "read from the cache"),
        (outcome.misses, "compiled"),
        (outcome.failed, "failed"),
    ):
        if number is not None:
            said.append(f"{number} {what}")
    told = ", ".join(said) or "the command did not report its graphs"
    print(f"graphs: {told}")
    if "://" in place:
        print(f"cache: {place}")
    else:
        mib = after[1] / 2**20
        print(
            f"cache: {place}: {after[0]} files, {mib:.1f} MiB ({after[0] - before[0]} files more)"
        )
    if outcome.code:
        print(f"the command failed: exit code {outcome.code}")
