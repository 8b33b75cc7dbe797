"""A script for accelerate's pipelines, migrated: it computes what the model computes, with its parameters split."""

from __future__ import annotations

import pytest

from xla_codemods.engine import migrate

from .. import rehearsal

pytest.importorskip("accelerate")

SCRIPT = """
import torch
from accelerate import PartialState, prepare_pippy
from accelerate.test_utils import torch_device
from accelerate.utils import set_seed

synchronize = getattr(torch, torch_device, torch.cuda).synchronize
set_seed(42)
model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 6))
model.eval()
sizes = []
model[1].register_forward_hook(lambda module, given, made: sizes.append(len(made)))
x = torch.arange(12).view(4, 3)
with torch.no_grad():
    expected = model(x)
model = prepare_pippy(model, split_points="auto", example_args=(x,))
with torch.no_grad():
    output = model(x.to(torch_device))
synchronize()
if PartialState().is_last_process:
    print(output)
PartialState().destroy_process_group()
"""
FOUND = """
import torch_xla
spec = torch_xla._XLAC._get_xla_sharding_spec
report("device", output.device.type)
report("same", torch.allclose(output.cpu(), expected, rtol=1e-5, atol=1e-6))
report("split", {name: spec(p) for name, p in model.named_parameters()})
report("processes", PartialState().num_processes)
with torch.no_grad():
    filled = model(x[:3].to(torch_device)).cpu()
report("filled up", [len(filled), torch.allclose(filled[:3], expected[:3], rtol=1e-5, atol=1e-6)])
report("sizes", sizes)
"""


def test_a_pipeline_computes_what_its_model_computes() -> None:
    result = migrate(SCRIPT.encode())
    assert not [f for f in result.left if f.severity == "error"]
    (found,) = rehearsal.run(result.data.decode() + FOUND, count=1, CPU_NUM_DEVICES="2")
    assert found["same"]
    assert found["device"] == "xla"
    assert found["processes"] == 1
    assert found["filled up"] == [4, True]
    assert found["sizes"] == [4, 2, 2, 2, 2], "the first before it is a pipeline"
    assert len(found["split"]) == 7
    assert all("devices=[" in spec for spec in found["split"].values())


def test_without_spmd_it_says_how_to_begin() -> None:
    script = """
import torch
from xla_migrate import runtime as xla
try:
    xla.prepare_pippy(torch.nn.Linear(2, 2), example_args=(torch.ones(1, 2),))
except RuntimeError as error:
    report("told", str(error))
"""
    (found,) = rehearsal.run(script, count=1)
    assert "use_spmd(batch_per_device=True)" in found["told"]
    first, second = rehearsal.run(script)
    assert "start the script with python" in first["told"]
    assert second == first
