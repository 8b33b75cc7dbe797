"""Builtins that look at tensors one by one, and indices that are tensors: a read each."""

from __future__ import annotations

import pytest

from xla_codemods import engine
from xla_codemods.finding import Finding

from ...helpers import findings

SOURCE = """
import numpy as np
import torch

def train(model, optimizer, batches, names):
    model.cuda()
    table, counts, hits = torch.zeros(4, 4), np.zeros(4), [0, 0, 0, 0]
    on_device = torch.zeros(4, 4, device="cuda")
    for x, y in batches:
        x, y = x.cuda(), y.cuda()
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        best = out.argmax(1)
        {line}
"""


def checked(source: str) -> list[Finding]:
    return [*engine.check(source.encode())]


def _read(line: str) -> list[str]:
    found = checked(SOURCE.format(line=line.replace("\n", "\n        ")))
    return [f.message for f in found if f.code == "XLA503" and f.line > 14]


@pytest.mark.parametrize(
    "line",
    [
        "if all(torch.isfinite(p.grad).all() for p in model.parameters()): kept = 1",
        "if any(torch.isnan(p.grad).any() for p in model.parameters() if p.grad is not None): raise ValueError",
        "bad = any([p.grad.norm() > 3 for p in model.parameters()])",
        "largest = max(p.abs().max() for p in model.parameters())",
        "largest = max([loss, out.mean()])",
        "largest = max({'a': loss, 'b': out.mean()}.items(), key=lambda kv: kv[1])",
        "parts = [('a', loss), ('b', out.mean())]; order = sorted(parts, key=lambda part: part[1])",
        "last = max(out.view(-1))",
        "order = sorted(out.mean(0))",
    ],
)
def test_builtins_that_look_at_each(line: str) -> None:
    (message,) = _read(line)
    assert "of tensors reads each of them from the device" in message


@pytest.mark.parametrize(
    "line",
    [
        "print([*map(float, [loss, out.mean()])])",
        "print(list(map(torch.Tensor.item, (loss, out.mean()))))",
        "parts = {'a': loss, 'b': out.mean()}; print(list(map(float, parts.values())))",
        "parts = {'a': loss, 'b': out.mean()}; print(list(map(lambda v: v.item(), parts.values())))",
        "kept = dict(map(lambda p: (p[0], p[1].item()), [('a', loss)]))",
    ],
)
def test_functions_that_are_mapped(line: str) -> None:
    assert len(_read(line)) == 1


@pytest.mark.parametrize(
    "line", ["print(list(map(float, names)))", "print(list(map(lambda n: n.item(), names)))",
             "f = lambda v: v.item()", "print(sorted(map(len, [loss, out])))"],
)  # fmt: skip
def test_mapped_functions_of_others(line: str) -> None:
    assert _read(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "if any(p.grad is None for p in model.parameters()): kept = 1",
        "if all(p.requires_grad for p in model.parameters()): kept = 1",
        "if any(n in 'ab' for n, p in model.named_parameters()): kept = 1",
        "longest = max(len(n) for n in names)",
        "most = max(p.numel() for p in model.parameters())",
        "rows = max(x.shape[0], y.size(0))",
        "total = sum(p.abs().sum() for p in model.parameters())",
        "same = all(p.device == x.device for p in model.parameters())",
    ],
)
def test_what_is_no_value_of_a_tensor(line: str) -> None:
    assert _read(line) == []


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("for i in range(4):\n    label = best[i]\n    hits[label] += 1", 1),
        ("for i in range(4): counts[best[i]] += 1", 1),
        ("for t, p in zip(y, best):\n    on_device[t, p] += 1", 0),
        ("for i in range(4): table[i, 0] += 1", 0),
        ("for i, name in enumerate(names): hits[i] += len(name)", 0),
        ("for t, p in zip(y.cpu(), best.cpu()):\n    table[t, p] += 1", 0),
        ("kept = {}\nkept[loss] = 1", 0),
    ],
)
def test_indices_that_are_tensors(line: str, times: int) -> None:
    found = [m for m in _read(line) if m.startswith("an index that is a tensor")]
    assert len(found) == times
    assert all("one_hot" in message for message in found)


