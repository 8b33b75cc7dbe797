"""Which files are the user's, and their paths in the project."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xla_migrate.verify.observe.process import where


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(where, "_project", where._project)
    where.set_project("/copy/project")
    yield
    where.within_project.cache_clear()


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/copy/project/train.py", "train.py"),
        ("/copy/project/scripts/../lib/engine.py", "lib/engine.py"),
        ("/copy/project/../other/engine.py", ""),
        ("/copy/projects/train.py", ""),
        ("/copy/project/venv/site-packages/torch/nn.py", ""),
        ("<string>", ""),
    ],
)
def test_a_path_in_the_project(file: str, path: str) -> None:
    assert where.within_project(file) == path
    assert where.is_in_project(file) is bool(path)
