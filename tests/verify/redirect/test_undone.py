"""Without the redirection nothing of it is left."""

from __future__ import annotations

import sys

import torch

from xla_migrate.verify import redirect


def test_torch_is_as_before() -> None:
    owners = (torch, torch.Tensor, torch.cuda, torch.accelerator, torch.nn.Module, torch.optim)
    before = [dict(vars(owner)) for owner in owners]
    finders = list(sys.meta_path)
    redirect.install().undo()
    assert [dict(vars(owner)) for owner in owners] == before
    assert sys.meta_path == finders
    assert torch.zeros(1).device.type == "cpu"
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.ones(2, 2, dtype=torch.bfloat16).softmax(-1).dtype == torch.bfloat16


def test_several_devices() -> None:
    patches = redirect.install(device_count=2)
    try:
        assert torch.cuda.device_count() == 2
        assert torch.zeros(1, device="cuda:1").get_device() == 1
        with torch.cuda.device(1):
            assert torch.zeros(1, device="cuda").get_device() == 1
        assert torch.zeros(1).cuda().get_device() == 0
    finally:
        patches.undo()
