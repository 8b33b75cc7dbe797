"""What all reports tell, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..compare import Comparison
from ..run import Run
from ..suspects import Finding, Lines, of_verdict
from ..trace import Read
from ..verdict import Verdict

# Whose fault it is that a run did not do what was asked.
_FAULTS = {
    "script": "its own error",
    "network": "it needs the network",
    "file": "a file that it needs is missing",
    "package": "a package that it imports is missing",
    "timeout": "it ran out of time",
    "memory": "the machine's memory",
    "no step": "it does not train with these arguments",
    "redirect": "it does what only a CUDA device can do",
    "harness": "ours: the harness failed",
    "not run": "not tried",
}


@dataclass(frozen=True)
class Report:
    """A comparison, with what is needed to explain it.

    Attributes:
        comparison: of the two runs.
        script: as the user named it.
        args: the script's own.
        settings: of the verification, by name, as shown.
        findings: what the rewriting dealt with and left, in the whole project.
        files: (original, migrated) text of each changed file, by path in the project.
    """

    comparison: Comparison
    script: str
    settings: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    args: Sequence[str] = ()

    @property
    def status(self) -> str:
        """One of "proven", "differs" and "could not run"."""
        if not self.comparison.could_run:
            return "could not run"
        return "proven" if self.comparison.proven else "differs"

    @property
    def exit_code(self) -> int:
        """0 proven, 1 it differs, 2 it could not be run."""
        return {"proven": 0, "differs": 1, "could not run": 2}[self.status]

    @property
    def sides(self) -> list[tuple[str, Run]]:
        """Both runs, as they are called."""
        return [("original", self.comparison.reference), ("migrated", self.comparison.target)]

    def suspects(self) -> list[tuple[Verdict, Finding]]:
        """The finding most likely behind each failed verdict."""
        lines = Lines(self.files)
        found = []
        for verdict in self.comparison.failed:
            behind = of_verdict(verdict, self.comparison.divergence, self.findings, lines)
            if behind is not None:
                found.append((verdict, behind))
        return found

    def blame(self) -> list[str]:
        """For each run that failed: whose fault it was, in a sentence."""
        out = []
        reference, target = self.comparison.reference.failure, self.comparison.target.failure
        for name, failure in (("original", reference), ("migrated script", target)):
            if failure is None or failure.fault == "not run":
                continue
            whose = _FAULTS.get(failure.fault, failure.fault)
            if failure is target and failure.fault == "script":
                whose = "the migration's, or of something that was left for you: the original ran"
            out.append(f"could not run the {name} ({whose}): {failure.message}")
        return out

    def reads(self) -> list[tuple[Read, float, float]]:
        """Places that read from the device: (place, times per step in the original, in the migrated).

        Lines are those of the original, so that one place is one row.
        """
        lines = Lines(self.files)
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
        """What the reader has to know to believe it."""
        out = []
        reference, target = self.comparison.reference, self.comparison.target
        if reference.redirected:
            out.append("no CUDA here: the original's CUDA calls were sent to the CPU")
        if len(target.traces) > 1:
            out.append(
                f"all {len(target.traces)} processes were compared and judged; steps, curves and times"
                " shown are those of the first"
            )
        draws = sum(trace.device_draws for run in (reference, target) for trace in run.traces)
        if draws:
            out.append("random numbers of the device were drawn on the CPU, alike in both runs")
        out += sorted({note for run in (reference, target) for t in run.traces for note in t.notes})
        return out

    def performance(self) -> list[tuple[str, str]]:
        """Figures per step after warm-up, as (name, figure)."""
        s = self.comparison.summary
        if not s:
            return []

        def ms(name: str) -> str:
            return f"{s[name] * 1e3:.2f} ms"

        return [
            ("step, original", ms("reference_step_s")),
            ("step, migrated", ms("step_s")),
            ("of it traced in Python", ms("trace_s")),
            ("of it compiling", ms("compile_s")),
            ("of it waiting for the device", ms("wait_s")),
            ("execution on the device (beside tracing)", ms("execute_s")),
            ("fetched by the script", ms("read_s")),
            ("the harness's own, beside the step", ms("harness_s")),
            ("compilations", f"{s['compiles']:.2f}"),
            ("launches", f"{s['launches']:.2f}"),
            (
                "host reads",
                f"{s['host_reads']:.2f} ({s['reference_host_reads']:.2f} in the original)",
            ),
            ("uploads", f"{s['uploads']:.2f}"),
            ("nodes of the graph", f"{s['graph']:.0f}"),
        ]
