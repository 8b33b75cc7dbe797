"""What functions of the file are handed, and give back."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated
from .scripts import BOTH


def test_a_step_that_returns_its_loss() -> None:
    source = """
    import torch

    def step(model, optimizer, x):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def train(model, batches, optimizer):
        for k, x in enumerate(batches):
            value = step(model, optimizer, x)
            if k % 10 == 0:
                print(f"{value:.4f}")
    """
    assert "return xla.item(loss)" in migrated(source)
    decided = source.replace("k % 10 == 0", "value > 3").replace('print(f"{value:.4f}")', "break")
    assert "return loss.item()" in migrated(decided)
    same_name = source + "\n    def log(step):\n        return {'step': step}\n"
    assert "return xla.item(loss)" in migrated(same_name)
    handed_on = source + "\n    run(step)\n"
    assert "return loss.item()" in migrated(handed_on)


RETURNED = """
    import torch

    def evaluate(model, x, y):
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        return {returned}

    def train(model, optimizer, x, y):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        {line}

    def main(model, optimizer):
        model = model.cuda()
        x = y = torch.ones(3, device="cuda")
        for k in range(9):
            train(model, optimizer, x, y)
        {last}

    main(model, optimizer)
"""


BOTH_READ = "loss.item(), output.mean().item()"


@pytest.mark.parametrize(
    ("returned", "line", "last", "after"),
    [
        (BOTH_READ, "a, b = evaluate(model, x, y)", "print('%f %f' % evaluate(model, x, y))", "print('%f %f' % evaluate(model, x, y))"),
        (BOTH_READ, "a, b = evaluate(model, x, y)", "a, b = evaluate(model, x, y); return a", "a, b = evaluate(model, x, y); return xla.arrived(a)"),
        (BOTH_READ, "a, b = evaluate(model, x, y); print(b)", "pass", "a, b = evaluate(model, x, y); xla.later(lambda b=b: print(b))"),
        (BOTH_READ, "print(evaluate(model, x, y)[1])", "pass", "xla.later(lambda evaluate=evaluate(model, x, y)[1]: print(evaluate))"),
        (BOTH_READ, "evaluate(model, x, y)", "return evaluate(model, x, y)", "return xla.arrived(evaluate(model, x, y))"),
        ("loss.item()", "a = evaluate(model, x, y)", "return evaluate(model, x, y)", "return xla.arrived(evaluate(model, x, y))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y); print(out)", "pass", "out = evaluate(model, x, y); xla.later(lambda out=out: print(out))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y); print(out['loss'])", "pass", "out = evaluate(model, x, y); xla.later(lambda loss=out['loss']: print(loss))"),
        ("{'loss': loss.item()}", "out = evaluate(model, x, y)['loss']; print(out)", "pass", "out = evaluate(model, x, y)['loss']; xla.later(lambda out=out: print(out))"),
    ],
)  # fmt: skip
def test_what_functions_return_together(returned: str, line: str, last: str, after: str) -> None:
    source = RETURNED.format(returned=returned, line=line, last=last)
    found = [text.strip() for text in migrated(source).splitlines()]
    assert after in found
    assert not any(
        "return {loss" in text or ".item(), " in text.partition("later")[0] for text in found
    )


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("a, b = evaluate(model, x, y)\n        if a + b > 3: print(b); b = model(x)", "pass"),
        ("a, *b = evaluate(model, x, y)", "pass"),
        ("a = evaluate", "pass"),
        ("a, b = evaluate(model, x, y)", "for _ in range(9): evaluate(model, x, y)"),  # unmarked
        ("a, b = evaluate(model, x, y)", "print([evaluate(model, x, y) for _ in range(9)])"),
        ("pass", "print(evaluate(model, x, y))"),
        ("model.seen = evaluate(model, x, y)", "pass"),
    ],
)
def test_what_functions_return_to_others_stays(line: str, last: str) -> None:
    source = RETURNED.format(returned=BOTH_READ, line=line, last=last)
    assert "xla.item" not in migrated(source)


FUNCTIONS = """
from dataclasses import dataclass, field
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

class Meter:
    def __str__(self):
        return "meter"

@dataclass
class State:
    loss: float = 0.0
    all: list = field(default_factory=list)

