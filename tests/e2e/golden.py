"""Golden recordings of the fixtures: `python -m tests.e2e.golden` records them again, on a GPU if there is one.

Without a GPU the CPU stand-in records them, into files of another name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from xla_migrate.verify.experiments.recorded import record
from xla_migrate.verify.experiments.request import Request
from xla_migrate.verify.recordings.recording import CUDA, STAND_IN

from .fixtures import ALL, ROOT, Fixture

FOLDER = ROOT / "tests" / "data" / "recordings"
SUFFIXES = {CUDA: ".cuda.rec", STAND_IN: ".stand-in.rec"}
STEPS = 4


def request_of(fixture: Fixture, timeout: float = 400) -> Request:
    """How a fixture runs, in float32 and without dropout."""
    return Request(
        fixture.script,
        tuple(fixture.args("float32", Path("out"))),
        steps=STEPS,
        nproc=fixture.processes,
        timeout=timeout,
    )


def recordings_of(fixture: Fixture) -> list[Path]:
    """The recordings that there are: from CUDA first."""
    files = [FOLDER / f"{fixture.name}{suffix}" for suffix in SUFFIXES.values()]
    return [file for file in files if file.is_file()]


def main(names: list[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for fixture in ALL:
        if names and fixture.name not in names:
            continue
        request, new = request_of(fixture), FOLDER / f"{fixture.name}.new"
        path = fixture.script.relative_to(ROOT)
        words = ["verify", str(path), "--record", new.name, "--steps", str(STEPS)]
        found = record(request, new, [*words, "--", *request.args], lambda name: lambda p: None, 0)
        if found.about is None:
            print(f"{fixture.name}: {found.failure}")
            continue
        file = FOLDER / f"{fixture.name}{SUFFIXES[found.about.kind]}"
        new.replace(file)
        print(f"{file.name}: {found.size / 1e3:.0f} kB ({found.about})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
