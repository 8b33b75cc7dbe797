"""Reads that other functions see: by names that they share, as `**stats`, and in lists that they are handed."""

from __future__ import annotations

from textwrap import indent

import pytest

from xla_codemods.engine import check

from ....helpers import migrated

SCRIPT = """import torch
from xla_migrate import runtime as xla
import torch.nn.functional as F
from torch.utils.data import DataLoader

{functions}

def train(model, batches: DataLoader, optimizer):
    device = torch.device("cuda")
{before}
    for step, (x, y) in enumerate(batches):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{line}
{last}
"""


def _script(functions: str, before: str, line: str, last: str) -> str:
    return SCRIPT.format(
        functions=functions,
        before=indent(before, " " * 4),
        line=indent(line, " " * 8),
        last=indent(last, " " * 4),
    )


BAG = "class Bag:\n    def __init__(self):\n        self.total = 0.0\n    def add(self, v):\n        self.total += v"
OTHER = "\nclass Other(Bag):\n    def add(self, v):\n        raise StopIteration(v)\n"
BASE = BAG + OTHER
STATE = "import json\nclass State:\n    def __init__(self):\n        self.loss = 0.0"


@pytest.mark.parametrize(
    ("functions", "before", "line", "last", "after"),
    [
        # names of the module, and of functions around
        ("history = []", "", "history.append(loss.item())", "print(sum(history))", ["history.append(xla.item(loss))", "print(sum(xla.arrived(history)))"]),
        ("history = {'loss': []}\ndef show():\n    print(max(history['loss']))", "", "history['loss'].append(loss.item())", "show()", ["history['loss'].append(xla.item(loss))", "print(max(xla.arrived(history['loss'])))"]),
        ("total = 0.0\ndef mean(n):\n    return total / n", "global total", "total += loss.item()", "print(mean(3))", ["total += xla.item(loss)", "return xla.arrived(total) / n"]),
        ("", "total = 0.0\ndef add(value):\n    nonlocal total\n    total += value", "add(loss.item())", "return total", ["add(xla.item(loss))", "return xla.arrived(total)"]),
        ("", "losses = []\ndef keep(value):\n    losses.append(value)", "keep(loss.item())", "return lambda: losses[-1]", ["keep(xla.item(loss))", "return lambda: xla.arrived(losses[-1])"]),
        ("", "total = 0.0", "total += loss.item()", "return lambda: total", ["return lambda: xla.arrived(total)"]),
        # what takes several by name
        ("def report(step, **stats):\n    print(step, stats)", "", "report(step, loss=loss.item())", "", ["report(step, loss=xla.item(loss))", "xla.later(lambda step=step, stats=stats: print(step, stats))"]),
        ("def report(**stats):\n    for k, v in stats.items():\n        print(k, v)", "", "stats = {'loss': loss.item()}\nreport(**stats)", "", ["stats = {'loss': xla.item(loss)}", "xla.later(lambda k=k, v=v: print(k, v))"]),
        ("def report(stats):\n    print(f\"{stats['loss']:.3f}\")", "", "report({'loss': loss.item()})", "", ["report({'loss': xla.item(loss)})"]),
        ("class Log:\n    def __init__(self):\n        self.rows = {'loss': []}\n    def append(self, values):\n        for k, v in enumerate(values):\n            self.rows['loss'].append(v)", "log = Log()", "log.append([step, loss.item()])", "print(log.rows['loss'][-1])", ["log.append([step, xla.item(loss)])"]),
        ("", "def step_loss(loss):\n    return loss.item()", "print(step_loss(loss))", "", ["return xla.item(loss)"]),
        # asked for its value already
        ("", "history = []", "history.append(loss.item())", "print(sum(xla.arrived(history)))", ["print(sum(xla.arrived(history)))"]),
        (BASE, "bag = Bag()", "bag.add(loss.item())", "return bag.total", ["bag.add(xla.item(loss))"]),
        # asked for before it is filled, by what keeps nothing
        ("", "losses = []\nprint(len(losses), sum(losses))", "losses.append(loss.item())", "history.append(losses)", ["losses.append(xla.item(loss))", "history.append(xla.arrived(losses))"]),
        (STATE, "state = State()\nhidden = getattr(args, name), getattr(torch, name), getattr(state, 'other', 0)", "state.loss += loss.item()", "return state.loss", ["state.loss += xla.item(loss)", "return xla.arrived(state.loss)"]),
        (STATE, "state = State()\ndef draw(trial, kind):\n    return getattr(trial, f'suggest_{kind}'), getattr(trial, 'set_' + kind)", "state.loss += loss.item()", "return state.loss", ["state.loss += xla.item(loss)"]),
        # dicts of sums
        ("", "sums = {}", "stats = {'a': loss.item()}\nfor k, v in stats.items():\n    sums[k] = sums.get(k, 0) + v", "return sums", ["stats = {'a': xla.item(loss)}", "return xla.arrived(sums)"]),
        ("", "rows = []", "rows.append((step, loss.item()))", "steps, losses = zip(*rows)", ["rows.append((step, xla.item(loss)))", "steps, losses = zip(*xla.arrived(rows))"]),
    ],
)  # fmt: skip
def test_read_later(functions: str, before: str, line: str, last: str, after: list[str]) -> None:
    lines = [text.strip() for text in migrated(_script(functions, before, line, last)).splitlines()]
    for expected in after:
        assert expected in lines


