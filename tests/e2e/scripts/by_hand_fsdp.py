"""Hand-written for torch_xla: weights split over processes, checkpoints of parts, and a second training from them."""

import functools
import os
import sys

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
from torch_xla.distributed.fsdp import (
    XlaFullyShardedDataParallel as FSDP,
)
from torch_xla.distributed.fsdp import (
    checkpoint_module,
    consolidate_sharded_model_checkpoints,
)
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=7, classes=5):
        super().__init__()
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.register_buffer("scale", torch.tensor(0.5))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x)) * self.scale


def wrapped(model):
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})

    def wrap(module, *args, **kwargs):
        return FSDP(checkpoint_module(module), *args, **kwargs)

    return FSDP(
        model,
        flatten_parameters=False,
        reshard_after_forward=True,
        auto_wrap_policy=policy,
        auto_wrapper_callable=wrap,
    )


def batches(rank, size):
    torch.manual_seed(3)
    x, y = torch.randn(6, 8, 7), torch.randint(0, 5, (6, 8))
    return [(x[i, rank::size], y[i, rank::size]) for i in range(6)]


def train(model, optimizer, some):
    criterion = nn.CrossEntropyLoss()
    device = torch_xla.device()
    for i, (x, y) in enumerate(pl.MpDeviceLoader(some, device)):
        optimizer.zero_grad()
        if i == 1:
            with model.no_sync():
                criterion(model(x), y).backward()
        loss = criterion(model(x), y)
        loss.backward()
        norm = model.clip_grad_norm_(0.5)
        optimizer.step()
        mean = xm.mesh_reduce("loss", loss.item(), lambda all: sum(all) / len(all))
        xm.master_print(f"loss {mean:.6f} {norm.item():.6f}")


def _mp_fn(index, folder):
    torch.manual_seed(1)
    rank, size = xr.global_ordinal(), xr.world_size()
    prefix = os.path.join(folder, "part")
    some = batches(rank, size)
    model = wrapped(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    train(model, optimizer, some[:3])
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "shard_metadata": model.get_shard_metadata(),
    }
    xm.save(state, f"{prefix}-{rank}-of-{size}.pth", master_only=False)
    xm.rendezvous("saved")

    torch.manual_seed(2)
    model = wrapped(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    state = torch.load(f"{prefix}-{rank}-of-{size}.pth", weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    train(model, optimizer, some[3:])
    if xm.is_master_ordinal():
        whole, _ = consolidate_sharded_model_checkpoints(
            f"{prefix}-", "*.pth", os.path.join(folder, "whole.pth")
        )
        plain = Model()
        plain.load_state_dict(whole)
        total = sum(p.double().abs().sum().item() for p in plain.parameters())
        print(f"weights {total:.6f}")


if __name__ == "__main__":
    xmp.spawn(_mp_fn, args=(sys.argv[1],))
