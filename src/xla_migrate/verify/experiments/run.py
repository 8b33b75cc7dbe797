"""Running one side: the original or the migrated script, in its own process, in a copy of its project."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...script_environment import environment_of_one
from ..judge.failures import Failure, Fault, lacks_torchrun
from ..judge.observed import ObservedRun
from ..observe.plan import Arithmetic, Dropout, Precision, RunPlan, Side, Suspect
from . import workspace
from .command import command, environment
from .process import Progress, execute


def run(
    script: str | Path,
    args: Sequence[str] = (),
    *,
    side: Side = "reference",
    steps: int | None = 20,
    warmup: int = 3,
    dropout: Dropout = "off",
    precision: Precision = "as written",
    seed: int = 0,
    nproc: int = 1,
    devices: int | None = None,
    cwd: str | Path | None = None,
    replace: Mapping[str, str | bytes] | None = None,
    data_shim: str | Path | None = None,
    timeout: float | None = None,
    python: str = sys.executable,
    redirect: bool | None = None,
    keep: str | Path | None = None,
    follow: str | Path | None = None,
    arithmetic: Arithmetic = "as it is",
    roughness: float = 0.0,
    shake: int = 0,
    folder: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    explain: bool = False,
    watch: bool = True,
    batches: int = 0,
    inputs: bool = True,
    details: int = 0,
    clock_rate: int = 1,
    suspect: Suspect | None = None,
    store: str | Path | None = None,
    replay: str | Path | None = None,
) -> ObservedRun:
    """Run a training script under observation; its files are not changed.

    Args:
        script: the original, or the migrated script.
        args: its command-line arguments.
        side: "reference" (the original) or "target" (migrated: `PJRT_DEVICE` as set, or CPU).
        steps: optimizer steps after which it is stopped; None for the whole script.
        warmup: steps that performance verdicts will leave out.
        dropout: "off", or "same" for the same masks in both runs.
        precision: "as written", "float32" (autocast off) or "bfloat16" (float16 made bfloat16).
        seed: for random, numpy, torch and the device.
        nproc: processes; more than one start under torchrun, unless the script starts its own. A script
            that cannot run without torchrun gets the variables that it sets for one process.
        devices: the number that a process sees, on the CPU; by default `nproc`.
        cwd: where it runs; the project folder that is copied is this one if the script lies in it.
        replace: contents that take the place of the project's files (the migrated ones), by path.
        data_shim: a Python file executed in the run before training (a stand-in for data).
        timeout: seconds after which it is ended.
        python: the interpreter.
        redirect: send a reference's CUDA to the CPU; by default if there is no CUDA.
        keep: a folder that the weights after each step are written to.
        follow: a folder that another run kept them in: each step begins from those, and takes their
            file away (`compare(followed=...)`).
        arithmetic: "float64", to compute almost without rounding (`compare(exact=...)`).
        roughness: relative errors to make in every operation (likewise).
        shake: a seed to change the weights by a unit in bfloat16's last place after the first step, so
            that all later rounding is another (`compare(shaken=...)`).
        folder: where the copy and the records go (by default a new temporary folder).
        env: more environment variables.
        progress: called with how far it is, a few times a second.
        explain: find out what made a target compile again (slower; `compare(explained=...)`).
        watch: False runs the script alike but without looking at it, to measure what looking costs.
        batches: how many batches of each data loader to summarise (`observe.details`).
        inputs: with `batches`, also summarise what the script passes to its models.
        details: steps of which to record modules and updates.
        clock_rate: how fast the script's clocks run (`compare(repeated=...)`).
        suspect: a call of a module to look at closely, with `details`.
        store: a folder to write the initial weights and the first batches to.
        replay: such a folder, to train with what it holds.

    Returns:
        The run; its `failure` says what went wrong, if anything did.
    """
    script = Path(script).resolve()
    project = workspace.project_of(script, Path(cwd) if cwd else None)
    base = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="xla-migrate-"))
    copy, records = base / "project", base / "records"
    workspace.mark(base)
    records.mkdir(parents=True)
    result = ObservedRun(side, script, list(args), precision, copy, warmup=warmup)
    if not script.is_file() and str(script.relative_to(project)) not in (replace or {}):
        result.failure = Failure(Fault.FILE, f"{script}: no such script")
        return result
    try:
        workspace.copy(project, copy, replace)
    except (workspace.WorkspaceError, OSError) as error:
        result.failure = Failure(Fault.FILE, str(error))
        return result
    plan = RunPlan(
        side=side,
        project=str(copy.resolve()),
        original=str(project),
        records=str(records),
        steps=steps,
        seed=seed,
        dropout=dropout,
        precision=precision,
        redirect=redirect if side == "reference" else False,
        keep=_folder(keep),
        follow=_folder(follow),
        arithmetic=arithmetic,
        roughness=roughness,
        shake=shake,
        device_count=devices or nproc,
        shim=str(Path(data_shim).resolve()) if data_shim else None,
        explain=explain,
        watch=watch,
        batches=batches,
        inputs=inputs,
        details=details,
        clock_rate=clock_rate,
        suspect=suspect,
        store=_folder(store),
        replay=_folder(replay),
    )
    plan.save(base / "plan.json")
    place = copy / script.relative_to(project)
    words = command(python, place, copy, list(args), nproc)
    inside = copy / _relative(Path(cwd).resolve() if cwd else Path.cwd(), project)
    variables = environment(plan, base, env)
    execute(result, words, inside, variables, base, timeout, progress)
    if nproc == 1 and lacks_torchrun(result.failure):
        shutil.rmtree(records)
        records.mkdir()
        result = ObservedRun(side, script, list(args), precision, copy, warmup=warmup)
        variables = {**environment_of_one(), **variables}
        execute(result, words, inside, variables, base, timeout, progress)
    return result


def _folder(place: str | Path | None) -> str | None:
    if place is None:
        return None
    Path(place).mkdir(parents=True, exist_ok=True)
    return str(Path(place).resolve())


def _relative(cwd: Path, project: Path) -> Path:
    return cwd.relative_to(project) if project == cwd or project in cwd.parents else Path()
