"""XLA208 is silent where float16 is meant: what is rounded through it, and what is only saved."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check

HEAD = """
import copy
import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

model = nn.Linear(4, 2).cuda()
x = torch.ones(2, 4).cuda()
"""
MEANT = {
    "rounded": "y = model(x.half().float())",
    "rounded_through_to": "y = model(x.to(torch.float16).to(torch.float32))",
    "rounded_back_to_its_type": "y = x.half().to(x.dtype)",
    "rounded_by_way_of_a_name": "low = x.half()\nerror = x - low.float()",
    "rounded_on_the_host": "y = x.type(torch.float16).cpu().double()",
    "as_an_array": "np.save('x.npy', x.half().cpu().numpy())",
    "state_of_a_half_model": "torch.save(model.half().state_dict(), 'm.pt')",
    "a_model_that_is_float32_again": "torch.save(model.half().state_dict(), 'm.pt')\nmodel.float()",
    "a_model_that_is_only_saved": "model.half()\ntorch.save(model.state_dict(), 'm.pt')",
    "a_copy_that_is_saved": "small = copy.deepcopy(model).half()\ntorch.save(small.state_dict(), 'm.pt')",
    "values_of_a_state": "torch.save({k: v.half() for k, v in model.state_dict().items()}, 'm.pt')",
    "values_of_a_named_state": "sd = model.state_dict()\nhalf = {k: v.half() for k, v in sd.items()}\nsave_file(half, 'm.st')",
    "values_put_back": "sd = model.state_dict()\nfor k in sd:\n    sd[k] = sd[k].half()\ntorch.save(sd, 'm.pt')",
    "in_an_entry": "torch.save({'model': copy.deepcopy(model).half()}, 'm.pt')",
    "in_a_loaded_checkpoint": (
        "c = torch.load('m.pt', map_location='cpu')\nc['epoch'] = -1\nc['model'].half()\n"
        "for p in c['model'].parameters():\n    p.requires_grad = False\ntorch.save(c, 'm.pt')"
    ),
    "in_a_checkpoint_that_is_put_together": (
        "def strip(c):\n    c['model'].half()\n    both = {**c, 'date': 1}\n    torch.save(both, 'm.pt')"
    ),
    "a_buffer_for_a_kernel": (
        "def rotate(n, dev):\n    out = torch.empty(n, device=dev, dtype=torch.float16)\n"
        "    _rotate_kernel[(n,)](out, n)\n    return out"
    ),
    "a_buffer_for_an_operation_of_ones_own": (
        "def rotate(n, dev):\n    out = torch.empty(n, device=dev, dtype=torch.float16)\n"
        "    torch.ops.mine.rotate(out)\n    return out"
    ),
}
COMPUTED = {
    "made": "def rotate(n, dev):\n    out = torch.empty(n, device=dev, dtype=torch.float16)\n    return out.cos()",
    "in_a_checkpoint_that_is_run": "c = {'model': model}\nc['model'].half()\ny = c['model'](x)\ntorch.save(c, 'm.pt')",
    "in_a_checkpoint_that_is_not_saved": "c = {'model': model}\nc['model'].half()\nrun(c)",
    "a_model_that_goes_on": "torch.save(model.half().state_dict(), 'm.pt')\ny = model(x)",
    "a_model_that_trains_on": "for _ in range(2):\n    y = model(x)\n    torch.save(model.half().state_dict(), 'm.pt')",
    "a_model": "model.half()\ny = model(x)",
    "a_model_that_is_saved_too": "model.half()\ny = model(x)\ntorch.save(model.state_dict(), 'm.pt')",
    "in_a_loop": "for _ in range(2):\n    y = model(x)\n    model.half()\n    torch.save(model.state_dict(), 'm.pt')",
    "an_input": "y = model(x.half())",
    "a_name_used_twice": "low = x.half()\ny = model(low)\nz = low.float()",
    "converted_then_computed": "y = model(x.to(torch.float16)).float()",
    "loaded_into_another": "other = nn.Linear(4, 2).cuda()\nother.load_state_dict(model.half().state_dict())",
}


def _lines(code: str) -> list[str]:
    found = check((HEAD + textwrap.dedent(code)).encode())
    return [f.code for f in found if f.code == "XLA208"]


@pytest.mark.parametrize("code", MEANT.values(), ids=MEANT)
def test_float16_that_is_meant_is_left(code: str) -> None:
    assert _lines(code) == []


@pytest.mark.parametrize("code", COMPUTED.values(), ids=COMPUTED)
def test_float16_that_is_computed_with_is_told(code: str) -> None:
    assert _lines(code) == ["XLA208"]
