"""Buffers of another module that a step samples from and updates."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import migrated

BUFFER = """import torch

class Buffer:
    def __init__(self, n, device):
        self.data = torch.zeros(n, 4, device=device)
        self.priorities = torch.zeros(n, device=device)
        self.n, self.position, self.most = n, 0, 1.0
        self.width = 2
        self.width = self.width * 2

    def __len__(self):
        return min(self.position, self.n)

    @property
    def filled(self):
        return self.n if self.position >= self.n else self.position

    def add(self, x):
        self.position += 1

    def sample(self, size):
        SAMPLE

    def update(self, errors):
        UPDATE
"""
TRAIN = """import torch
from buffers import Buffer

class Agent:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.Adam(model.parameters())

    def learn(self, buffer):
        loss = self.model(buffer.sample(8)).mean()
        loss.backward()
        self.optimizer.step()
        buffer.update(loss.detach())

def main(model, env):
    agent, buffer = Agent(model), None
    buffer = Buffer(100, "cuda")
    for step in range(100):
        buffer.add(env.step())
        if step >= 10:
            agent.learn(buffer)
"""


def _found(sample: str = "pass", update: str = "pass") -> set[tuple[int, str]]:
    buffer = BUFFER.replace("SAMPLE", sample).replace("UPDATE", update)
    files = {"buffers.py": buffer.encode(), "train.py": TRAIN.encode()}
    project = Project(Modules(files), "buffers.py")
    found = check(files["buffers.py"], Options(), "buffers.py", project)
    return {(f.line, f.code) for f in found if f.code in {"XLA503", "XLA504", "XLA506"}}


@pytest.mark.parametrize(
    "sample",
    [
        "return self.data[: self.position].mean(0)",
        "return self.data[: len(self)].mean(0)",
        "return self.data[: self.filled].mean(0)",
        "return torch.randperm(len(self), device=self.data.device)",
    ],
)
def test_the_part_that_is_filled_has_another_size_in_each_step(sample: str) -> None:
    assert _found(sample) == {(22, "XLA504")}


def test_the_whole_has_one_size() -> None:
    assert not _found("return self.data[: self.n].mean(0)")
    assert not _found("return self.data[: self.width].mean(0)")
    moving = "return self.data[self.position : self.position + self.width].mean(0)"
    assert _found(moving) == {(22, "XLA506")}
    assert not _found(
        "index = torch.randint(0, len(self), (size,))\n        return self.data[index]"
    )


@pytest.mark.parametrize(
    "update",
    [
        "self.most = max(self.most, errors.max().item())",
        "p = errors.abs() + 1e-5; self.most = max(self.most, p.max().item())",
        "p = 2 * errors.abs(); self.most = float(p.max().item())",
    ],
)
def test_reads_of_what_a_step_passes(update: str) -> None:
    assert _found(update=update) == {(25, "XLA503")}


@pytest.mark.parametrize(
    "update",
    ["p = errors.abs().cpu() + 1", "self.most = max(self.most, self.n)", "self.most += self.kept.item()"],
)  # fmt: skip
def test_other_values_are_not_read(update: str) -> None:
    assert {line for line, code in _found(update=update)} <= ({25} if "cpu" in update else set())


def test_a_buffer_that_its_class_moves_to_the_device_is_written_by_position() -> None:
    source = """
import torch

class Rollouts:
    def __init__(self, steps):
        self.rewards = torch.zeros(steps, 4)
        self.values = torch.zeros(steps, 4)
        self.step = 0

    def to(self, device):
        self.rewards = self.rewards.to(device)
        self.values = self.values.to(device)

    def insert(self, reward, value):
        self.rewards[self.step].copy_(reward)
        self.values[self.step] = value
        self.step = (self.step + 1) % len(self.rewards)

def train(policy, env, optimizer):
    device = torch.device("cuda")
    rollouts = Rollouts(16)
    rollouts.to(device)
    for update in range(100):
        for step in range(16):
            rollouts.insert(env.step(), policy(env.state))
        loss = (rollouts.values * rollouts.rewards).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    after = migrated(source)
    assert "xla.put(self.rewards, 0, self.step, reward)" in after
    assert "xla.put(self.values, 0, self.step, value)" in after


@pytest.mark.parametrize("moved", ["", "kept.cuda()", "kept.cuda(); kept.cpu()"])
def test_a_buffer_that_may_be_on_the_host_is_not_rewritten(moved: str) -> None:
    source = f"""
import torch

class Kept:
    def __init__(self):
        self.rows = torch.zeros(100, 4)

    def cuda(self):
        self.rows = self.rows.cuda()
{"    def cpu(self): self.rows = self.rows.cpu()" if "cpu" in moved else ""}
    def add(self, i, x):
        self.rows[i] = x

def train(model, optimizer, loader):
    kept = Kept()
    {moved}
    model.cuda()
    for i, x in enumerate(loader):
        kept.add(i % 100, x[0])
        model(x.cuda()).mean().backward()
        optimizer.step()
"""
    assert ("xla.put" in migrated(source)) is (moved == "kept.cuda()")


STORAGE = """
import torch

class Rollouts:
    def __init__(self, steps):
        self.rewards = torch.zeros(steps, 4)
        self.step = 0

    def to(self, device):
        self.rewards = self.rewards.to(device)
        return self

    def cuda(self):
        self.rewards = self.rewards.cuda()

    def insert(self, reward):
        self.rewards[self.step].copy_(reward)
        self.rewards[self.step] = reward
        self.step = (self.step + 1) % len(self.rewards)
"""
COLLECTING = """
import torch
import storage
from storage import Rollouts, Rollouts as Kept

class Trainer:
    def __init__(self, policy, env, optimizer):
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        policy.to(device)
        {setup}
        for step in range(100):
            {rollouts}.insert(env.step())
            loss = (policy(env.state) * {rollouts}.rewards).mean()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("setup", "rollouts", "is_moved"),
    [
        ("kept = Rollouts(16)\n        kept.to(device)", "kept", True),
        ("kept = storage.Rollouts(16)\n        kept.to(device=device)", "kept", True),
        ("self.kept = Kept(16)\n        self.kept.cuda()", "self.kept", True),
        ("kept = Rollouts(16).to(device)", "kept", True),
        ("kept = Rollouts(16)\n        kept = kept.to('cuda')", "kept", True),
        ("kept = Rollouts(16)", "kept", False),
        ("kept = Rollouts(16)\n        kept.to('cpu')", "kept", False),
        ("kept = Rollouts(16)\n        kept.to(torch.device('cpu'))", "kept", False),
        ("kept = Rollouts(16)\n        policy.to(device)", "kept", False),
    ],
)
def test_a_buffer_that_another_module_moves_is_written_by_position(
    setup: str, rollouts: str, is_moved: bool
) -> None:
    train = COLLECTING.format(setup=setup, rollouts=rollouts)
    modules = Modules({"storage.py": STORAGE.encode(), "train.py": train.encode()})
    project = Project(modules, "storage.py")
    after = migrate(STORAGE.encode(), Options(), "storage.py", project).data.decode()
    assert after.count("xla.put(self.rewards, 0, self.step, reward)") == 2 * is_moved
