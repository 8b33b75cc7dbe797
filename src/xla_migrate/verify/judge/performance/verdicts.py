"""True if the migrated script runs as XLA should: one verdict per trap, with its evidence.

The counts are torch_xla's, without the harness's own. Steps are counted from
one step of the first optimizer to its next, after warm-up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

from ..compilations import Compilation
from ..judgement import Check, Judgement, Status
from ..observed import ObservedRun
from ..trace import OptimizerStep, Read, Recompile, Trace
from .step_times import StepFigures, count, figures, reads_per_step

# Scalar reads are served by a "fallback" of this name: they are host reads, judged as such.
NOT_FALLBACKS = {"aten::_local_scalar_dense"}
ISOLATED = 2  # compilations after warm-up that have innocent causes (fact 3.25, last batch)
ISOLATED_SHARE = 0.1
GROWTH = 1.5
MOST_PLACES = 3  # of one operation, in a verdict
SLACK = 1.5  # reads or launches more in a whole run: one more or less at its ends


def judge(
    reference: ObservedRun,
    target: ObservedRun,
    hand: ObservedRun | None,
    explained: ObservedRun | None = None,
) -> tuple[list[Judgement], StepFigures | None]:
    """All performance verdicts, the worst of all processes; and figures of the first process."""
    found = [_of_process(n, reference, target, hand, explained) for n in range(len(target.traces))]
    verdicts, summary = found[0]
    for number, (others, _) in enumerate(found[1:], 1):
        for i, (known, other) in enumerate(zip(verdicts, others, strict=False)):
            if other.status is Status.FAILED and known.status is not Status.FAILED:
                rank = target.traces[number].rank
                verdicts[i] = replace(other, detail=f"process {rank}: {other.detail}")
    return verdicts, summary


def _of_process(
    number: int,
    reference: ObservedRun,
    target: ObservedRun,
    hand: ObservedRun | None,
    explained: ObservedRun | None,
) -> tuple[list[Judgement], StepFigures | None]:
    trace, theirs = target.traces[number], reference.traces[min(number, len(reference.traces) - 1)]
    on_xla = (
        "xla" in trace.devices or not trace.devices
    )  # no device is known if no optimizer has weights
    if not (on_xla and any(step.counts for step in trace.steps)):
        place = ", ".join(trace.devices) or "the CPU"
        detail = f"the migrated script did not train on XLA but on {place}"
        if theirs.devices == ["cpu"]:
            detail = "the original trains on the CPU without CUDA: there is nothing to migrate"
        return [Judgement(Check.DEVICE, Status.FAILED, detail)], None
    steps = _measured(trace, target.warmup)
    if not steps:
        detail = f"fewer than {target.warmup + 2} steps: too few to judge after warm-up"
        return [Judgement(Check.PERFORMANCE, Status.NOT_JUDGED, detail)], None
    original = _measured(theirs, target.warmup)
    rehearsal = len(target.traces) > 1 and trace.about.get("PJRT_DEVICE") == "CPU"
    fallback = _no_fallback(trace, _explained(explained, number))
    launches = _launches(steps, original, hand, target.warmup, rehearsal)
    if fallback.status is launches.status is Status.FAILED:
        detail = f"{launches.detail}; operations on the CPU also end the graph"
        launches = replace(launches, detail=detail)
    verdicts = [
        _static_shapes(trace, target.warmup, _explained(explained, number)),
        _bounded_graph(steps),
        fallback,
        launches,
        _host_reads(steps, original, rehearsal),
    ]
    return verdicts, figures(steps, original, trace.iterations(), reference)


def _explained(explained: ObservedRun | None, number: int) -> Trace | None:
    """The same process of the run that looked for causes."""
    if explained is None or number >= len(explained.traces):
        return None
    return explained.traces[number]


def _measured(trace: Trace, warmup: int) -> list[list[OptimizerStep]]:
    """Iterations after warm-up. The first has no step mark before it and is never counted."""
    return trace.iterations()[max(warmup, 1) :]


def _static_shapes(trace: Trace, warmup: int, explained: Trace | None) -> Judgement:
    name = Check.STATIC_SHAPES
    iterations = trace.iterations()
    late = [
        (number, iteration)
        for number, iteration in enumerate(iterations, 1)
        if number > warmup and count(iteration, "compiles")
    ]
    judged = max(1, len(iterations) - warmup)
    # The first evaluation and the first end of an epoch compile new graphs. Only repeated compilation is a fault.
    still = sum(number > warmup + judged / 2 for number, _ in late)
    warm = int(sum(count(i, "compiles") for i in iterations[:warmup]))
    allowed = max(ISOLATED, ISOLATED_SHARE * judged)
    if len(late) <= allowed or still < ISOLATED:
        detail = f"{warm} compilations in the first {warmup} steps, {len(late)} isolated after"
        return Judgement(name, Status.OK, detail)
    steps = ", ".join(str(number) for number, _ in late[:8]) + (", ..." if len(late) > 8 else "")
    detail = f"compiled again at steps {steps}: {len(late)} of {judged} steps after warm-up"
    # A phase that begins late (averaged weights, another optimizer) compiles new graphs, because its code runs for
    # the first time, and only once.
    begun = _where_code_was_new(explained, warmup)
    # In a run of three steps, two compilations of known code are most of them, not an exception.
    if len(late) - begun <= min(allowed, judged // 2):
        detail = f"{warm} compilations in the first {warmup} steps; after them at {len(late)} steps, at {begun} for code that had not run before"
        return Judgement(name, Status.OK, detail)
    known = _most_frequent(explained, warmup)
    if known is not None:
        return Judgement(name, Status.FAILED, f"{detail}; cause: {known.cause}", known.where)
    causes = _causes(trace.compiled, iterations, warmup)
    first = causes[0] if causes else None
    if first is not None:
        detail += f"; cause: {first.cause}"
    return Judgement(name, Status.FAILED, detail, first.where if first else late[0][1][0].where)


def _where_code_was_new(explained: Trace | None, warmup: int) -> int:
    """At how many steps behind warm-up code ran that had not run before, and was compiled."""
    late = explained.recompiles if explained is not None else []
    return len({r.steps for r in late if r.new and r.steps >= warmup})


def _most_frequent(explained: Trace | None, warmup: int) -> Recompile | None:
    """The first of the recompilations behind warm-up at the place that has most of them."""
    recompiles = explained.recompiles if explained is not None else []
    late = [r for r in recompiles if r.steps >= warmup and r.cause]
    late = [r for r in late if not r.new] or late
    places = Counter(r.where for r in late)
    return max(late, key=lambda r: places[r.where], default=None)


def _causes(
    compiled: list[Compilation], iterations: list[list[OptimizerStep]], warmup: int
) -> list[Compilation]:
    """Compilations after warm-up, by where torch_xla's file stood at the last warm step."""
    warm = iterations[min(warmup, len(iterations)) - 1][-1].counts.get("debug_bytes", 0)
    return [c for c in compiled if c.offset >= warm]


