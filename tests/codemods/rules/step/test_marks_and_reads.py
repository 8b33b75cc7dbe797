"""Marks of XLA502 and reads: what is read behind a step, later, or stays."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from xla_codemods.engine import Options, migrate

from ...helpers import migrated


def test_a_read_in_the_block_of_the_step_comes_behind_a_mark() -> None:
    after = migrated(
        "import torch\n"
        "def train(model, loader, optimizer, device):\n"
        "    for i, x in enumerate(loader):\n"
        "        loss = model(x.to(device))\n"
        "        loss.backward()\n"
        "        if i % 4 == 3:\n"
        "            optimizer.step()\n"
        "            if loss.item() < 0.1:\n"
        "                return\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    step = lines.index("xla.optimizer_step(optimizer)")
    assert lines[step + 1 : step + 3] == ["xla.mark_step()", "if loss.item() < 0.1:"]
    assert lines.count("xla.mark_step()") == 1  # the loader marks the other steps
    assert migrated(after) == after


def test_moving_results_to_the_host_is_a_read() -> None:
    after = migrated(
        "import torch\n"
        "cpu = torch.device('cpu')\n"
        "@torch.no_grad()\n"
        "def evaluate(model, n, device):\n"
        "    for k in range(n):\n"
        "        out = model(torch.ones(2, device=device))\n"
        "        out = {k: v.to(cpu) for k, v in out.items()}\n"
        "        print(out)\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    mark = lines.index("xla.mark_step()")
    assert lines[mark + 1].startswith("out = {k: v.to(cpu)")


@pytest.mark.parametrize(
    ("behind", "marks"),
    [
        ("running += loss.item()", 0),
        ("losses.append(loss.item())", 0),
        ("print(step, loss.item())", 0),
        ('print(f"{step} {loss.item():.3f}")', 0),
        ('text = f"{step} {loss.item():.3f}"\n        losses.append(text + "%.3f" % loss.item())', 0),
        ("running += float(loss)\n        ema.update(model)", 0),
        ("if step % 10 == 0:\n            print(loss.item())", 1),
        ("if loss.item() > 10:\n            break", 1),
        ("running += loss.item()\n        if step % 10 == 0:\n            torch.save(model.state_dict(), 'x')", 1),
        ("running += own(loss)", 1),
    ],
)  # fmt: skip
def test_what_is_read_later_needs_no_mark_behind_the_step(behind: str, marks: int) -> None:
    after = migrate(
        dedent("""
            import torch
            from torch.utils.data import DataLoader

            def own(t):
                return t.item() if hasattr(t, "item") else t[0]

            def train(model, dataset, optimizer, ema):
                running, losses = 0.0, []
                for step, (x, y) in enumerate(DataLoader(dataset)):
                    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    BEHIND
                    optimizer.zero_grad()
                print(running, losses)
            """)
        .replace("BEHIND", behind)
        .encode()
    ).data.decode()
    assert after.count("mark_step()") == marks


EVALUATES = """
import torch

model = torch.nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 4).cuda(), torch.zeros(8, dtype=torch.long).cuda()

def fit():
    for _ in range(10):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

def own(t):
    return t.item() if hasattr(t, "item") else t[0]

@torch.no_grad()
def evaluate():
    correct, total, k = 0.0, 0.0, 0
    HEADER
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        BODY
    return correct, total
