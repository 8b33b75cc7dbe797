"""Methods of the program's own classes are no tensor methods, although their names are the same."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

_MODEL = """\
import torch
import torch.nn as nn

class Bag:
    def __init__(self, x):
        self.x, self.is_cuda = x, False
    def cuda(self):
        return self
    def half(self):
        return Bag(self.x)
    def type(self, kind=None):
        return "bag"
    def record_stream(self, name):
        return name
    def get_device(self):
        return self.x.device

class Net(nn.Module):
    def get_device(self):
        return self.fc.weight.device
    def cuda(self, device=None):
        return super().cuda(device)
"""
_USES = """\
def first(bag):
    bag = bag.cuda()
    bag.type("torch.cuda.FloatTensor")
    bag.record_stream("a")
    if bag.is_cuda:
        print("cuda")
    return bag.half()

def second(bag, model):
    x = torch.zeros(2, device=bag.get_device())
    return bag.half().type("torch.cuda.FloatTensor"), x.to(model.get_device())

def main():
    model = Net().cuda()
    print(second(first(Bag(torch.ones(2))), model))
"""


def uses(text: str) -> str:
    return text[text.index("def first(bag)") :]


def test_in_one_module_they_stay() -> None:
    after = migrate((_MODEL + _USES + "\nmain()\n").encode(), Options()).data.decode()
    assert uses(after) == uses(_USES + "\nmain()\n")


def test_in_several_modules_they_stay() -> None:
    main = "import torch\nfrom model import Bag, Net\n" + _USES + "\nmain()\n"
    files = {"model.py": _MODEL.encode(), "main.py": main.encode()}
    project = Project(Modules(files), "main.py")
    after = migrate(files["main.py"], Options(), "main.py", project).data.decode()
    assert uses(after) == uses(main)


@pytest.mark.parametrize(("base", "moves"), [("nn.Module", True), ("Other", False)])
def test_the_method_of_a_base_in_another_module(base: str, moves: bool) -> None:
    model = f"from torch import nn\nclass Base({base}):\n    pass\n"
    main = (
        "import torch\nfrom model import Base\n\nclass Net(Base):\n"
        "    def cuda(self, device=None):\n        return super().cuda(device)\n"
    )
    files = {"model.py": model.encode(), "main.py": main.encode()}
    project = Project(Modules(files), "main.py")
    after = migrate(files["main.py"], Options(), "main.py", project).data.decode()
    assert ("super().to(xla.xla_device(device))" in after) is moves


@pytest.mark.parametrize(
    "made", ["torch.ones(2)", "torch.zeros(3).float()"], ids=["made", "converted"]
)
def test_tensors_in_the_same_module_are_rewritten(made: str) -> None:
    source = _MODEL + f"x = {made}.cuda()\ny = x.cuda()\nprint(y.is_cuda)\n"
    after = migrate(source.encode(), Options()).data.decode()
    assert ".to(xla.xla_device())\ny = x.to(xla.xla_device())" in after
    assert "print(xla.is_accelerator(y))" in after


def test_the_devices_number_of_a_known_tensor_is_rewritten_beside_such_a_class() -> None:
    source = _MODEL + "x = torch.ones(2).cuda()\nz = torch.zeros(2, device=x.get_device())\n"
    assert "device=x.device" in migrate(source.encode(), Options()).data.decode()


def test_a_string_for_the_method_of_a_class_in_another_module_stays() -> None:
    files = {
        "server.py": b"class Server:\n    def to(self, where, loud=False):\n"
        b"        return where.upper()\n",
        "main.py": b"import torch\nfrom server import Server\n\n\nclass Trainer:\n"
        b"    def __init__(self, server):\n        self.server = server\n\n"
        b'    def log(self):\n        return self.server.to("cuda", loud=True)\n\n\n'
        b"Trainer(Server()).log()\n",
    }
    project = Project(Modules(files), "main.py")
    assert migrate(files["main.py"], Options(), "main.py", project).data == files["main.py"]


_VIDEO = """\
import torch

