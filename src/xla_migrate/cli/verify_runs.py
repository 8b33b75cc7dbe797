"""The runs of a verification: the original and the migrated script, and more where the first two call for it."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ..verify import Comparison, Exact, Failure, Progress, Run, compare
from ..verify import run as observe
from ..verify.exactly import divergence
from ..verify.tolerances import R_BY_CHANCE, relative
from ..verify.workspace import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..verify.divergence import Divergence
    from .verify_arguments import Asked
    from .verify_migration import Migrated

    class Runner(Protocol):
        """Runs the script once more, as asked but for what is given."""

        def __call__(self, name: str, precision: str = "", **more: Any) -> Run: ...


_EVERY = 30.0  # seconds between lines of progress where standard error is no terminal
_SHAKES = (1, 2)
_ROUNDED = ("loss", "gradient", "weights")
_TOO_FAR = 0.1  # of a step's value: no rounding in float32 does that within one step


def compared(asked: Asked, proposed: Migrated) -> Comparison:
    """Run both, and whatever else it takes to judge them."""
    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        base = Path(asked.keep) if asked.keep else Path(folder)
        mark(base)
        return _compared(asked, proposed, base, _runner(asked, base))


def _runner(asked: Asked, base: Path) -> Runner:
    def run(name: str, precision: str = "", **more: Any) -> Run:
        result = observe(
            asked.script,
            asked.args,
            precision=precision or asked.precision,
            folder=base / name.replace(" ", "-"),
            progress=_shower(name),
            steps=asked.steps,
            dropout=asked.dropout,
            nproc=asked.nproc,
            data_shim=asked.data_shim,
            timeout=asked.timeout,
            **more,
        )
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return result

    return run


def _compared(asked: Asked, proposed: Migrated, base: Path, run: Runner) -> Comparison:
    reference = run("original")
    not_run = Run("target", asked.script, asked.args, asked.precision, base)
    not_run.failure = Failure("not run", "the original could not be run")
    if reference.failure is not None:
        return compare(reference, not_run)
    fp32 = None
    if asked.precision == "bfloat16":
        fp32 = run("original in float32", "float32")
        if fp32.failure is not None:
            return compare(fp32, not_run)
    migrated: dict[str, Any] = {"side": "target", "replace": proposed.files}
    target = run("migrated", **migrated)
    more: dict[str, Any] = {}

    def judged() -> Comparison:
        common: dict[str, Any] = {"tolerance": asked.tolerance, "metric": asked.metric}
        return compare(reference, target, fp32=fp32, **common, **more)

    comparison = judged()
    if any(v.name == "static shapes" for v in comparison.failed):
        more["explained"] = run("migrated, explained", explain=True, **migrated)
    if any(v.name == "other state" for v in comparison.failed):
        again = more.get("explained") or run("migrated, explained", explain=True, **migrated)
        more["written"] = run("original, explained", explain=True), again
    if _is_to_shake(comparison):
        more["shaken"] = [_shaken(seed, asked, run, migrated) for seed in _SHAKES]
    if _is_to_follow(comparison, asked) and _fits(reference, base):
        kept = base / "weights"
        again = run("original, again", keep=kept)
        own = [_linked(kept, base / f"weights-{n}") for n in range(3)]
        following = run("migrated, following", follow=kept, **migrated)
        if again.failure is None and following.failure is None:
            more["followed"] = again, following
            if _may_be_rounding(judged().divergence):
                more["exact"] = _exactly(asked, own, run, migrated)
    return judged() if more else comparison


def _shaken(seed: int, asked: Asked, run: Runner, migrated: dict[str, Any]) -> tuple[Run, Run, Run]:
    return (
        run(f"original in float32, shaken {seed}", "float32", shake=seed),
        run(f"original, shaken {seed}", shake=seed),
        run(f"migrated, shaken {seed}", shake=seed, **migrated),
    )


def _exactly(asked: Asked, kept: list[Path], run: Runner, migrated: dict[str, Any]) -> Exact:
    """The steps in float64, and if they agree, in float32 with errors."""
    reference = run("original in float64", arithmetic="float64", follow=kept[0])
    target = run("migrated in float64", arithmetic="float64", follow=kept[1], **migrated)
    found = Exact(reference, target)
    if found.failed or divergence(found, asked.tolerance) is not None:
        return found
    rough = run("original with errors", roughness=asked.tolerance, follow=kept[2])
    return Exact(reference, target, rough)


def _linked(kept: Path, place: Path) -> Path:
    """The same files once more: a run takes away what it has read."""
    place.mkdir()
    for file in kept.iterdir() if kept.is_dir() else ():
        try:
            os.link(file, place / file.name)
        except OSError:  # a file system without links
            shutil.copyfile(file, place / file.name)
    return place


def _is_to_shake(comparison: Comparison) -> bool:
    """Whether chance may be why R exceeds its limit."""
    r = comparison.r
    return r is not None and r <= R_BY_CHANCE and "bf16" in {v.name for v in comparison.failed}


def _fits(reference: Run, place: Path) -> bool:
    """Whether the disk holds the weights of all steps, twice."""
    size = sum(
        4 * math.prod(p.shape)
        for trace in reference.traces
        for step in trace.steps
        for p in trace.parameters[step.optimizer]
    )
    return 2 * size < shutil.disk_usage(place).free


def _is_to_follow(comparison: Comparison, asked: Asked) -> bool:
    """Whether rounding that this training amplifies may be why the runs part."""
    if asked.precision != "float32" or not comparison.could_run:
        return False
    found = comparison.divergence
    late = found is not None and found.step > 1 and found.quantity in _ROUNDED
    return asked.amplification or late or _may_be_rounding(found)


def _may_be_rounding(found: Divergence | None) -> bool:
    """Whether a step that was taken from the same weights may differ by rounding alone."""
    if found is None or found.quantity not in _ROUNDED:
        return False
    return relative(found.reference, found.target, abs(found.reference)) <= _TOO_FAR


def _shower(name: str) -> Callable[[Progress], None]:
    """Shows how far a run is: on one line of a terminal, else by a line every half minute."""
    terminal = sys.stderr.isatty()
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        of = f" of {progress.of}" if progress.of else ""
        line = f"{name}: step {progress.steps}{of}, {progress.seconds:.0f} s"
        if terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - last > _EVERY:
            last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    return show
