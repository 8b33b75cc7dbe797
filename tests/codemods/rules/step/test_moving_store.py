"""Stores at another place in every step, and the loops that collect them."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import findings, migrated

ROLLOUT = """\
import torch

def train(policy, optimizer, env, updates):
    device = torch.device("cuda")
    obs = torch.zeros(8, 4, 2).to(device)
    for update in range(updates):
        for step in range(8):
            with torch.no_grad():
                action = policy(obs)
            {store}
        policy(obs).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("store", "after"),
    [
        ("obs[step] = action", "xla.put(obs, 0, step, action)"),
        ("obs[step, :] = action", "xla.put(obs, 0, step, action)"),
        ("obs[:, step] = action", "xla.put(obs, 1, step, action)"),
        ("obs[step + 1] = 0.0", "xla.put(obs, 0, step + 1, 0.0)"),
        ("obs[step : step + 2] = action", "xla.put(obs, 0, step, action, length=2)"),
        ("obs[step] = action.cuda()", "xla.put(obs, 0, step, action.to(xla.xla_device()))"),
    ],
)
def test_becomes_data(store: str, after: str) -> None:
    assert f"            {after}\n" in migrated(ROLLOUT.format(store=store))


@pytest.mark.parametrize(
    "store",
    [
        "obs[step] += action",
        "obs[step, update] = action",
        "obs[step] = last = action",
        "obs[..., step] = action",
        "obs[step : step * 2] = action",
    ],
)
def test_is_found_and_left_to_a_person(store: str) -> None:
    source = ROLLOUT.format(store=store)
    assert store in migrated(source)
    assert (10, "XLA519") in findings(source)


@pytest.mark.parametrize(
    "store", ["obs[0] = action", "obs[:] = action", "log[step] = action", "host[step] = action"]
)
def test_other_stores_stay(store: str) -> None:
    source = ROLLOUT.replace("    for update", "    log, host = [], torch.zeros(8)\n    for update")
    assert store in migrated(source.format(store=store))
    assert "XLA519" not in {code for _, code in findings(source.format(store=store))}


QUEUE = """\
import torch
from torch import nn

class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.randn(4, 64))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.where = 0

    def forward(self, keys):
        {place}
        self.queue[:, place : place + 8] = keys.T
        {advance}
        return keys

def train(optimizer, x):
    Queue().cuda()(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("place", "advance"),
    [
        ("place = int(self.at)", "self.at[0] = (place + 8) % 64"),
        ("place = self.at.item()", "self.at[0] = (place + 8) % 64"),
        ("place = self.where", "self.where = (self.where + 8) % 64"),
        ("place = self.where % 64", "self.where += 8"),
    ],
)
def test_a_place_that_a_module_keeps(place: str, advance: str) -> None:
    source = QUEUE.format(place=place, advance=advance)
    assert "xla.put(self.queue, 1, place, keys.T, length=8)" in migrated(source)


@pytest.mark.parametrize("place", ["place = 8", "place = keys.shape[0]", "place = self.where"])
def test_a_place_that_does_not_move(place: str) -> None:
    assert ".put(" not in migrated(QUEUE.format(place=place, advance="pass"))


def test_a_buffer_that_is_assigned_anew_stays_one() -> None:
    source = QUEUE.format(place="place = int(self.at)", advance="self.at[0] = (place + 8) % 64")
    source = source.replace(
        "        self.where",
        "        self.queue = nn.functional.normalize(self.queue)\n        self.where",
    )
    assert "xla.put(self.queue, 1, place, keys.T, length=8)" in migrated(source)


@pytest.mark.parametrize(
    ("made", "is_put"),
    [
        ("if named:\n        grads = [torch.zeros(2) for _ in x]\n    else:\n        grads = torch.zeros(n, 4).cuda()", False),
        ("grads = torch.zeros(n, 4).cuda()\n    if named:\n        grads = []", False),
        ("grads = {}\n    if not named:\n        grads = torch.zeros(n, 4).cuda()", False),
        ("if named:\n        grads = {k: 1 for k in x}\n    else:\n        grads = torch.zeros(n, 4).cuda()", False),
        ("grads = [1]\n    grads = torch.zeros(n, 4).cuda()", True),
        ("grads = torch.zeros(n, 4).cuda()", True),
    ],
)  # fmt: skip
def test_what_may_be_a_list_is_no_tensor(made: str, is_put: bool) -> None:
    source = (
        f"import torch\ndef gather(named, n, x, losses, model):\n    {made}\n"
        "    for i in range(n):\n        losses[i].backward()\n        grads[i] = model.weight.grad.clone()\n"
    )
    assert ("xla.put(grads" in migrated(source)) is is_put


def test_a_store_in_a_module_that_another_trains() -> None:
    """A queue of keys, and a buffer of what was seen: the loop that steps stands elsewhere."""
    queue = """
import torch
from torch import nn

class Queue(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("queue", torch.randn(8, size))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
    def forward(self, keys):
        at = int(self.at)
        self.queue[:, at : at + 4] = keys.T
        self.at[0] = (at + 4) % 16
        return keys @ self.queue.clone()
"""
    main = """
import torch
from queues import Queue

def train(loader):
    model = Queue(16).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for x in loader:
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    files = {"queues.py": queue.encode(), "main.py": main.encode()}
    project = Project(Modules(files), "queues.py")
    after = migrate(files["queues.py"], Options(), "queues.py", project).data.decode()
    assert "xla.put(self.queue, 1, at, keys.T, length=4)" in after
    assert migrated(queue) == queue  # a library's module: nobody trains it here


@pytest.mark.parametrize(
    ("bounds", "advice"),
    [(":, x1:x2", "if the length is constant"), (":, x1 : x1 + 4", "use `xla.put`")],
)
def test_the_advice_fits_boxes_of_any_size(bounds: str, advice: str) -> None:
    source = f"""
import random, torch
def box(size):
    x, half = random.randint(0, size), random.randint(1, 4)
    return max(x - half, 0), min(x + half, size)

def train(model, optimizer, batches):
    for images in batches:
        images = images.cuda()
        x1, x2 = box(images.size(2))
        images[{bounds}] = images.flip(0)[{bounds}]
        model(images).mean().backward()
        optimizer.step()
"""
    messages = {f.code: f.message for f in check(source.encode())}
    assert advice in messages["XLA519"]
    assert ("mask what lies outside" in messages["XLA506"]) == (bounds == ":, x1:x2")
