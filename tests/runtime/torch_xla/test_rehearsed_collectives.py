"""torch_xla's own ranks and collectives between two processes on XLA:CPU."""

from __future__ import annotations

from typing import Any

import pytest

from .. import rehearsal

SCRIPT = """\
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from xla_migrate.runtime.torch_xla import rehearsed_collectives

assert rehearsed_collectives.apply() and rehearsed_collectives.apply()
device = torch_xla.device()
rank = xr.global_ordinal()
own = torch.tensor([1.0 + rank, 5.0 - rank]).to(device)

def refusal(function):
    try:
        function()
    except (NotImplementedError, RuntimeError) as error:
        return str(error)

def all_gather_of_unequal():
    return xm.all_gather(torch.ones(1 + rank).to(device))

in_place = [own.clone(), own.clone() * 10]
xm.all_reduce(xm.REDUCE_SUM, in_place, scale=0.5)
sent = [own.clone()]
xm.collective_broadcast(sent)
for name, value in {
    "ranks": [rank, xr.local_ordinal(), xr.world_size(), xm.get_local_ordinal(), xm.is_master_ordinal()],
    "sum": xm.all_reduce(xm.REDUCE_SUM, own).tolist(),
    "max": xm.all_reduce(xm.REDUCE_MAX, own).tolist(),
    "and": xm.all_reduce(xm.REDUCE_AND, torch.tensor([6, 3 + rank]).to(device)).tolist(),
    "or": xm.all_reduce(xm.REDUCE_OR, torch.tensor([False, rank == 1]).to(device)).tolist(),
    "own": own.tolist(),
    "sent": sent[0].tolist(),
    "in place": [t.tolist() for t in in_place],
    "gathered": xm.all_gather(own[None]).tolist(),
    "beside": xm.all_gather(own[None], dim=1).tolist(),
    "payloads": [p.decode() for p in xm.rendezvous("here", f"from {rank}".encode())],
    "meshed": xm.mesh_reduce("mean", 4.0 * rank, max),
    "broadcast": xm.mesh_reduce("first", {"x": rank}, lambda all: all[0]),
    "unequal": refusal(all_gather_of_unequal),
    "groups": refusal(lambda: xm.all_reduce(xm.REDUCE_SUM, own, groups=[[0], [1]])),
    "scattered": refusal(lambda: xm.reduce_scatter(xm.REDUCE_SUM, own, 1.0, 0, 2)),
}.items():
    report(name, value)
"""


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return rehearsal.run(SCRIPT, limit=120)


def test_the_ranks_are_the_launchers(told: list[dict[str, Any]]) -> None:
    assert [t["ranks"] for t in told] == [[0, 0, 2, 0, True], [1, 1, 2, 1, False]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", [3.0, 9.0]),
        ("max", [2.0, 5.0]),
        ("and", [6, 0]),
        ("or", [False, True]),
        ("in place", [[1.5, 4.5], [15.0, 45.0]]),
        ("gathered", [[1.0, 5.0], [2.0, 4.0]]),
        ("beside", [[1.0, 5.0, 2.0, 4.0]]),
        ("payloads", ["from 0", "from 1"]),
        ("sent", [1.0, 5.0]),
        ("meshed", 4.0),
        ("broadcast", {"x": 0}),
    ],
)
def test_both_processes_get_the_same(
    told: list[dict[str, Any]], name: str, expected: object
) -> None:
    assert [t[name] for t in told] == [expected, expected]


def test_a_tensor_that_is_reduced_into_a_new_one_stays(told: list[dict[str, Any]]) -> None:
    assert [t["own"] for t in told] == [[1.0, 5.0], [2.0, 4.0]]


def test_what_a_device_would_wait_for_or_cannot_be_rehearsed_is_an_error(
    told: list[dict[str, Any]],
) -> None:
    for t in told:
        assert "(1,), (2,)" in t["unequal"]
        assert t["groups"] == "xm.all_reduce in groups of processes cannot be rehearsed"
        assert t["scattered"] == "xm.reduce_scatter cannot be rehearsed on XLA:CPU"
