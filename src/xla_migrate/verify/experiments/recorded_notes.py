"""What differs between a recorded run and the migrated script's, besides the script: notes for the reader."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..judge.observed import ObservedRun
from ..judge.trace import Trace
from ..recordings.recording import STAND_IN, Recording, RecordingFacts
from .migration import ProjectMigration
from .originals import is_migrated
from .request import Request
from .workspace import project_of


def digest(file: Path) -> str:
    """Return the digest of a file's content; "" if it cannot be read."""
    try:
        return _of_content(file.read_bytes())
    except OSError:
        return ""


def _of_content(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def notes(
    reference: Trace,
    target: Trace,
    request: Request,
    recording: Recording,
    proposed: ProjectMigration,
) -> list[str]:
    """Return the notes for a comparison with a recorded run.

    Args:
        reference: the recorded process.
        target: the migrated script's.
        request: what was compared.
        recording: the file.
        proposed: both sides, as far as they are on this machine.
    """
    about = recording.about
    notes = [f"reference: {about}", *_scaling(recording.runs.get("as written"))]
    notes += _other_sources(about, request.script, proposed)
    if about.kind == STAND_IN:
        notes.append(
            "the reference was recorded on the CPU stand-in: it proves nothing about a real GPU"
        )
    for name in ("python", "torch"):
        theirs, ours = reference.about.get(name, "?"), target.about.get(name, "?")
        if theirs.partition("+")[0] != ours.partition("+")[0]:
            notes.append(f"{name} {theirs} was recorded, {ours} runs here")
    if about.args != request.args:
        notes.append(f"other arguments: recorded {list(about.args)}, here {list(request.args)}")
    if about.nproc != request.nproc:
        notes.append(f"{about.nproc} processes were recorded, {request.nproc} run here")
    if about.dropout != request.dropout:
        notes.append(f"dropout {about.dropout} was recorded, {request.dropout} here")
    shim = digest(Path(request.data_shim)) if request.data_shim else ""
    if about.shim != shim:
        notes.append("the recording used another --data-shim")
    if request.replay:
        notes.append(_replayed(about))
    if request.steps != about.steps:
        notes.append(f"{about.steps} steps were recorded, {request.steps} run here")
    return notes


def _scaling(run: ObservedRun | None) -> list[str]:
    """Return a note on the loss scaler of the run as written, if it had one."""
    steps = [step for trace in run.traces[:1] for step in trace.steps] if run is not None else []
    scales = [step.scale for step in steps if step.scale is not None]
    if not scales:
        return []
    skipped = [str(step.step) for step in steps if step.skipped]
    which = f"skipped steps {', '.join(skipped)}" if skipped else "skipped no step"
    shown = f"{scales[0]:g}" if len(set(scales)) == 1 else f"{scales[0]:g} to {scales[-1]:g}"
    return [f"as written, the original's loss scale was {shown}, and its scaler {which}"]


def _replayed(about: RecordingFacts) -> str:
    models = f"the recorded initial weights of {about.models} model{'s' * (about.models != 1)}"
    if not about.replay:
        return f"replayed: {models}; batches of a DataLoader were not recorded, so the data are the script's own"
    if about.replay < about.steps:
        return f"replayed: {models} and all batches; the recording holds the batches of {about.replay} steps, so no more were compared"
    return f"replayed: {models} and all batches"


def _other_sources(about: RecordingFacts, script: Path, proposed: ProjectMigration) -> list[str]:
    """Return a note on another script, or on originals that changed since they were recorded."""
    recorded = Path(about.script).name
    if recorded != script.name and script.name not in about.sources:
        return [f"another script was recorded: {recorded}, here {script.name}"]
    changed = [
        name
        for name, known in about.sources.items()
        if (data := _original(name, script, proposed)) is not None and _of_content(data) != known
    ]
    if not changed:
        return []
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return [f"the original was changed after the recording: {changed[0]}{more}"]


def _original(name: str, script: Path, proposed: ProjectMigration) -> bytes | None:
    """Return the original's content on this machine; None if only the migrated file is here."""
    known = proposed.originals.get(name)
    if known is not None:
        return known.encode() if isinstance(known, str) else known
    file = project_of(script, None) / name
    data = file.read_bytes() if file.is_file() else None
    return None if data is None or is_migrated(data) else data
