"""`p.data = ...` of another device."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings

SCRIPT = """\
import torch
{first}
conv = torch.nn.Conv2d(3, 4, 3)
conv.weight.data = torch.randn(4, 3, 3, 3, device="cpu").to("cuda")
"""


@pytest.mark.parametrize(
    ("first", "found"),
    [("pass", True), ('torch.set_default_device("cuda")', False)],
)
def test_modules_that_are_made_on_the_device_take_it(first: str, found: bool) -> None:
    codes = {code for _, code in findings(SCRIPT.format(first=first))}
    assert ("XLA516" in codes) is found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("conv.weight.data = new.to(conv.weight.device)", False),
        ("conv.weight.data = new.to(device=conv.weight.data.device, dtype=torch.float32)", False),
        ("device = conv.weight.device\nconv.weight.data = new.to(device)", False),
        (
            "dtype, device = new.dtype, conv.weight.data.device\nconv.weight.data = new.to(device)",
            False,
        ),
        (
            "*_, device = conv.weight.shape, conv.weight.device\nconv.weight.data = new.to(device)",
            False,
        ),
        ("conv.weight.data = new.to(other.weight.device)", True),
        ("device = conv.bias.device\nconv.weight.data = new.to(device)", True),
        (
            "device = conv.weight.device\ndevice = torch.device('cuda')\nconv.weight.data = new.to(device)",
            True,
        ),
        ("device = 'cuda'\nconv.weight.data = new.to(device)", True),
    ],
)
def test_a_parameter_takes_what_comes_to_its_own_device(lines: str, found: bool) -> None:
    script = f"import torch\nconv = torch.nn.Conv2d(3, 4, 3)\nconv.cuda()\nnew = conv.weight.data * 2\n{lines}\n"
    codes = {code for _, code in findings(script)}
    assert ("XLA516" in codes) is found


@pytest.mark.parametrize(
    ("loop", "advice"),
    [
        ("for s in optimizer.state.values():\n        for k, v in s.items():\n            v.data = v.data.to(device)", "put the new"),
        ("for n, v in self.optimizer.state[p].items():\n        v.data = v.data.cuda()", "put the new"),
        ("for p in model.parameters():\n        p.data = p.data.to(device)", "move the module"),
    ],
)  # fmt: skip
def test_the_advice_is_for_what_is_moved(loop: str, advice: str) -> None:
    source = f"import torch\ndef place(self, model, optimizer, p, loss):\n    device = torch.device('cuda')\n    loss.backward()\n    {loop}\n"
    (message,) = [f.message for f in check(source.encode()) if f.code == "XLA516"]
    assert advice in message


@pytest.mark.parametrize(
    ("bases", "found"),
    [
        ("", False),
        ("(object)", False),
        ("(torch.utils.data.Dataset)", False),
        ("(torch.nn.Module)", False),
        ("(torch.nn.Parameter)", True),
        ("(torch.Tensor)", True),
        ("(Unknown)", True),
    ],
)
def test_data_of_objects_of_its_own(bases: str, found: bool) -> None:
    script = f"""\
import torch
from elsewhere import Unknown
class Corpus{bases}:
    def move(self, device=torch.device("cuda")):
        self.data = self.data.to(device)
corpus = Corpus()
corpus.data = corpus.data.cuda()
torch.ones(2).cuda().sum().backward()
"""
    codes = [code for _, code in findings(script)]
    assert codes.count("XLA516") == (2 if found else 0)