EVALUATION = """
import torch

def decode(best, names, sizes):
    hits, out = [0] * 4, []
    {line}
    return hits, out

def train(model, optimizer, batches, names):
    model.cuda()
    for x, y in batches:
        x, y = x.cuda(), y.cuda()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for x, sizes in batches:
            print(decode(model(x.cuda()).argmax(1), names, sizes))
"""


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("for i in range(len(best)): hits[best[i]] += 1", 1),
        ("for i in range(sizes[0]): out.append(names[best[i].item()])", 1),
        ("for i in range(1, len(best)):\n        if int(best[i - 1]) > 0: out.append(i)", 1),
        ("out = [best[i].cpu().item() for i in range(len(best))]", 1),
        ("for i in range(2): hits[best[i]] += 1", 0),  # few
        ("best = best.tolist()\n    for i in range(len(best)): hits[best[i]] += 1", 0),
        ("for i in range(len(names)): out.append(names[i].title())", 0),
        ("for i in range(len(best)): out.append(best[i] + 1)", 0),
    ],
)
def test_loops_over_indices_of_a_tensor_that_read_each(line: str, times: int) -> None:
    messages = [f.message for f in checked(EVALUATION.format(line=line)) if f.code == "XLA503"]
    assert len([m for m in messages if m.startswith("the loop over `best`")]) == times


@pytest.mark.parametrize(
    ("line", "tensors"),
    [
        ("for t, p in zip(y, best):\n    table[t, p] += 1", "`best`"),
        (
            "for t, p in zip(y.view(-1), best.view(-1)):\n    table[t.long(), p.long()] += 1",
            "`y.view(-1)` and `best.view(-1)`",
        ),
        ("for p in best:\n    names.append(str(p.item()))", "`best`"),
        ("for i, p in enumerate(best):\n    if p == 3: hits[i] += 1", "`best`"),
        ("found = [p.item() for p in best]", "`best`"),
        ("found = [p for p in best if p > 2]", "`best`"),
        ("for p in best: total = total + p", ""),
        ("for p in best.tolist(): hits[p] += 1", ""),
        ("for p in best:\n    if x.sum() > 0: hits[0] += 1", ""),
    ],
)
def test_loops_over_the_elements_of_a_tensor(line: str, tensors: str) -> None:
    found = [m for m in _read(line) if m.startswith("the loop over")]
    assert [m.partition("over ")[2].partition(" compiles")[0] for m in found] == [tensors] * bool(
        tensors
    )


def test_the_place_of_a_condition_in_a_comprehension() -> None:
    line = "bad = [n for n, p in model.named_parameters() if torch.isnan(p.grad).any()]"
    found = checked(SOURCE.format(line=line))
    assert (16, 58) in [(f.line, f.column) for f in found if f.code == "XLA503"]


@pytest.mark.parametrize(
    ("definition", "call"),
    [
        ("def call_hook(self, name):", 'self.call_hook("after_step")'),
        ("def call_hook(self, name):", 'self.call_hook(name="after_step")'),
        ("def call_hook(self, *, name='none'):", 'self.call_hook(name="after_step")'),
    ],
)
def test_reads_in_hooks_that_are_called_by_name_are_found(definition: str, call: str) -> None:
    script = f"""\
import torch
from torch import nn

class Log:
    def before_run(self, runner):
        print(runner.outputs["loss"].item())

    def after_step(self, runner):
        runner.history.append(runner.outputs["loss"].item())

class Runner:
    def __init__(self, hooks):
        self.hooks, self.history = hooks, []
        self.model = nn.Linear(4, 1).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    {definition}
        for hook in self.hooks:
            getattr(hook, name)(self)

    def train(self):
        for _ in range(9):
            loss = self.model(torch.ones(2, 4).cuda()).mean()
            self.outputs = {{"loss": loss}}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {call}

Runner([Log()]).train()
"""
    assert [f.line for f in engine.check(script.encode()) if f.code == "XLA503"] == [9]


