"""Start a script in a copy of its project, with a module of xla-migrate attached to its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..verify.experiments import workspace
from ..verify.experiments.command import BOOT, command


@dataclass(frozen=True)
class Copy:
    """A copy of a project, and what starts the script in it.

    Attributes:
        command: program and arguments.
        cwd: the folder in the copy that stands for the user's working folder.
        root: the copy.
    """

    command: list[str]
    cwd: Path
    root: Path


def copied(
    script: Path,
    args: Sequence[str],
    replaced: Mapping[str, str | bytes],
    into: Path,
    nproc: int = 1,
) -> Copy:
    """Copy the script's project to the new folder `into`.

    Args:
        script: where it lies in the user's tree, which is only read.
        args: of the script.
        replaced: new contents by path in the project (the migrated files).
        into: must not exist.
        nproc: processes; more than one start under torchrun, unless the script starts its own.

    Raises:
        WorkspaceError: the project is too large to copy.
    """
    script = script.resolve()
    project = workspace.project_of(script, None)
    workspace.copy(project, into, replaced)
    place = into / script.relative_to(project)
    here = Path.cwd()
    inside = here.relative_to(project) if project == here or project in here.parents else Path()
    words = command(sys.executable, place, into, list(args), nproc)
    return Copy(words, into / inside, into)


def attached(module: str, env: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every Python process begins with `module.attach()`."""
    path = os.pathsep.join(filter(None, [str(BOOT), env.get("PYTHONPATH")]))
    return {**env, "PYTHONPATH": path, "XLA_MIGRATE_ATTACH": module}
