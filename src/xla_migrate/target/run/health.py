"""Are all devices well, and do they reach each other? Asked before a job, with a time-out."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...verify.experiments.process import end

_PROBE = ("-m", "xla_migrate.target.run.health_probe")


@dataclass
class Replica:
    """The report of one replica: results by step, the step that it began last, and if it came to the end."""

    rank: int
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    begun: str = ""
    finished: bool = False


@dataclass
class Health:
    """The results of all replicas.

    Attributes:
        replicas: those that came up, by rank.
        code: of the probe; None if it had to be ended.
        output: its last words.
    """

    replicas: list[Replica]
    code: int | None
    output: str

    @property
    def count(self) -> int:
        """Return the expected number of replicas, if a replica has reported it."""
        told = [r.results["device"].get("replicas", 1) for r in self.replicas if r.results]
        count: int = max([*told, len(self.replicas)])
        return count


def examined(
    env: dict[str, str], timeout: float, nproc: int | None = None, probe: Sequence[str] = _PROBE
) -> Health:
    """Try every device and the collectives between them.

    Args:
        env: environment variables that a training would have.
        timeout: for all of it, in seconds.
        nproc: replicas; by default one per device.
        probe: the code that Python runs (tests pass a substitute).
    """
    with tempfile.TemporaryDirectory(prefix="xla-migrate-health-") as folder:
        words = [sys.executable, *probe, folder, *([str(nproc)] if nproc else [])]
        output = Path(folder, "output.txt")
        with output.open("wb") as file:
            process = subprocess.Popen(
                words, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
            code: int | None
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end(process)
        replicas = [_read(path) for path in Path(folder).glob("rank*.jsonl")]
        text = output.read_text(encoding="utf-8", errors="replace")
    return Health(sorted(replicas, key=lambda r: r.rank), code, text)


def _read(path: Path) -> Replica:
    replica = Replica(int(path.stem.removeprefix("rank")))
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            told = json.loads(line)
        except json.JSONDecodeError:  # it was ended as it wrote
            continue
        replica.begun = told.get("begun", replica.begun)
        replica.finished = replica.finished or "finished" in told
        if "step" in told:
            replica.results[told.pop("step")] = told
    return replica


def faults(health: Health, timeout: float) -> list[str]:
    """A sentence per fault, each with its rank and device."""
    found = [fault for replica in health.replicas for fault in _of(replica)]
    stuck = [r for r in health.replicas if not r.finished and r.begun not in r.results]
    if not found and stuck:
        # Those that wait in a collective wait for the one that is furthest behind.
        behind = min(len(r.results) for r in stuck)
        waited = f"in {timeout:g} s" if health.code is None else "before its process ended"
        found += [
            f"{_name(r)}: {r.begun} did not end {waited}" for r in stuck if len(r.results) == behind
        ]
    missing = sorted(set(range(health.count)) - {r.rank for r in health.replicas})
    found += [f"rank {rank}: did not start" for rank in missing]
    if not found and (health.code != 0 or not health.replicas):
        lines = [line for line in health.output.splitlines() if line.strip()]
        found.append(f"no device answered: {lines[-1][:300] if lines else 'nothing was printed'}")
    return found


def _of(replica: Replica) -> list[str]:
    out = []
    for step, told in replica.results.items():
        if "error" in told:
            out.append(f"{_name(replica)}: {step}: {told['error'][:300]}")
        elif told.get("wrong"):
            out.append(
                f"{_name(replica)}: {step}: {told['wrong']} of {told['of']} elements are wrong"
            )
        elif "got" in told:
            out.append(f"{_name(replica)}: {step}: {told['got']}, not {told['wanted']}")
    return out


def _name(replica: Replica) -> str:
    device = replica.results.get("device", {}).get("device", "no device")
    return f"rank {replica.rank} on {device}"
