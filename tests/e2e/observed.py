"""One script, run under verify's eyes in a project of its own."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.observed import ObservedRun

from .. import warm


def observed(script: str, side: str, place: Path, **options: Any) -> ObservedRun:
    """A run of `script` as `train.py`, in a new folder `place`; `options` are those of `verify.run`."""
    project = place / "project"
    project.mkdir(parents=True)
    (project / "train.py").write_text(script)
    return run(
        project / "train.py",
        side=side,
        cwd=project,
        timeout=300,
        folder=place / "run",
        python=warm.for_side(side),
        env={"OMP_NUM_THREADS": "1"},
        **options,
    )


def all_observed(
    scripts: Mapping[str, tuple[str, str]], base: Path, **options: Any
) -> dict[str, ObservedRun]:
    """Runs by name of (script, side), two at a time."""
    with ThreadPoolExecutor(2) as pool:
        waiting = {
            name: pool.submit(observed, *script, base / name.replace(" ", "-"), **options)
            for name, script in scripts.items()
        }
        return {name: future.result() for name, future in waiting.items()}