@pytest.mark.parametrize(
    ("functions", "before", "line", "why"),
    [
        ("history = []\ndef worst():\n    return sorted(history)[0]", "", "history.append(loss.item())\nif worst() > 3: raise SystemExit", "not known what `sorted` does with it"),
        ("total = 0.0\ndef stop():\n    return total > 9", "global total", "total += loss.item()\nif stop(): break", "the result decides what runs next"),
        ("class Bag:\n    total = 0.0\n    def add(self, v):\n        Bag.total += v", "bag = Bag()", "bag.add(loss.item())", ""),
        ("def report(**stats):\n    for k, v in stats.items():\n        if v > 3: return", "", "report(loss=loss.item())", "whether the script continues"),
        ("def report(stats):\n    stats = dict(stats)\n    print(stats)", "", "report({'loss': loss.item()})", "not known what `dict` does with it"),
        ("def report(**stats):\n    send(stats)", "", "report(loss=loss.item())", "not known what `send` does with it"),
        # a method that may be another
        (BASE, "def log(bag: Bag, loss):\n    bag.add(loss.item())", "log(bag, loss)", ""),
        (BASE + "bag = Bag() if model else Other()", "", "bag.add(loss.item())", ""),
    ],
)  # fmt: skip
def test_stays(functions: str, before: str, line: str, why: str) -> None:
    source = _script(functions, before, line, "pass")
    after = migrated(source)
    for spelled in ("xla.item", "xla.later", "xla.computed", "xla.arrived"):
        assert spelled not in after
    said = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert any(why in message for message in said), said


@pytest.mark.parametrize(
    ("functions", "before", "line"),
    [
        # whoever has the list sees numbers that resolve themselves
        ("", "history, losses = [], []\nhistory.append(losses)", "losses.append({})"),
        ("class Plot:\n    def __init__(self, values):\n        self.values = values", "losses = []\nplot = Plot(values=losses)", "losses.append({})"),
        ("", "history = {{'loss': []}}\nplot = make({{'train': history}})", "history['loss'].append({})"),
        ("class Run:\n    def __init__(self):\n        self.losses = []\n        self.plot = make(self.losses)\n    def keep(self, v):\n        self.losses.append(v)", "run = Run()", "run.keep({})"),
        # attributes that are read by their names, or set by functions
        (STATE, "state = State()\ndef show(name):\n    return getattr(state, name)", "state.loss += {}"),
        (STATE, "state = State()\ndef show():\n    return json.dumps(state.__dict__)", "state.loss += {}"),
        (STATE, "state = State()\nshow = json.dumps(state, default=lambda o: vars(o))", "state.loss += {}"),
        ("class Run:\n    total = 0.0\n    @property\n    def loss(self):\n        return self.total\n    @loss.setter\n    def loss(self, v):\n        self.total += v", "run = Run()", "run.loss = {}"),
        # methods that may be another class's
        (BAG + "\n    def tell(self, v):\n        self.add(v)" + OTHER, "bag = Other()", "bag.tell({})"),
        (BAG + "\nBag.add = print", "bag = Bag()", "bag.add({})"),
    ],
)  # fmt: skip
def test_a_deferred_number_resolves_itself(functions: str, before: str, line: str) -> None:
    source = _script(functions, before.format(), line.format("loss.item()"), "pass")
    assert line.format("xla.item(loss)") in migrated(source)