class Video:
    def cuda(self, stream):
        return self

"""


@pytest.mark.parametrize(
    "use",
    [
        'd["v"].cuda(2)',
        "d.get(1).cuda(2)",
        "load().cuda(1)",
        "for v in d.each():\n        v.cuda(1)",
        'getattr(d, "cuda")(1)',
        "[v.cuda(1) for v in d]",
    ],
)
def test_an_object_that_may_be_of_a_class_of_the_file_is_reported(use: str) -> None:
    source = f"{_VIDEO}def run(d, load):\n    {use}\n"
    assert migrate(source.encode(), Options()).data.decode() == source
    (found,) = [f for f in check(source.encode()) if f.code == "XLA101"]
    assert "`Video` defines `cuda`" in found.message


def test_an_object_that_may_be_of_a_class_of_another_module_is_reported() -> None:
    main = (
        b"import torch\nfrom video import Video\n\n"
        b"def run(d):\n    d['v'].cuda(2)\n    d['w'].cuda()\n"
    )
    files = {
        "main.py": main,
        "video.py": _VIDEO.encode(),
        "other.py": b"class Other:\n    def cuda(self, stream):\n        return self\n",
    }
    project = Project(Modules(files), "main.py")
    text = migrate(main, Options(), "main.py", project).data.decode()
    assert "    d['v'].cuda(2)\n    d['w'].to(xla.xla_device())\n" in text
    found = [f for f in check(main, Options(), "main.py", project) if f.line == 5]
    assert [f.code for f in found] == ["XLA101"]  # and no second device
    assert "`Video` defines" in found[0].message


@pytest.mark.parametrize(
    "owner", ["torch.ones(2)", "torch.nn.Linear(2, 2)", "net.eval()", "x.float()"]
)
def test_a_tensor_or_module_is_moved_though_a_class_defines_cuda(owner: str) -> None:
    after = migrate(f"{_VIDEO}def run(net, x):\n    {owner}.cuda()\n".encode(), Options())
    assert f"    {owner}.to(xla.xla_device())\n" in after.data.decode()


_BATCH = """\
import torch

class Batch:
    def __init__(self, x):
        self.x = x

    def cuda(self, non_blocking=False):
        self.x = self.x.cuda(non_blocking=non_blocking)
        return self

"""


@pytest.mark.parametrize(
    ("head", "call"),
    [
        (_VIDEO, "x"),  # without the argument that the class wants
        (_VIDEO, 'd["x"]'),
        (_BATCH, 'd["x"]'),  # parts of a batch are tensors
        (_BATCH, "d.x"),
    ],
)
def test_a_part_of_a_batch_and_what_the_class_cannot_take_are_moved(head: str, call: str) -> None:
    after = migrate(f"{head}def run(x, d):\n    return {call}.cuda()\n".encode(), Options())
    text = after.data.decode()
    assert f"    return {call}.to(xla.xla_device())\n" in text
    assert "self.x.cuda" not in text


def test_an_object_that_fits_a_class_which_moves_its_parts_is_reported() -> None:
    source = f"{_BATCH}def run(x):\n    return x.cuda()\n"
    assert migrate(source.encode(), Options()).data.decode().endswith("return x.cuda()\n")
    found = [f.message for f in check(source.encode()) if f.code == "XLA101"]
    assert "`Batch` defines `cuda`" in found[-1]


@pytest.mark.parametrize("use", ["b.x + 1", "print(b.x.shape)"])
def test_an_object_whose_fields_are_read_is_one_of_the_class(use: str) -> None:
    loop = f"for b in loader:\n        b = b.cuda()\n        loss = net({use})\n        loss.backward()\n"
    source = f"{_BATCH}def train(net, loader, optimizer):\n    {loop}        optimizer.step()\n"
    text = migrate(source.encode(), Options()).data.decode()
    assert "b = b.cuda()" in text
    assert "self.x = self.x.to(xla.xla_device()" in text
