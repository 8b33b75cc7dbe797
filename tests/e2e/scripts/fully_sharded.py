"""Trains a small language model, sharded."""

import functools
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, ShardingStrategy, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.forward_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.forward_norm(x))


class Model(nn.Module):
    def __init__(self, words=50, dim=32, length=16):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.places = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(2))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        x = self.words(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(path):
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(0)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    model = FSDP(
        Model(),
        auto_wrap_policy=policy,
        device_id=torch.cuda.current_device(),
        sharding_strategy=ShardingStrategy.FULL_SHARD,
    )
    whole = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, whole)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, 50, (48, 17), generator=torch.Generator().manual_seed(1))
    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])
    sampler = DistributedSampler(data, rank=rank, num_replicas=dist.get_world_size(), seed=3)
    loader = DataLoader(data, batch_size=2, sampler=sampler, drop_last=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
            if rank == 0:
                print(f"loss {loss.item():.7f}", flush=True)
    states = model.state_dict()
    if rank == 0:
        torch.save(states, path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