def _bounded_graph(steps: list[list[OptimizerStep]]) -> Judgement:
    name = Check.BOUNDED_GRAPH
    sizes = [iteration[-1].counts.get("graph", 0) for iteration in steps]
    if not sum(count(i, "launches") for i in steps):
        detail = (
            "no graph was launched after warm-up: no step mark ends the graph, so it grows forever"
        )
        return Judgement(name, Status.FAILED, detail, steps[-1][-1].where)
    unmarked = 0 if sum(count(i, "marks") for i in steps) else _most_in_a_row_without_launch(steps)
    if unmarked:
        detail = (
            f"only reads end the graph, no step mark does: it holds up to {unmarked + 1} steps,"
            " as many as there are between two reads"
        )
        return Judgement(name, Status.FAILED, detail, steps[-1][-1].where)
    rises = sum(b > a for a, b in pairwise(sizes))
    growing = len(sizes) > 3 and rises > 0.8 * (len(sizes) - 1) and sizes[-1] > GROWTH * sizes[0]
    if growing:
        detail = (
            f"the graph grew from {sizes[0]:.0f} to {sizes[-1]:.0f} nodes: no step mark ends it"
        )
        return Judgement(name, Status.FAILED, detail, steps[-1][-1].where)
    largest = round(max(sizes))
    return Judgement(name, Status.OK, f"at most {largest} node{'s' * (largest != 1)}")


def _most_in_a_row_without_launch(steps: list[list[OptimizerStep]]) -> int:
    most = now = 0
    for iteration in steps:
        now = 0 if count(iteration, "launches") else now + 1
        most = max(most, now)
    return most


