"""Reads that an environment needs are a note, and lists of tensors that become one are named."""

from __future__ import annotations

import pytest

from tests.each import each
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import migrated

SCRIPT = """import torch
import torch.nn as nn

device = torch.device("cuda")
policy = nn.Linear(4, 2).to(device)
optimizer = torch.optim.Adam(policy.parameters())

def choose(state):
    with torch.no_grad():
        return policy(state).argmax(-1)

def pick(state):
    logits = policy(torch.as_tensor(state, device=device))
    return logits.argmax().item()

def play(env, envs, state, done=False):
    while not done:
        logits = policy(torch.as_tensor(state, device=device))
        {line}
        loss = logits.max() * reward
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _said(line: str) -> list[tuple[str, str]]:
    found = check(migrated(SCRIPT.format(line=line)).encode())
    return [(f.severity, f.message) for f in found if f.code == "XLA503"]


@each(
    "line",
    [
        "state, reward, done, _ = env.step(logits.argmax().item())",
        "state, reward, done, *rest = envs.step(logits.argmax(-1).cpu().numpy())",
        "action = logits.argmax().item()\n        state, reward, done, _ = env.step(action)",
        "action = choose(torch.as_tensor(state, device=device))\n        state, reward, done, _ = env.step(action.item())",
        "action = pick(state)\n        state, reward, done, _ = env.step([action])",
        "action = logits.argmax().cpu()\n        clipped = action.numpy().clip(0, 1)\n        state, reward, done, _ = env.step(clipped)",
    ],
)
def test_an_action_is_a_note(line: str) -> None:
    said = _said(line)
    assert [severity for severity, _ in said] == ["info"], said
    assert "environment needs the action" in said[0][1]


@each(
    "line",
    [
        "reward = logits.argmax().item(); done = reward > 1",
        "reward = 1\n        if logits.argmax().item() > 1: break",
    ],
)
def test_other_reads_are_none(line: str) -> None:
    assert all("environment" not in message for _, message in _said(line))


@each(
    "line",
    [
        "reward = torch.tensor([logits[0], logits[1]], device=device)",
        "reward = torch.LongTensor([logits[i] for i in range(2)]).to(device)",
        "reward = torch.tensor([[logits[0]], [logits[1]]]).to(device)",
        "reward = torch.FloatTensor((logits.max(), logits.min())).to(device)",
    ],
)
def test_a_list_of_tensors(line: str) -> None:
    assert any("`torch.stack`" in message for _, message in _said(line)), _said(line)


AGENT = """import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(3, 4).cuda(), nn.Linear(4, 2).cuda()
        self.state = None

    @torch.no_grad()
    def act(self, seen):
        h = self.cell(torch.as_tensor(seen).cuda(), self.state)
        {kept}
        action = self.head(h).argmax(-1)
        return action.{read}

    def learn(self, x, optimizer):
        loss = self.head(self.cell(x)).mean()
        loss.backward()
        optimizer.step()
"""
PLAY = """from agent import Agent

agent = Agent()
seen = env.reset()
while True:
    seen, reward, done, _ = env.step(agent.act(seen))
"""


@pytest.mark.parametrize(
    ("kept", "read", "is_marked"),
    [
        ("self.state = h", "cpu().numpy()", True),
        ("self.state = h", "item()", True),
        ("state = h", "cpu().numpy()", False),
        ("self.state = h", "detach()", False),
    ],
)
def test_a_state_that_is_kept_from_action_to_action(kept: str, read: str, is_marked: bool) -> None:
    """The loop is in another module, and the read of the action leaves the state pending."""
    files = {"agent.py": AGENT.format(kept=kept, read=read), "play.py": PLAY}
    modules = Modules({name: text.encode() for name, text in files.items()})
    project = Project(modules, "agent.py")
    result = migrate(modules.files["agent.py"], Options(), "agent.py", project).data.decode()
    assert ("xla.mark_step()\n        return action" in result) is is_marked
