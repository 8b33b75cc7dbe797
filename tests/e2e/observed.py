"""One script, run under verify's eyes in a project of its own; runs that several tests compare."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.observe.plan import Precision, Side

from .. import warm
from .fixtures import Fixture


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


def trained(
    fixture: Fixture,
    script: Path,
    place: Path,
    mode: str = "float32",
    *,
    side: Side = "target",
    precision: Precision = "float32",
    replace: Mapping[str, str | bytes] | None = None,
    shake: int = 0,
) -> ObservedRun:
    """A run of one of the fixture's scripts for the steps of a test, with its files in the new folder `place`."""
    out = place / "out"
    out.mkdir(parents=True)
    return run(
        script,
        fixture.args(mode, out),
        side=side,
        steps=fixture.steps,
        precision=precision,
        cwd=fixture.folder,
        replace=replace,
        timeout=300.0,
        shake=shake,
        python=warm.for_side(side, *fixture.imports()),
        folder=place / "run",
        env={"OMP_NUM_THREADS": "1"},
    )


def trained_by_hand(fixture: Fixture, place: Path) -> ObservedRun:
    """The fixture's script that is written for torch_xla by hand, in float32."""
    return once(f"{fixture.name}-by-hand", lambda: trained(fixture, fixture.hand, place))


def once(name: str, observe: Callable[[], ObservedRun]) -> ObservedRun:
    """A run that tests in any process of this session share: the first one to ask observes it.

    Its files belong to the test that observed it, and may be gone for the others.
    """
    shared = Path(warm.shared())
    kept = shared / f"{name}.run"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.exists():
            return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]
        observed = observe()
        if observed.failure is None:
            kept.write_bytes(pickle.dumps(observed))
        return observed