def _no_fallback(trace: Trace, explained: Trace | None) -> Judgement:
    found = [op for op in trace.fallbacks if op not in NOT_FALLBACKS]
    if found:
        known = explained.fallback_places if explained is not None else {}
        places = [known.get(op, []) for op in found]
        shown = (
            f"{op} ({', '.join(at[:MOST_PLACES])})" if at else op
            for op, at in zip(found, places, strict=True)
        )
        detail = f"run on the CPU, and each ends the graph: {', '.join(shown)}"
        first = next((at[0] for op, at in known.items() if op in found), "")  # in the order of time
        return Judgement(Check.NO_FALLBACK, Status.FAILED, detail, first)
    return Judgement(Check.NO_FALLBACK, Status.OK, "every operation ran on the device")


def _launches(
    steps: list[list[OptimizerStep]],
    original: list[list[OptimizerStep]],
    hand: ObservedRun | None,
    warmup: int,
    rehearsal: bool,
) -> Judgement:
    name = Check.LAUNCHES
    counts = [count(i, "launches") for i in steps]
    if rehearsal and hand is None:
        detail = f"{median(counts):.2f} per step; a rehearsal reduces through the host, which ends graphs"
        return Judgement(name, Status.NOT_JUDGED, detail)
    if hand is not None and hand.traces:
        ours = mean(counts)
        by_hand = _measured(hand.traces[0], warmup)
        limit = mean(count(i, "launches") for i in by_hand)
        # Whoever writes by hand reads less. A read that the migrated script keeps may launch once.
        limit += max(0.0, reads_per_step(original) - reads_per_step(by_hand))
        of = "as hand-written, plus the reads that it saves"
        kind = ""
    else:
        # One for each backward pass (micro-batches may each be marked), for each value that the original
        # reads too, and for a mark beside such a read, where actions are chosen by forward passes. The median of
        # what is more: an evaluation between two steps launches as often as it has batches.
        reads = [float(sum(s.host_reads for s in i)) for i in original]
        if len(reads) != len(steps):
            reads = [reads_per_step(original)] * len(steps)
        allowed = [_explained_launches(i, r) for i, r in zip(steps, reads, strict=True)]
        more = median(c - a for c, a in zip(counts, allowed, strict=True))
        limit = median(allowed)
        ours = limit + more
        of = "backward passes and the original's reads"
        kind = "median of "
    detail = f"{kind}{ours:.2f} graph launches per step (limit {limit:.2f}: {of})"
    return Judgement(
        name, Status.OK if ours <= limit + SLACK / len(steps) else Status.FAILED, detail
    )


def _explained_launches(iteration: list[OptimizerStep], reads: float) -> float:
    passes = max(1, sum(len(s.backwards) for s in iteration))
    return passes + reads + min(reads, count(iteration, "forward_marks"))


def _host_reads(
    steps: list[list[OptimizerStep]], original: list[list[OptimizerStep]], rehearsal: bool
) -> Judgement:
    name = Check.HOST_READS
    ours, theirs = reads_per_step(steps), reads_per_step(original)
    unexplained = mean(count(i, "reads") > 0 and not any(s.reads for s in i) for i in steps)
    places = _of_more(_places(steps), _places(original))
    detail = f"{ours:.2f} per step, {theirs:.2f} in the original"
    if ours > theirs + SLACK / len(steps):
        most = f"; {places[0].what} at {places[0].where}" if places else ""
        return Judgement(name, Status.FAILED, detail + most, places[0].where if places else "")
    if unexplained > theirs + SLACK / len(steps) and not rehearsal:
        detail += f"; unexplained transfers at {unexplained:.0%} of the steps"
        return Judgement(name, Status.FAILED, detail)
    return Judgement(name, Status.OK, detail)


def _of_more(ours: list[Read], theirs: list[Read]) -> list[Read]:
    """Return the reads of the kind that the target does more often than the original, such as masks that are assigned to."""
    times: Counter[str] = Counter()
    for read in ours:
        times[read.what] += read.times
    for read in theirs:
        times[read.what] -= read.times
    kind = max(times, key=lambda what: times[what], default="")
    return [read for read in ours if read.what == kind] or ours


def _places(steps: list[list[OptimizerStep]]) -> list[Read]:
    """Return the lines of the target's reads, the most frequent first."""
    times: dict[tuple[str, str], int] = {}
    for iteration in steps:
        for step in iteration:
            for read in step.reads:
                times[read.where, read.what] = times.get((read.where, read.what), 0) + read.times
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return [Read(where, what, n) for (where, what), n in ordered]
