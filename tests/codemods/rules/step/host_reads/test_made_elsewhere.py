"""What a function of another module makes of a tensor is read like the tensor itself."""

from __future__ import annotations

import re

from tests.each import each
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

TRAIN = """\
import torch.nn.functional as F
from torch.utils.data import DataLoader
import helpers
from helpers import reduced
from mypackage import measured

def train(model, loader: DataLoader, optimizer, names):
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print({value})
"""


def _project(value: str) -> tuple[bytes, Project]:
    files = {
        "train.py": TRAIN.format(value=value).encode(),
        "helpers.py": b"import torch\n\ndef reduced(x):\n    return x / torch.distributed.get_world_size()\n",
    }
    return files["train.py"], Project(Modules(files), "train.py")


@each("value", ["reduced(loss)", "helpers.reduced(loss.detach())"])
def test_it_is_computed_in_the_step_and_shown_later(value: str) -> None:
    data, project = _project(f"{value}.item()")
    result = migrate(data, Options(), "train.py", project).data.decode()
    shown = re.escape(f"={value}: print(") + r"\w+\.item\(\)\)\)"
    assert re.search(rf"xla\.later\(lambda \w+{shown}", result)


@each("value", ["reduced(names).item()", "measured(loss).item()", "reduced(step).item()"])
def test_what_is_unknown_is_not_reported(value: str) -> None:
    data, project = _project(value)
    assert "XLA503" not in {f.code for f in check(data, Options(), "train.py", project)}
