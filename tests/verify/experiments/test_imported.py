"""The modules of its project that a script imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xla_migrate.verify.experiments.imported import modules

FILES = (
    "lib/__init__.py lib/models/__init__.py lib/models/resnet.py lib/models/vit.py lib/tests/test_vit.py"
    " src/pkg/__init__.py src/pkg/net.py tools/common.py tests/test_all.py data.py"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import data", "data.py"),
        ("import lib.models.vit as v", "lib/__init__.py lib/models/__init__.py lib/models/vit.py"),
        ("from lib.models import vit", "lib/__init__.py lib/models/__init__.py lib/models/vit.py"),
        ("def f():\n    from common import x", "tools/common.py"),
        ("from .common import x", "tools/common.py"),
        ("from ..lib import x", "lib/__init__.py"),
        ("import pkg.net", "src/pkg/__init__.py src/pkg/net.py"),
        (
            "import_module('lib.models.vit')",
            "lib/__init__.py lib/models/__init__.py lib/models/vit.py",
        ),
        (
            "importlib.import_module(f'lib.models.{name}')",
            "lib/models/__init__.py lib/models/resnet.py lib/models/vit.py",
        ),
        (
            "importlib.import_module('lib.models.' + name)",
            "lib/models/__init__.py lib/models/resnet.py lib/models/vit.py",
        ),
        ("importlib.import_module(name)", "tools/common.py"),
        ("import torch, os", ""),
        ("from xla_migrate import runtime as xla", ""),
    ],
)
def test_imports_of_a_script(tmp_path: Path, line: str, expected: str) -> None:
    for name in FILES.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    script = tmp_path / "tools" / "train.py"
    script.write_text(line)
    found = {str(file.relative_to(tmp_path)) for file in modules(script, tmp_path)}
    assert found - {"tools/train.py"} == set(expected.split())


def test_imports_of_modules_and_of_notebooks(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": "%matplotlib inline\nimport model"}
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}}))
    (tmp_path / "model.py").write_text("import layers")
    (tmp_path / "layers.py").write_text("import model")
    (tmp_path / "broken.py").write_text("import")
    found = modules(tmp_path / "train.ipynb", tmp_path)
    assert [file.name for file in found] == ["train.ipynb", "model.py", "layers.py"]
