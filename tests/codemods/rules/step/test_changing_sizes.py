"""Sizes that change between steps (XLA504)."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import Options, check

HEAD = """
import math
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from xla_migrate import runtime as xla

STAGES = [16, 32, 64, 128, 256, 512]
SHORT = (16, 32)


def schedule(step):
    if step < 10:
        return 8 + step
    return 64


def batch(length):
    return torch.randint(0, 100, (4, length))


@dataclass
class Stage:
    length: int


def warm(step):
    return Stage(8 + step)


def settings(step):
    return {"length": 8 + step, "rate": 3}


def sized(step):
    length = 8 + step
    return length, 3


class Curriculum:
    step = 0

    def length(self):
        return 8 + self.step

    def advance(self):
        self.step += 1


net = torch.nn.Embedding(100, 8).cuda()
optimizer = torch.optim.Adam(net.parameters())
data = torch.randint(0, 100, (4, 600)).cuda()
curriculum = Curriculum()


def update(x):
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""
CHANGING = {
    "a sum": "n = 8 + step\nx = torch.randint(0, 100, (4, n)).cuda()",
    "a warm-up": "n = int(8 + min(1.0, step / 50) * 56)\nx = torch.randint(9, size=(4, n)).to('cuda')",
    "a schedule": "x = torch.zeros(4, schedule(step), dtype=torch.long).cuda()",
    "a list of stages": "x = torch.randint(9, (4, STAGES[min(step // 10, 5)]), device='cuda')",
    "another function": "x = batch(8 + step).cuda()",
    "a library's function": "n = int(np.interp(step, [0, 9], [8, 64]))\nx = data.new_zeros(4, n)",
    "rounded": "x = data[:, : 8 * math.ceil((step + 1) / 10)]",
    "kept by an object": "x = torch.ones(4, curriculum.length(), device='cuda')\ncurriculum.advance()",
    "kept by another object": "curriculum.step += 1\nx = torch.ones(4, curriculum.step, device='cuda')",
    "set anew from itself": "curriculum.n = curriculum.n + 2\nx = torch.ones(4, curriculum.n, device='cuda')",
    "an entry": "crop = {'w': 8 + step}\nx = torch.ones(4, crop['w']).long().cuda()",
    "an assignment expression": "x = torch.ones(4, (n := 8 + step)).long().cuda()",
    "padding": "x = F.pad(data, (0, step))",
    "drawn": "n = random.randint(8, 64)\nx = torch.ones(4, n).long().cuda()",
    "the length of a moving slice": "n = random.randint(8, 64)\nx = data[:, step : step + n]",
    "reckoned from a number drawn": "n = max(5, int(np.random.normal(8, 5)))\nx = data[:, step : step + n]",
    "narrowed": "n = random.randint(8, 64)\nx = torch.narrow(data, 1, step, n)",
    "narrowed by the runtime": "n = random.randint(8, 64)\nx = xla.narrow(data, 1, step, n)",
    "a shape with a name": "shape = (4, 8 + step)\nx = torch.ones(shape).long().cuda()",
    "a field of what a method makes": "now = warm(step)\nx = torch.ones(4, now.length).long().cuda()",
    "an entry of a result": "now = settings(step)\nx = torch.ones(4, now['length']).long().cuda()",
    "a part of a result": "n, rate = sized(step)\nx = torch.ones(4, n).long().cuda()",
    "a list that is multiplied": "x = torch.cat([data] * (step + 1))",
    "a list of as many elements": "x = torch.stack([data for _ in range(step + 1)])",
    "a loop that appends": "xs = [data]\nfor _ in range(step):\n    xs.append(data)\nx = torch.cat(xs)",
    "repeated elements": "x = data.repeat_interleave(step + 1, dim=0)",
    "a part of a split": "x = data.split(8 + step, dim=1)[0]",
    "a window": "x = data.unfold(1, 8 + step, 1)[:, 0]",
    "moved later": "x = torch.ones(4, 8 + step).long()\nx = x.cuda()",
}
CONSTANT = {
    "an attribute that starts again": "curriculum.n = 4\ncurriculum.n += 2\nx = torch.ones(4, curriculum.n).cuda()",
    "an entry of settings": "crop = {'w': 8}\nx = torch.ones(4, crop['w']).long().cuda()",
    "a constant": "n = 8 * 4\nx = torch.randint(0, 100, (4, n)).cuda()",
    "a value": "x = torch.full((4, 8), step).cuda()",
    "a bound": "x = torch.randint(0, 10 + step, (4,)).cuda()",
    "one of two": "x = torch.ones(4, 8 + step % 2).long().cuda()",
    "on the host": "x = data\nnames = torch.zeros(step + 1)\nprint(names.sum())",
    "now and then": "x = data\nif step % 100 == 0:\n    print(torch.zeros(step + 1).cuda())",
    "a moving slice of one length": "x = data[:, step : step + 8]",
    "a slice that is shorter at the end": "n = min(8, data.size(1) - 1 - step)\nx = data[:, step : step + n]",
    "a list of one length": "x = torch.cat([data] * 4)",
    "a list of tensors that are indexed": "x = torch.cat([data[i % 2] for i in range(4)])",
    "another part of a result": "n, rate = sized(step)\nx = torch.ones(4, rate).long().cuda()",
    "data of its own": "x = torch.tensor([step]).cuda()",
}


def _findings(body: str, loop: str = "for step in range(100):") -> list[str]:
    source = f"{HEAD}\n{loop}\n" + textwrap.indent(f"{body}\nupdate(x)\n", "    ")
    found = check(source.encode(), Options())
    return [f.severity for f in found if f.code == "XLA504" and "size" in f.message]


@pytest.mark.parametrize("body", CHANGING.values(), ids=CHANGING)
def test_a_size_that_changes_between_steps_is_reported_once(body: str) -> None:
    assert _findings(body) == ["warning"]


@pytest.mark.parametrize("body", CONSTANT.values(), ids=CONSTANT)
def test_a_size_that_stays_is_not_reported(body: str) -> None:
    assert not _findings(body)


@pytest.mark.parametrize(
    ("loop", "severities"),
    [
        ("for n in STAGES:\n  for step in range(9):", ["warning"]),
        ("for n in SHORT:\n  for step in range(9):", ["info"]),
        ("for epoch in range(9):\n  n = 8 + epoch\n  for step in range(9):", ["warning"]),
        ("n = 8\nwhile n < 64:\n    n += 1", ["warning"]),
        ("n = 8\nfor step in range(9):", []),
    ],
)
def test_the_loop_around_the_steps_may_change_a_size(loop: str, severities: list[str]) -> None:
    assert _findings("x = torch.ones(4, n).long().cuda()", loop) == severities


def test_the_finding_is_at_the_size_after_the_migration_too() -> None:
    source = "from xla_migrate import runtime as xla\n" + HEAD.replace(
        ".cuda()", ".to(xla.xla_device())"
    ).replace("optimizer.step()", "xla.optimizer_step(optimizer)\n    xla.mark_step()")
    source += "\nfor step in range(20):\n    x = torch.ones(4, 8 + step).to(xla.xla_device())\n"
    source += "    update(x.long())\n"
    (found,) = [f for f in check(source.encode()) if f.code == "XLA504"]
    assert source.splitlines()[found.line - 1][found.column - 1 :].startswith("8 + step")
