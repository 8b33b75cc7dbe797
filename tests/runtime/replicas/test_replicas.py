"""Two replicas that rehearse on XLA:CPU. They start once for all tests here."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.script_environment import free_port

from ... import warm
from .. import rehearsal

SCRIPT = r"""
import os
import torch
import torch.distributed as dist
from xla_migrate import runtime as xla
from torch.utils.data import DataLoader, DistributedSampler

report("before", [xla.rank(), xla.local_rank(), xla.world_size(), dist.is_initialized()])
xla.init_process_group("nccl", init_method="env://")
rank, device = xla.rank(), xla.xla_device()
report("ranks", [xla.rank(), dist.get_rank(), xla.world_size(), dist.get_world_size()])
report("devices", [xla.device_count(), str(device)])
import torch_xla.runtime as xr
report("of torch_xla", [xr.global_ordinal(), xr.world_size()])

def mine(*shape):
    return torch.full(shape, rank + 1.0, device=device)

def in_place(name, collective, x):
    collective(x)
    report(name, x.tolist())

in_place("all_reduce", xla.all_reduce, mine(2))
in_place("average", lambda x: xla.all_reduce(x, op=dist.ReduceOp.AVG), mine(2))
in_place("largest", lambda x: xla.all_reduce(x, dist.ReduceOp.MAX), mine(2))
in_place("torch's own", dist.all_reduce, mine(2))
in_place("of the host", xla.all_reduce, torch.ones(2))
in_place("waited for", lambda x: xla.all_reduce(x, async_op=True).wait(), mine(2))
in_place("reduce", lambda x: xla.reduce(x, dst=0), mine(2))
in_place("broadcast", lambda x: xla.broadcast(x, src=1), mine(2))
in_place("whole numbers", xla.all_reduce, torch.tensor([2**40 + rank], device=device))

def filled(name, out, collective):
    collective(out)
    report(name, [o.tolist() for o in out] if isinstance(out, list) else out.tolist())

zeros = lambda *shape: torch.zeros(shape, device=device)
filled("all_gather", [zeros(2), zeros(2)], lambda out: xla.all_gather(out, mine(2)))
filled("all_gather_into_tensor", zeros(4), lambda out: xla.all_gather_into_tensor(out, mine(2)))
filled("stacked", zeros(2, 2), lambda out: xla.all_gather_into_tensor(out, mine(2)))
out = [zeros(1), zeros(1)] if rank == 0 else None
xla.gather(mine(1), out, dst=0)
report("gather", out and [o.tolist() for o in out])
shares = [torch.tensor([5.0], device=device), torch.tensor([6.0], device=device)]
filled("scatter", zeros(1), lambda out: xla.scatter(out, shares if rank == 0 else None, src=0))
pair = lambda: [mine(2), 10 * mine(2)]
filled("reduce_scatter", zeros(2), lambda out: xla.reduce_scatter(out, pair()))
filled("reduce_scatter_tensor", zeros(2), lambda out: xla.reduce_scatter_tensor(out, mine(4)))
filled("all_to_all", [zeros(2), zeros(2)], lambda out: xla.all_to_all(out, pair()))
filled("all_to_all_single", zeros(4), lambda out: xla.all_to_all_single(out, mine(4)))

def objects(name, make):
    report(name, make())

gathered = [None, None]
xla.all_gather_object(gathered, {"rank": rank})
report("all_gather_object", gathered)
told = [["settings", rank]]
xla.broadcast_object_list(told, src=1)
report("broadcast_object_list", told)
got = [None]
xla.scatter_object_list(got, ["a", "b"] if rank == 0 else None, src=0)
report("scatter_object_list", got)
collected = [None, None] if rank == 0 else None
xla.gather_object(rank, collected, dst=0)
report("gather_object", collected)

group = xla.new_group([1])
x = mine(2)
if rank == 1:
    xla.all_reduce(x, group=group)
    assert xla.barrier(group=group) is None
    assert xla.barrier(group, True).wait() is not False
report("group of one", x.tolist())
both = xla.new_group([0, 1])
in_place("group of both", lambda x: xla.all_reduce(x, group=both), mine(2))
nccls = xla.new_group([0, 1], None, "cpu:gloo,cuda:nccl", pg_options=object())
in_place("group of NCCL's", lambda x: xla.all_reduce(x, group=nccls), mine(2))
xla.barrier()
xla.rendezvous("here")

# What torch_xla and gloo do by themselves.
gloo = dist.new_group(backend="gloo")
try:
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).to(device), process_group=gloo)
except RuntimeError as error:
    report("torch's DDP", str(error))
x = mine(2)
dist.all_reduce(x, group=gloo)
report("gloo", x.tolist())
in_place("a group of the script's", lambda x: xla.all_reduce(x, group=gloo), mine(2))