GENERATOR = """import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

def steps(model, batches: DataLoader, optimizer):
    device = torch.device("cuda")
    for step, (x, y) in enumerate(batches):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield {given}

def train(model, batches, optimizer):
    total = 0.0
    for {target} in {loop}:
        {body}
    return total
"""


@pytest.mark.parametrize(
    ("given", "target", "loop", "body"),
    [
        ("loss.item()", "value", "steps(model, batches, optimizer)", "print(value)"),
        ("step, loss.item()", "step, value", "steps(model, batches, optimizer)", "print(value)"),
        ("loss.item()", "value", "steps(model, batches, optimizer)", "if value > 3: break"),
    ],
)
def test_what_generators_yield_stays(given: str, target: str, loop: str, body: str) -> None:
    source = GENERATOR.format(given=given, target=target, loop=loop, body=body)
    assert "yield " + given in migrated(source)
    assert "XLA503" in {finding.code for finding in check(source.encode())}


EVALUATION = """import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score

def evaluate(model, batches, device):
    seen, true, scores = [], [], []
    with torch.no_grad():
        for batch in batches:
            show(batch)
            x, y = batch
            output = model(x.to(device))
            seen.extend(output.argmax(1).cpu().numpy())
            true.extend(y.numpy())
            scores.append(output.softmax(1).cpu())
            {line}
    print(f1_score(true, seen), torch.cat(scores))

def train(model, batches, optimizer):
    device = torch.device("cuda")
    for x, y in batches:
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    evaluate(model, batches, device)

train(build().cuda(), load(), torch.optim.SGD([], 0.1))
"""


def test_lists_of_evaluations_without_a_device_loader_are_complete_behind_the_loop() -> None:
    """Labels that stay on the host keep the loader as it is."""
    lines = [text.strip() for text in migrated(EVALUATION.format(line="pass")).splitlines()]
    assert "xla.later(lambda argmax=output.argmax(1): seen.extend(argmax.cpu().numpy()))" in lines
    assert "xla.later(lambda softmax=output.softmax(1): scores.append(softmax.cpu()))" in lines
    assert lines.count("xla.flush()") == 1
    assert lines[lines.index("xla.flush()") + 1].startswith("print(f1_score(")
    stays = migrated(EVALUATION.format(line="if len(seen) > 9: return"))
    assert "xla.later" not in stays
    assert "xla.flush" not in stays


def test_lists_of_evaluations_that_may_end_before_are_complete_behind_the_loop() -> None:
    lines = [
        text.strip()
        for text in migrated(EVALUATION.format(line="if x is None: break")).splitlines()
    ]
    assert "xla.later(lambda softmax=output.softmax(1): scores.append(softmax.cpu()))" in lines
    assert lines.count("xla.flush()") == 1
    assert lines[lines.index("xla.flush()") + 1].startswith("print(f1_score(")


@pytest.mark.parametrize(
    ("last", "is_later"),
    [
        ("names = [seen[k] for k in seen]", True),
        ("names = {k: len(seen) for k in (1, 2)}", True),
        ("print(max(k + 1 for k in seen))", True),
        ("names = lambda: seen", False),
        ("names = (k for k in seen)", False),
    ],
)
def test_lists_that_comprehensions_go_through_behind_the_loop(last: str, is_later: bool) -> None:
    source = EVALUATION.format(line="pass").replace("    print(f1", f"    {last}\n    print(f1")
    after = migrated(source)
    assert ("seen.extend(argmax.cpu().numpy())" in after) is is_later


