"""A training with an option of its own to resume, which dies once where KILL_AT says.

Losses go to --losses, one `step repr` a line; checkpoints of model, optimizer, random state and step to --out.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume")
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--losses", type=Path, required=True)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--every", type=int, default=4)
parser.add_argument("--xla", action="store_true")
args = parser.parse_args()

if args.xla:
    from xla_migrate import runtime as xla

    device, save, load, mark = xla.xla_device(), xla.save, xla.load, xla.mark_step
else:
    device, save, load, mark = "cpu", torch.save, torch.load, lambda: None


def die(how: str) -> None:
    """Once: a second process of this training finds the file."""
    once = args.out / "died"
    if not once.exists():
        once.touch()
        if how == "raise":
            raise RuntimeError("a fault of the test")
        os.kill(os.getpid(), signal.SIGKILL)


torch.manual_seed(7)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
first = 0
if args.resume:
    state = load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]

images = torch.randn(60, 8, generator=torch.Generator().manual_seed(1))
data = TensorDataset(images, torch.arange(60) % 3)
kill_at, how = int(os.environ.get("KILL_AT", -1)), os.environ.get("KILL_HOW", "kill")
step, epoch = 0, 0
while step < args.steps:
    order = torch.Generator().manual_seed(epoch)
    for x, y in DataLoader(data, batch_size=4, shuffle=True, generator=order):
        if step >= args.steps:
            break
        if step >= first:
            if args.xla:
                xla.manual_seed(step)
            else:
                torch.manual_seed(step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            mark()
            with args.losses.open("a") as file:
                print(step, repr(loss.item()), file=file)
            done = step + 1
            if done == kill_at and how != "write":
                die(how)
            if done % args.every == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": done,
                }
                path = args.out / f"step_{done}.pt"
                save(state, path)
                if done >= kill_at and how == "write" and not (args.out / "died").exists():
                    path.write_bytes(
                        path.read_bytes()[:-500]
                    )  # as one that was killed in torch.save
                    die(how)
        step += 1
    epoch += 1
