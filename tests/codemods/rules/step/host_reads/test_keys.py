"""Going through a dict's keys, or looking for one, needs no value: the numbers in it stay deferred."""

from __future__ import annotations

from tests.each import each

from ....helpers import findings, migrated

SCRIPT = """import torch
from torch.utils.data import DataLoader

def criterion(out, y):
    loss = (out - y).abs().mean()
    return loss, {{"loss": loss.item(), "l2": (out - y).pow(2).mean().item()}}

def train(model, optimizer, batches: DataLoader, names):
    totals = {{}}
    for step, (x, y) in enumerate(batches):
        loss, metrics = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    print(totals)
"""
ADDED = "totals[key] = totals.get(key, 0.0) + metrics[key]"


@each(
    "line",
    [
        f"for key in metrics: {ADDED}",
        f"for key in metrics.keys(): {ADDED}",
        f"for key in sorted(metrics): {ADDED}",
        f"for key in list(metrics.keys()): {ADDED}",
        f"for number, key in enumerate(metrics): {ADDED}",
        "totals = {key: totals.get(key, 0.0) + metrics[key] for key in metrics}",
        f"for key in metrics: {ADDED}\n        if step % 9 == 0: totals = dict.fromkeys(totals, 0.0)",
        'if "loss" in metrics: totals["loss"] = metrics["loss"]',
        'if "acc" not in metrics: totals["l2"] = metrics["l2"]',
        "if all(name in metrics for name in names): totals.update(metrics)",
    ],
)
def test_keys_are_no_values(line: str) -> None:
    result = migrated(SCRIPT.format(line=line))
    assert "xla.item(loss)" in result
    assert "XLA503" not in {code for _, code in findings(result)}


@each(
    "line",
    [
        "if step in metrics.values(): totals = metrics",
        "for value in sorted(metrics.values()): totals[step] = value",
        "for key in metrics: totals[metrics[key]] = step if metrics[key] > 1 else 0",
    ],
)
def test_values_that_decide_are_read(line: str) -> None:
    assert "xla.item" not in migrated(SCRIPT.format(line=line))


def test_a_dict_that_was_a_parameter_is_known_by_its_use() -> None:
    source = """
        import torch

        class Logger:
            def __init__(self):
                self.totals = {}

            def push(self, metrics):
                for key in metrics:
                    if key not in self.totals:
                        self.totals[key] = 0.0
                    self.totals[key] += metrics[key]

        def train(model, optimizer, batches):
            logger = Logger()
            for x in batches:
                loss = model(x.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logger.push({"loss": loss.item()})
            print(logger.totals)
    """
    assert 'logger.push({"loss": xla.item(loss)})' in migrated(source)


REDUCED = """import torch
import torch.distributed as dist

def reduced(losses):
    if dist.get_world_size() < 2:
        return losses
    keys, values = [], []
    for key in sorted(losses.keys()):
        keys.append(key)
        values.append(losses[key])
    values = torch.stack(values, 0)
    dist.reduce(values, dst=0)
    if dist.get_rank() == 0:
        values /= dist.get_world_size()
    return {{k: v for k, v in zip(keys, values)}}

def train(model, optimizer, loader):
    losses, length = {{}}, 0
    for x in loader:
        out = model(x.cuda())
        loss = out.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses["g"] = loss
        losses["path"] = {other}
        both = reduced(losses)
        value = {read}
        print(value)
"""


@each(
    "other, read, is_read",
    [
        ("loss * 2", 'both["g"].mean().item()', True),
        ("0", 'both["g"].mean().item()', True),
        ("length", 'both["g"].item()', True),
        ("0", 'both["path"]', False),
    ],
)
def test_losses_that_are_reduced_together(other: str, read: str, is_read: bool) -> None:
    result = migrated(REDUCED.format(other=other, read=read))
    assert ("xla.item(" in result) is is_read
