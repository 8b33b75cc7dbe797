"""`.cuda()` by other ways than the method's name."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('getattr(x, "cuda")()', "x.to(xla.xla_device())"),
        (
            'x = getattr(x, "cuda")(non_blocking=True)',
            "x = x.to(xla.xla_device(), non_blocking=True)",
        ),
        ("x = x.cuda(0, True)", "x = x.to(xla.xla_device(), non_blocking=True)"),
        (
            "x = x.cuda(memory_format=torch.channels_last)",
            "x = x.to(xla.xla_device(), memory_format=torch.channels_last)",
        ),
        ('y = getattr(net(x), "cuda")(args.gpu)', "y = net(x).to(xla.xla_device(args.gpu))"),
        (
            'from operator import methodcaller\ny = map(methodcaller("cuda", non_blocking=True), xs)',
            "y = map(lambda x: x.to(xla.xla_device()), xs)",
        ),
    ],
)
def test_called_by_its_name(before: str, after: str) -> None:
    assert line(before) == after


def test_called_by_its_name_with_what_torch_does_not_take() -> None:
    assert codes('getattr(x, "cuda")(1, 2, 3)') == ["XLA101"]


@pytest.mark.parametrize(
    "source",
    [
        'if getattr(args, "cuda"): pass',
        'gpu = getattr(args, "cuda", False)',
        'cuda = getattr(torch, "cuda")',
        'class A:\n    def cuda(self): pass\ngetattr(A(), "cuda")()',
        'from operator import methodcaller\ny = map(methodcaller("size"), xs)',
    ],
)
def test_flags_and_others_of_that_name(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []


UNKNOWN = """\
import abc
import torch
from elsewhere import Base
from torch_geometric.nn import MessagePassing

class Conv(MessagePassing):
    def setup(self):
        self.cuda()

class Deep(Conv): ...
class Odd(Base): ...
class Own(Base):
    def cuda(self):
        return self
class Plain(abc.ABC): ...

{}
"""


@pytest.mark.parametrize("made", ["Conv()", "Deep()", "Odd(3)", "Deep().eval()"])
def test_classes_that_inherit_from_elsewhere_may_be_modules(made: str) -> None:
    after = migrated(UNKNOWN.format(f"net = {made}.cuda()\nnet.to(0)"))
    assert "        self.to(xla.xla_device())\n" in after
    assert f"net = {made}.to(xla.xla_device())\nnet.to(xla.xla_device())\n" in after


@pytest.mark.parametrize("made", ["Own()", "Plain()"])
def test_classes_with_a_cuda_of_their_own_or_without_any_keep_theirs(made: str) -> None:
    use = f"net = {made}.cuda()\n"
    assert use in migrated(UNKNOWN.format(use))


@pytest.mark.parametrize(
    "classes",
    [
        "class Mixin(Trainer): ...\nclass Trainer(Mixin): ...",
        "class Trainer(Trainer): ...",
        "if old:\n    class Trainer(Other): ...\n    class Other(Trainer): ...",
    ],
)
def test_a_class_may_take_the_name_of_what_it_derives_from(classes: str) -> None:
    source = f"import torch\nfrom lib import Trainer\n{classes}\nTrainer().cuda()\n"
    assert migrated(source).endswith("\nTrainer().to(xla.xla_device())\n")


@pytest.mark.parametrize(
    "call",
    [
        "self.network.cuda(*args, **kwargs)",
        "return super().cuda(*args, **kwargs)",
        "x = x.cuda(*args)",
        "self.weight = self.weight.cuda(**kwargs)",
        "return [m.cuda(*args, **kwargs) for m in self.models]",
        "self.net.cuda(args[0], **kwargs)",
    ],
)
def test_arguments_that_are_handed_on_are_for_a_person(call: str) -> None:
    source = f"import torch\n\nclass Wrapper(torch.nn.Module):\n    def cuda(self, x, *args, **kwargs):\n        {call}\n"
    assert migrated(source) == source
    assert [code for _, code in findings(source)] == ["XLA101"]


@pytest.mark.parametrize(
    "made", ['torch.device(f"cuda:{rank}")', 'torch.device("cuda")', "torch.device(args.device)"]
)
def test_a_device_that_is_converted_where_it_is_made_is_not_wrapped(made: str) -> None:
    source = f"import torch\ndevice = {made}\nloss = torch.nn.MSELoss().cuda(device)\n"
    assert "loss = torch.nn.MSELoss().to(device)" in migrated(source)


@pytest.mark.parametrize(
    "source",
    [
        "where = lambda storage, location: storage.cuda(rank)\ntorch.load(f, map_location=where)",
        "def where(storage, location):\n    return storage.cuda()\ntorch.load(f, map_location=where)",
        "torch.load(f, **{'map_location': lambda s, l: s.cuda(rank)})",
        "options = dict(map_location=lambda s, l: s.cuda())\ntorch.load(f, **options)",
        "def map_location(i):\n    return lambda storage, l: storage.cuda(i)",
        "class A:\n    def where(self, storage, l): return storage.cuda(self.gpu)\n"
        "    def load(self): return torch.load(f, map_location=self.where)",
    ],
)
def test_functions_for_map_location_are_kept(source: str) -> None:
    """`xla.load` calls them, and takes the exception of `storage.cuda()` for the accelerator."""
    source = f"import torch\n{source}\n"
    assert ".cuda(" in migrated(source)
    assert {code for _, code in findings(source)} <= {"XLA702"}


def test_a_storage_of_samples_is_moved() -> None:
    assert line("def f(storage, n): return storage.cuda()").endswith("storage.to(xla.xla_device())")
