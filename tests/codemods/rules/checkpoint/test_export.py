"""Exports and traces of models on XLA."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch.utils.tensorboard import SummaryWriter\ndef f(model, x, writer):\n    model = model.cuda()\n    "


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("torch.jit.trace(model, x)", 1),
        ("writer.add_graph(model, x)", 1),
        ("with torch.no_grad(): torch.jit.trace(model, x)", 0),
        ("torch.jit.trace(model.cpu(), x)", 0),
        ("torch.jit.script(model)", 0),
        ('plan.add_graph("train")', 0),
    ],
)
def test_traces(line: str, times: int) -> None:
    assert [code for _, code in findings(HEAD + line + "\n")].count("XLA705") == times


def test_traces_of_convolutions_fail_on_xla_with_gradients() -> None:
    device = xla.xla_device()
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).to(device)
    x = torch.zeros(1, 1, 4, 4).to(device)
    with pytest.raises(RuntimeError, match="requires grad as a constant"):
        torch.jit.trace(model, x)
    with torch.no_grad():
        assert torch.jit.trace(model, x)(x).shape == (1, 2, 2, 2)


@pytest.mark.parametrize(
    "traced",
    [
        "criterion",
        "nn.CrossEntropyLoss()",
        "loss_fn",
        "FocalLoss()",
        "self.perceptual_loss",
    ],
)
def test_a_loss_that_is_traced_has_no_convolution(traced: str) -> None:
    source = (
        "import torch\nfrom torch import nn\nclass FocalLoss(nn.Module):\n    pass\n"
        f"def f(self, x, criterion, loss_fn):\n    y = torch.jit.trace({traced}, (x.cuda(), x.cuda()))\n"
    )
    assert "XLA705" not in [code for _, code in findings(source)]
    kept = source.replace(f"trace({traced}", "trace(self.net")
    assert "XLA705" in [code for _, code in findings(kept)]


@pytest.mark.parametrize(
    ("traced", "times"),
    [
        ("nn.MSELoss()", 0),
        ("objective", 0),
        ("head.to('cuda')", 0),
        ("lambda a: (a ** 2).mean()", 0),
        ("energy", 0),
        ("Plain()", 0),
        ("nn.Sequential(nn.Linear(2, 2), Plain())", 0),
        ("nn.Conv2d(1, 1, 1)", 1),
        ("nn.Sequential(nn.Linear(2, 2), Net())", 1),
        ("nn.Sequential(*layers)", 1),
        ("Net()", 1),
        ("Outer()", 1),
        ("Derived()", 1),
        ("lambda a: model(a)", 1),
    ],
)
def test_what_has_no_convolution_can_be_traced(traced: str, times: int) -> None:
    classes = "".join(
        f"class {name}({base}):\n    def __init__(self):\n        super().__init__()\n        self.a = {layer}\n"
        for name, base, layer in (
            ("Plain", "nn.Module", "nn.Linear(2, 2)"),
            ("Net", "nn.Module", "nn.Conv1d(2, 2, 1)"),
            ("Outer", "nn.Module", "Net()"),
            ("Derived", "Elsewhere", "nn.Linear(2, 2)"),
        )
    )
    source = f"import torch\nfrom torch import nn\nfrom there import Elsewhere\n{classes}def energy(a):\n    return (a ** 2).sum()\nobjective = nn.L1Loss()\nhead = nn.Linear(2, 2)\ndef f(model, x, layers):\n    x = x.cuda()\n    torch.jit.trace({traced}, x)\n"
    assert [code for _, code in findings(source)].count("XLA705") == times


@pytest.mark.parametrize(
    ("given", "copied"),
    [("(a, b)", "xla.on_cpu((a, b))"), ("(a, 1)", "(xla.on_cpu(a), 1)"), ("a", "xla.on_cpu(a)")],
)
def test_inputs_are_copied_together(given: str, copied: str) -> None:
    source = f"""
        import torch

        def export(model, a, b):
            torch.onnx.export(model.cuda(), {given}, "model.onnx")
        """
    assert copied in migrated(source)