def test_outputs_of_models_that_are_dictionaries() -> None:
    """`sorted` of a dictionary reads names; what a model returns may be one."""
    reduce = "def reduce(losses):\n    return [losses[k] for k in sorted(losses)]\n"
    source = SOURCE.format(line="given = model(x)\n        kept = reduce(given)") + reduce
    assert not [f for f in checked(source) if f.code == "XLA503" and f.line > 14]


LISTS = """import torch

device = torch.device("cuda")


def project(grads):
    for i in range(len(grads)):
        dot = torch.dot(grads[i], grads[0])
        if dot.item() < 0:
            grads[i] -= dot * grads[0]
    return grads


def train(model, loader, opt, shared):
    for x in loader:
        losses = [model(x.to(device)).mean(), model(x.to(device)).sum()]
        opt.zero_grad()
        FILLED
        USE
        sum(losses).backward()
        opt.step()
"""
_GRADS = "gs = torch.autograd.grad(loss, shared, retain_graph=True)"
_FLAT = "torch.cat([g.flatten() for g in gs])"


@pytest.mark.parametrize(
    "filled",
    [
        f"grads = []\n        for loss in losses:\n            {_GRADS}\n            grads.append({_FLAT})",
        f"grads = list()\n        for loss in losses:\n            {_GRADS}\n            grads.append({_FLAT})",
        f"self.grads = grads = []\n        for loss in losses:\n            {_GRADS}\n            grads.append({_FLAT})",
    ],
)
@pytest.mark.parametrize(
    ("use", "read"),
    [
        ("project(grads)", "if dot.item() < 0:"),
        (
            "if (grads[0] * grads[1]).sum() < 0: print(1)",
            "if (grads[0] * grads[1]).sum() < 0: print(1)",
        ),
        (
            "for g in grads:\n            if g.norm().item() > 3: print(1)",
            "if g.norm().item() > 3: print(1)",
        ),
    ],
)
def test_tensors_in_lists_that_are_filled(filled: str, use: str, read: str) -> None:
    source = LISTS.replace("FILLED", filled).replace("USE", use)
    found = [line for line, code in findings(source) if code == "XLA503"]
    assert found[-1:] == [source[: source.rindex(read)].count("\n") + 1]


@pytest.mark.parametrize(
    ("filled", "use"),
    [
        ("found = {}\n        for k, loss in enumerate(losses): found[k] = loss", "if found[i] < 0: print(1)"),
        ("found = {}\n        for k, loss in enumerate(losses): found[k] = loss", "for k, v in found.items():\n            if v < 0: print(1)"),
        ("found = dict()\n        for k, loss in enumerate(losses): found[k] = loss", "for v in found.values():\n            if v < 0: print(1)"),
        ("found = {}\n        for k, loss in enumerate(losses): found.setdefault(k, loss)", "if found.get(i) < 0: print(1)"),
    ],
)  # fmt: skip
def test_tensors_in_dictionaries_that_are_filled(filled: str, use: str) -> None:
    source = LISTS.replace("FILLED", filled).replace("USE", use)
    line = source[: source.index(" < 0: print(1)")].count("\n") + 1
    assert (line, "XLA503") in findings(source)


@pytest.mark.parametrize("number", ["0.5", "loss.item()", "float(len(gs))"])
def test_numbers_in_lists_that_are_filled(number: str) -> None:
    filled = f"numbers = []\n        for loss in losses:\n            numbers.append({number})"
    source = LISTS.replace("FILLED", filled).replace("USE", "if numbers[0] > 3: print('much')")
    line = source[: source.index("if numbers")].count("\n") + 1
    assert (line, "XLA503") not in findings(source)


