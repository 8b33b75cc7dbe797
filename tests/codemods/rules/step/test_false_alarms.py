"""Findings that were wrong, or missing, in samples of real scripts: each in several spellings."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import Options, check, migrate

from ...helpers import findings

HEAD = """
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def train(model, loader, optimizer, cfg, ratio, ds, other):
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
{body}
        loss.backward()
        optimizer.step()
{behind}
"""


def codes(body: str, behind: str = "") -> list[str]:
    return [code for code, _ in said(body, behind)]


def said(body: str, behind: str = "") -> list[tuple[str, str]]:
    source = HEAD.format(
        body=textwrap.indent(textwrap.dedent(body), " " * 8),
        behind=textwrap.indent(textwrap.dedent(behind), " " * 8),
    )
    return [(f.code, f.message) for f in check(source.encode())]


@pytest.mark.parametrize(
    "body",
    [
        "x = torch.cat([x, torch.zeros(cfg.n - x.shape[0], 4, device='cuda')])\nloss = model(x).mean()",
        "x = torch.cat((x, x[: cfg.n - x.size(0)]), dim=0)\nloss = model(x).mean()",
        "ids = x\nids = torch.cat([ids, y], dim=1)\nloss = model(ids).mean()",
        "cur = model(x)\nif cfg.pad:\n    cur = torch.cat([cur, y])\nloss = cur.mean()",
        "h = torch.zeros(2).cuda()\nh = torch.hstack((h, x))\nloss = model(h).mean()",
    ],
)
def test_what_is_padded_or_made_anew_does_not_grow(body: str) -> None:
    assert "XLA504" not in codes(body)


@pytest.mark.parametrize(
    ("made", "body"),
    [
        ("bank = torch.zeros(1).cuda()", "bank = torch.cat([bank, x])"),
        ("bank = torch.zeros(1).cuda()", "bank = torch.cat((bank, model(x)), dim=0)"),
    ],
)
def test_what_grows_from_turn_to_turn_is_found(made: str, body: str) -> None:
    source = f"import torch\ndef f(model, loader, opt):\n    {made}\n    for x in loader:\n        x = x.cuda()\n"
    source += f"        {body}\n        model(bank).mean().backward()\n        opt.step()\n"
    assert "XLA504" in [f.code for f in check(source.encode())]


def test_what_is_cut_again_in_each_turn_keeps_its_size() -> None:
    source = """
        import torch
        def f(model, loader, opt):
            bank = torch.zeros(64).cuda()
            for x in loader:
                bank = torch.cat([bank, x.cuda()])
                bank = bank[-64:]
                model(bank).mean().backward()
                opt.step()
        """
    assert "XLA504" not in [f.code for f in check(textwrap.dedent(source).encode())]


@pytest.mark.parametrize(
    "body",
    [
        "k = step % 4\nloss = model(x[:, k]).mean()",
        "loss = model(x[:, step % 2]).mean()",
        "loss = sum(model(x[:, i * 16 : (i + 1) * 16]).mean() for i in range(4))",
        "loss = 0\nfor i in range(0, 64, 16):\n    loss = loss + model(x[:, i : i + 16]).mean()",
        "loss = 0\nstart = 0\nfor size in (16, 32):\n    loss = loss + model(x[:, start : start + size]).mean()\n    start += size",
    ],
)
def test_the_same_few_slices_in_each_step_are_compiled_once(body: str) -> None:
    assert "XLA506" not in codes(body)


@pytest.mark.parametrize(
    "index",
    ["step", "step % 1000", "step + 1", "step % cfg.n", ": max(1, int(x.sum().item()))"],
)
def test_slices_that_move_are_found(index: str) -> None:
    assert "XLA506" in codes(f"loss = model(x[:, {index}]).mean()")


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("loss = model(x)[y > 0].mean()", "use `xla.masked_mean`"),
        ("loss = (model(x) - y)[y > 0].pow(2).mean()", "divide the sum"),
        ("loss = torch.mean(model(x)[y > 0])", "use `xla.masked_mean`"),
        ("loss = torch.masked_select(model(x), y > 0).mean()", "use `xla.masked_mean`"),
        ("loss = F.cross_entropy(model(x)[y > 0], y[y > 0])", "use `xla.masked_loss`"),
        ("loss = F.soft_margin_loss(model(x)[y > 0], y[y > 0])", "reduction='none'"),
        ("loss = model(x)[y > 0].sum()", "use `xla.masked_sum`"),
        ("loss = model(x)[y > 0].abs().sum()", "use `torch.where(mask, x, 0)`"),
        ("loss = model(x)[y > 0].max()", "compute `max` of the full tensor"),
    ],
)
def test_what_is_advised_for_a_mask_computes_the_same(body: str, advice: str) -> None:
    messages = [message for code, message in said(body) if code == "XLA504"]
    assert messages
    assert all(advice in message for message in messages)


@pytest.mark.parametrize(
    "test", ["step % 10 != 0", "step % 10", "step % 10 > 0", "(step + 1) % 10 != 0", "not cfg.log"]
)
def test_what_stands_behind_continue_is_not_in_every_step(test: str) -> None:
    behind = f"if {test}:\n    continue\nprint(loss.item())"
    assert "XLA503" not in codes("loss = model(x).mean()", behind)


@pytest.mark.parametrize("test", ["cfg.skip", "x is None", "step == 0"])
def test_what_stands_behind_other_tests_is(test: str) -> None:
    behind = f"if {test}:\n    continue\nprint(loss.item())"
    assert "XLA503" in codes("loss = model(x).mean()", behind)


@pytest.mark.parametrize(
    "test",
    [
        "random.random() < ratio",
        "np.random.rand() > 0.5",
        "torch.rand(1).item() < ratio",
        "ratio > random.random()",
        "torch.rand([]) < ratio",
        "np.random.binomial(1, ratio)",
        "cfg.mix and random.uniform(0, 1) < ratio",
    ],
)
def test_a_step_that_is_chosen_by_chance_is_found(test: str) -> None:
    assert "XLA510" in codes(f"if {test}:\n    x = x.flip(-1)\nloss = model(x).mean()")
    assert "XLA510" in codes(f"z = x.flip(-1) if {test} else x\nloss = model(z).mean()")
    named = f"flips = {test}\nz = x.flip(-1) if flips and cfg.flip else x\nloss = model(z).mean()"
    assert "XLA510" in codes(named)


@pytest.mark.parametrize(
    "body",
    [
        "if random.random() < ratio:\n    print('hello')\nloss = model(x).mean()",
        "n = random.random()\nloss = model(x).mean() * n",
        "loss = model(x * random.random()).mean()\nif cfg.flip(loss):\n    x = x.flip(-1)",
        "if cfg.flip:\n    x = x.flip(-1)\nloss = model(x).mean()",
        "y = torch.rand(8, 3)\nif y.shape[0] > 4:\n    x = x.flip(-1)\nloss = model(x).mean()",
    ],
)
def test_what_chance_does_not_choose_in_a_graph(body: str) -> None:
    assert "XLA510" not in codes(body)


@pytest.mark.parametrize(
    "loop",
    [
        "for loader in (first, second):\n        for x in loader:",
        "for loader in [first, second]:\n        for x in loader:",
        "for name, loader in (('a', first), ('b', second)):\n        for x in loader:",
        "for k, loader in enumerate((first, second)):\n        for x in loader:",
    ],
)
def test_the_last_batch_of_several_loaders(loop: str) -> None:
    source = f"""
