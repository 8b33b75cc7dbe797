"""Trainings that skip steps which are not finite, in the ways in which scripts skip them."""

import logging
import math
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

KIND = sys.argv[1]
device = torch.device("cuda")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(
    device
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
x = torch.randn(120, 3)
for bad in (0, 1, 27, 29, 31, 90):
    x[bad] = float("nan")
loader = DataLoader(TensorDataset(x, torch.randn(120, 1)), batch_size=2)
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
log = logging.getLogger("a")


def by_norm():
    for step, (a, b) in enumerate(loader):
        a, b = a.to(device), b.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        else:
            print(f"step {step}: norm {norm}")
        scheduler.step()


def by_loss():
    skipped = 0
    for step, (a, b) in enumerate(loader):
        a, b = a.to(device), b.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        if torch.isnan(loss) or torch.isinf(loss):
            skipped += 1
        else:
            loss.backward()
            optimizer.step()
        if step % 10 == 9:
            log.info("%d %.4f", step, loss.item())
    print("skipped", skipped)


def turns():
    total, seen = 0.0, 0
    for step, (a, b) in enumerate(loader):
        a, b = a.to(device), b.to(device)
        loss = torch.nn.functional.mse_loss(model(a), b)
        value = loss.item()
        if not math.isfinite(value):
            log.warning("loss is %s at %d", value, step)
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += value * a.size(0)
        seen += a.size(0)
        if step % 10 == 9:
            print(step, f"{total / seen:.4f}")
    print("end", f"{total / seen:.4f}", seen)


def saved():
    for step, (a, b) in enumerate(loader):
        a, b = a.to(device), b.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        if step == 15:  # right behind steps that are skipped
            state = optimizer.state_dict()
            print([int(entry["step"]) for entry in state["state"].values()])
            optimizer.load_state_dict(state)


{"by_norm": by_norm, "by_loss": by_loss, "turns": turns, "saved": saved}[KIND]()
steps = [int(entry["step"]) for entry in optimizer.state_dict()["state"].values()]
print(steps, [f"{p.double().sum().item():.4f}" for p in model.parameters()])
