"""Dicts of losses that comprehensions go through are shown later, with the tensors that they hold now."""

from __future__ import annotations

from tests.each import each

from ...helpers import findings, migrated

SCRIPT = """import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def losses_of(model, x, y):
    out = model(x)
    return {{"ce": F.cross_entropy(out, y), "l2": out.pow(2).mean()}}

def train(model, optimizer, batches: DataLoader, device, held):
    for step, (x, y) in enumerate(batches):
        losses = losses_of(model, x.to(device), y.to(device))
        loss = sum(value for value in losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""


@each(
    "line",
    [
        "print(step, {k: round(v.item(), 4) for k, v in losses.items()})",
        'print(" ".join(f"{k}: {v.item():.3f}" for k, v in losses.items()))',
        "print(sum(v.item() for v in losses.values()))",
        'print(["%.3f" % v.item() for v in losses.values()], step)',
        'print({k: v.item() for k, v in losses.items()}, optimizer.param_groups[0]["lr"])',
        "print([float(v.item()) for v in losses.values() if step > 2])",
    ],
)
def test_shown_later(line: str) -> None:
    result = migrated(SCRIPT.format(line=line))
    assert "xla.later(lambda" in result
    assert "losses=losses" in result
    assert "XLA503" not in {code for _, code in findings(result)}


@each(
    "line",
    [
        "print({k: v.item() for k, v in model.items()})",
        "held.add({k: v.item() for k, v in losses.items()})",
    ],
)
def test_what_may_be_another_then_stays(line: str) -> None:
    assert f"        {line}\n" in migrated(SCRIPT.format(line=line))


PUT = """import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def train(model, optimizer, batches: DataLoader, device, args):
    losses, rows = {{}}, {{}}
    for step, (x, y) in enumerate(batches):
        out = model(x.to(device))
        loss = F.cross_entropy(out, y.to(device))
        losses["ce"] = loss
        losses["l2"] = out.pow(2).mean()
        rows["n"], rows["name"] = len(x), args.name
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""


@each(
    "line",
    [
        "print(f\"{losses['ce'].item():.4f} {losses['l2'].mean().item():.3f}\", step)",
        'print("%.3f" % losses["l2"].detach().cpu().item())',
        'print(losses["ce"].item(), rows["n"])',
    ],
)
def test_what_is_put_into_a_dict_is_known(line: str) -> None:
    result = migrated(PUT.format(line=line))
    assert "xla.later(lambda" in result
    assert "XLA503" not in {code for _, code in findings(result)}


@each("line", ['print(rows["name"].item())', 'print(args.losses["ce"].item())'])
def test_what_is_no_tensor_is_not_read(line: str) -> None:
    assert f"        {line}\n" in migrated(PUT.format(line=line))


STEP = """import torch
import torch.nn.functional as F
import batches
from torch.utils.data import DataLoader

def step(model, optimizer, batch, device):
    x, y = batch
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {given}

def train(model, optimizer, loader: DataLoader, device):
    for batch in loader:
        print(step(model, optimizer, batches.of(batch), device).item())
"""


@each("given, is_read", [("loss", True), ("batches.count()", False)])
def test_a_step_gives_its_loss_whatever_it_is_given(given: str, is_read: bool) -> None:
    source = STEP.format(given=given)
    assert ("XLA503" in {code for _, code in findings(source)}) is is_read
    assert ("print(step.item())" in migrated(source)) is is_read


RETURNED = """import torch
import torch.nn.functional as F

class Trainer:
    def train_step(self, x, y):
        out = self.model(x)
        loss = F.cross_entropy(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {returned}

    def fit(self, loader):
        self.model = torch.nn.Linear(4, 2).cuda()
        for x, y in loader:
            m = self.train_step(x.cuda(), y.cuda())
            print(m["loss"].item())
"""


@each(
    "returned",
    [
        'return {"loss": loss, "out": out}',
        "return dict(loss=loss, n=1)",
        'found = {"n": 1}\n        found["loss"] = loss\n        return found',
        'found = {"n": 1}\n        found.update(loss=loss)\n        return found',
        'return {**{"loss": loss}}',
    ],
)
def test_a_loss_that_another_method_returns_in_a_dict(returned: str) -> None:
    assert "xla.later(" in migrated(RETURNED.format(returned=returned))


def test_a_number_that_another_method_returns_in_a_dict() -> None:
    returned = 'return {"loss": loss.detach().cpu()}'
    assert 'print(m["loss"].item())' in migrated(RETURNED.format(returned=returned))


@each(
    "stored",
    [
        'd["a"] = d["a"].mean()',
        'd["a"] = d["b"].mean()\n        d["b"] = d["a"].mean()',
        'd["a"] = d["b"].data\n        d["b"] = d["a"].clone()',
    ],
)
def test_entries_that_are_computed_of_each_other(stored: str) -> None:
    source = f"""import torch

def train(model, batches, optimizer, step):
    for x in batches:
        model(x.cuda()).mean().backward()
        optimizer.step()
        d = step(x)
        {stored}
        print(d["a"].item())
"""
    assert {"XLA001", "XLA503"}.isdisjoint(code for _, code in findings(source))
