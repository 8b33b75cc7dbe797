"""What other modules hand to the functions of one, and that they are called in each step."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.inference.values import HOST, TENSOR
from xla_codemods.analysis.projects.callers import Callers
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.analysis.script import Script
from xla_codemods.source import Source

from .test_project import left

SELECTED = "valid = target != 255\n    return logits[valid].std()"
FUNCTION = f"import torch\n\ndef criterion(logits, target):\n    {SELECTED}\n"
CALLED = """
import torch

class Criterion:
    def __call__(self, logits, target):
        valid = target != 255
        return logits[valid].std()
"""
MODULE = """
import torch
from torch import nn

class Criterion(nn.Module):
    def forward(self, logits, target):
        valid = target != 255
        return logits[valid].std()
"""
TRAIN = """
import torch
{imports}

def main(model, loader, optimizer):
    device = torch.device("cuda")
    {made}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = {call}
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


def found(losses: str, imports: str, made: str, call: str) -> list[tuple[str, int]]:
    train = TRAIN.format(imports=imports, made=made, call=call)
    rest = left({"losses.py": losses, "train.py": train}, "losses.py")
    return [(finding.code, finding.line) for finding in rest]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from losses import criterion", "criterion(model(x), y)"),
        ("from losses import criterion as ce", "ce(model(x), y)"),
        ("from losses import criterion", "criterion(target=y, logits=model(x))"),
        ("import losses", "losses.criterion(model(x), y)"),
    ],
)
def test_a_function_that_a_step_calls(imports: str, call: str) -> None:
    assert found(FUNCTION, imports, "pass", call) == [("XLA504", 5)]


@pytest.mark.parametrize("losses", [CALLED, MODULE])
@pytest.mark.parametrize(
    "made",
    [
        "criterion = Criterion()",
        "criterion = Criterion().to(device)",
        "criterion, other = Criterion(), model",
    ],
)
def test_an_object_that_a_step_calls(losses: str, made: str) -> None:
    where = losses.split("\n").index("        return logits[valid].std()") + 1
    seen = found(losses, "from losses import Criterion", made, "criterion(model(x), y)")
    assert ("XLA504", where) in seen


def test_what_a_step_does_not_call() -> None:
    made = "criterion(torch.zeros(8, 2), torch.zeros(8))"
    assert found(FUNCTION, "from losses import criterion", made, "model(x).mean()") == []


def test_what_a_step_gives_something_on_the_host() -> None:
    call = "model(x).mean() + criterion(torch.zeros(8, 2), torch.zeros(8))"
    assert found(FUNCTION, "from losses import criterion", "pass", call) == []


def test_a_function_of_the_same_name_of_another_module() -> None:
    files = {
        "losses.py": FUNCTION,
        "other.py": "def criterion(logits, target):\n    return logits.mean()\n",
        "train.py": TRAIN.format(
            imports="import losses\nfrom other import criterion",
            made="pass",
            call="criterion(model(x), y)",
        ),
    }
    assert left(files, "losses.py") == []


def test_modules_that_a_program_loads_are_part_of_its_steps() -> None:
    model = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            score = torch.softmax(x, -1)
            if score.max() > 0.5:
                score = score * 2
            return score
    """
    train = TRAIN.format(
        imports="from net import Net", made="model = Net().to(device)", call="model(x)"
    )
    files = {"net.py": model, "train.py": train}
    assert [(f.code, f.line) for f in left(files, "net.py")] == [("XLA503", 8)]
    assert left({"net.py": model}, "net.py") == []


def test_a_loss_that_a_scaler_steps_with_is_read() -> None:
    loop = """
    import torch

    def train_one_epoch(model, loader, optimizer, device, loss_scaler):
        for x, y in loader:
            x = x.to(device)
            optimizer.zero_grad()
            loss, _, _ = model(x)
            if loss.item() > 100:
                break
            loss_scaler(loss, optimizer, parameters=model.parameters())
    """
    assert [(f.code, f.line) for f in left({"engine.py": loop}, "engine.py")] == [("XLA503", 10)]


LOSS = """
import torch
from torch import nn
from boxes import match

class Loss(nn.Module):
    def forward(self, prediction, target):
        {before}
        return match(prediction, target)
"""
MATCH = """
import torch

def match(prediction, target):
    far = torch.mul(target, 2)
    far = far[far > 9]
    return prediction.sum() / far.max().item()
"""
FOUND_IN_MATCH = [("XLA504", 6), ("XLA503", 7)]


def found_in_match(loss: str = "Loss()", before: str = "pass") -> object:
    modules = {
        "boxes.py": MATCH,
        "losses.py": LOSS.format(before=before),
        "train.py": TRAIN.format(
            imports="from losses import Loss", made=f"loss = {loss}", call="loss(model(x), y)"
        ),
    }
    return [(finding.code, finding.line) for finding in left(modules, "boxes.py")]


def test_a_tensor_is_followed_over_two_modules() -> None:
    assert found_in_match() == FOUND_IN_MATCH


def test_a_tensor_that_a_model_makes_on_the_host_does_not_hide_one_of_the_device() -> None:
    before = "match(prediction, torch.zeros(2))"
    assert found_in_match("build(Loss)", before) == FOUND_IN_MATCH


METRICS = """
import torch

def accuracy({parameters}):
    chosen = torch.argmax({first}, dim=1)
    return torch.sum(chosen == {second}).item()
"""


@pytest.mark.parametrize(
    ("parameters", "chosen", "is_found"),
    [
        ("output, target", "getattr(metrics, name)", True),
        ("y_pred, y_true, k=3", "getattr(metrics, name)", True),
        ("output, target", "getattr(metrics, 'other')", False),
        ("output, target", "getattr(others, name)", False),
        ("path, names", "getattr(metrics, name)", False),  # a function of another kind
    ],
)
def test_metrics_that_are_chosen_by_name_run_in_steps(
    parameters: str, chosen: str, is_found: bool
) -> None:
    first, second = parameters.split(", ")[:2]
    train = TRAIN.format(imports="import metrics", made=f"f = {chosen}", call="f(model(x), y)")
    modules = {
        "metrics.py": METRICS.format(parameters=parameters, first=first, second=second),
        "train.py": train,
    }
    codes = [finding.code for finding in left(modules, "metrics.py")]
    assert ("XLA503" in codes) is is_found


@pytest.mark.parametrize(("path", "is_known"), [("tests/test_find.py", False), ("run.py", True)])
def test_tests_say_nothing_of_where_programs_have_their_tensors(path: str, is_known: bool) -> None:
    """A test calls with small tensors on the host: they are tensors, of an unknown device."""
    files = {
        "lib.py": b"import torch\n\ndef find(ids):\n    return ids[(ids == 3).nonzero()]\n",
        path: b"import torch\nfrom lib import find\nfind(torch.ones(3))\nloss.backward()\n",
    }
    project = Project(Modules(files), "lib.py")
    script = Script(Source(files["lib.py"]), "lib.py", project=project)
    ((function, _),) = script.index.of(ast.FunctionDef)
    passed = list(Callers(project, script.index).passed("ids", function))
    assert [(value.has(TENSOR), value.has(HOST)) for value in passed] == [(True, is_known)]
