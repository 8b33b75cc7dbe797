"""Where tensors are made without a `device`, if another module of the program sets the default."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.inference.values import ACCEL, HOST
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.analysis.script import Script
from xla_codemods.source import Source


@pytest.mark.parametrize(
    ("setting", "made", "place"),
    [
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", "torch.zeros(2)", ACCEL),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", "torch.Tensor(2)", ACCEL),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", "torch.Tensor(2)", HOST),
        ("torch.set_default_device('cuda')", "torch.zeros(2)", ACCEL),
        ("torch.set_default_device(args.device)", "torch.zeros(2)", ACCEL),
        ("torch.set_default_device('cuda')", "torch.Tensor(2)", HOST),  # facts, 1.33
        ("torch.set_default_device('cpu')", "torch.zeros(2)", HOST),
        ("torch.set_default_device('cuda')", "torch.zeros(2, device='cpu')", HOST),
    ],
)
def test_a_default_reaches_the_modules_that_the_program_loads(
    setting: str, made: str, place: str
) -> None:
    files = {
        "train.py": f"import torch, model\n{setting}\ntorch.cuda.manual_seed(0)\nmodel.x.backward()\n".encode(),
        "model.py": f"import torch\nx = {made}\n".encode(),
    }
    assert _place(files, "model.py") == place


def test_a_default_of_another_program_does_not_reach_a_module() -> None:
    setting = b"import torch, utils\ntorch.set_default_device('cuda')\n"
    files = {
        "train.py": setting,
        "other.py": b"import torch, utils\nx = torch.zeros(2)\nx.backward()\n",
        "utils.py": b"y = 1\n",
    }
    assert _place(files, "other.py") == HOST


def _place(files: dict[str, bytes], path: str) -> str:
    script = Script(Source(files[path]), path, project=Project(Modules(files), path))
    assignment = script.tree.body[1]
    assert isinstance(assignment, ast.Assign)
    (place,) = script.value(assignment.value).kinds & {ACCEL, HOST}
    return place
