"""Facts for all reports, computed once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ..judge.blame import MigrationFinding, of_verdict
from ..judge.compare import Comparison
from ..judge.divergence import Quantity
from ..judge.failures import Fault
from ..judge.judgement import OF_SPEED, Judgement, Status
from ..judge.observed import ObservedRun
from ..judge.source_lines import SourceLines
from ..judge.trace import Read
from .origin import Origin

# Whose fault it is that a run did not do what was asked.
_FAULTS = {
    Fault.SCRIPT: "its own error",
    Fault.NETWORK: "it needs the network",
    Fault.FILE: "a file that it needs is missing",
    Fault.PACKAGE: "a package that it imports is missing",
    Fault.TIMEOUT: "it ran out of time",
    Fault.MEMORY: "the machine's memory",
    Fault.NO_STEP: "no optimizer step ran",
    Fault.REDIRECT: "it needs a CUDA device",
    Fault.HARNESS: "a fault of xla-migrate verify",
    Fault.NOT_RUN: "not tried",
}


class Conclusion(str, Enum):
    """The result of a verification. The value is its name in reports and in JSON."""

    PROVEN = "proven"
    DIFFERS = "differs"
    NOT_PROVEN = "not proven"  # the gradients are rounding errors: nothing can be compared
    COULD_NOT_RUN = "could not run"

    def __str__(self) -> str:
        return self.value


# In a project that computes in half precision, that has dropout or models of libraries, which may
# have it, or that starts or joins processes that can be rehearsed.
_HALF = re.compile(
    r"autocast|GradScaler|float16|\.half\(|fp16|bf16|mixed_precision|\bamp\b|\bapex\b"
)
_DROPOUT = re.compile(
    r"drop_?out|drop_?path|transformers|timm|diffusers|torchvision|lightning|peft|monai|fastai",
    re.IGNORECASE,
)
_DISTRIBUTED = re.compile(r"init_process_group|DistributedDataParallel|\bmp\.spawn|\bAccelerator\(")
_EXIT_CODES = {
    Conclusion.PROVEN: 0,
    Conclusion.DIFFERS: 1,
    Conclusion.NOT_PROVEN: 1,
    Conclusion.COULD_NOT_RUN: 2,
}


@dataclass(frozen=True)
class Report:
    """A comparison, with what is needed to explain it.

    Attributes:
        comparison: of the two runs.
        script: as the user named it.
        args: the script's own.
        origin: who made it, when and how.
        further: verdicts of others (a compilation for a TPU), judged and shown as the comparison's own.
        settings: of the verification, by name, as shown.
        findings: what the rewriting dealt with and left, in the whole project.
        files: (original, migrated) text of each changed file, by path in the project.
    """

    comparison: Comparison
    script: str
    settings: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[MigrationFinding] = ()
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    args: Sequence[str] = ()
    origin: Origin = field(default_factory=Origin)
    further: Sequence[Judgement] = ()

    @property
    def status(self) -> Conclusion:
        """Proven if the migrated script trains the same. Its speed is `slow`'s."""
        if not self.comparison.could_run:
            return Conclusion.COULD_NOT_RUN
        if self.comparison.rows and not self.different:
            return Conclusion.PROVEN
        found = self.comparison.divergence
        is_rounding = found is not None and found.quantity is Quantity.NO_GRADIENT
        return Conclusion.NOT_PROVEN if is_rounding else Conclusion.DIFFERS

    @property
    def different(self) -> list[Judgement]:
        """The failed verdicts about numbers: what is computed, printed and kept."""
        return [v for v in self.failed if v.name not in OF_SPEED]

    @property
    def slow(self) -> list[Judgement]:
        """The failed verdicts about speed: compilations, launches, reads and the like."""
        return [v for v in self.failed if v.name in OF_SPEED]

    @property
    def verdicts(self) -> list[Judgement]:
        """The comparison's, then further ones."""
        return [*self.comparison.verdicts, *self.further]

    @property
    def failed(self) -> list[Judgement]:
        """The verdicts against the migrated script."""
        return [v for v in self.verdicts if v.status is Status.FAILED]

    def loaded(self) -> dict[str, tuple[str, str]]:
        """Return the `files` that a run loaded; all, if that is not known."""
        return {name: texts for name, texts in self.files.items() if self._is_loaded(name)}

    def _is_loaded(self, name: str) -> bool:
        traces = [*self.comparison.reference.traces, *self.comparison.target.traces]
        known = {name for trace in traces for name in trace.loaded}
        is_source = name.endswith((".py", ".ipynb"))  # which other files were read is not known
        return not known or not is_source or name in known  # a process that was killed tells none

    @property
    def exit_code(self) -> int:
        """0 proven and no check of the speed failed, 1 a check failed, 2 it could not be run."""
        return _EXIT_CODES[self.status] or int(bool(self.slow))

    @property
    def conditions(self) -> str:
        """Return the conditions of the comparison: precision, autocast, dropout, steps and processes."""
        given = self.settings
        precision = given.get("precision", "float32")
        autocast = "autocast off" if precision == "float32" else "autocast as in the script"
        dropout = {"off": "dropout off", "same": "the same dropout masks"}
        processes = int(given.get("processes", "1"))
        replayed = ["the recorded weights and batches"] if "replay" in given else []
        return ", ".join(
            (
                precision,
                autocast,
                dropout.get(given.get("dropout", "off"), ""),
                f"{len(self.comparison.rows)} steps",
                f"{processes} process{'es' * (processes > 1)}",
                *replayed,
            )
        )

    @property
    def not_covered(self) -> str:
        """The options that compare what these runs left out, as a sentence part; "" if there is nothing."""
        rest = []
        is_recorded = "reference" in self.settings  # in the precisions of the recording only
        if self.settings.get("precision") == "float32" and not is_recorded and self._has(_HALF):
            rest.append("`--precision bfloat16`")
        if self.settings.get("dropout") == "off" and self._has(_DROPOUT):
            rest.append("`--dropout same`")
        if self.settings.get("processes") == "1" and self._has(_DISTRIBUTED):
            rest.append("`--nproc 2`")
        return ", ".join(rest)

    def _has(self, feature: re.Pattern[str]) -> bool:
        return any(feature.search(before) for before, _ in self.files.values())

    @property
    def sides(self) -> list[tuple[str, ObservedRun]]:
        """Both runs, as they are called."""
        return [("original", self.comparison.reference), ("migrated", self.comparison.target)]

    def suspects(self) -> list[tuple[Judgement, MigrationFinding]]:
        """The finding most likely behind each failed verdict, with its line in the migrated file."""
        lines = SourceLines(self.files)
        ran = [f for f in self.findings if self._is_loaded(f.path)]
        found = []
        for verdict in self.failed:
            behind = of_verdict(verdict, self.comparison.divergence, ran, lines)
            if behind is not None:
                line = behind.after or lines.migrated(behind.path, behind.line)
                found.append((verdict, replace(behind, line=line)))
        return found

    def blame(self) -> list[str]:
        """For each run that failed: whose fault it was, in a sentence."""
        out = []
        reference, target = self.comparison.reference.failure, self.comparison.target.failure
        for name, failure in (("original", reference), ("migrated script", target)):
            if failure is None or failure.fault is Fault.NOT_RUN:
                continue
            whose = _FAULTS[failure.fault]
            if failure is target and failure.fault is Fault.SCRIPT:
                whose = "the migration or a missing manual change: the original ran"
            out.append(f"could not run the {name} ({whose}): {failure.message}")
        return out

    def reads(self) -> list[tuple[Read, float, float]]:
        """Places that read from the device: (place, times per step in the original, in the migrated).

        Lines refer to the original, so that one location is one row.
        """
        lines = SourceLines(self.files)
        times: dict[tuple[str, str], list[float]] = {}
        for side, (_, run) in enumerate(self.sides):
            iterations = run.traces[0].iterations() if run.traces else []
            counted = iterations[max(run.warmup, 1) :] or iterations
            for iteration in counted:
                for step in iteration:
                    for read in step.reads:
                        path, line = lines.place(read.where) if side else (read.where, 0)
                        where = f"{path}:{line}" if line else path
                        row = times.setdefault((where, read.what), [0.0, 0.0])
                        row[side] += read.times / len(counted)
        rows = [(Read(where, what, 0), a, b) for (where, what), (a, b) in times.items()]
        return sorted(rows, key=lambda row: -max(row[1], row[2]))

    def compilations(self) -> list[tuple[str, str, int]]:
        """(cause, place, how often in all processes), the most frequent first."""
        times: dict[tuple[str, str], int] = {}
        for trace in self.comparison.target.traces:
            for compiled in trace.compiled:
                key = compiled.cause, compiled.where
                times[key] = times.get(key, 0) + 1
        return sorted(((c, w, n) for (c, w), n in times.items()), key=lambda row: -row[2])

    def notes(self) -> list[str]:
        """Return the notes that a reader needs to trust the result."""
        out = []
        reference, target = self.comparison.reference, self.comparison.target
        if reference.redirected:
            out.append(
                "no CUDA here: the original's CUDA calls were sent to the CPU, so its times are not compared"
            )
        if self._lacks_devices():
            out.append("the original saw one GPU, and counts them: `--nproc 2` shows it two")
        if len(target.traces) > 1:
            out.append(
                f"all {len(target.traces)} processes were compared and judged; steps, curves and times"
                " shown are from the first process"
            )
        draws = sum(trace.device_draws for run in (reference, target) for trace in run.traces)
        if draws:
            out.append("random numbers of the device were drawn on the CPU, the same in both runs")
        out += sorted({note for run in (reference, target) for t in run.traces for note in t.notes})
        return out

    def _lacks_devices(self) -> bool:
        """Return True if the original may have stopped because it counted one redirected device."""
        reference = self.comparison.reference
        failed = reference.failure is not None and reference.failure.fault is Fault.SCRIPT
        is_one = self.settings.get("processes") == "1" and (
            reference.redirected or not reference.traces
        )
        counts = any("cuda.device_count" in before for before, _ in self.files.values())
        return failed and is_one and counts

    def performance(self) -> list[tuple[str, str]]:
        """Figures of the migrated script's steps after warm-up, as (name, figure)."""
        s = self.comparison.summary
        if s is None:
            return []

        def ms(seconds: float) -> str:
            return f"{seconds * 1e3:.2f} ms"

        original = []
        if s.reference_step_s is not None:
            original = [("step of the original, on CUDA", ms(s.reference_step_s))]
        reads = f"{s.host_reads:.2f} ({s.reference_host_reads:.2f} in the original)"
        return [
            *original,
            ("step, without compilation", ms(s.step_s)),
            ("of it in Python (tracing, loader, printing)", ms(s.trace_s)),
            ("of it waiting for the device at step marks", ms(s.wait_s)),
            ("of it waiting for values that the script reads", ms(s.read_s)),
            ("time in which the device is busy", f"{s.device_busy:.0%}"),
            ("compilation, apart", f"{s.compilations} in {s.compile_s:.2f} s"),
            ("time of verify itself, outside the step", ms(s.harness_s)),
            ("compilations", f"{s.compiles:.2f}"),
            ("launches", f"{s.launches:.2f}"),
            ("host reads", reads),
            ("uploads", f"{s.uploads:.2f}"),
            ("nodes of the graph", f"{s.graph:.0f}"),
        ]
