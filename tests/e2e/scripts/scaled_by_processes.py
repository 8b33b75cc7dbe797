"""Trains on a global batch, with a rate, a schedule and metrics that count processes."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def reduce_mean(tensor, world_size):
    tensor = tensor.detach().clone()
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    tensor /= world_size
    return tensor


def main(args):
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).cuda()
    model.load_state_dict(torch.load(args.initial))
    model = DDP(model, device_ids=[local_rank])
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(
        torch.randn(42, 6, generator=generator), torch.randint(0, 3, (42,), generator=generator)
    )
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, seed=3)
    batch_size = args.batch_size // world_size
    loader = DataLoader(data, batch_size=batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * world_size, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr * world_size, epochs=args.epochs, steps_per_epoch=len(loader)
    )
    seen = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            x, y = x.cuda(local_rank), y.cuda(local_rank)
            loss = nn.functional.cross_entropy(model(x), y) / args.accumulate
            loss.backward()
            if (step + 1) % args.accumulate == 0 or step + 1 == len(loader):
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()
            seen += x.size(0) * world_size
            mean = reduce_mean(loss, world_size)
            if rank == 0:
                rate = scheduler.get_last_lr()[0]
                print(f"step {step} seen {seen} rate {rate:.6f} loss {mean.item():.7f}", flush=True)
    if rank == 0:
        torch.save(model.state_dict(), args.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("initial")
    parser.add_argument("out")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    main(parser.parse_args())