import torch
from torch.utils.data import DataLoader

def train(model, a, b, optimizer):
    first, second = 1, 2
    first = DataLoader(a, 32)
    second = DataLoader(b, batch_size=32)
    {loop}
            model(x.cuda()).mean().backward()
            optimizer.step()
"""
    found = [f.line for f in check(source.encode()) if f.code == "XLA504"]
    assert found == ([7, 8] if "enumerate" not in loop else found)


def test_a_slice_at_the_last_step_is_one_of_an_epoch() -> None:
    source = """
        import torch

        def train(model, optimizer, loader, seen):
            for step, x in enumerate(loader):
                y = model(x.cuda())
                y.sum().backward()
                optimizer.step()
                if {test}:
                    y = y[len(loader.dataset) - seen :]
                seen += len(x)
        """
    often = findings(source.format(test="step > 3"))
    once = findings(source.format(test="step == len(loader) - 1"))
    assert "XLA506" in [code for _, code in often]
    assert "XLA506" not in [code for _, code in once]


@pytest.mark.parametrize("keys", ["terms.keys()", "list(terms.keys())", "sorted(terms.keys())"])
def test_the_names_of_losses_are_no_tensors(keys: str) -> None:
    """What a criterion gives may be a dict of tensors: nothing else has `keys`."""
    source = f"""
