"""Elements of arrays of the host are filled in later; the array has no other name that it could be looked at by."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated

SCRIPT = """import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def train(model, batches: DataLoader, optimizer, epochs):
    device = torch.device("cuda")
    {made}
    for epoch in range(epochs):
        for step, (x, y) in enumerate(batches):
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {line}
        {seen}
    {last}
"""
FILLED = "curve[step] = loss.item()"


def _source(made: str, line: str, seen: str = "pass", last: str = "pass") -> str:
    return SCRIPT.format(made=made, line=line.replace("\n", "\n            "), seen=seen, last=last)


@pytest.mark.parametrize(
    ("made", "line", "after"),
    [
        ("curve = np.zeros(9)", FILLED, "xla.fill(curve, step, xla.item(loss))"),
        ("curve = np.zeros(9)", "curve[step] = float(loss)", "xla.fill(curve, step, xla.item(loss))"),
        ("curve = np.empty((9, 9))", "curve[epoch, step] = loss.item() / 2", "xla.fill(curve, (epoch, step), xla.item(loss) / 2)"),
        ("curve = torch.zeros(9)", "curve[step - 1] = loss.item()", "xla.fill(curve, step - 1, xla.item(loss))"),
        ("curve, n = np.full(9, np.nan), 0", "value = loss.item()\ncurve[n] = value", "xla.fill(curve, n, value)"),
        ("curve = np.zeros(9)", f"curve[0] = 1.0\n{FILLED}", "xla.fill(curve, 0, 1.0)"),
    ],
)  # fmt: skip
def test_elements_are_filled_in_later(made: str, line: str, after: str) -> None:
    assert after in [text.strip() for text in migrated(_source(made, line)).splitlines()]


@pytest.mark.parametrize(
    ("seen", "last", "after"),
    [
        ("print(curve[:step].mean())", "pass", "print(xla.arrived(curve)[:step].mean())"),
        ("print(f'{curve[step]:.4f}')", "pass", "print(f'{xla.arrived(curve)[step]:.4f}')"),
        ("print(len(curve), curve.shape)", "pass", "print(len(curve), curve.shape)"),
        ("np.save('curve', curve)", "pass", "np.save('curve', xla.arrived(curve))"),
        ("pass", "best = curve", "best = xla.arrived(curve)"),
        ("pass", "return epochs, curve", "return epochs, xla.arrived(curve)"),
    ],
)
def test_who_looks_at_it_waits(seen: str, last: str, after: str) -> None:
    found = migrated(_source("curve = np.zeros(9)", FILLED, seen, last))
    assert after in [text.strip() for text in found.splitlines()]


@pytest.mark.parametrize(
    ("made", "line", "seen", "why"),
    [
        ("curve = np.zeros(9)", f"{FILLED}\nprint(curve.mean())", "pass", "is needed in every step"),
        ("curve = np.zeros(9)", f"{FILLED}\ncurve[0] += 1", "pass", "is needed in every step"),
        ("curve = np.zeros(9); same = curve", FILLED, "print(same)", "has other names"),
        ("curve = np.zeros(9); show(curve)", FILLED, "pass", "has other names"),
        ("curve = np.zeros(9)", f"try:\n    {FILLED}\nexcept IndexError: pass", "pass", "is caught"),
        ("curve = np.zeros(9)", FILLED, "row = curve[:3]", "has other names"),
        ("curve = np.zeros(9)", FILLED, "print(curve.reshape(3, 3))", "has other names"),
        ("curve = epochs.curve", "curve[step:] = loss.item()", "pass", ""),
        ("curve = np.asarray(epochs)", FILLED, "pass", "may share its memory with another array"),
        ("curve = torch.zeros(9, device=epochs)", FILLED, "pass", ""),
        ("curve = np.zeros(9)", "curve[:step] = loss.item()", "pass", "is not one element"),
    ],
)  # fmt: skip
def test_stays(made: str, line: str, seen: str, why: str) -> None:
    source = _source(made, line, seen)
    assert "xla.fill" not in migrated(source)
    assert any(why in f.message for f in check(source.encode()) if f.code == "XLA503")


def test_a_list_whose_name_becomes_its_mean() -> None:
    source = _source("pass", "losses.append(loss.item())").replace(
        "        for step", "        losses = []\n        for step"
    )
    source = source.replace("        pass\n    pass", "        losses = np.mean(losses)\n        print(losses)")  # fmt: skip
    after = migrated(source)
    assert "losses.append(xla.item(loss))" in after
    assert "losses = np.mean(xla.arrived(losses))" in after
    assert "print(losses)" in after


OWN = """import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, model, optimizer, n, show):
        self.model, self.optimizer, self.step, self.show = model, optimizer, 0, show
        self.device = torch.device("cuda")
        self.curve = {made}

    def train_step(self, x, y):
        loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {line}
        self.step += 1

    def train(self, batches: DataLoader):
        for x, y in batches:
            self.train_step(x, y)
            if self.step % 100 == 0:
                print(self.curve[: self.step].mean())

    def save(self, path):
        {last}
"""


@pytest.mark.parametrize("made", ["np.zeros(n)", "torch.zeros(n)", "np.asarray(n)"])
def test_arrays_of_an_object_stay(made: str) -> None:
    source = OWN.format(made=made, line="self.curve[self.step] = loss.item()", last="pass")
    assert "self.curve[self.step] = loss.item()" in migrated(source)
    assert "XLA503" in {finding.code for finding in check(source.encode())}