@pytest.mark.parametrize(
    "line",
    [
        "worst = max(parts.items(), key=lambda kv: kv[1].item())",
        "worst = min(parts, key=lambda k: parts[k].item())",
        "order = sorted(parts.items(), key=lambda kv: -kv[1].item(), reverse=True)",
        "order = list(parts.values())\norder.sort(key=lambda v: v.item())",
        "numbers = dict(map(lambda kv: (kv[0], kv[1].item()), parts.items()))",
    ],
)
def test_lambdas_that_are_called_for_each_element(line: str) -> None:
    (message,) = _read("parts = {'a': loss, 'b': out.mean()}\n" + line)
    assert message.startswith("`.item()` reads from the device in every step")


def test_lambdas_that_compare_numbers_read_nothing() -> None:
    assert not _read("order = sorted(names, key=lambda name: name.item())")
    assert not _read("order = sorted({'a': loss}, key=lambda name: name.lower())")


@pytest.mark.parametrize(
    "line",
    [
        "high = dict(filter(lambda kv: kv[1] > 1, parts.items()))",
        "bad = list(filter(torch.isnan, parts.values()))",
        "bad = list(filter(None, [v.isnan() for v in parts.values()]))",
        "worst = max(parts, key=parts.get)",
        "worst = min(parts, key=parts.__getitem__)",
        "name = max(parts.items(), key=operator.itemgetter(1))[0]",
        "name, value = min(parts.items(), key=itemgetter(1))",
        "order = sorted(parts.items(), key=lambda kv: (kv[1], kv[0]))",
        "two = heapq.nlargest(2, parts, key=parts.get)",
        "bad = any(map(torch.isnan, parts.values()))",
        "bad = any(map(lambda v: v > 3, parts.values()))",
        "kept = {k: v for k, v in parts.items()}\nworst = max(kept, key=kept.get)",
        "kept = {}\nkept[x] = loss\nworst = max(kept, key=kept.get)",
        "order = list(parts)\norder.sort(key=parts.get)",
    ],
)
def test_functions_that_compare_tensors(line: str) -> None:
    (message,) = _read("import heapq\nparts = {'a': loss, 'b': out.mean()}\n" + line)
    assert "of tensors reads each of them from the device" in message


@pytest.mark.parametrize(
    "line",
    [
        "chosen = dict(filter(lambda kv: kv[0] != 'a', parts.items()))",
        "chosen = list(filter(None, names))",
        "first = min(parts.items(), key=itemgetter(0))",
        "shapes = {'a': out.shape[0]}\nlargest = max(shapes, key=shapes.get)",
        "order = sorted(parts, key=str.lower)",
        "values, indices = out.sort()",
    ],
)
def test_functions_that_compare_no_tensors(line: str) -> None:
    assert not _read("parts = {'a': loss, 'b': out.mean()}\n" + line)


def test_other_reads_in_a_loop_over_indices_are_reported_themselves() -> None:
    read = "for i in range(len(x)):\n    hits[best[i]] += 1\n    if loss > 3: hits[0] = 1"
    loop, other = _read(read)
    assert loop.startswith("the loop over `best`") or other.startswith("the loop over `best`")
    assert "a condition on a tensor" in loop + other


OWN_OPTIMIZER = """
import torch

class Own(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                size = p.grad.norm().item()
                p.add_(p.grad, alpha=-group["lr"] / (1 + size))

net = torch.nn.Linear(4, 1).cuda()
optimizer = Own(net.parameters(), 0.1)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.ones(2, 4).cuda()).mean().backward()
    optimizer.step()
"""


def test_a_read_in_the_scripts_own_optimizer_is_still_reported_after_the_migration() -> None:
    migrated = engine.migrate(OWN_OPTIMIZER.encode(), engine.Options()).data
    assert b"xla.optimizer_step(optimizer)" in migrated
    for source in (OWN_OPTIMIZER.encode(), migrated):
        assert [f.code for f in engine.check(source)].count("XLA503") == 1
