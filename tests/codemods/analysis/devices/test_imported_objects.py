"""Objects that another module makes have methods and properties of their own."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check

SETUP = """
class DeviceConfig:
    _device: str = "cpu"

    @property
    def is_cuda(self):
        return "cuda" in self._device

config = DeviceConfig()
"""


@pytest.mark.parametrize(
    ("imported", "is_reported"),
    [
        ("from pack.setup import config", False),
        ("from pack.setup import config as device_config", False),
        ("from .setup import config", False),
        ("from .names import config", False),
        ("from .sample import sample", True),
    ],
)
def test_a_property_of_an_imported_object(imported: str, is_reported: bool) -> None:
    name = imported.rpartition(" ")[2]
    train = f"""
import torch
{imported}

def setup(x, mixed):
    if mixed and not {name}.is_cuda:
        mixed = False
    return x.cuda()
"""
    files = {
        "pack/__init__.py": "",
        "pack/setup.py": SETUP,
        "pack/names.py": "from .setup import *\n",
        "pack/sample.py": "import torch\nsample = torch.ones(2)\n",
        "pack/train.py": train,
    }
    known = Modules({path: text.encode() for path, text in files.items()})
    path = "pack/train.py"
    found = check(known.files[path], path=path, project=Project(known, path))
    assert ("XLA107" in {f.code for f in found}) is is_reported
