"""Every form in which people let one replica save, as migrated: two replicas get past it, and one has written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from xla_codemods.engine import migrate

from ..codemods.rules.distributed.test_alone import FORMS, HEAD
from ..runtime import rehearsal

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

_SAVING = ('"x.pt"', "keep", "early", "saver", "after_step", "maybe")
SAVES = [form for form in FORMS if any(word in form for word in _SAVING)]
# Each form within the training of the head, as a function of its own.
TRAIN = (
    HEAD[HEAD.index("def train(") :]
    .replace("BEFORE", "pass")
    .replace('    dist.init_process_group("nccl")\n', "")
)
START = """
import argparse, datetime, time
dist.init_process_group("nccl")
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
args = argparse.Namespace(distributed=True, rank=rank, local_rank=local_rank)
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.randn(4, 2), torch.randn(4, 1)), batch_size=2
)
for i, train in enumerate(TRAININGS):
    train(loader, rank, local_rank, args, 2, None, None, [EveryFew(rank)])
    dist.barrier()
    if rank == 0:
        report(i, os.path.exists("x.pt"))
        os.rename("x.pt", f"{i}.pt")
    dist.barrier()
"""


def script() -> str:
    functions = [
        TRAIN.replace("def train(", f"def train_{i}(").replace("AFTER", form)
        for i, form in enumerate(SAVES)
    ]
    names = ", ".join(f"train_{i}" for i in range(len(SAVES)))
    whole = HEAD[: HEAD.index("def train(")] + "\n".join(functions) + f"\nTRAININGS = [{names}]\n"
    return whole + START


def test_fact_1_41_no_form_of_a_guarded_save_hangs(tmp_path: Path) -> None:
    result = migrate(script().encode())
    assert not [f for f in result.left if f.severity == "error"]
    first = f"import os\nos.chdir({str(tmp_path)!r})\n"
    reports = rehearsal.run(first + result.data.decode())
    assert reports[0] == dict.fromkeys(range(len(SAVES)), True)
    saved = [torch.load(tmp_path / f"{i}.pt") for i in range(len(SAVES))]
    for state in saved:
        assert state["module.weight"].device.type == "cpu"
