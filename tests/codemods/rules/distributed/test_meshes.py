"""Meshes of all devices that shard a model, and meshes that are left."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, check, migrate

HEAD = """import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard

"""
MADE = "init_device_mesh('cuda', (n,), mesh_dim_names=('dp',))"


@pytest.mark.parametrize(
    "body",
    [
        f"mesh = {MADE}\n    fully_shard(model, mesh=mesh)",
        f"mesh = {MADE}\n    fully_shard(model, mesh=mesh['dp'])\n    print(f'{{mesh}}')",
        f"options = {{'mesh': {MADE}}}\n    fully_shard(model, **options)",
        f"mesh = {MADE}\n    options = dict(mesh=mesh)\n    fully_shard(model, **options)",
        f"model = FSDP(model, device_mesh={MADE})",
        "kind = 'cuda'\n    mesh = init_device_mesh(kind, mesh_shape=[n])\n    fully_shard(model, mesh=mesh)",
        "fully_shard(model, mesh=make(n))\n\ndef make(n):\n    return init_device_mesh('cuda', (n,))",
        f"shard(model, {MADE})\n\ndef shard(model, mesh):\n    fully_shard(model, mesh=mesh['dp'])",
    ],
)
def test_a_mesh_of_all_devices_is_the_runtimes(body: str) -> None:
    source = f"{HEAD}def main(model, n):\n    {body}\n"
    result = migrate(source.encode(), Options(), "train.py")
    text = result.data.decode()
    assert "xla.init_device_mesh(" in text
    assert "xla.fully_shard(" in text or "xla.FullyShardedDataParallel(" in text
    assert not result.left
    assert check(result.data) == []


@pytest.mark.parametrize(
    "body",
    [
        "mesh = init_device_mesh('cuda', (2, n))\n    fully_shard(model, mesh=mesh)",
        "mesh = init_device_mesh('cuda', shape)\n    fully_shard(model, mesh=mesh)",
        "mesh = init_device_mesh('cpu', (n,))\n    fully_shard(model, mesh=mesh)",
        f"mesh = {MADE}\n    fully_shard(model, mesh=mesh)\n    return 8 // mesh.size()",
        f"mesh = {MADE}\n    fully_shard(model, mesh=mesh)\n    parallelize_module(model, mesh, {{}})",
        f"model.mesh = {MADE}\n    fully_shard(model, mesh=model.mesh)",
        f"mesh = {MADE}\n    fully_shard(model, mesh=mesh)\n    return mesh.get_local_rank()",
    ],
)
def test_other_meshes_are_left(body: str) -> None:
    source = f"{HEAD}def main(model, n, shape):\n    {body}\n"
    text = migrate(source.encode(), Options(), "train.py").data.decode()
    assert "xla.init_device_mesh" not in text
    assert "xla.fully_shard" not in text
    found = {f.code: f.message for f in check(source.encode())}
    assert "mesh" in found["XLA610"]
