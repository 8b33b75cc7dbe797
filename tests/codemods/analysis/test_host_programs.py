"""Programs that train on the CPU have nothing to migrate."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import check

from ...each import each
from ..helpers import findings

TRAIN = """
import torch

def train(model, loader, optimizer):
    torch.manual_seed(0)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
"""
MAIN = """
if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    train(model, [torch.ones(1)], torch.optim.SGD(model.parameters(), 0.1))
"""
LOOP = """
import torch

model = torch.nn.Linear(1, 1)
for _ in range(3):
    model.zero_grad()
    model(torch.ones(1)).backward()
"""


@pytest.mark.parametrize(
    "program",
    [
        TRAIN + MAIN,
        LOOP,
        "import numpy as np\n" + TRAIN + MAIN,
        TRAIN + "plt.xlabel('x')" + MAIN,
        LOOP + "    for p in model.parameters():\n        p.data.add_(p.grad, alpha=-0.1)\n",
        "import torch.distributed.rpc as rpc\nimport torch.multiprocessing as mp\n"
        + TRAIN
        + MAIN
        + "    rpc.init_rpc('a', rank=0, world_size=2)\n    mp.spawn(train, nprocs=2)\n",
    ],
)
def test_nothing_is_found_in_a_program_for_the_cpu(program: str) -> None:
    assert not findings(program)


def test_nothing_is_found_in_modules_about_remote_calls() -> None:
    source = "import torch.distributed.rpc as rpc\nfrom mine import Agent\n" + TRAIN
    assert not findings(source)
    assert findings(source + "    model.cuda()\n")


TEST = """
import torch
from mine import Model

def test_it_learns():
    torch.manual_seed(0)
    model, other = Model().to(torch.float64), Model()
    other.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(1, dtype=torch.float64)).sum().backward()
    optimizer.step()
"""


READ = """
import numpy as np
import torch
from mine import network

def train(batches, options):
    model = network(options)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        options.shown({})
"""


@each(
    "look, is_on_the_host",
    [
        ("loss.detach().numpy()", True),
        ("loss.detach().numpy().item()", True),
        ("float(loss.data.numpy())", True),
        ("np.mean(loss.detach().numpy())", True),
        ("loss.mean().detach().numpy()", True),
        ("loss.detach().cpu().numpy()", False),
        ("loss.item()", False),
        ("options.seed.numpy()", False),
    ],
)
def test_what_numpy_looks_at_as_it_is_trains_on_the_cpu(look: str, is_on_the_host: bool) -> None:
    assert bool(findings(READ.format(look))) is not is_on_the_host
    beside = READ + "\ndef predict(model, x, device='cpu'):\n    return model(x, device=device)\n"
    assert bool(findings(beside.format(look))) is not is_on_the_host


def _codes(source: str, path: str) -> set[str]:
    return {found.code for found in check(textwrap.dedent(source).encode(), path=path)}


@pytest.mark.parametrize("path", ["tests/test_model.py", "model_test.py"])
@pytest.mark.parametrize(
    "source",
    [
        TEST,
        TEST.replace("def test_it_learns():", "class TestModel:\n  def test_it_learns(self):"),
        "import unittest"
        + TEST.replace(
            "def test_it_learns():", "class Learning(unittest.TestCase):\n  def test(self):"
        ),
    ],
)
def test_nothing_is_found_in_tests_that_name_no_device(source: str, path: str) -> None:
    assert not _codes(source, path)


@pytest.mark.parametrize("source", ["import pytest\n", "import unittest\n"])
def test_a_test_by_what_it_imports(source: str) -> None:
    assert not _codes(source + TEST, "checks/learning.py")


def test_a_function_of_a_programs_module_is_no_test() -> None:
    """`engine.py` of a program whose loader is moved elsewhere: its steps are marked, and its gradients averaged."""
    source = TEST.replace("test_it_learns()", "test_epoch(model)")
    assert _codes(source, "engine.py") & {"XLA124", "XLA502"}


@pytest.mark.parametrize(
    "source",
    [
        TEST.replace("test_it_learns", "learn"),
        TEST.replace("(torch.float64)", "(kind)"),
        TEST.replace("test_it_learns()", "test_it_learns(device)"),
        TEST + "    model.cuda()\n",
    ],
)
def test_other_tests_are_judged(source: str) -> None:
    assert _codes(source, "test_model.py") & {"XLA124", "XLA502"}


@pytest.mark.parametrize(
    "source",
    [
        TRAIN,  # whoever imports it may train on a device
        LOOP.replace("model = torch.nn.Linear(1, 1)", ""),  # a part of a program
        "from mine import Model\n" + TRAIN + MAIN,  # which may move itself
        "import accelerate\n" + TRAIN + MAIN,
        TRAIN.replace("model(x)", "model(x.to(dev))") + MAIN,
        TRAIN + MAIN + "    args.gpu = 0\n",
        TRAIN + MAIN + "    model.cuda()\n",
    ],
)
def test_everything_else_is_judged(source: str) -> None:
    assert _codes(source, "test_model.py") & {"XLA124", "XLA502"}