{function}

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.losses, self.kept, self.sums = [], {{"loss": []}}, defaultdict(float)

    def train_step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss{returned}

    def report(self):
        return np.mean(self.losses), sorted(self.kept["loss"]), self.sums.items()

    def log_loss(self, step, loss):
        print(step, loss.item())

    def fit(self, batches: DataLoader, device):
        total = 0.0
        for step, (x, y) in enumerate(batches):
            x, y = x.to(device), y.to(device)
            loss = self.train_step(x, y)
            {line}
        return total

def main(model, optimizer, batches):
    Trainer(model.cuda(), optimizer).fit(batches, torch.device("cuda"))
"""


@pytest.mark.parametrize(
    ("function", "returned", "line", "after"),
    [
        ("", ".item()", "total += loss", "return xla.item(loss)"),
        ("", ".item()", "print(loss)", "xla.later(lambda loss=loss: print(loss))"),
        ("", ".item()", "self.losses.append(loss)", "return xla.item(loss)"),
        ("print(vars(args))", ".item()", "self.losses.append(loss)", "return xla.item(loss)"),
        ("", ".item()", "self.losses.append(loss); print(sum(self.losses[-9:]))", "self.losses.append(loss); xla.later(lambda losses=self.losses[-9:]: print(sum(losses)))"),
        ("", ".item()", "self.sums['loss'] += loss", "return xla.item(loss)"),
        ("def get(trainer):\n    return trainer.losses", ".item()", "self.losses.append(loss)", "return xla.arrived(trainer.losses)"),
        ("", ".item()", "self.losses.append(loss); self.other = self.losses", "return xla.item(loss)"),
        ("print(vars(State()))", ".item()", "state = State(); state.loss = loss", "return xla.item(loss)"),
        ("", ".item()", "self.kept['loss'].append(loss)", "return xla.item(loss)"),
        ("", ".item()", "state = State(); state.loss = loss; print(state.loss)", "state = State(); state.loss = loss; xla.later(lambda loss=state.loss: print(loss))"),
        ("", ".item()", "state = State(); state.all.append(loss); print(np.mean(state.all))", "state = State(); state.all.append(loss); xla.later(lambda value=state.all: print(np.mean(value)))"),
        ("", "", "self.log_loss(step, loss)", f"xla.later(lambda {BOTH}: print(step, loss.item()))"),
        ("def show(k, v):\n    print(f'{k} {v:.3f}')", ".item()", "show(step, loss)", "xla.later(lambda k=k, v=v: print(f'{k} {v:.3f}'))"),
        ("def show(k, v):\n    print(f'{k} {v:.3f}')", ".item()", "show(v=loss, k=step)", "xla.later(lambda k=k, v=v: print(f'{k} {v:.3f}'))"),
        ("def mean(v, n):\n    return v / n", ".item()", "total += mean(loss, 3)", "total += mean(loss, 3)"),
    ],
)  # fmt: skip
def test_functions_and_methods_of_the_file(
    function: str, returned: str, line: str, after: str
) -> None:
    source = FUNCTIONS.format(function=function, returned=returned, line=line)
    assert after in [text.strip() for text in migrated(source).splitlines()]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("def show(v):\n    if v > 3: raise ValueError(v)", "show(loss)"),
        ("@torch.no_grad()\ndef show(v):\n    print(v)", "show(loss)"),
        ("def show(*v):\n    print(*v)", "show(loss)"),
        ("def show(v):\n    print(v)", "meter = Meter(); show(meter); show(loss)"),
        (
            "class Log:\n    def tell(self, v):\n        print(v)",
            "meter = Meter(); log = Log(); log.tell(meter); log.tell(loss)",
        ),
        ("", "self.losses = self.model; self.losses.append(loss)"),
        ("", "self.model.loss = loss"),
    ],
)
def test_functions_that_keep_or_decide(function: str, line: str) -> None:
    source = FUNCTIONS.format(function=function, returned=".item()", line=line)
    assert "return loss.item()" in migrated(source)


@pytest.mark.parametrize(
    "call",
    ["self.inner.update(x)", "self.update(x)", "[m.update(x) for m in self.all]", "self.other(x)"],
)
def test_functions_that_call_themselves_are_judged(call: str) -> None:
    script = f"""
import torch


class Codes(torch.nn.Module):
    def other(self, x):
        return self.update(x)

    def update(self, x):
        {call}
        count = (x > 0).sum().item()
        return x * count


    def forward(self, x):
        return self.update(x)


def train(batches):
    model = Codes().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in batches:
        model(x.cuda()).sum().backward()
        optimizer.step()
"""
    assert "XLA503" in {f.code for f in check(script.encode())}
