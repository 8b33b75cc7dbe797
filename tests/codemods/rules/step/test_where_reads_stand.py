"""Where a read stands: in properties, conditions, checks, sums, evaluations; and what frameworks read."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated

PROPERTIES = """import torch
from functools import cached_property

class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(3, 3).to("cuda")
        self.log_alpha = torch.zeros(1, requires_grad=True, device="cuda")
        self.optimizer = torch.optim.Adam(self.net.parameters())

    {decorator}
    def alpha(self):
        return self.log_alpha.exp().item()

    def update(self, x):
        loss = self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {used}

agent = Agent()
for x in batches:
    agent.update(x)
"""


@pytest.mark.parametrize(
    ("decorator", "used", "found"),
    [
        ("@property", "self.entropy = self.alpha * 2", True),
        ("@property", "return {'alpha': self.alpha}", True),
        ("@property", "shown.append(self.alpha + 1)", True),
        ("@property", "self.steps += 1", False),
        ("@property", "self.alpha = 3", False),
        ("@property", "other.alpha += 1", False),
        ("@cached_property", "self.entropy = self.alpha * 2", False),
    ],
)
def test_properties_that_are_asked_for_in_each_step(decorator: str, used: str, found: bool) -> None:
    source = PROPERTIES.format(decorator=decorator, used=used)
    assert [line for line, code in findings(source) if code == "XLA503"] == [12] * found


CHOSEN = """import torch

class Trainer:
    cpu = torch.device("cpu")

    @property
    def device(self):
        return torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")

    def fit(self, model, loader, optimizer):
        dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
        for batch in loader:
            batch = [b.to(self.device) for b in batch]
            out = model(batch[0])
            out.mean().backward()
            optimizer.step()
            {line}
"""


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("pass", 0),
        ("shown = out.to(self.device)", 0),
        ("shown = out.to(dev)", 0),
        ("shown = out.to(device=self.device, dtype=torch.float32)", 0),
        ("shown = out.to('cpu')", 1),
        ("shown = out.to(torch.device('cpu'))", 1),
        ("shown = out.to(self.cpu)", 1),
    ],
)
def test_a_device_that_may_be_the_host_is_not_the_host(line: str, times: int) -> None:
    source = CHOSEN.format(line=line)
    assert [code for _, code in findings(source)].count("XLA503") == times


CHECKED = """import math, torch
class Brain:
    def fit(self, loader):
        for batch in loader:
            self.fit_batch(batch)
    def fit_batch(self, batch):
        loss = self.compute(batch.cuda())
        {inline}
        self.check(loss)
        loss.backward()
        self.optimizer.step()
    def check(self, loss):
        {handed}
"""


@pytest.mark.parametrize(
    "test",
    [
        "not torch.isfinite(loss)",
        "torch.isnan(loss).any()",
        "not loss.isfinite()",
        "torch.isinf(loss) or torch.isnan(loss)",
        "loss.detach().abs().max() > 100",
        "not math.isfinite(loss)",
    ],
)
def test_what_is_asked_of_a_loss_reads_it(test: str) -> None:
    stop = f"if {test}: raise ValueError()"
    inline = findings(CHECKED.format(inline=stop, handed="pass"))
    assert [line for line, code in inline if code == "XLA503"] == [8]
    handed = findings(CHECKED.format(inline="pass", handed=stop))
    assert [line for line, code in handed if code == "XLA503"] == [13]


def test_what_others_hand_to_a_check_may_be_a_number() -> None:
    source = CHECKED.format(inline="self.check(3.0)", handed="if loss > 3: raise ValueError()")
    assert "XLA503" not in {code for _, code in findings(source)}


@pytest.mark.parametrize(
    "read", ["return loss.item()", "self.total += loss.item()", "return loss.detach().cpu()"]
)
def test_a_loss_that_the_step_returns_is_read(read: str) -> None:
    source = f"""import torch
class Critic:
    def __init__(self, model):
        self.model = model.cuda()
    def fit(self):
        for batch in self.batches:
            self.train_critic(batch)
    def train_critic(self, batch):
        loss = self.gradients(batch)
        {read}
    def gradients(self, batch):
        loss = self.model(batch)["l"]
        loss.backward()
        self.optimizer.step()
        return loss
"""
    assert (10, "XLA503") in findings(source)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("total = float(total) / 10", True),
        ("total = total.item()", True),
        ("total = round(total.item(), 3)", True),
        ("pass", True),
        ("total = model(x).sum()", False),
        ("total = {}", False),
    ],
)
def test_a_sum_that_is_read_now_and_then_holds_graphs_until_then(shown: str, found: bool) -> None:
    source = f"""import torch
def train(model, loader, optimizer):
    total = 0.0
    for i, x in enumerate(loader):
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        total += loss
        if i % 10 == 0:
            {shown}
            print(total)
            total = 0.0
"""
    assert ((8, "XLA505") in findings(source)) is found


@pytest.mark.parametrize(
    ("condition", "step", "found"),
    [
        ("if now:", "pass", False),
        ("if self.cached and now:", "pass", False),
        ("if now:", "optimizer.step()", True),
        ("with torch.enable_grad():", "pass", True),
    ],
)
def test_a_loss_that_others_may_differentiate_keeps_its_graph(
    condition: str, step: str, found: bool
) -> None:
    """Where backward is called now or by whoever gets the sum, detaching would take its gradients."""
    source = f"""import torch
class Loss(torch.nn.Module):
    def compute(self, model, parts, optimizer, now):
        losses = []
        for x in parts:
            loss = model(x.cuda()).mean()
            {condition}
                loss.backward()
                {step}
            losses.append(loss)
        return sum(losses)
"""
    assert ((10, "XLA505") in findings(source)) is found


FABRIC = """
import torch
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cuda", devices=1)
model, optimizer = fabric.setup(model, optimizer)
for x in fabric.setup_dataloaders(loader):
    fabric.backward(model(x).mean())
    fabric.clip_gradients(model, optimizer, {})
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("max_norm=1.0", True),
        ("max_norm=limit, error_if_nonfinite=True", True),
        ("max_norm=1.0, error_if_nonfinite=False", False),
        ("clip_val=1.0", False),
    ],
)
def test_fabric_looks_at_the_norm(given: str, expected: bool) -> None:
    found = [f for f in check(FABRIC.format(given).encode()) if f.code == "XLA503"]
    assert bool(found) is expected
    assert all("error_if_nonfinite=False" in f.message for f in found)


CALLBACKS = """\
import torch
class Callback:
    def on_batch_end(self, loss):
        pass
class History(Callback):
    def __init__(self):
        self.losses = []
    def on_batch_end(self, loss):
        self.losses.append(loss.item())
class Guard(Callback):
    def on_batch_end(self, loss):
        if torch.isnan(loss):
            raise RuntimeError
    def on_train_end(self, loss):
        print(loss.item())
class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model.cuda(), optimizer, callbacks
    def fit(self, loader):
        for x in loader:
            loss = self.model(x.cuda()).mean()
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_batch_end(loss)
history = History()
Trainer(model, optimizer, [history, Guard()]).fit(loader)
print(sum(history.losses))
"""


def test_reads_in_callbacks() -> None:
    found = [line for line, code in findings(CALLBACKS) if code == "XLA503"]
    assert found == [9, 12]
    after = migrated(CALLBACKS)
    assert "self.losses.append(xla.item(loss))" in after
    assert "print(sum(xla.arrived(history.losses)))" in after
