"""Trainings that end at a batch that is not finite, in the ways in which scripts end them."""

import logging
import math
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

KIND = sys.argv[1]
device = torch.device("cuda")
torch.manual_seed(0)
model = torch.nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(40, 3)
x[27] = float("nan")
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
log = logging.getLogger("a")
data = TensorDataset(x, torch.randn(40, 1))


class NotFinite(Exception):
    pass


def fed():
    total = 0.0
    for step, (a, b) in enumerate(DataLoader(data, batch_size=2)):
        a, b = a.to(device), b.to(device)
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            sys.exit(3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss_value
        print(step, f"{loss_value:.4f}")
        log.info("step %d", step)
        if step % 4 == 3:
            torch.save(model.state_dict(), f"step{step}.pt")
    print("end", total)


def unfed():
    batches = [(x[k : k + 2].to(device)) for k in range(0, 40, 2)]
    for step, a in enumerate(batches):
        loss = model(a).pow(2).mean()
        if torch.isnan(loss):
            log.error("nan at %d", step)
            raise NotFinite(f"loss {loss.item()} at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}")
        if step % 4 == 3:
            torch.save(model.state_dict(), f"step{step}.pt")
    print("end")


def asserted():
    for epoch in range(2):
        for step, (a, b) in enumerate(DataLoader(data, batch_size=2)):
            loss = torch.nn.functional.mse_loss(model(a.to(device)), b.to(device))
            assert torch.isfinite(loss), f"epoch {epoch} step {step}"
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(epoch, step, loss.item())
            if step > 16:
                break
        torch.save(model.state_dict(), f"epoch{epoch}.pt")


def caught():
    try:
        for step, (a, b) in enumerate(DataLoader(data, batch_size=2)):
            loss = torch.nn.functional.mse_loss(model(a.to(device)), b.to(device))
            if not torch.isfinite(loss):
                raise ValueError(step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    except ValueError as e:
        print("caught", e)
    print([round(v, 3) for v in model.weight.flatten().tolist()])


if KIND == "fed":
    fed()
elif KIND == "unfed":
    unfed()
elif KIND == "asserted":
    asserted()
else:
    caught()
