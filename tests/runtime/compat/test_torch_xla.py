"""What stands for torch_xla's own functions: the same on XLA, and torch's among several replicas."""

from __future__ import annotations

import tempfile

import pytest
import torch

from xla_migrate import runtime as xla

from ..rehearsal import run

pytest.importorskip("torch_xla")


def test_step_marks_where_it_begins_and_where_it_ends() -> None:
    marks = "import torch\nfrom xla_migrate import runtime as xla\nxla.xla_device()\n"
    script = f"""{marks}
x = torch.zeros(2, device=xla.xla_device())
before = xla.metrics()["step_marks"]
try:
    with xla.marked_step():
        x.add_(1)
        raise KeyError
except KeyError:
    report("marks", xla.metrics()["step_marks"] - before)
"""
    assert run(script, 1)[0]["marks"] == 2


def test_with_one_replica_they_are_torch_xlas() -> None:
    script = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
from xla_migrate import runtime as xla
x = torch.tensor([1.0, 2.0]).to(xla.xla_device())
pairs = [
    (xm.all_reduce("sum", x, scale=0.5), xla.all_reduced(x, "sum", scale=0.5)),
    (xm.all_gather(x), xla.all_gathered(x)),
    (xm.mesh_reduce("a", x, lambda all: all[0] * len(all)), xla.mesh_reduce("a", x, lambda all: all[0] * len(all))),
]
report("same", [theirs.tolist() == ours.tolist() for theirs, ours in pairs])
report("kinds", [str(ours.device.type) for _, ours in pairs])
called = []
xla.add_step_closure(lambda t: called.append(t.item()), args=(x.sum(),))
report("before", list(called))
xla.mark_step()
report("after", called)
launches = xla.metrics()["launches"]
y = x * 3
xla.synchronize(mark=False)
report("waited", xla.metrics()["launches"] - launches)
xla.synchronize()
report("marked", xla.metrics()["launches"] - launches)
"""
    told = run(script, 1)[0]
    assert told["same"] == [True] * 3
    assert told["kinds"] == ["xla", "xla", "cpu"]
    assert (told["before"], told["after"]) == ([], [3.0])
    assert (told["waited"], told["marked"]) == (0, 1)


def test_several_replicas() -> None:
    script = """
import os, tempfile, torch
from xla_migrate import runtime as xla
rank = xla.rank()
x = torch.tensor([rank + 1.0]).to(xla.xla_device())
report("ops", [xla.all_reduced(x, op).item() for op in ("sum", "mul", "min", "max")])
report("scaled", xla.all_reduced(x, "sum", scale=0.5).item())
report("kept", x.item())
several = [x.clone(), torch.full((2, 2), rank + 1.0).to(x.device), torch.tensor([rank + 1]).to(x.device)]
same = xla.all_reduced(several[:2], "sum", scale=0.5) , xla.all_reduced(tuple(several[2:]), "sum")
assert same[0][0] is several[0] and same[1][0] is several[2]
xla.all_reduced([], "sum")
xla.mark_step()
report("several", [t.flatten().tolist() for t in several])
largest = [x.clone()]
xla.all_reduced(largest, "max", scale=2.0)
report("largest", largest[0].item())
report("gathered", xla.all_gathered(x).tolist())
report("sum", xla.mesh_reduce("sum", {"n": rank + 1, "t": x}, lambda all: [sum(a["n"] for a in all), all[1]["t"].item()]))
xla.master_print("first", rank)
xla.master_print("local", rank, local=True)
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to(xla.xla_device())
xla.broadcast_master_param(model)
report("weights", [round(p.sum().item(), 6) for p in model.parameters()])
path = os.path.join(os.environ["OUT"], f"{rank}.pt")
xla.save({"x": x}, path, each_host=True)
report("written", os.path.exists(path))
"""
    with tempfile.TemporaryDirectory() as folder:
        first, second = run(script, 2, OUT=folder)
    assert first["ops"] == second["ops"] == [3.0, 2.0, 1.0, 2.0]
    assert first["scaled"] == 1.5
    assert (first["kept"], second["kept"]) == (1.0, 2.0)
    assert first["several"] == second["several"] == [[1.5], [1.5] * 4, [3]]
    assert first["largest"] == 4.0
    assert first["gathered"] == second["gathered"] == [1.0, 2.0]
    assert first["sum"] == second["sum"] == [3, 2.0]
    assert first["weights"] == second["weights"]
    assert (first["written"], second["written"]) == (True, False)


def test_without_torch_xla_they_run_too() -> None:
    script = """
import torch
from xla_migrate import runtime as xla
told = []
xla.add_step_closure(lambda a, b: told.append(a + b), args=(1, 2))
with xla.marked_step():
    told.append(xla.mesh_reduce("x", 4, sum))
told.append(xla.all_reduced(torch.tensor(5.0)).item())
told += xla.all_gathered(torch.tensor([6.0])).tolist()
xla.broadcast_master_param(torch.nn.Linear(1, 1))
xla.synchronize(mark=False)
xla.master_print("printed")
report("told", told)
"""
    assert run(script, 1, XLA_MIGRATE_BACKEND="eager")[0]["told"] == [3, 4, 5.0, 6.0]


def test_a_step_of_one_graph_lets_nothing_be_read_in_between(device: torch.device) -> None:
    before = xla.metrics()["step_marks"]
    double = xla.marked_step(full_graph=True, name="double")(lambda x: x * 2)
    assert [double(torch.ones(2, device=device)).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2
    assert xla.metrics()["step_marks"] > before
    with pytest.raises(RuntimeError), xla.marked_step(full_graph=True):
        torch.ones(2, device=device).add(1).tolist()


def test_elsewhere_a_step_of_one_graph_is_a_step(eager: None) -> None:
    with xla.marked_step(full_graph=True, name="x", max_different_graphs=1):
        assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]
