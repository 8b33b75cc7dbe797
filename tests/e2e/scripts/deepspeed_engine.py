"""A script for DeepSpeed on CUDA: two replicas, two batches for an update, clipping, a schedule."""

import argparse

import deepspeed
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def config(stage, half):
    return {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 2}},
        "bf16": {"enabled": half},
        "zero_optimization": {"stage": stage},
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    deepspeed.init_distributed("nccl")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    engine, _, _, _ = deepspeed.initialize(
        args=args,
        model=model,
        model_parameters=model.parameters(),
        config=config(args.stage, args.half),
    )
    size, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    sampler = DistributedSampler(data, size, rank, shuffle=False)
    dtype = next(engine.parameters()).dtype
    for _ in range(2):
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            x, y = x.to(engine.device, dtype), y.to(engine.local_rank)
            loss = F.cross_entropy(engine(x).float(), y)
            engine.backward(loss)
            engine.step()
    if rank == 0:
        print("steps", engine.global_steps)
        torch.save({k: v.cpu() for k, v in engine.module.state_dict().items()}, args.out)


if __name__ == "__main__":
    main()