import torch.distributed.nn.functional as differentiable
leaf = mine(2).requires_grad_()
parts = differentiable.all_gather(leaf)
(parts[0] * parts[1]).sum().backward()
report("gathered features", [[part.tolist() for part in parts], leaf.grad.tolist()])
leaf = mine(2).requires_grad_()
(differentiable.all_reduce(leaf) * (rank + 1)).sum().backward()
report("summed features", leaf.grad.tolist())

boxes = [None]
if rank == 0:
    dist.send_object_list(["a message"], 1)
else:
    dist.recv_object_list(boxes, 0)
report("objects sent", boxes)
in_place("a subgroup", lambda x: dist.all_reduce(x, group=dist.new_subgroups(2)[0]), mine(2))

sampler = DistributedSampler(range(8), shuffle=True, seed=3)
loader = xla.MpDeviceLoader(DataLoader(range(8), batch_size=2, sampler=sampler))
seen = []
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    seen.append([i for batch in loader for i in batch.tolist()])
report("seen", seen)

xla.save({"rank": rank, "of": torch.ones(2, device=device)}, os.environ["FOLDER"] + "/saved.pt")
xla.barrier()
report("loaded", xla.load(os.environ["FOLDER"] + "/saved.pt")["rank"])
xla.destroy_process_group()
report("after", [dist.is_initialized(), xla.rank(), xla.world_size()])
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("replicas")
    reports = rehearsal.run(SCRIPT, FOLDER=str(folder))
    for report in reports:
        report["files"] = sorted(path.name for path in folder.iterdir())
    return reports


def test_fact_3_10_each_process_knows_which_it_is(both: list[dict[str, Any]]) -> None:
    for rank, report in enumerate(both):
        assert report["before"] == [rank, rank, 2, False]
        assert report["ranks"] == [rank, rank, 2, 2]
        assert report["devices"] == [2, "xla:0"]
        assert report["of torch_xla"] == [0, 1], "what it is for"
        assert report["after"] == [False, rank, 2]


