"""Tests for NVIDIA's driver by its files or tools."""

from __future__ import annotations

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check

from ....each import each

_IMPORTS = "import os, pathlib, shutil, subprocess\nimport os.path as osp\nfrom pathlib import Path\nfrom shutil import which\n"
_TRAINS = "\n\ndef train(model, batch):\n    model(batch).sum().backward()\n"


def told(line: str) -> list[str]:
    source = f"{_IMPORTS}\nasked = {line}\n{_TRAINS}"
    return [finding.code for finding in check(source.encode())]


@each(
    "line",
    [
        "which('nvidia-smi')",
        "shutil.which(cmd='nvidia-smi')",
        "osp.exists(path='/dev/nvidiactl')",
        "os.path.isfile('/proc/driver/nvidia/version')",
        "os.path.isdir('/proc/driver/nvidia')",
        "os.path.isdir(s='/proc/driver/nvidia')",
        "os.path.exists(f'/dev/nvidia{0}')",
        "os.path.exists(Path('/dev/nvidia0'))",
        "pathlib.Path('/dev/nvidia0').exists()",
        "Path('/proc/driver/nvidia').is_dir()",
    ],
)
def test_a_test_for_the_driver_is_told(line: str) -> None:
    assert told(line) == ["XLA119"]


@each(
    "line",
    [
        "which('neuron-top')",
        "which('nvcc')",
        "which(nvidia_smi)",
        "os.path.exists('/data/dev/nvidia0')",
        "os.path.exists()",
        "Path('nvidia').exists()",
        "mine('/dev/nvidia0').exists()",
        "'nvidia-smi'",
        "open('/dev/nvidia0')",
    ],
)
def test_others_are_not(line: str) -> None:
    assert told(line) == []


def test_what_runs_the_tool_is_told_once() -> None:
    assert told("subprocess.run(['nvidia-smi', '-L'])") == ["XLA905"]


def test_a_module_is_told_where_a_program_that_trains_loads_it() -> None:
    main = "import torch\nfrom lib import has_gpu\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel(batch).sum().backward()\n"
    lib = b"import shutil\n\ndef has_gpu():\n    return shutil.which('nvidia-smi') is not None\n"
    files = {"main.py": main.encode(), "lib.py": lib}
    found = check(lib, Options(), "lib.py", Project(Modules(files), "lib.py"))
    assert [(finding.code, finding.line) for finding in found] == [("XLA119", 4)]
    assert check(lib) == []
