"""`torch.cuda.FloatTensor` and its like: constructors, conversions, names, defaults."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ....each import each
from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = torch.cuda.FloatTensor([1.0])", "a = torch.tensor([1.0], dtype=torch.float32, device=xla.xla_device())"),
        ("a = torch.cuda.LongTensor([i for i in r])", "a = torch.tensor([i for i in r], dtype=torch.int64, device=xla.xla_device())"),
        ("a = torch.cuda.FloatTensor(2, 3)", "a = torch.empty(2, 3, dtype=torch.float32, device=xla.xla_device())"),
        ("a = torch.cuda.IntTensor(len(x))", "a = torch.empty(len(x), dtype=torch.int32, device=xla.xla_device())"),
        ("a = torch.cuda.BoolTensor()", "a = torch.empty(0, dtype=torch.bool, device=xla.xla_device())"),
        ("a = torch.cuda.FloatTensor(n)", "a = torch.FloatTensor(n).to(xla.xla_device())"),
        ("a = torch.cuda.FloatTensor(*sizes)", "a = torch.FloatTensor(*sizes).to(xla.xla_device())"),
        ("a = x.type(torch.cuda.FloatTensor)", "a = x.to(xla.xla_device(), torch.float32)"),
        ('a = x.type("torch.cuda.LongTensor")', "a = x.to(xla.xla_device(), torch.int64)"),
        ("a = x.type(torch.cuda.FloatTensor if cuda else torch.FloatTensor)",
         'a = x.to(xla.xla_device() if cuda else "cpu", torch.float32)'),
        (
            "a = isinstance(x.data, torch.cuda.FloatTensor)",
            "a = (xla.is_accelerator(x.data) and x.data.dtype == torch.float32)",
        ),
        ("a = isinstance(x, torch.cuda.FloatTensor)", "a = (xla.is_accelerator(x) and x.dtype == torch.float32)"),
        ('a = x.type() == "torch.cuda.FloatTensor"', "a = (xla.is_accelerator(x) and x.dtype == torch.float32)"),
        ('a = x.data.type() == "torch.cuda.FloatTensor"', "a = (xla.is_accelerator(x.data) and x.data.dtype == torch.float32)"),
        ("from torch.cuda import FloatTensor\na = FloatTensor([1])",
         "a = torch.tensor([1], dtype=torch.float32, device=xla.xla_device())"),
    ],
)  # fmt: skip
def test_constructors_and_conversions(before: str, after: str) -> None:
    assert line(before) == after


CHOICE = (
    "cuda = torch.cuda.is_available()\nT = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n"
)
CHOSEN = "cuda = xla.is_available()\nT = torch.FloatTensor\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = T(2, 3).fill_(1)", "a = T(2, 3).to(xla.xla_device()).fill_(1)"),
        ("a = V(x.type(T))", "a = V(x.to(xla.xla_device(), torch.float32))"),
        ("def f(n):\n    return T(n)", "def f(n):\n    return T(n).to(xla.xla_device())"),
        ("def f(T):\n    return T(1)\na = T(1)", "def f(T):\n    return T(1)\na = T(1).to(xla.xla_device())"),
    ],
)  # fmt: skip
def test_names_for_types(before: str, after: str) -> None:
    assert line(CHOICE + before) == CHOSEN + after


def test_names_given_in_two_branches() -> None:
    before = (
        "if args.cuda:\n    T = torch.cuda.LongTensor\nelse:\n    T = torch.LongTensor\na = T(1)"
    )
    after = 'if args.cuda:\n    T = torch.LongTensor\nelse:\n    T = torch.LongTensor\na = T(1).to(xla.xla_device() if args.cuda else "cpu")'
    assert line(before) == after


@pytest.mark.parametrize(
    ("test", "device"),
    [
        ('d.type == "cuda"', "d"),
        ('self.device.type == "cuda"', "self.device"),
        ("args.gpu >= 0", 'xla.xla_device() if args.gpu >= 0 else "cpu"'),
    ],
)
def test_names_by_other_conditions(test: str, device: str) -> None:
    before = f"T = torch.cuda.FloatTensor if {test} else torch.FloatTensor\na = x.type(T)"
    after = f"T = torch.FloatTensor\na = x.to({device}, torch.float32)"
    assert line(before) == after


def test_conditions_that_may_change_are_left_to_a_person() -> None:
    source = "T = torch.cuda.FloatTensor if ask() else torch.FloatTensor\na = x.type(T)"
    assert line(source) == source
    assert codes(source) == ["XLA116"]


@pytest.mark.parametrize(
    "use",
    ["kinds = [T]", "a = isinstance(x, T)", "def f(x, kind=T): pass", "a = T", "a = T.dtype", ""],
)
def test_names_with_another_use_are_left_to_a_person(use: str) -> None:
    source = f"T = torch.cuda.FloatTensor\na = T(1)\n{use}" if use else "T = torch.cuda.FloatTensor"
    assert line(source) == source
    assert codes(source) == ["XLA116"]


def test_names_of_several_types_are_left_to_a_person() -> None:
    source = "T = torch.cuda.FloatTensor\nT = make()\na = T(1)"
    assert line(source) == source
    assert codes(source) == ["XLA116"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.set_default_device("cuda")', "torch.set_default_device(xla.xla_device())"),
        ('torch.set_default_device(f"cuda:{r}")', "torch.set_default_device(xla.xla_device(r))"),
        ('torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")', "torch.set_default_device(xla.xla_device())"),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", "torch.set_default_device(xla.xla_device())"),
        ('torch.set_default_tensor_type("torch.cuda.FloatTensor" if a.cuda else "torch.FloatTensor")',
         'torch.set_default_device(xla.xla_device() if a.cuda else "cpu")'),
        ('if c: torch.set_default_tensor_type("torch.cuda.BFloat16Tensor")',
         "if c: torch.set_default_device(xla.xla_device()); torch.set_default_dtype(torch.bfloat16)"),
    ],
)  # fmt: skip
def test_defaults(before: str, after: str) -> None:
    assert line(before) == after


TYPE = "torch.set_default_tensor_type(torch.cuda.FloatTensor)\n"
DEVICE = "torch.set_default_device(xla.xla_device())\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = torch.Tensor(2)", "x = torch.Tensor(2).to(torch.get_default_device())"),
        ("x = torch.Tensor(2).to(d)", "x = torch.Tensor(2).to(d)"),
        ("x = torch.Tensor(2).cuda()", "x = torch.Tensor(2).to(xla.xla_device())"),
        ("x = mine.Tensor(2)", "x = mine.Tensor(2)"),
    ],
)
def test_fact_1_33_a_default_device_does_not_reach_torch_tensor(before: str, after: str) -> None:
    """`torch.Tensor(...)` obeys a default tensor type only: what it makes is moved."""
    assert line(TYPE + before) == DEVICE + after


@pytest.mark.parametrize(
    ("setting", "is_moved"),
    [
        ('torch.set_default_tensor_type("torch.cuda.FloatTensor")', True),
        ("torch.set_default_tensor_type(torch.cuda.HalfTensor if a.cuda else torch.Tensor)", True),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", False),
        ('torch.set_default_device("cuda")', False),  # which `torch.Tensor` ignores on CUDA, too
    ],
)
def test_a_default_type_of_the_program_reaches_its_modules(setting: str, is_moved: bool) -> None:
    files = {
        "train.py": f"import torch\nfrom boxes import priors\n{setting}\npriors()\n".encode(),
        "boxes.py": b"import torch\n\ndef priors():\n    return torch.Tensor([0.5])\n",
        "other.py": b"import torch\ntorch.set_default_tensor_type(torch.cuda.FloatTensor)\n",
    }
    project = Project(Modules(files), "boxes.py")
    result = migrate(files["boxes.py"], Options(), "boxes.py", project).data.decode()
    assert ("torch.Tensor([0.5]).to(torch.get_default_device())" in result) is is_moved


def test_several_defaults_move_a_tensor_once() -> None:
    before = f"{TYPE}f()\n{TYPE}x = torch.Tensor(2)"
    assert (
        line(before) == f"{DEVICE}f()\n{DEVICE}x = torch.Tensor(2).to(torch.get_default_device())"
    )


def test_a_default_that_is_set_back() -> None:
    back = "torch.set_default_tensor_type(torch.FloatTensor)"
    set_back = 'torch.set_default_device("cpu")\ntorch.set_default_dtype(torch.float32)'
    assert line(f"{TYPE}f()\n{back}") == f"{DEVICE}f()\n{set_back}"
    choice = f"if c:\n    {TYPE}else:\n    {back}"
    assert line(choice) == f"if c:\n    {DEVICE}else:\n    {back}"


@pytest.mark.parametrize(
    "source",
    [
        "a = x.type(torch.FloatTensor)",
        "a = x.type_as(y)",
        "a = torch.FloatTensor([1.0])",
        "T = torch.FloatTensor\na = T(1)",
        "torch.set_default_tensor_type(torch.FloatTensor)",
        'torch.set_default_device("cpu")',
        "torch.set_default_device(device)",
        "def f(x: torch.cuda.FloatTensor): pass",
    ],
)
def test_host_types_stay(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('l = torch.utils.data.DataLoader(d, generator=torch.Generator(device="cuda"))',
         "l = torch.utils.data.DataLoader(d, generator=xla.generator())"),
        ('g = torch.Generator("cuda")\na = torch.randperm(3, generator=g)',
         "g = xla.generator()\na = torch.randperm(3, generator=g)"),
        ('g = torch.Generator(device="cuda").manual_seed(0)\na = torch.randn(3, generator=g)',
         "g = xla.generator().manual_seed(0)\na = torch.randn(3, generator=g)"),
        ("g = torch.Generator(device=device)", "g = xla.generator(device)"),
        ('g = torch.Generator(device=f"cuda:{r}")', "g = xla.generator(r)"),
    ],
)  # fmt: skip
def test_fact_1_33_generators(before: str, after: str) -> None:
    assert line(before) == after


_MADE = 'torch.Generator(device="cuda")'
_DRAWN = [
    f"g = {_MADE}\nx = torch.randn(4, generator=g, device=accelerator.device)",
    f"def noise():\n    return {_MADE}.manual_seed(0)\nx = torch.rand(4, generator=noise(), device='cuda')",
    f"g = [{_MADE}.manual_seed(i) for i in range(4)]\nx = [torch.randn(3, device='cuda', generator=h) for h in g]",
    f"pipe(prompt, generator={_MADE}.manual_seed(seed) if seed else None)",
    f"state = dict(generator={_MADE})\nx.normal_(generator=state['generator'])",
    f"class Sampler:\n    def __init__(self):\n        self.rng = {_MADE}\n    def draw(self, x):\n"
    "        return torch.randn(x.shape, device=x.device, generator=self.rng)",
]  # fmt: skip


@each("source", [s.replace('"cuda"', d) for s in _DRAWN for d in ('"cuda"', "accelerator.device")])
def test_a_generator_of_any_use(source: str) -> None:
    head = "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"
    after = migrated(f"{head}{source}\n")
    assert "xla.generator(" in after
    assert "torch.Generator" not in after


@pytest.mark.parametrize("source", ["g = torch.Generator()", 'g = torch.Generator(device="cpu")'])
def test_generators_of_the_host_stay(source: str) -> None:
    assert line(source) == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m.cuda()", "m.to(xla.xla_device())"),
        ("m.cuda(0)", "m.to(xla.xla_device())"),
        ("m.cuda(None)", "m.to(xla.xla_device())"),
        ("m.cuda(rank)", "m.to(xla.xla_device(rank))"),
        ('m.cuda("cuda:1")', "m.to(xla.xla_device(1))"),
        ("m.cuda(device=d, non_blocking=True)", "m.to(xla.xla_device(d), non_blocking=True)"),
        ("m.cuda(torch.device('cuda:0'))", "m.to(xla.xla_device())"),
        ("m.cuda(torch.cuda.current_device())", "m.to(xla.xla_device())"),
    ],
)
def test_the_cuda_method(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    ["quantizer.cuda(q, meta=meta, device=d)", "f.cuda(*args)", "torch.version.cuda", "x.cuda = 1"],
)
def test_other_methods_of_that_name_stay(source: str) -> None:
    assert line(source) == source


@pytest.mark.parametrize(
    ("chosen", "device"),
    [
        ("torch.cuda.FloatTensor if 'cuda' in where else torch.FloatTensor", "xla.xla_device() if xla.is_accelerator(where) else \"cpu\""),
        ("torch.cuda.FloatTensor if str(where) != 'cpu' else torch.FloatTensor", "xla.xla_device() if str(where) != 'cpu' else \"cpu\""),
        ("torch.cuda.FloatTensor if use and gpu >= 0 else torch.FloatTensor", "xla.xla_device() if use and gpu >= 0 else \"cpu\""),
        ("torch.FloatTensor if cpu else torch.cuda.FloatTensor", "xla.xla_device() if not cpu else \"cpu\""),
        ("torch.cuda.FloatTensor if not cpu else torch.FloatTensor", "xla.xla_device() if not cpu else \"cpu\""),
    ],
)  # fmt: skip
def test_a_type_by_a_name_and_the_test_that_chose_it(chosen: str, device: str) -> None:
    source = f"""
import torch
where = "cuda" if torch.cuda.is_available() else "cpu"
Tensor = {chosen}
x = Tensor(3, 4).zero_()
"""
    after = migrated(source)
    assert "Tensor = torch.FloatTensor\n" in after
    assert f"x = Tensor(3, 4).to({device}).zero_()" in after
