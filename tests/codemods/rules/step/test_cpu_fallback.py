"""Operations without a kernel for XLA: where they are found."""

from __future__ import annotations

import pytest

from ...helpers import findings

SCRIPT = """import torch
import torchvision
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        {made}

    def forward(self, x):
        h = self.fc(x)
        {computed}
        return h

def train(model: Net, batches, optimizer):
    {before}
    for x in batches:
        x = x.cuda()
        y = model(x)
        loss = F.mse_loss(y, torch.ones(4).cuda())
        loss.backward()
        optimizer.step()
        {loop}
"""


def found(**parts: str) -> int:
    given = {"made": "pass", "computed": "pass", "before": "pass", "loop": "pass", **parts}
    source = SCRIPT
    for name, text in given.items():
        source = source.replace("{" + name + "}", text)
    return [code for _, code in findings(source)].count("XLA518")


@pytest.mark.parametrize(
    "line",
    [
        "torch.median(loss)",
        "loss.median()",
        "torch.linalg.qr(loss)",
        "torch.fft.rfft(loss)",
        "F.interpolate(loss, scale_factor=0.5, mode='bilinear', antialias=True)",
        "torch.distributions.Beta(loss, loss).sample()",
        "torch.special.i1(loss)",
        "loss.clone().cauchy_()",
        "torchvision.ops.roi_align(y, [loss], 2)",
        "from torchvision.ops import nms\n        nms(y, loss, 0.5)",
    ],
)
def test_in_a_loop(line: str) -> None:
    assert found(loop=line) == 1


def test_a_loss_under_a_name() -> None:
    assert found(before="criterion = nn.CTCLoss()") == 1
    assert found(before="criterion = nn.CTCLoss().to(device)") == 1


@pytest.mark.parametrize("line", ["h = h.median(1).values", "h = torch.fft.rfft(h)"])
def test_in_what_a_module_computes(line: str) -> None:
    assert found(computed=line) == 1


@pytest.mark.parametrize(
    "made",
    [
        "self.loss = nn.CTCLoss()",
        "self.gate = nn.Sequential(nn.Conv1d(4, 8, 3), nn.RReLU())",
        "self.pool = nn.AdaptiveMaxPool3d(1)",
    ],
)
def test_modules(made: str) -> None:
    assert found(made=made) == 1


def test_a_prior_that_a_module_keeps() -> None:
    made = "self.prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))"
    assert found(made=made) == 1


@pytest.mark.parametrize(
    "parts",
    [
        {"loop": "torch.median(torch.ones(4))"},
        {"loop": "names.median()"},
        {"loop": "F.interpolate(loss, scale_factor=2, mode='bilinear')"},
        {"loop": "loss.sort()"},
        {"loop": "torch.searchsorted(loss, loss)"},
        {"made": "self.bag = nn.EmbeddingBag(9, 4, mode='max')"},
        {"loop": "torch.distributions.Normal(loss, loss).sample()"},
        {"made": "self.up = nn.Upsample(scale_factor=2, mode='bilinear')"},
        {"before": "prior = torch.distributions.Beta(1.0, 1.0)"},
        {"before": "make = lambda: nn.Fold(8, 3)"},
        {"before": "torch.median(torch.ones(4).cuda())"},
        {"computed": "x = x.unfold(1, 2, 1)"},  # `x` may be anything
        {"made": "self.prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))"},
        {"made": "self.pool = nn.AdaptiveAvgPool2d((7, 7))"},
        {"made": "self.layer = nn.utils.spectral_norm(nn.Linear(4, 4))"},
    ],
)
def test_no_findings(parts: dict[str, str]) -> None:
    assert found(**parts) == 0


def test_in_a_function_that_each_step_calls() -> None:
    source = SCRIPT.replace(
        "def train(", "def spread(values):\n    return torch.median(values)\n\ndef train("
    )
    for name, text in {"made": "pass", "computed": "pass", "before": "pass"}.items():
        source = source.replace("{" + name + "}", text)
    codes = [code for _, code in findings(source.replace("{loop}", "spread(loss)"))]
    assert codes.count("XLA518") == 1
    assert "XLA518" not in [code for _, code in findings(source.replace("{loop}", "pass"))]


@pytest.mark.parametrize(
    ("default", "times"),
    [
        ("torch.set_default_device('cuda')", 1),
        ("torch.set_default_device(device='cuda')", 1),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", 1),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", 1),
        ("torch.set_default_device('cpu')", 0),
        ("torch.set_default_tensor_type(torch.FloatTensor)", 0),
    ],
)
def test_tensors_are_made_on_the_default_device(default: str, times: int) -> None:
    assert found(before=default, loop="torch.median(torch.ones(4))") == times
    legacy = found(before=default, loop="torch.median(torch.Tensor([1.0, 2.0]))")
    assert legacy == (times if "type" in default else 0)