@pytest.mark.parametrize(
    ("functions", "line", "after"),
    [
        # dicts that go into others
        ("", "a = {'a': loss.item()}\nlogs = {**a, 'step': step}\nif step % 9 == 0: print(logs)", ["a = {'a': xla.item(loss)}", "if step % 9 == 0: print(logs)"]),
        ("", "a, logs = {'a': loss.item()}, {}\nlogs.update(a)\nprint(logs)", ["a, logs = {'a': xla.item(loss)}, {}"]),
        ("", "logs = {}\na = {'a': loss.item()}\nlogs.update(a)\nprint(logs)", ["a = {'a': xla.item(loss)}", "xla.later(lambda logs=logs: print(logs))"]),
        # that functions make and return, also in a tuple
        ("def parts(loss):\n    logs = {}\n    logs['a'] = loss.item()\n    return loss * 2, logs", "twice, logs = parts(loss)\nlogs['step'] = step\nprint(logs)", ["logs['a'] = xla.item(loss)", "xla.later(lambda logs=logs: print(logs))"]),
        ("def parts(step):\n    return step, {'step': step}", "k, logs = parts(step)\nlogs['a'] = loss.item()\nprint(logs)", ["logs['a'] = loss.item()"]),
        ("kept = {}\ndef parts(step):\n    return step, kept", "k, logs = parts(step)\nlogs['a'] = loss.item()\nprint(logs)", ["logs['a'] = loss.item()"]),
        ("def parts(logs):\n    return logs", "logs = parts({})\nlogs['a'] = loss.item()\nprint(logs)", ["logs['a'] = loss.item()"]),
        ("def parts(loss):\n    logs = {'a': loss.item()}\n    return loss, logs", "if parts(loss)[1]['a'] > 3: break", ["logs = {'a': loss.item()}"]),
    ],
)  # fmt: skip
def test_dicts_that_go_into_others(functions: str, line: str, after: list[str]) -> None:
    lines = [t.strip() for t in migrated(_script(functions, "", line, "")).splitlines()]
    assert [text for text in after if text not in lines] == []


@pytest.mark.parametrize(
    ("last", "after"),
    [
        ("model.metrics['loss'] = total / 3", "model.metrics['loss'] = xla.arrived(total) / 3"),
        ("model.losses.append(total)", "model.losses.append(xla.arrived(total))"),
        ("mean = total + loss.detach()", "mean = xla.arrived(total) + loss.detach()"),
        ("model.loss = total", "model.loss = xla.arrived(total)"),
        ("names, *rest = total, 3", "names, *rest = xla.arrived(total), 3"),
        ("model.loss, n = total, 3", "model.loss, n = xla.arrived(total), 3"),
    ],
)
def test_what_is_not_known_waits_where_it_is_asked_for_now_and_then(last: str, after: str) -> None:
    source = _script("", "total = 0.0", "total += loss.item()", last)
    assert after in [text.strip() for text in migrated(source).splitlines()]
    stays = _script("", "total = 0.0", f"total += loss.item()\n{last}", "")
    assert "total += loss.item()" in migrated(stays)


AVERAGE = """class RunningAverage:
    def __init__(self):
        self.total = self.steps = 0
    def update(self, value):
        self.total += value
        self.steps += 1
    def __call__(self):
        return self.total / float(self.steps)
"""


@pytest.mark.parametrize(
    ("line", "last", "after"),
    [
        ("print(f'{average():.3f}')", "return average()", ["xla.later(lambda average=average(): print(f'{average:.3f}'))", "return xla.arrived(average())"]),
        ("if step % 9 == 0: print(average())", "print(average())", []),
        ("if average() > 3: break", "pass", None),
        ("pass", "model.show(average)", []),
        ("print(average()); model.show(average)", "pass", None),
        ("model.average = average", "pass", None),
    ],
)  # fmt: skip
def test_objects_that_are_called(line: str, last: str, after: list[str] | None) -> None:
    line = f"average.update(loss.item())\n{line}"
    source = _script(AVERAGE, "average = RunningAverage()", line, last)
    lines = [text.strip() for text in migrated(source).splitlines()]
    assert ("average.update(xla.item(loss))" in lines) is (after is not None)
    assert [text for text in after or () if text not in lines] == []
