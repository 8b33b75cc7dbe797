"""Batches that are cut at their longest sample (XLA504), and what is cut up on the device (XLA405, XLA506)."""

from __future__ import annotations

from ....each import each
from ...helpers import findings, migrated

LOOP = """
import torch
from torch.utils.data import DataLoader, TensorDataset

{before}
def train(model, dataset, optimizer, device, loss_fn):
    model.to(device)
    loader = DataLoader(dataset, batch_size=8, drop_last=True)
    for batch, y in loader:
        optimizer.zero_grad()
        {lines}
        loss = loss_fn(model(ids), y.to(device))
        loss.backward()
        optimizer.step()
"""
COLLATE = """
def collate(inputs):
    longest = int(inputs["mask"].sum(axis=1).max())
    for k, v in inputs.items():
        inputs[k] = inputs[k][:, :longest]
    return inputs

def trim(b):
    n = int(b["mask"].sum(1).max())
    return {k: v[:, :n] for k, v in b.items()}

def short(b):
    return b["ids"][:, : min(128, int(b["mask"].sum(1).max()))]

def fixed(b):
    n = b["ids"].size(1)
    return b["ids"][:, : n // 2], b["ids"][:, :128]
"""


def _codes(lines: str, before: str = "") -> list[str]:
    text = LOOP.format(lines=lines.replace("; ", "\n        "), before=before)
    return [code for _, code in findings(migrated(text))]


@each(
    "lines",
    [
        'mask = batch["mask"].to(device); ids = batch["ids"].to(device)[:, : mask.sum(1).max()]',
        'n = batch["mask"].sum(1).max().item(); ids = batch["ids"][:, :n].to(device)',
        'n = int(batch["mask"].sum(dim=1).max()) + 1; ids = batch["ids"][:, :n].to(device)',
        'lengths = batch["lengths"]; ids = batch["ids"][:, : max(lengths)].to(device)',
        'ids = batch["ids"][:, : batch["lengths"].max()].to(device)',
        'ids = batch["ids"].to(device); ids = ids[:, : (ids != 0).sum(1).max()]',
        'ids = batch["ids"].to(device); ids = ids.narrow(1, 0, int((ids != 0).sum(1).max()))',
        'n = torch.max(batch["lengths"]); ids = torch.narrow(batch["ids"], 1, 0, n).to(device)',
        'ids = batch["ids"].to(device); ids = ids[:, -int((ids != 0).sum(1).amax()) :]',
    ],
)
def test_a_batch_that_is_cut_at_its_longest_sample(lines: str) -> None:
    assert "XLA504" in _codes(lines)


@each(
    "lines, found",
    [
        ('batch = collate(batch); ids = batch["ids"].to(device)', True),
        ('batch = trim(batch); ids = batch["ids"].to(device)', True),
        ("ids = short(batch).to(device)", True),
        ("ids = fixed(batch)[0].to(device)", False),
    ],
)
def test_so_is_one_that_a_function_cuts(lines: str, found: bool) -> None:
    function = lines.split("(", 1)[0].split()[-1]
    own = COLLATE[COLLATE.index(f"def {function}") :].split("\n\n", 1)[0]
    assert ("XLA504" in _codes(lines, own)) is found


@each(
    "lines",
    [
        'ids = batch["ids"].to(device)[:, :128]',
        'ids = batch["ids"].to(device); ids = ids[:, : ids.size(1) // 2]',
        'ids = batch["ids"].to(device); top = max(3, 4); ids = ids[:, :top]',
        'ids = batch["ids"].to(device); peak = ids.max(1).values',
    ],
)
def test_cuts_at_one_place_are_none(lines: str) -> None:
    assert "XLA504" not in _codes(lines)


HELD = """
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

class Fast:
    def __init__(self, *tensors, size=8):
        self.tensors, self.n, self.size = tensors, len(tensors[0]), size
    def __iter__(self):
        self.i = 0
        return self
    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        batch = tuple(t[self.i : self.i + self.size] for t in self.tensors)
        self.i += self.size
        return batch

class Pairs:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __getitem__(self, i):
        return self.x[i], self.y[i]

def main(model, X, Y, optimizer, loss_fn):
    device = torch.device("cuda")
    model.to(device)
    {lines}
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
"""


@each(
    "lines, code",
    [
        ("loader = Fast(X.to(device), Y.to(device))", "XLA506"),
        ("held = X.cuda(), Y.cuda(); loader = Fast(*held)", "XLA506"),
        ("loader = Fast(*[t.float().to(device) for t in (X, Y)])", "XLA506"),
        ("loader = Fast(X, Y)", ""),
        ("loader = DataLoader(TensorDataset(X.to(device), Y.to(device)), 8)", "XLA405"),
        ("held = [t.to(device) for t in (X, Y)]; loader = DataLoader(TensorDataset(*held), 8)", "XLA405"),
        ("X = X.cuda(); Y = Y.cuda(); loader = DataLoader(TensorDataset(X, Y), 8)", "XLA405"),
        ("X, Y = X.cuda(), Y.cuda(); loader = DataLoader(TensorDataset(X, Y).subset, 8)", "XLA405"),
        ("data = TensorDataset(X.cuda().float(), Y); a, b = random_split(data, [9, 9]); loader = DataLoader(a, 8)", "XLA405"),
        ("loader = DataLoader(Pairs(X.cuda(), Y.cuda()), 8)", "XLA405"),
        ("loader = DataLoader(Pairs(X, Y), 8)", ""),
        ("loader = DataLoader(TensorDataset(X, Y), 8)", ""),
        ('loader = DataLoader(TensorDataset(X.to("cpu"), Y), 8)', ""),
    ],
)  # fmt: skip
def test_what_is_cut_up_on_the_device(lines: str, code: str) -> None:
    """Of whatever it is that was moved there."""
    after = migrated(HELD.format(lines=lines.replace("; ", "\n    ")))
    found = {found for _, found in findings(after)} & {"XLA405", "XLA506"}
    assert found == ({code} if code else set())
