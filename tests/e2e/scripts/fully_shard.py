"""Trains with what `fully_shard` offers, on the devices of SPMD or in a process for each: `fully_shard.py FILE [OPTION...]`."""

import copy
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from xla_migrate import runtime as xla


class Block(nn.Module):
    def __init__(self, dim, checkpointed):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.scale = nn.Parameter(torch.ones(dim))
        self.checkpointed = checkpointed

    def inner(self, x):
        h = self.norm(x)
        return x + self.scale * self.attention(h, h, h, need_weights=False)[0]

    def forward(self, x):
        if not self.checkpointed:
            return self.inner(x) + self.mlp(self.norm(x))
        return self.inner(x) + xla.checkpoint(self.mlp, self.norm(x), use_reentrant=False)


class Model(nn.Module):
    def __init__(self, checkpointed=False, words=50, dim=32, length=16):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.places = nn.Parameter(torch.empty(1, length, dim))
        self.blocks = nn.ModuleList(Block(dim, checkpointed) for _ in range(2))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, words, bias=False)

    def forward(self, x):
        x = self.words(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def fill(model):
    """The same values, however the parameters are held."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        value = 0.1 * torch.randn(parameter.shape, generator=generator) + ("norm.weight" in name)
        if isinstance(parameter, DTensor):
            value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
        parameter.copy_(value)


GATHERED = StateDictOptions(full_state_dict=True, cpu_offload=True)
SENT = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def resume(model, optimizer):
    """From what was gathered, behind steps in another direction."""
    states = xla.get_model_state_dict(model, options=GATHERED)
    # Copied, for torch counts the optimizer's steps on the host, and hands that tensor out.
    of_optimizer = copy.deepcopy(xla.get_optimizer_state_dict(model, optimizer, options=GATHERED))
    kept = xla.get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    if xla.rank() == 0:
        assert all(torch.equal(states[name], value.cpu()) for name, value in kept.items())
    xla.set_model_state_dict(model, states, options=SENT)
    xla.set_optimizer_state_dict(model, optimizer, of_optimizer, options=SENT)


def main(path, *asked):
    xla.use_spmd(batch_per_device=True)
    xla.init_process_group()
    mesh = xla.init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))
    options, outer = {"mesh": mesh["dp"]}, {"mesh": mesh["dp"]}
    if "bf16" in asked:
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        outer["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    with torch.device("meta" if "meta" in asked else "cpu"):
        model = Model("checkpointed" in asked)
    for block in model.blocks:
        xla.fully_shard(block, **options)
    if "list" in asked:
        xla.fully_shard([model.norm, model.head], **options)
    xla.fully_shard(model, **outer, reshard_after_forward=False)
    assert isinstance(model, FSDPModule)
    assert isinstance(model.blocks[0], FSDPModule)
    for before, block in zip(model.blocks, model.blocks[1:]):
        before.set_modules_to_forward_prefetch([block])
        block.set_modules_to_backward_prefetch([before])
    if "loaded" in asked:
        whole = Model()
        fill(whole)
        states = whole.state_dict() if xla.rank() == 0 else {}
        xla.set_model_state_dict(model, states, options=SENT)
    else:
        if "meta" in asked:
            model.to_empty(device=xla.xla_device())
        fill(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, 50, (32, 17), generator=torch.Generator().manual_seed(1))
    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])
    sampler = DistributedSampler(data, rank=xla.rank(), num_replicas=xla.world_size(), seed=3)
    window = 2 if "accumulated" in asked else 1
    losses = []
    for epoch in range(2):
        if "resumed" in asked and epoch:
            resume(model, optimizer)
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(xla.MpDeviceLoader(DataLoader(data, 2, sampler=sampler))):
            last = (i + 1) % window == 0
            model.set_requires_gradient_sync(last)
            model.unshard()
            out = model(x)
            assert out.dtype == torch.float32
            loss = nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
            (loss / window).backward()
            told = loss.detach().clone()
            xla.all_reduce(told, op=dist.ReduceOp.AVG)
            losses.append(told.item())
            if last:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    states = model.state_dict()
    states = {n: v.full_tensor() if isinstance(v, DTensor) else v for n, v in states.items()}
    assert all(value.dtype == torch.float32 for value in states.values())
    if xla.rank() == 0:
        split = {}
        if xla.device_type() == "xla":
            import torch_xla

            spec = torch_xla._XLAC._get_xla_sharding_spec
            split = {name: spec(parameter) for name, parameter in model.named_parameters()}
        told = {"losses": losses, "split": split, "compiles": xla.metrics()["compiles"]}
        xla.save({**told, "saved": states}, path)
        print(json.dumps(told))
    xla.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
