"""The folders that are on Python's path, in the layouts that projects use."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.files import ProjectFiles

_INSERTED = """
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "code"))
"""
_ASSIGNED = """
from pathlib import Path
import sys
ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "code"
sys.path.append(str(CODE))
"""
_FORMATTED = 'import sys\nsys.path.extend([f"{root}/code/"])\n'


@pytest.mark.parametrize(
    ("root", "others"),
    [
        ("src", {}),
        ("python", {}),
        ("packages/core/src", {}),
        ("core", {"core/setup.py": "from setuptools import setup\nsetup()"}),
        ("code", {"scripts/train.py": _INSERTED}),
        ("code", {"scripts/train.py": _ASSIGNED}),
        ("code", {"scripts/common.py": _FORMATTED}),
        ("code", {"setup.py": 'setup(package_dir={"": "code"})'}),
        ("code", {"setup.py": 'setup(packages=find_packages("code"))'}),
    ],
)
def test_a_package_is_found_from_a_script_in_another_folder(
    root: str, others: dict[str, str]
) -> None:
    texts = {"scripts/train.py": "", f"{root}/pkg/__init__.py": "", f"{root}/pkg/engine.py": ""}
    files = ProjectFiles({path: text.encode() for path, text in (texts | others).items()})
    found = files.locate("pkg.engine.train", "scripts/train.py")
    assert found == (f"{root}/pkg/engine.py", ["train"])
    assert files.has("pkg", "scripts/train.py")


@pytest.mark.parametrize(
    "others",
    [
        {},  # nothing says that `code` is on the path
        {"scripts/train.py": "import sys\nsys.path.append('..')\nname = 'code'"},
        {"code/__init__.py": "", "scripts/train.py": _INSERTED},  # a package
        {"more/code/pkg/engine.py": "", "scripts/train.py": _INSERTED},  # which of both?
    ],
)
def test_a_folder_that_may_not_be_on_the_path_is_not_searched(others: dict[str, str]) -> None:
    texts = {"scripts/train.py": "", "code/pkg/engine.py": ""} | others
    files = ProjectFiles({path: text.encode() for path, text in texts.items()})
    assert files.locate("pkg.engine.train", "scripts/train.py") is None


def test_examples_beside_a_library_that_rules_know_use_the_library() -> None:
    """In the repository of accelerate, `accelerate` of an example is not the source of a project."""
    paths = ("src/accelerate/__init__.py", "src/accelerate/state.py", "examples/train.py")
    files = ProjectFiles(dict.fromkeys(paths, b""))
    assert files.locate("accelerate.state.PartialState", "examples/train.py") is None
    assert not files.has("accelerate", "examples/train.py")
    assert files.has("accelerate", "src/accelerate/state.py")  # the library itself
