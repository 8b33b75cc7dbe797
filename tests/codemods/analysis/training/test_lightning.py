"""Which classes Lightning trains: their optimizers average and mark by themselves."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check

FILES = {
    "pkg/__init__.py": "from .base import Base\n",
    "pkg/base.py": "import lightning.pytorch as pl\nclass Base(pl.LightningModule):\n    pass\n",
    "pkg/deeper.py": "from .base import Base as B\nclass Deeper(B):\n    pass\n",
    "pkg/plain.py": "class Plain:\n    pass\n",
}
MODEL = """import torch
{imported}

class Gan({base}):
    def training_step(self, batch, k):
        opt, other = self.optimizers()
        loss = self.model(batch.cuda()).mean()
        opt.zero_grad()
        self.{backward}(loss)
        opt.step()
"""


@pytest.mark.parametrize(
    ("imported", "base", "backward", "is_its"),
    [
        ("from pkg.base import Base", "Base", "back", True),
        ("from .base import Base", "Base", "back", True),
        ("from pkg import Base", "Base", "back", True),
        ("import pkg.base", "pkg.base.Base", "back", True),
        ("from pkg.deeper import Deeper", "Deeper", "back", True),
        ("from pkg.deeper import Deeper\nclass Mine(Deeper): ...", "Mine", "back", True),
        ("from pytorch_lightning import LightningModule", "LightningModule", "back", True),
        ("from elsewhere import Model", "Model", "manual_backward", True),
        ("from pkg.plain import Plain", "Plain", "back", False),
        ("from elsewhere import Model", "Model", "back", False),
    ],
)
def test_its_optimizers_are_left_to_it(
    imported: str, base: str, backward: str, is_its: bool
) -> None:
    source = MODEL.format(imported=imported, base=base, backward=backward)
    files = {**FILES, "pkg/gan.py": source}
    modules = Modules({name: text.encode() for name, text in files.items()})
    found = check(source.encode(), path="pkg/gan.py", project=Project(modules, "pkg/gan.py"))
    assert ("XLA501" not in {f.code for f in found}) is is_its