import torch

def train(model: torch.nn.Module, criterion: torch.nn.Module, loader, optimizer, device, weights):
    for x, y in loader:
        terms = criterion(model(x.cuda()), y.cuda())
        loss = sum(terms[k] * weights[k] for k in {keys} if k in weights)
        for k in {keys}:
            if k in weights:
                loss = loss + terms[k]
        for k, term in terms.items():
            if k in weights:
                loss = loss + term
        loss.backward()
        optimizer.step()
"""
    assert "XLA503" not in [f.code for f in check(source.encode())]


@pytest.mark.parametrize(
    ("leaves", "often"),
    [
        ("sys.exit(1)", 0),
        ("quit()", 0),
        ("os._exit(3)", 0),
        ("raise RuntimeError", 0),
        ("other.exit()", 1),
        ("self_exit(1)", 1),
    ],
)
def test_what_is_printed_once_before_the_end(leaves: str, often: int) -> None:
    """Only the question is asked in every step."""
    body = f"""
    loss = F.mse_loss(model(x), y)
    if loss.item() > 100:
        print("Loss is", loss.item())
        {leaves}
    """
    source = "import math, os, sys\n" + HEAD.format(
        body=textwrap.indent(textwrap.dedent(body), " " * 8), behind=""
    )
    said = [f for f in check(source.encode()) if f.code == "XLA503"]
    assert len(said) == 1 + often


CHOICES = [
    'device = torch.device(f"cuda:{args.gpu}" if args.gpu >= 0 and torch.cuda.is_available() else "cpu")',
    'device = torch.device("cuda:%d" % args.gpu if args.cuda else "cpu")',
    'device = torch.device("cpu") if args.cpu else torch.device("cuda", args.local_rank)',
    'device = "cuda:{}".format(args.gpu) if torch.cuda.is_available() and args.cuda else "cpu"',
    'device = args.gpu if args.cuda else "cpu"',
    'device = "cpu"\n    if args.cuda:\n        device = "cuda:" + str(args.gpu)',
]


@pytest.mark.parametrize("choice", CHOICES)
def test_moving_to_a_chosen_device_with_an_index_reads_nothing(choice: str) -> None:
    source = f"""
import torch

def main(args, loader):
    {choice}
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert migrate(source.encode(), Options()).left == []


ENTRIES = """import torch
from torch.utils.data import DataLoader

def train(model, data, optimizer):
    for batch in DataLoader(data, batch_size=4, drop_last=True):
        {first}
        {second}
        order = torch.randperm(4).cuda()
        loss = model({used}, batch["b"][order]).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "second", "reads"),
    [
        ('batch["a"] = batch["a"].cuda()', 'batch["b"] = batch["b"].cuda(non_blocking=True)', 0),
        ("for k in batch:", "    batch[k] = batch[k].cuda(non_blocking=True)", 0),
        ('batch["a"] = batch["a"].cuda(non_blocking=True)', "pass", 1),  # the other entry stays
    ],
)
def test_entries_of_a_batch_that_are_moved(first: str, second: str, reads: int) -> None:
    source = ENTRIES.format(first=first, second=second, used='batch["a"]')
    assert [code for _, code in findings(source)].count("XLA503") == reads
    assert "non_blocking" not in migrate(source.encode(), Options()).data.decode()


@pytest.mark.parametrize(
    "lines",
    [
        "for edge_index, size in batch.adjs:\n            x = x[: size[1]]",
        "for i, (edge_index, _, size) in enumerate(batch['adjs']):\n            x = x[: size[1]]",
        "for conv, (edge_index, size) in zip(model.convs, batch.adjs):\n            x = x[:size]",
        "for adj in batch.adjs:\n            x = x[: adj[2][1]]",
        "for adj in batch.adjs:\n            edge_index, size = adj\n            x = x[: size[1]]",
        "adjs = [adj.to(device) for adj in batch.adjs]\n"
        "        for edge_index, size in adjs:\n            x = x[: size[1]]",
    ],
)
def test_sizes_in_a_batch_of_unknown_structure_may_be_numbers(lines: str) -> None:
    source = f"""
import torch

def train(loader, model, optimizer, device):
    for batch in loader:
        batch = batch.to(device)
        x = model(batch.x)
        {lines}
        x.sum().backward()
        optimizer.step()
"""
    assert "XLA503" not in {code for _, code in findings(source)}
