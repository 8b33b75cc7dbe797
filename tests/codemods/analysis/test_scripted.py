"""What TorchScript compiles is not given calls of the runtime."""

from __future__ import annotations

from xla_codemods.engine import check, migrate

from ...each import each

SOURCE = """
import torch
from torch import jit
from .utils import jit_script, torch_jit_script_unless_covered

{decorator}
def place(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:
        return x + 1
    return x.to("cuda", non_blocking=True)

{after}
place(torch.ones(2).cuda())
"""


def _migrated(decorator: str, after: str = "") -> str:
    source = SOURCE.format(decorator=decorator, after=after)
    return migrate(source.encode()).data.decode()


def test_a_branch_for_torchscript_is_not_given_calls_of_the_runtime() -> None:
    source = """
import torch

def place(x: torch.Tensor) -> torch.Tensor:
    if torch.jit.is_scripting():
        fast = x.is_cuda
    else:
        fast = x.is_cuda
    return x.cuda() if fast else x
"""
    text = migrate(source.encode()).data.decode()
    assert text.count("fast = x.is_cuda") == 1
    assert text.count("fast = xla.is_accelerator(x)") == 1


@each(
    "decorator, after, is_left",
    [
        ("@torch.jit.script", "", True),
        ("@jit.script", "", True),
        ("@torch.jit.script_if_tracing", "", True),
        ("@jit_script", "", True),
        ("@torch_jit_script_unless_covered", "", True),
        ("", "fast = torch.jit.script(place)", True),
        ("@torch.jit.ignore", "", False),
        ("@torch.no_grad()", "", False),
        ("", "fast = torch.compile(place)", False),
    ],
)
def test_functions(decorator: str, after: str, is_left: bool) -> None:
    done = _migrated(decorator, after)
    assert ("if x.is_cuda:" in done) is is_left
    assert ("xla.is_accelerator(x)" in done) is not is_left
    assert "place(torch.ones(2).to(xla.xla_device()))" in done


def test_it_is_named() -> None:
    source = SOURCE.format(decorator="@torch.jit.script", after="")
    (found,) = [f for f in check(source.encode()) if f.code == "XLA107"]
    assert found.safety is None
    assert found.edits == ()
    assert "TorchScript" in found.message


def test_methods_of_a_class() -> None:
    source = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(1).cuda()
    def forward(self, x):
        return x.cuda() * self.scale
    @torch.jit.ignore
    def show(self, x):
        return x.cuda()
net = torch.jit.script(Net())
"""
    done = migrate(source.encode()).data.decode()
    assert "self.scale = torch.ones(1).to(xla.xla_device())" in done
    assert "return x.cuda() * self.scale" in done
    assert "return x.to(xla.xla_device())" in done
