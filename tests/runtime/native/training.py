"""Trains a fixture, migrated or as it is, in an environment of its own, and says what its losses were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.fixtures import ROOT, Fixture, migrated
from xla_migrate.script_environment import free_port

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOLERANCE = 1e-6  # of a loss, relative to it where it is above 1


@dataclass(frozen=True)
class Training:
    """What one run told.

    Attributes:
        losses: every replica's, in the order of its calls of ``backward``.
        devices: where they were: "cpu", "cuda", "tpu" ...
        failure: the last line of its output, where it failed; else "".
    """

    losses: tuple[tuple[float, ...], ...]
    devices: frozenset[str]
    failure: str


@dataclass(frozen=True)
class Environment:
    """A Python and what it runs with.

    Attributes:
        python: its path.
        site: the folder of the stand-in for its torch.
        extra: environment variables.
    """

    python: str
    site: Path
    extra: Mapping[str, str]


def train(
    fixture: Fixture,
    mode: str,
    kind: str,
    where: Environment,
    place: Path,
    *,
    name: str = "",
    timeout: float = 300.0,
    env: Mapping[str, str] | None = None,
) -> Training:
    """One run.

    Args:
        fixture: which.
        mode: "float32", "bf16" or "dropout".
        kind: "migrated", on the eager backend, or "original".
        where: the environment.
        place: a new folder.
        name: of the stand-in's device; "" for none: the CPU, or CUDA.
        timeout: in seconds.
        env: further variables.
    """
    told = place / "losses"
    own = {"RECORD_LOSSES": str(told), "STANDIN_NAME": name, **(env or {})}
    if not name and kind == "migrated":
        own["LOCAL_WORLD_SIZE"] = str(fixture.processes)  # the replicas that a script starts itself
    words = fixture.args(mode, _out(place))
    return _told(told, _run(fixture, words, kind, where, place, own, timeout))


def seconds(
    fixture: Fixture,
    kind: str,
    where: Environment,
    place: Path,
    *,
    calls: int,
    longer: int = 10,
    timeout: float = 600.0,
) -> tuple[float, str]:
    """How long the first replica takes from one `backward` to the next, in seconds, and why there is no answer.

    Of a run with `longer` times as many steps; its first `calls`, which are those of a usual run, do not count.
    """
    told = place / "times"
    last = calls * longer
    own = {"RECORD_TIMES": str(told), "RECORD_AT": f"{calls},{last}", "STANDIN_NAME": ""}
    if kind == "migrated":
        own["LOCAL_WORLD_SIZE"] = str(fixture.processes)
    words = longer_arguments(fixture, longer, _out(place))
    failure = _run(fixture, words, kind, where, place, own, timeout)
    path = told.with_name("times.0")
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if failure or len(rows) != 2:
        return 0.0, failure or f"{len(rows)} of 2 marks were reached"
    return (rows[1]["seconds"] - rows[0]["seconds"]) / (last - calls), ""


def longer_arguments(fixture: Fixture, times: int, out: Path) -> list[str]:
    """Those of a float32 run with `times` as many units."""
    told = tomllib.loads((fixture.folder / "fixture.toml").read_text(encoding="utf-8"))
    units = str(told["units"] * times)
    words = [*told["args"], *told["float32"]]
    return [word.replace("{units}", units).replace("{out}", str(out)) for word in words]


def _out(place: Path) -> Path:
    out = place / "out"
    out.mkdir(parents=True)
    return out


def _run(
    fixture: Fixture,
    words: list[str],
    kind: str,
    where: Environment,
    place: Path,
    own: Mapping[str, str],
    timeout: float,
) -> str:
    """Why it failed, or ""."""
    _write(fixture, kind, place / "project")
    common = {
        "PYTHONPATH": os.pathsep.join([str(where.site), str(ROOT / "src")]),
        "XLA_MIGRATE_BACKEND": "eager",
        "STANDIN_DEVICES": str(fixture.processes),
        "STANDIN_SHARES_STREAM": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    try:
        done = subprocess.run(
            [where.python, *_launcher(fixture), "train.py", *words, *_port(fixture)],
            cwd=place / "project",
            env={**os.environ, **common, **own, **where.extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return f"nothing for {timeout:g} s"
    (place / "log").write_text(done.stdout)
    return "" if done.returncode == 0 else _reason(done.stdout)


def _write(fixture: Fixture, kind: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in migrated(fixture).items():
        source = text if kind == "migrated" else (fixture.folder / name).read_bytes()
        (folder / name).write_bytes(source.encode() if isinstance(source, str) else source)


def _launcher(fixture: Fixture) -> list[str]:
    text = (fixture.folder / "fixture.toml").read_text(encoding="utf-8")
    if 'launcher = "torchrun"' not in text:
        return []
    words = [f"--nproc_per_node={fixture.processes}", "--master_addr=127.0.0.1"]
    return ["-m", "torch.distributed.run", *words, f"--master_port={free_port()}"]


def _port(fixture: Fixture) -> list[str]:
    """Where a script starts its own processes; two runs at a time must not meet at its default."""
    takes_one = '"--port"' in fixture.script.read_text(encoding="utf-8")
    return ["--port", str(free_port())] if takes_one else []


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "Error" in line and ": " in line]
    return lines[-1][:300] if lines else (text.strip().splitlines() or ["no output"])[-1][:300]


def _told(told: Path, failure: str) -> Training:
    losses, devices = [], set()
    for path in sorted(told.parent.glob(f"{told.name}.*")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        losses.append(tuple(row["loss"] for row in rows))
        devices |= {row["device"] for row in rows}
    return Training(tuple(losses), frozenset(devices), failure)


def difference(one: Training, other: Training) -> float | None:
    """The largest between two losses of the same place, relative to the second where it is above 1; None
    where they have not as many."""
    if [len(row) for row in one.losses] != [len(row) for row in other.losses] or not one.losses:
        return None
    pairs = [
        (a, b)
        for mine, theirs in zip(one.losses, other.losses, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    ]
    return max((abs(a - b) / max(1.0, abs(b)) for a, b in pairs), default=None)
