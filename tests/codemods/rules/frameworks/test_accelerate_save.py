"""What accelerate has put on the device, and `torch.save` writes."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = "import torch\nfrom accelerate import Accelerator\nfrom xla_migrate import runtime as xla\nxla.patch_accelerate()\naccelerator = Accelerator()\nmodel = accelerator.prepare(model)\n"
SAVED = "XLA802"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.save(model.state_dict(), p)", "accelerator.save(model.state_dict(), p)"),
        ("torch.save(model.state_dict(), f=p)", "accelerator.save(model.state_dict(), f=p)"),
        ("state = {'m': accelerator.get_state_dict(model), 'e': 1}\ntorch.save(state, p)",
         "state = {'m': accelerator.get_state_dict(model), 'e': 1}\naccelerator.save(state, p)"),
    ],
)  # fmt: skip
def test_accelerate_saves(before: str, after: str) -> None:
    assert migrated(HEAD + before) == HEAD + after


EMA = """model = accelerator.prepare(torch.nn.Linear(4, 4))
class EMA:
    def __init__(self, model):
        self.weights = {k: v.clone() for k, v in model.state_dict().items()}
        self.on_host = {k: v.cpu() for k, v in model.state_dict().items()}
        self.steps = 3
ema = EMA(model)
"""


@pytest.mark.parametrize(
    "saved",
    [
        "model",
        "accelerator.unwrap_model(model)",
        "list(model.parameters())",
        "{'<tok>': model.weight[3].detach()}",
        "ema.weights",
        "{'step': 1, 'ema': ema.shadow_params}",
    ],
)
def test_what_accelerates_save_would_leave_on_the_device(saved: str) -> None:
    before = HEAD + EMA + f"torch.save({saved}, p)"
    assert migrated(before).endswith(f"\nxla.save({saved}, p)")


@pytest.mark.parametrize(
    ("path", "guard", "added"),
    [
        ("p", "True", ""),
        ("p", "accelerator.is_main_process", ""),
        ("p", "accelerator.is_local_main_process", ", master_only=False"),
        ("f'{accelerator.process_index}.pt'", "True", ", master_only=False"),
    ],
)
def test_what_others_than_the_first_write(path: str, guard: str, added: str) -> None:
    before = HEAD + EMA + f"if {guard}:\n    torch.save(model, {path})"
    assert migrated(before).endswith(f"xla.save(model, {path}{added})")


@pytest.mark.parametrize(
    "call",
    [
        "torch.save(args, p)",
        "torch.save(ema.on_host, p)",
        "torch.save(ema.steps, p)",
        "torch.save({'<tok>': model.weight[3].detach().cpu()}, p)",
        "torch.save([w.cpu() for w in model.parameters()], p)",
        "torch.save(lr_scheduler.state_dict(), p)",
        "torch.save([1.0], p)",
        "torch.save(losses, p)",
    ],
)
def test_what_holds_no_states_stays(call: str) -> None:
    source = HEAD + EMA + call
    assert migrated(source) == source
    assert findings(source) == []


def test_without_a_name_for_it_a_person_decides() -> None:
    source = HEAD.replace("accelerator", "driver") + "torch.save(driver.get_state_dict(m), p)"
    assert migrated(source) == source
    assert [code for _, code in findings(source)] == [SAVED]


def test_fabric_has_a_save_of_its_own() -> None:
    source = "import torch\nfrom lightning import Fabric\nfabric = Fabric(accelerator='tpu')\nmodel = fabric.setup(m)\ntorch.save(model.state_dict(), p)\n"
    assert migrated(source) == source


LOOP = """import torch
from accelerate import Accelerator
from torch import nn

def train(loader, logger, bar):
    accelerator = Accelerator()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, x in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(x).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        BEHIND
"""


@pytest.mark.parametrize(
    ("behind", "marked"),
    [
        ("if accelerator.is_main_process:\n            accelerator.save_state('x')", True),
        ("if step % 9 == 0:\n            if accelerator.is_main_process:\n                keep(model)", True),
        ("if accelerator.sync_gradients and accelerator.is_local_main_process:\n            keep(model)", True),
        ("save_checkpoint(accelerator, model)", True),
        ("accelerator.log({'loss': loss.item()})", False),
        ("accelerator.print(loss)", False),
        ("accelerator.save_state('x')", False),
        ("bar.update(1)", False),
        ("accelerator.wait_for_everyone()\n        if accelerator.is_main_process:\n            keep(model)", False),
        ("if step > 9:\n            accelerator.wait_for_everyone()\n        if accelerator.is_main_process:\n            keep(model)", True),
        ("other.wait_for_everyone()\n        if accelerator.is_main_process:\n            keep(model)", True),
        ("bar.set_postfix(loss=loss.item())", False),
    ],
)  # fmt: skip
def test_the_step_is_marked_before_what_one_process_does(behind: str, marked: bool) -> None:
    lines = [line.strip() for line in migrated(LOOP.replace("BEHIND", behind)).splitlines()]
    assert ("xla.mark_step()" in lines) is marked
    if marked:
        assert lines[lines.index("xla.mark_step()") - 1] == "optimizer.zero_grad()"


def test_fabric_marks_its_own_steps() -> None:
    source = (
        "import lightning as L\nimport torch\n\ndef fit(model, optimizer, loader):\n    fabric = L.Fabric()\n"
        "    model, optimizer = fabric.setup(model, optimizer)\n    for x in loader:\n        fabric.backward(model(x).mean())\n"
        "        optimizer.step()\n        optimizer.zero_grad()\n        if fabric.global_rank == 0:\n            keep(model)\n"
    )
    assert "mark_step" not in migrated(source)
