"""Where the runtime's patches of frameworks are called."""

from __future__ import annotations

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import migrate

USES = "from ignite.engine import Engine\n\ndef build(update):\n    return Engine(update)\n"


def _migrated(path: str, files: dict[str, bytes]) -> str:
    project = Project(Modules({**files, path: USES.encode()}), path)
    return migrate(USES.encode(), path=path, project=project).data.decode()


def test_a_framework_does_not_patch_itself() -> None:
    files = {"ignite/__init__.py": b"", "ignite/engine.py": b"class Engine:\n    pass\n"}
    assert _migrated("ignite/contrib.py", files) == USES


def test_a_script_in_a_folder_of_that_name_patches_the_framework() -> None:
    assert "xla.patch_ignite()" in _migrated("examples/ignite/train.py", {})