"""


@pytest.mark.parametrize("header", ["for k in range(10):", "while k < 10:\n        k += 1"])  # fmt: skip
@pytest.mark.parametrize(
    ("body", "order"),
    [
        ("correct += (out.argmax(1) == y).sum().item()", ["item", "mark"]),
        ("correct += (out.argmax(1) == y).sum().item()\n        total += loss.item()", ["item", "item", "mark"]),
        ("if loss.item() > 3:\n            break", ["mark"]),
        ("total += own(loss)\n        correct += (out.argmax(1) == y).sum().item()", ["mark", "item"]),
        ("total += loss.item()\n        if loss.item() > 3:\n            break", ["item", "mark"]),
    ],
)  # fmt: skip
def test_evaluations_without_a_device_loader_read_later_too(
    header: str, body: str, order: list[str]
) -> None:
    source = EVALUATES.replace("HEADER", header).replace("BODY", body)
    after = migrate(source.encode()).data.decode()
    function = after[after.index("def evaluate") :]
    assert re.findall(r"xla\.(mark|item)", function) == order


def test_reads_that_are_to_stay_keep_their_mark() -> None:
    source = EVALUATES.replace("HEADER", "for k in range(10):").replace(
        "BODY", "total += loss.item()"
    )
    after = migrate(source.encode(), Options(ignore=("XLA503",))).data.decode()
    assert re.findall(r"xla\.mark_step|loss\.item", after) == [
        "xla.mark_step",
        "xla.mark_step",
        "loss.item",
    ]


@pytest.mark.parametrize(
    ("behind", "order"),
    [
        ("total += loss.item()", ["step", "item", "mark"]),
        ("total += loss.item()\n        right += (out.argmax(1) == y).sum().item()", ["step", "item", "item", "mark"]),
        ("total += loss.item()\n        if k % 10 == 0:\n            print(loss.item())", ["step", "item", "mark"]),
        ("if loss.item() > 9:\n            break\n        total += loss.item()", ["step", "mark", "item"]),
    ],
)  # fmt: skip
def test_what_is_read_later_is_a_part_of_its_own_steps_graph(behind: str, order: list[str]) -> None:
    source = EVALUATES.replace(
        "HEADER\n        out = model(x)", "for k in range(10):\n        out = model(x)"
    ).replace("BODY", f"loss.backward()\n        optimizer.step()\n        {behind}")
    source = source.replace("@torch.no_grad()\n", "").replace("total, k =", "total, right =")
    function = migrate(source.encode()).data.decode().partition("def evaluate")[2]
    assert re.findall(r"xla\.(?:optimizer_)?(step|mark|item)", function) == order


@pytest.mark.parametrize(
    ("reading", "behind"),
    [
        ("self.board.show(loss.item() * 3)", ["xla.mark_step()", "self.update_average(loss)"]),
        ("self.last = loss.detach()", ["self.update_average(loss)", "xla.mark_step()"]),
    ],
)
def test_a_method_that_reads_comes_behind_the_mark(reading: str, behind: list[str]) -> None:
    after = migrated(
        "import torch\n"
        "class Trainer:\n"
        "    def fit(self, steps):\n"
        "        for i in range(steps):\n"
        "            loss = self.model(self.x.cuda()).mean()\n"
        "            loss.backward()\n"
        "            self.optimizer.step()\n"
        "            self.update_average(loss)\n"
        "    def update_average(self, loss):\n"
        f"        {reading}\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    step = lines.index("xla.optimizer_step(self.optimizer)")
    assert lines[step + 1 : step + 3] == behind


@pytest.mark.parametrize(
    ("before", "marked"),
    [
        ("if i == 3:\n            continue\n        loss = model(x.cuda()).mean()", False),
        ("if not x:\n            print(i)\n            continue\n        loss = model(x.cuda()).mean()", False),
        ("loss = model(x.cuda()).mean()\n        if loss.dim():\n            continue", True),
        ("loss = model(x.cuda()).mean()\n        loss.backward()\n        if i % 2:\n            continue", True),
    ],
)  # fmt: skip
def test_a_turn_that_computes_nothing_is_not_marked(before: str, marked: bool) -> None:
    after = migrated(
        "import torch\n"
        "def train(model, optimizer, x):\n"
        "    for i in range(9):\n"
        f"        {before}\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    assert ("xla.mark_step()\n            continue" in after) is marked


@pytest.mark.parametrize(
    ("behind", "marked"),
    [
        (
            "self.total.add(loss.item())",
            "xla.mark_step()\n            self.total.add(loss.item())\n",
        ),
        ("self.total = loss", "self.total = loss\n            xla.mark_step()\n"),
    ],
)
def test_gradients_of_several_parts_are_cut_before_they_are_read(behind: str, marked: str) -> None:
    after = migrated(
        "import torch\n"
        "class Penalty:\n"
        "    def accumulate(self, model, x):\n"
        "        for i in range(4):\n"
        "            loss = model(x.cuda() * i).mean()\n"
        "            loss.backward()\n"
        f"            {behind}\n"
    )
    assert marked in after
