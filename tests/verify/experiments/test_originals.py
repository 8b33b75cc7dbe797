"""The original of a project that was migrated in place is found, or its absence is reported."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from xla_migrate.verify.experiments.originals import (
    NoOriginalError,
    find,
    is_migrated,
    migrated_modules,
)

OLD, NEW = (
    b"import torch\nimport config, lib.model\n",
    b"import config, lib.model, helpers\nfrom xla_migrate import runtime as xla\n",
)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.email=a@example.org", "-c", "user.name=a"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_bytes(OLD)
    (folder / "lib" / "model.py").write_bytes(OLD)
    (folder / "config.py").write_bytes(b"LR = 0.1\n")
    return folder


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q")
    commit(project, "original")
    return project


def migrate(folder: Path) -> None:
    (folder / "train.py").write_bytes(NEW)
    (folder / "lib" / "model.py").write_bytes(NEW)


@pytest.mark.parametrize(
    "text",
    [
        b"from xla_migrate import runtime as xla",
        b"import xla_migrate.runtime as xla",
        b"if True:\n    from xla_runtime import xla",
        b'{"source": ["import torch\\n", "from xla_migrate import runtime as xla"]}',
    ],
)
def test_a_file_that_imports_the_runtime_is_migrated(text: bytes) -> None:
    assert is_migrated(text)


def test_a_file_that_only_mentions_the_tool_is_not_migrated() -> None:
    assert not is_migrated(b"# run xla-migrate\nimport torch_xla\nname = 'xla_migrate'\n")


def test_a_project_that_is_not_migrated_has_no_other_original(repository: Path) -> None:
    assert find(repository / "train.py", repository) is None


def test_copies_next_to_the_files_are_the_original(project: Path) -> None:
    migrate(project)
    (project / "train.py.orig").write_bytes(OLD)
    (project / "lib" / "model.py.orig").write_bytes(OLD)
    found = find(project / "train.py", project)
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD}
    assert found.version.startswith("train.py.orig, lib/model.py.orig")


def test_modules_that_have_no_older_version_are_named(project: Path) -> None:
    migrate(project)
    (project / "train.py.orig").write_bytes(OLD)
    (project / "lib" / "model.py.orig").write_bytes(OLD)
    found = find(project / "train.py", project)
    assert found is not None
    assert found.version == "train.py.orig, lib/model.py.orig, config.py as it is now"


def test_an_uncommitted_migration_is_compared_with_the_last_commit(repository: Path) -> None:
    migrate(repository)
    (repository / "config.py").write_bytes(b"LR = 0.01\n")
    found = find(repository / "train.py", repository)
    assert found is not None
    assert found.files["train.py"] == OLD
    assert found.files["config.py"] == b"LR = 0.1\n"
    assert found.version.startswith("git ")


def test_a_committed_migration_is_compared_with_the_commit_before(repository: Path) -> None:
    (repository / "config.py").write_bytes(b"LR = 0.2\n")
    commit(repository, "tuned")
    migrate(repository)
    commit(repository, "migrated")
    (repository / "config.py").write_bytes(b"LR = 0.3\n")
    commit(repository, "changed by hand")
    found = find(repository / "train.py", repository)
    assert found is not None
    assert found.files == {
        "train.py": OLD,
        "lib/model.py": OLD,
        "config.py": b"LR = 0.2\n",
    }


def test_modules_that_were_migrated_one_after_the_other(repository: Path) -> None:
    (repository / "lib" / "model.py").write_bytes(NEW)
    commit(repository, "model")
    (repository / "train.py").write_bytes(NEW)
    commit(repository, "script")
    found = find(repository / "train.py", repository)
    assert found is not None
    assert found.files["train.py"] == found.files["lib/model.py"] == OLD


def test_a_project_in_a_folder_of_a_repository(tmp_path: Path, project: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "original")
    migrate(project)
    found = find(project / "train.py", project)
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD}


@pytest.mark.parametrize("in_git", [False, True])
def test_without_an_original_one_line_says_what_to_type(project: Path, in_git: bool) -> None:
    migrate(project)
    if in_git:
        git(project, "init", "-q")
        commit(project, "migrated already")
    with pytest.raises(NoOriginalError, match=r"verify train\.py --against REV"):
        find(project / "train.py", project)


def test_a_migrated_copy_is_no_original(project: Path) -> None:
    migrate(project)
    (project / "train.py.orig").write_bytes(NEW)
    with pytest.raises(NoOriginalError):
        find(project / "train.py", project)


def test_a_new_module_of_the_migration_needs_no_original(repository: Path) -> None:
    migrate(repository)
    (repository / "helpers.py").write_bytes(NEW)
    found = find(repository / "train.py", repository)
    assert found is not None
    assert "helpers.py" not in found.files


def test_files_that_the_script_does_not_import_need_no_original(repository: Path) -> None:
    (repository / "tests").mkdir()
    (repository / "tests" / "test_model.py").write_bytes(NEW)
    commit(repository, "tests that use the runtime")
    assert find(repository / "train.py", repository) is None
    migrate(repository)
    found = find(repository / "train.py", repository)
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD}


def test_an_imported_module_that_always_used_the_runtime_is_no_migration(project: Path) -> None:
    (project / "config.py").write_bytes(NEW)
    assert find(project / "train.py", project) is None


def test_a_revision_is_chosen(repository: Path) -> None:
    migrate(repository)
    commit(repository, "migrated")
    found = find(repository / "train.py", repository, "HEAD~1")
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD}
    assert found.version.endswith("(HEAD~1)")


def test_a_revision_that_is_migrated_is_refused(repository: Path) -> None:
    migrate(repository)
    commit(repository, "migrated")
    with pytest.raises(NoOriginalError, match="migrated there too"):
        find(repository / "train.py", repository, "HEAD")


def test_a_folder_is_chosen(project: Path, tmp_path: Path) -> None:
    migrate(project)
    folder = tmp_path / "before"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_bytes(OLD)
    (folder / "lib" / "model.py").write_bytes(OLD)
    found = find(project / "train.py", project, str(folder))
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD}


def test_all_files_of_a_chosen_folder_are_the_originals(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project, tmp_path / "before")
    (tmp_path / "before" / "config.yaml").write_text("lr: 0.1\n")
    (tmp_path / "before" / "same.yaml").write_text("seed: 1\n")
    migrate(project)
    (project / "config.yaml").write_text("lr: 0.2\n")
    (project / "same.yaml").write_text("seed: 1\n")
    found = find(project / "train.py", project, str(tmp_path / "before"))
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD, "config.yaml": b"lr: 0.1\n"}


def test_launch_files_that_were_migrated_in_place_have_originals_too(project: Path) -> None:
    migrate(project)
    for name in ("train.py", "lib/model.py"):
        (project / f"{name}.orig").write_bytes(OLD)
    (project / "config.yaml").write_text("bf16: true\n")
    (project / "config.yaml.orig").write_text("fp16: true\n")
    (project / "notes.md.orig").write_text("of a merge\n")
    (project / "notes.md").write_text("merged\n")
    found = find(project / "train.py", project)
    assert found is not None
    assert found.files == {"train.py": OLD, "lib/model.py": OLD, "config.yaml": b"fp16: true\n"}


@pytest.mark.parametrize("against", ["no-such-revision", "."])
def test_what_does_not_exist_is_refused(tmp_path: Path, project: Path, against: str) -> None:
    migrate(project)
    name = str(tmp_path) if against == "." else against
    with pytest.raises(NoOriginalError, match="--against"):
        find(project / "train.py", project, name)


def test_the_fixtures_of_this_checkout_are_not_migrated() -> None:
    root = Path(__file__).parents[3]
    scripts = sorted((root / "fixtures" / "train").glob("*/train.py"))
    assert len(scripts) > 10
    assert all(migrated_modules(script, root) == [] for script in scripts)