IN_PLACE = {
    "all_reduce": [3, 3],
    "average": [1.5, 1.5],
    "largest": [2, 2],
    "torch's own": [3, 3],
    "of the host": [2, 2],
    "waited for": [3, 3],
    "broadcast": [2, 2],
    "whole numbers": [2**41 + 1],
    "group of NCCL's": [3, 3],
    "group of both": [3, 3],
    "a group of the script's": [3, 3],
    "a subgroup": [3, 3],
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_collectives_in_place(both: list[dict[str, Any]], name: str) -> None:
    assert [report[name] for report in both] == [IN_PLACE[name]] * 2


def test_fact_3_9_gloo_alone_does_nothing_to_xla_tensors(both: list[dict[str, Any]]) -> None:
    assert [report["gloo"] for report in both] == [[1, 1], [2, 2]]


def test_fact_5_2_torchs_own_wrapper_cannot_begin(both: list[dict[str, Any]]) -> None:
    """Its check of the parameters gathers XLA tensors through gloo; so ours has its own (_data_parallel.py)."""
    for report in both:
        assert "torch's DDP" in report, "it could"
        assert "allgather" in report["torch's DDP"] or "XLA" in report["torch's DDP"]


def test_fact_5_5_objects_and_barriers_go_through_gloo(both: list[dict[str, Any]]) -> None:
    for rank, report in enumerate(both):
        assert report["broadcast_object_list"] == [["settings", 1]]
        assert report["all_gather_object"] == [{"rank": 0}, {"rank": 1}]
        assert report["after"] == [False, rank, 2], "behind two barriers"


def test_gradients_come_back_through_collectives(both: list[dict[str, Any]]) -> None:
    """torch.distributed.nn, as contrastive losses use it: each replica's loss has its part in each gradient."""
    for report, gradient in zip(both, ([4, 4], [2, 2]), strict=True):
        assert report["gathered features"] == [[[1, 1], [2, 2]], gradient]
        assert report["summed features"] == [3, 3]


def test_what_the_migration_leaves_as_it_is(both: list[dict[str, Any]]) -> None:
    """`send_object_list` and its like go through the runtime's process group."""
    assert [report["objects sent"] for report in both] == [[None], ["a message"]]


def test_some_replicas_only(both: list[dict[str, Any]]) -> None:
    assert both[0]["reduce"] == [3, 3]
    assert [report["group of one"] for report in both] == [[1, 1], [2, 2]]


FILLED: dict[str, tuple[Any, Any]] = {
    "all_gather": ([[1, 1], [2, 2]],) * 2,
    "all_gather_into_tensor": ([1, 1, 2, 2],) * 2,
    "stacked": ([[1, 1], [2, 2]],) * 2,
    "gather": ([[1], [2]], None),
    "scatter": ([5], [6]),
    "reduce_scatter": ([3, 3], [30, 30]),
    "reduce_scatter_tensor": ([3, 3], [3, 3]),
    "all_to_all": ([[1, 1], [2, 2]], [[10, 10], [20, 20]]),
    "all_to_all_single": ([1, 1, 2, 2],) * 2,
    "all_gather_object": ([{"rank": 0}, {"rank": 1}],) * 2,
    "broadcast_object_list": ([["settings", 1]],) * 2,
    "scatter_object_list": (["a"], ["b"]),
    "gather_object": ([0, 1], None),
}


@pytest.mark.parametrize("name", FILLED)
def test_collectives_that_fill(both: list[dict[str, Any]], name: str) -> None:
    assert tuple(report[name] for report in both) == FILLED[name]


def test_each_replica_sees_its_share_of_each_epoch(both: list[dict[str, Any]]) -> None:
    for epoch in range(2):
        assert sorted(both[0]["seen"][epoch] + both[1]["seen"][epoch]) == list(range(8))
    assert both[0]["seen"][0] != both[0]["seen"][1], "set_epoch reaches the sampler"


def test_all_replicas_save_and_one_writes(both: list[dict[str, Any]]) -> None:
    for report in both:
        assert report["loaded"] == 0
        assert report["files"] == ["saved.pt"]


@pytest.mark.e2e
def test_fact_3_10_a_rehearsal_needs_no_process_group_of_the_script() -> None:
    script = """
import torch
import torch.distributed as dist
from xla_migrate import runtime as xla
weight = torch.nn.Parameter(torch.zeros(2))
model = torch.nn.ParameterList([weight]).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for step in range(2):
    optimizer.zero_grad()
    (weight * (xla.rank() + 1)).sum().backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
report("weight", weight.tolist())
xla.init_process_group("nccl")
report("group", dist.get_world_size())
"""
    for report in rehearsal.run(script):
        assert report == {"weight": [-3, -3], "group": 2}


@pytest.mark.e2e
def test_fact_1_21_different_gradients_are_refused_and_not_mixed_up() -> None:
    script = """
import torch
from xla_migrate import runtime as xla
weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
model = torch.nn.ParameterList(weights).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
sum(weight.sum() for weight in weights[xla.rank():]).backward()
try:
    xla.optimizer_step(optimizer)
except RuntimeError as error:
    report("error", str(error))
"""
    for report in rehearsal.run(script):
        assert "2 to 4 elsewhere; on a device the job would hang" in report["error"]


LAUNCHED = """
import os
from xla_migrate import runtime as xla

def main(rank, count, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
    xla.init_process_group("nccl", rank=rank, world_size=count)
    seen = [None] * count
    xla.all_gather_object(seen, [rank, xla.local_rank(), xla.world_size()])
    if rank == 0:
        print("seen", seen, flush=True)
    xla.destroy_process_group()

if __name__ == "__main__":
    count = xla.device_count()
    xla.launch(main, args=(count, int(os.environ["PORT"])), nprocs=count)
"""


@pytest.mark.e2e
def test_launch_rehearses_a_process_for_each_device_of_the_cpu(tmp_path: Path) -> None:
    """The script says itself where they meet."""
    script = tmp_path / "script.py"
    script.write_text(LAUNCHED)
    more = {"CPU_NUM_DEVICES": "2", "PORT": str(free_port())}
    ended = subprocess.run(
        [warm.choosing(), str(script)],
        env=rehearsal.environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "seen [[0, 0, 2], [1, 1, 2]]" in ended.stdout, ended.stderr


@pytest.mark.e2e
def test_parameters_that_are_each_replicas_own_are_not_averaged() -> None:
    """Parts of a table that is split over replicas: averages would train both silently wrong."""
    script = """
import time
import torch
from xla_migrate import runtime as xla
torch.manual_seed(xla.rank())
table = torch.nn.Embedding(4, 1).to(xla.xla_device())
before = table.weight.detach().cpu().clone()
optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
table(torch.tensor([xla.rank()]).to(xla.xla_device())).sum().backward()
try:
    xla.optimizer_step(optimizer)
except RuntimeError as error:
    report("error", str(error))
xla.optimizer_step(optimizer, average=False)
xla.mark_step()
report("moved", (table.weight.detach().cpu() - before).flatten().tolist())
torch.manual_seed(0)
layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(80)]).to(xla.xla_device())
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
times = []
for _ in range(3):
    sum(layer(torch.ones(1, 64).to(xla.xla_device())).sum() for layer in layers).backward()
    xla.mark_step()
    start = time.perf_counter()
    xla.reduce_gradients(optimizer)
    times.append(time.perf_counter() - start)
report("seconds", times)
"""
    for rank, report in enumerate(rehearsal.run(script)):
        assert "1 of 1 parameters of this optimizer differ between replicas" in report["error"]
        assert "average=False" in report["error"]
        assert report["moved"] == [-1.0 if i == rank else 0.0 for i in range(4)]
        print("reduce_gradients of 160 parameters, seconds:", report["seconds"])
