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


@pytest.mark.parametrize(
    "call",
    [
        "torch.save(args, p)",
        "torch.save(lr_scheduler.state_dict(), p)",
        "torch.save([1.0], p)",
        "torch.save(losses, p)",
    ],
)
def test_what_holds_no_states_stays(call: str) -> None:
    assert migrated(HEAD + call) == HEAD + call
    assert findings(HEAD + call) == []


def test_without_a_name_for_it_a_person_decides() -> None:
    source = HEAD.replace("accelerator", "driver") + "torch.save(driver.get_state_dict(m), p)"
    assert migrated(source) == source
    assert [code for _, code in findings(source)] == [SAVED]


def test_fabric_has_a_save_of_its_own() -> None:
    source = "import torch\nfrom lightning import Fabric\nfabric = Fabric(accelerator='tpu')\nmodel = fabric.setup(m)\ntorch.save(model.state_dict(), p)\n"
    assert migrated(source) == source
