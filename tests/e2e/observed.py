"""One script, run under verify's eyes in a project of its own; runs that several tests compare."""

from __future__ import annotations

import dataclasses
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
from .fixtures import Fixture, migrated, rewritten, sources

ONE_AFTER_THE_OTHER = """
import runpy, sys
words = sys.argv[1:]
for name in ("by_hand", "rewritten"):
    sys.argv = [f"{name}.py", *(word.replace("NAME", name) for word in words)]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


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


def migrated_in_float32(fixture: Fixture, place: Path) -> ObservedRun:
    """Return the run of the migrated script in float32, without dropout."""
    return once(
        f"{fixture.name}-migrated",
        lambda: trained(fixture, fixture.script, place, replace=migrated(fixture)),
    )


def by_hand_and_rewritten(fixture: Fixture, place: Path) -> tuple[ObservedRun, ObservedRun]:
    """Return the runs of the fixture's script for torch_xla, and of the same script rewritten to the runtime.

    One process trains both, in float32, with a small model. The second compiles only graphs that the first did not.
    The first run's last step also counts what the scripts do after it and before the next step.
    """
    both = once(f"{fixture.name}-by-hand", lambda: _both(fixture, place))
    half = len(both.steps) // 2
    return _part(both, slice(half)), _part(both, slice(half, None))


def _both(fixture: Fixture, place: Path) -> ObservedRun:
    for name in ("by_hand", "rewritten"):
        (place / "out" / name).mkdir(parents=True)
    modules = sources(fixture, small=True)
    return run(
        fixture.hand,
        fixture.args("float32", place / "out" / "NAME"),
        side="target",
        steps=2 * fixture.steps,
        precision="float32",
        cwd=fixture.folder,
        replace={
            **modules,
            fixture.hand.name: ONE_AFTER_THE_OTHER,
            "by_hand.py": modules[fixture.hand.name],
            "rewritten.py": rewritten(fixture, small=True),
        },
        timeout=300.0,
        python=warm.for_side("target", *fixture.imports()),
        folder=place / "run",
        env={"OMP_NUM_THREADS": "1"},
    )


def _part(both: ObservedRun, steps: slice) -> ObservedRun:
    traces = [dataclasses.replace(trace, steps=trace.steps[steps]) for trace in both.traces]
    return dataclasses.replace(both, traces=traces)


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
