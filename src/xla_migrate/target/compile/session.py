"""From a script to verdicts on its graphs: traced, told apart, compiled or remembered, judged."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..kernels.targets import KernelTarget
from . import pool, store, tracing
from .interpreter import Compiler, find
from .judge import (
    FITS,
    REFUSED,
    TOO_LARGE,
    TOO_LARGE_FOR_ANY,
    UNKNOWN,
    Verdict,
    capacity,
    name_differences,
    verdict,
)
from .topologies import Topology

LEVELS = ("O0", "O1", "O2", "O3")


@dataclass
class CompileOptions:
    """Options for tracing and compiling.

    Attributes:
        level: "O0" to "O3", or "" for the compiler's default.
        steps: batches of each pass over a DataLoader; 0 for all.
        patience: optimizer steps without a new graph after which the script is stopped.
        execute: run the graphs on the CPU while tracing, so that what the script reads is real.
        explain: find out why each graph differs from earlier ones.
        ops: the target whose kernels are looked up for each operation.
        jobs: compiling processes at most.
        timeout: seconds, for the tracing and for each graph.
        cache: use and fill the cache.
        compiler: the interpreter with the compiler; None: found.
        progress: called with a line that says how far it is.
    """

    level: str = ""
    steps: int = 4
    patience: int = 16
    execute: bool = False
    explain: bool = False
    ops: KernelTarget | None = None
    jobs: int = 0
    timeout: float | None = None
    cache: bool = True
    compiler: str | None = None
    progress: Callable[[str], None] | None = None


@dataclass
class CompileOutcome:
    """The result of a compilation.

    Attributes:
        topology: the topology that the graphs were compiled for.
        compiler: the compiler's versions.
        tracing: the graphs as they were cut, and the rest that the script's process told.
        verdicts: one per graph, in order of the first cut.
    """

    topology: Topology
    compiler: str
    tracing: tracing.Tracing
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return 0 if everything fits, 1 if something does not, 2 if that could not be determined."""
        found = {one.status for one in self.verdicts}
        if found & {TOO_LARGE, REFUSED}:
            return 1
        return 2 if UNKNOWN in found or self.tracing.problem or not found else 0

    @property
    def fits(self) -> bool:
        """All graphs were compiled, and fit."""
        return self.exit_code == 0


def compile_script(
    script: Path,
    args: Sequence[str],
    topology: Topology,
    options: CompileOptions,
    replace: Mapping[str, str | bytes] | None = None,
) -> CompileOutcome:
    """Trace a script for XLA, and compile what it would run on the topology's chips.

    Args:
        script: the script.
        args: its arguments.
        topology: from `topologies.topology`.
        options: how.
        replace: contents that take the place of the project's files: the migrated ones.

    Raises:
        NoCompiler: there is none.
        TracingError: the project cannot be copied.
    """
    compiler = find(options.compiler)
    devices = topology.chips if _is_spmd(script, replace) else 1
    traced = trace_script(script, args, options, replace, devices)
    outcome = CompileOutcome(topology, compiler.version, traced)
    if traced.graphs:
        outcome.verdicts = _compiled(traced.graphs, topology, compiler, options)
        name_differences(outcome.verdicts)
    return outcome


def trace_script(
    script: Path,
    args: Sequence[str],
    options: CompileOptions,
    replace: Mapping[str, str | bytes] | None,
    devices: int = 1,
) -> tracing.Tracing:
    """Return the graphs of a script, which are not compiled; arguments as for `compile_script`."""

    def show(graphs: int, seconds: float) -> None:
        _say(options, f"tracing: {graphs} graphs, {seconds:.0f} s")

    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        return tracing.trace(
            script,
            args,
            Path(folder),
            replace=replace,
            steps=options.steps,
            patience=options.patience,
            execute=options.execute,
            explain=options.explain,
            ops=options.ops,
            devices=devices,
            timeout=options.timeout,
            progress=show,
        )


def _is_spmd(script: Path, replace: Mapping[str, str | bytes] | None) -> bool:
    """True if the script drives all devices from one process."""
    texts: list[str | bytes] = [script.read_bytes(), *(replace or {}).values()]
    return any((t if isinstance(t, bytes) else t.encode()).find(b"use_spmd(") >= 0 for t in texts)


@dataclass
class _Job:
    key: str
    request: dict[str, Any]
    reply: dict[str, Any] | None
    cached: bool


def _compiled(
    graphs: Sequence[tracing.Traced],
    topology: Topology,
    compiler: Compiler,
    options: CompileOptions,
) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="xla-migrate-") as folder:
        texts = [(TOO_LARGE_FOR_ANY, 1, "O1")]  # what the chip has, in the compiler's own words
        texts += [(g.text, topology.chips if g.spmd else 1, options.level) for g in graphs]
        jobs = [
            _job(Path(folder) / f"{i}.mlir", *one, topology, compiler, options.cache)
            for i, one in enumerate(texts)
        ]
        _compile(jobs, compiler, options)
    limit = capacity(str((jobs[0].reply or {}).get("error", "")))
    return [
        verdict(graph, job.reply or {}, limit, job.cached)
        for graph, job in zip(graphs, jobs[1:], strict=True)
    ]


def _job(
    file: Path,
    text: str,
    devices: int,
    level: str,
    topology: Topology,
    compiler: Compiler,
    cache: bool,
) -> _Job:
    key = store.key(text, topology.plain(), devices, level, compiler.version)
    reply = store.load(key) if cache else None
    if reply is None:
        file.write_text(text, encoding="utf-8")
    request = {
        "text": str(file),
        "topology": topology.plain(),
        "devices": devices,
        "level": level,
        "size": len(text),
    }
    return _Job(key, request, reply, reply is not None)


def _compile(jobs: Sequence[_Job], compiler: Compiler, options: CompileOptions) -> None:
    """Give every job its reply."""
    new = sorted((j for j in jobs if j.reply is None), key=lambda j: -j.request["size"])
    finished = 0

    def done(i: int, reply: dict[str, Any]) -> None:
        nonlocal finished
        finished += 1
        new[i].reply = reply
        if options.cache:
            store.save(new[i].key, reply)
        _say(options, f"compiling: {finished} of {len(new)} graphs")

    _say(options, f"compiling: {len(new)} graphs, {len(jobs) - len(new)} known")
    at_once = options.jobs or len(os.sched_getaffinity(0))
    pool.run(compiler.python, [j.request for j in new], at_once, options.timeout, done)


def _say(options: CompileOptions, line: str) -> None:
    if options.progress is not None:
        options.progress(line)


def summary(outcome: CompileOutcome) -> dict[str, int]:
    """Return the number of graphs of each status."""
    counts = dict.fromkeys((FITS, TOO_LARGE, REFUSED, UNKNOWN), 0)
    for one in outcome.verdicts:
        counts[one.status] += 1
    return counts
