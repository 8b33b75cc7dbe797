"""A small transformer for XLA, with what changes its memory as options. Written for the tests of `compile`."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from xla_migrate import runtime as xla

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--spmd", action="store_true")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, 4, c // 4).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, 2)
        )
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(64, args.width)
        self.blocks = nn.ModuleList(Block(args.width) for _ in range(args.layers))
        self.head = nn.Linear(args.width, 64)

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = xla.checkpoint(block, x, use_reentrant=False) if args.checkpointing else block(x)
        return self.head(x)


if args.spmd:
    xla.use_spmd()
device = xla.xla_device()
torch.manual_seed(0)
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randint(0, 64, (args.steps * args.batch_size, args.length + 1))
loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)
for tokens in xla.MpDeviceLoader(loader):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    xla.optimizer_step(optimizer)
print(f"loss {loss.item():.4f}")
