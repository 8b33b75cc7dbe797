"""What a step returns to the loop of another module: read later where that only adds it up, and shows it now and then."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

STEPS = """
import torch
import torch.nn.functional as F

class Agent:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer

    def update(self, x, y):
        loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {returned}

def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {returned}
"""
MAIN = """
import torch
from torch.utils.data import DataLoader
{imports}

def main(model, optimizer, loader: DataLoader, out):
    agent = Agent(model, optimizer)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        {line}
    {last}
"""
METHOD, FUNCTION = "agent.update(x, y)", "train_step(model, optimizer, x, y)"
SUMMED = "total += {call}"


def _modules(line: str, last: str, returned: str, imports: str, **more: str) -> Modules:
    line = line.replace("\n", "\n        ")
    files = {
        "steps.py": STEPS.format(returned=returned),
        "main.py": MAIN.format(imports=imports, line=line, last=last),
        **more,
    }
    return Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})


def _is_read_later(modules: Modules, function: str) -> bool:
    project = Project(modules, "steps.py")
    after = migrate(modules.files["steps.py"], Options(), "steps.py", project).data.decode()
    method, _, rest = after.partition("def train_step")
    return "xla.item(loss)" in (method if function == METHOD else rest)


@pytest.mark.parametrize("call", [METHOD, FUNCTION])
@pytest.mark.parametrize(
    ("line", "last", "returned", "is_later"),
    [
        ("total += {call}", "print(total / len(loader))", "loss.item()", True),
        ("loss = {call}\nif step % 100 == 0: print(f'{{loss:.3f}}')", "pass", "loss.item()", True),
        ("loss, count = {call}\ntotal += loss * count", "print('%.3f' % total)", "loss.item(), len(x)", True),
        ("logs = {call}\ntotal = total + logs['loss']", "print(round(total, 3))", "{'loss': loss.item()}", True),
        ("{call}", "pass", "loss.item()", True),
        # shown in every step, which is a change there
        ("print({call})", "pass", "loss.item()", False),
        ("out.set_postfix(loss={call})", "pass", "loss.item()", False),
        # as Python's own number
        ("total += {call}", "return total", "loss.item()", False),
        ("out.append({call})", "pass", "loss.item()", False),
        ("logs = {call}\nout.write(logs)", "pass", "{'loss': loss.item()}", False),
        # decided on
        ("if {call} > 3: break", "pass", "loss.item()", False),
        ("total += {call}\nif total > 3: break", "pass", "loss.item()", False),
    ],
)  # fmt: skip
def test_what_the_loop_does(call: str, line: str, last: str, returned: str, is_later: bool) -> None:
    line = line.replace("{call}", call).replace("{{", "{").replace("}}", "}")
    modules = _modules(line, last, returned, "from steps import Agent, train_step")
    assert _is_read_later(modules, call) is is_later


@pytest.mark.parametrize(
    ("imports", "more", "is_later"),
    [
        ("from steps import Agent\nfrom steps import train_step", {}, True),
        ("from steps import Agent\nimport steps", {}, True),
        ("from steps import Agent\nfrom lib import train_step", {"lib.py": "from steps import train_step\n"}, True),
        ("from steps import *", {}, False),
        ("from steps import Agent, train_step\nkept = [train_step]", {}, False),
        ("from steps import Agent\ntry:\n    from fast import train_step\nexcept ImportError:\n    from steps import train_step", {}, False),
        ("from steps import Agent, train_step\nimport third", {"third.py": "import json\nfrom steps import train_step\ndef one(*given):\n    json.dumps(train_step(*given))\n"}, False),
    ],
)  # fmt: skip
def test_how_a_function_is_named(imports: str, more: dict[str, str], is_later: bool) -> None:
    call = FUNCTION if "import steps" not in imports else f"steps.{FUNCTION}"
    modules = _modules(f"total += {call}", "print(total)", "loss.item()", imports, **more)
    assert _is_read_later(modules, FUNCTION) is is_later


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"print({METHOD})", "`main.py` shows it in every step): return the tensor"),
        (f"total += {METHOD}\nout(total)", "in `main.py` what `out` does with it is not known): return the tensor"),
    ],
)  # fmt: skip
def test_what_is_said(line: str, said: str) -> None:
    modules = _modules(line, "pass", "loss.item()", "from steps import Agent")
    project = Project(modules, "steps.py")
    found = check(modules.files["steps.py"], Options(), "steps.py", project)
    assert any(said in finding.message for finding in found)
