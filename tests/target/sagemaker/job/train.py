"""A training job: replicas with data of their own, whose weights must end up equal."""

from __future__ import annotations

import argparse
import json
import os
import sys

import torch

from xla_migrate import runtime as xla


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--fail", type=int, default=0)
    args = parser.parse_args()
    xla.init_process_group("nccl")
    if args.fail:
        sys.exit(args.fail)
    torch.manual_seed(0)
    device = xla.xla_device()
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(xla.rank())
    data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 2))
    loader = xla.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=4), device)
    for _ in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            xla.optimizer_step(optimizer)
    weights = [p.detach().cpu().flatten().tolist() for p in model.parameters()]
    path = os.path.join(os.environ["SM_MODEL_DIR"], f"weights-{xla.rank()}.json")
    with open(path, "w") as file:
        json.dump({"weights": weights, "replicas": xla.world_size()}, file)


if __name__ == "__main__":
    main()
