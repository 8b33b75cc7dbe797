"""The script whose step reads, as tests fill it in."""

from __future__ import annotations

from ....helpers import migrated

SCRIPT = """import csv, json, logging, math, sys, time
import numpy as np
import torch
import torch.nn.functional as F
import wandb
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from metrics import Elsewhere

device = torch.device("cuda")
logger = logging.getLogger(__name__)


class AverageMeter:
    def __init__(self):
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return "{{val:.4f}} ({{avg:.4f}})".format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.view(1, -1))
    res = []
    for k in topk:
        res.append(correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0))
    return res


class Worst:
    def __init__(self):
        self.worst = 0

    def update(self, val):
        if val > self.worst:
            self.worst = val


def train(model, batches: DataLoader, optimizer, scheduler, args, out):
    writer = SummaryWriter()
    meter, worst, other = AverageMeter(), Worst(), Elsewhere()
    total, best, names, history, stats = 0.0, 1.0, [], [], {{}}
    kept = {{"a": [], "b": []}}
    bar = tqdm(batches)
    for step, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = F.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    {last}
"""

BOTH = "step=step, loss=loss"


def after_migration(line: str, last: str = "pass") -> list[str]:
    source = SCRIPT.format(line=line.replace("\n", "\n        "), last=last)
    return [text.strip() for text in migrated(source).splitlines()]


def migrated_lines(line: str) -> list[str]:
    return migrated(SCRIPT.format(line=line.replace("\n", "\n        "), last="pass")).splitlines()
