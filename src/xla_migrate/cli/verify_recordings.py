"""`xla-migrate verify --record FILE` and `--reference FILE`: record on one machine, check on another."""

from __future__ import annotations

import sys
from pathlib import Path

from ..verify.experiments.migration import ProjectMigration
from ..verify.experiments.recorded import NotComparable, as_recorded, compared
from ..verify.experiments.recorded import record as record_original
from ..verify.experiments.request import Request
from ..verify.judge.compare import Comparison
from ..verify.recordings.recording import STAND_IN, RecordingError, load
from .usage import fail
from .verify_arguments import Asked
from .verify_progress import shower


def record(asked: Asked) -> int:
    """Run the original and write the recording; the exit code."""
    file = Path(asked.record)
    if file.is_dir() or not file.resolve().parent.is_dir():
        fail(f"--record {file}: name a file in an existing folder")
    found = record_original(asked.request, file, asked.words, shower)
    if found.about is None:
        failure = found.failure
        if failure is not None and failure.traceback:
            print(failure.traceback.rstrip())
        print(f"could not record: {failure.message if failure else 'no step was taken'}")
        return 2
    about = found.about
    runs = ", ".join(about.precisions)
    print(f"recorded: {file}, {found.size / 1e6:.2f} MB, {about.steps} steps, {runs} ({about})")
    if asked.request.with_weights:
        print(
            f"with the initial weights of {about.models} model{'s' * (about.models != 1)} and the batches of"
            f" {about.replay} steps: such a file may be larger than 5 MB"
        )
    if about.kind == STAND_IN:
        print(
            "xla-migrate: no CUDA device here, so the original ran on the CPU stand-in: record on the"
            " GPU to prove anything about the GPU",
            file=sys.stderr,
        )
    print(f"next, on the accelerator: xla-migrate verify {about.script} --reference {file}")
    return 0


def check(asked: Asked, proposed: ProjectMigration) -> tuple[Comparison, Request, str]:
    """Compare the migrated script with the recording: the comparison, how it was made, the reference in words."""
    try:
        recording = load(Path(asked.reference))
        request = as_recorded(asked.request, recording.about, asked.given)
        comparison = compared(request, proposed, recording, shower)
    except (RecordingError, NotComparable) as error:
        fail(str(error))
    return comparison, request, f"{asked.reference} ({recording.about})"
