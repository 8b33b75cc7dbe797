"""What is asked of the text of a device, and of strings that say "xla" after the rewriting."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ....each import each
from ...helpers import findings, migrated

HEAD = """
import fnmatch, operator, os, re, sys
import torch
from kinds import Device, KINDS

def main(x, device, f, g, model, use_cuda, args):
    x = x.to(device)
"""
TAIL = "\n    return x\n"


def _of(body: str) -> str:
    return f"{HEAD}    {body}{TAIL}"


@each(
    "body",
    [
        'if re.match("cuda", str(device)): x = f(x)',
        'if re.match(r"cuda(:\\d+)?$", str(x.device)): x = f(x)',
        'if re.search("cuda", device.type): x = f(x)',
        'if re.compile("cuda").match(str(device)): x = f(x)',
        'word = re.compile("^cuda")\n    if word.match(str(device)): x = f(x)',
        'if fnmatch.fnmatch(str(device), "cuda*"): x = f(x)',
        'kind = device.type\n    if kind == "cuda": x = f(x)',
        'kind = str(device).split(":")[0]\n    if kind == "cuda": x = f(x)',
        'kind, _, index = str(device).partition(":")\n    if kind == "cuda": x = f(x)',
        'match device.type:\n        case "cuda": x = f(x)',
        'match x.device:\n        case torch.device(type="cuda"): x = f(x)',
        'match str(device).split(":"):\n        case ["cuda", n]: x = f(x)',
        'x = {"cuda": f, "cpu": g}[str(device)](x)',
        "x = dict(cuda=f, cpu=g)[device.type](x)",
        "x = dict(cuda=f).get(x.device.type, g)(x)",
        'table = {"cuda": f, "cpu": g}\n    x = table[device.type](x)',
        'kind = "cuda" if use_cuda else "cpu"\n    x = {"cuda": f, "cpu": g}[kind](x)',
        'if device.__str__() == "cuda": x = f(x)',
        'if repr(x.device).find("cuda") >= 0: x = f(x)',
        'if str(device).count("cuda"): x = f(x)',
        'if str(device).__contains__("cuda"): x = f(x)',
        'if device.type.upper() == "CUDA": x = f(x)',
        'if "CUDA" in str(device).upper(): x = f(x)',
        'if device.type.endswith("cuda"): x = f(x)',
        'if operator.eq(device.type, "cuda"): x = f(x)',
        'if f"{device}" == "cuda": x = f(x)',
        'if "{}".format(device) == "cuda:0": x = f(x)',
        'if "%s" % device == "cuda": x = f(x)',
        'if {t.device.type for t in [x]} == {"cuda"}: x = f(x)',
        'if set(t.device.type for t in [x]) & {"cuda"}: x = f(x)',
        'if "cuda" in [t.device.type for t in [x]]: x = f(x)',
        'if "cuda" in map(str, [device]): x = f(x)',
        'if not {"cuda"}.isdisjoint({t.device.type for t in [x]}): x = f(x)',
        'for kind in ("cuda", "mps"):\n        if device.type == kind: x = f(x)',
        'if any(k in str(device) for k in ("cuda", "mps")): x = f(x)',
        'fast = ("cuda", "mps")\n    if device.type in fast: x = f(x)',
        'if (device if isinstance(device, str) else device.type) == "cuda": x = f(x)',
        'if getattr(device, "type", device) == "cuda": x = f(x)',
        'if getattr(device, "type", str(device)).startswith("cuda"): x = f(x)',
        'i = int(str(device).replace("cuda:", ""))',
        "if device.type == Device.CUDA: x = f(x)",
        'd = next((d for d in ("cuda", "mps") if getattr(torch, d).is_available()), "cpu")',
        'for d in ("cuda", "xpu"):\n        if getattr(torch, d).is_available(): x = f(x)',
        'found = [d for d in ["cuda", "mps"] if getattr(torch.backends, d).is_built()]',
        "if device.type == Device.GPU.value: x = f(x)",
        "if x.device.type in (Device.CUDA, Device.MPS): x = f(x)",
        'for kind, n in {"cuda": 8, "cpu": 2}.items():\n        if kind == device.type: x = f(x)',
        'table = {"cuda": 8, "cpu": 2}\n    for k in table:\n        if k == str(device): x = f(x)',
        'table = {"cuda": 8, "cpu": 2}\n    for k in table.keys():\n        if k in str(device): x = f(x)',
        'table = {"cuda": 8}\n    for k, v in sorted(table.items()):\n        if device.type == k: x = f(x)',
        'sizes = [("cuda", 8), ("cpu", 2)]\n    for k, v in sizes:\n        if x.device.type == k: x = f(x)',
        'for i, k in enumerate(("cuda", "cpu")):\n        if x.device.type == k: x = f(x)',
        'table = {"cuda": 8}\n    n = next(v for k, v in table.items() if str(device).startswith(k))',
        'table = {"cuda": 8}\n    n = {k: v for k, v in table.items() if k == device.type}',
        'kind = "cuda" if use_cuda else "cpu"\n    for k, v in {"cuda": 8}.items():\n        if k == kind: x = f(x)',
        'n = dict([("cuda", 8), ("cpu", 2)])[device.type]',
        'n = dict.fromkeys(["cuda", "cpu"], 0)\n    n[device.type] += 1',
        'n = {"cuda": 0, "cpu": 0}\n    n[x.device.type] += 1',
        'class T:\n        SIZES = {"cuda": 8}\n        def n(self): return self.SIZES[device.type]',
        'seen = {}\n    seen[device.type] = 1\n    print(seen["cuda"])',
        'seen = {}\n    seen["cuda"] = f\n    x = seen[device.type](x)',
        'if x.type() in ("torch.cuda.FloatTensor", "torch.cuda.HalfTensor"): x = f(x)',
        'if g(x).type() in {"torch.cuda.FloatTensor"}: x = f(x)',
        'n = {"torch.cuda.FloatTensor": 1, "torch.FloatTensor": 0}[x.type()]',
        'if "torch.cuda" in g(x).type(): x = f(x)',
        'y = torch.ones(2).to(device)\n    if y.type().split(".")[1] == "cuda": x = f(x)',
        'kind = x.type()\n    if kind == "torch.cuda.FloatTensor": x = f(x)',
        'if type(x).__module__ == "torch.cuda": x = f(x)',
        'if x.__class__.__module__.startswith("torch.cuda"): x = f(x)',
        'BACKENDS = {"nccl": "cuda", "gloo": "cpu"}\n    n = {v: k for k, v in BACKENDS.items()}[device.type]',
        'of = {v: k for k, v in (("nccl", "cuda"), ("gloo", "cpu"))}\n    n = of.get(x.device.type)',
        'n = {k: f for k in ("cuda", "cpu")}[device.type]',
        'kinds = ["cuda", "cpu"]\n    table = {k: i for i, k in enumerate(kinds)} | dict.fromkeys(kinds)\n    n = table[device.type]',
        'table = dict(zip(["cuda", "cpu"], [f, g]))\n    x = table[device.type](x)',
        'table = {**{"cuda": f}, "cpu": g}\n    x = table[device.type](x)',
        'table = {"cpu": g}\n    table.update(cuda=f)\n    x = table[device.type](x)',
        'table = {}\n    table.setdefault("cuda", f)\n    x = table[str(device)](x)',
        'table = {}\n    def register(kind):\n        def put(fn):\n            table[kind] = fn\n            return fn\n        return put\n    @register("cuda")\n    def fast(x): return x\n    x = table[x.device.type](x)',
        'table = {}\n    def put(kind, fn): table[kind] = fn\n    put("cuda", f)\n    put(kind="cpu", fn=g)\n    x = table.get(device.type, g)(x)',
        'class T:\n        steps = {}\n        @classmethod\n        def register(cls, kind, fn): cls.steps[kind] = fn\n    T.register("cuda", f)\n    x = T.steps[device.type](x)',
        'class T:\n        def step_cuda(self): pass\n        def step(self): return getattr(self, f"step_{device.type}")()',
        'class T:\n        def cuda_step(self): pass\n        def step(self): return getattr(self, device.type + "_step")()',
        'def train_cuda(x): return x\n    x = globals()["train_%s" % device.type](x)',
        'def train_cuda(x): return x\n    x = getattr(sys.modules[__name__], "train_{}".format(x.device.type), g)(x)',
        'def train_cuda(x): return x\n    name = "_".join(("train", device.type))\n    x = locals()["_".join(["train", device.type])](x)',
        "x = getattr(f(x), device.type)()",
        'class T:\n        kinds = {"cuda", "xpu"}\n        def f(self): return device.type in self.kinds',
        'expected = "mps" if use_mps else "cuda"\n    n = [y for y in [x] if y.device.type == expected]',
        "def call(kind): return getattr(model, kind)()\n    call(device.type)",
        'def is_fast(kind): return kind == "cuda"\n    if is_fast(device.type): x = f(x)',
        'kind = "cuda" if use_cuda else "cpu"\n    x = getattr(x, kind)()',
        'kind = "cuda" if torch.cuda.is_available() else "cpu"\n    move = getattr(g(x), kind)',
    ],
)
def test_texts_of_devices_are_named(body: str) -> None:
    left = findings(migrated(_of(body)))
    assert {code for _, code in left} & {"XLA107", "XLA115", "XLA118"}, left


@each(
    "body",
    [
        'name = "model"\n    if name == "cuda": x = f(x)',
        'if "cuda" in sys.argv: x = f(x)',
        'kinds = {"cuda": 1}\n    print(kinds["cuda"], kinds.get(args.kind))',
        'print("cuda", device, f"cuda {device}")',
        'w = "cpu"\n    w = w.replace("cpu", "gpu").strip("cuda")',
        'seen = {"cuda": 1}\n    seen[args.kind] = 2\n    print(seen[str(device)])',
        'seen = {"cuda": 1}\n    seen[str(device)] = 2',
        'x = {"cuda": f, "xla": f, "cpu": g}[str(device)](x)',
        'if re.match("cuda|xla", str(device)) or "xla" in str(device): x = f(x)',
        'if args.kind in ("cuda", "cpu"): x = f(x)',
        'known = ("xpu", "cuda", "xla")\n    if x.device.type not in known: x = f(x)',
        'text = "cuda error"\n    if re.search("cuda", text): x = f(x)',
        'assert os.path.basename(args.path).find("cuda") < 0',
        "if x.is_cpu or x.get_device() == -1: x = g(x)",
        'if device.type == "cpu" and hasattr(torch, "cuda"): x = g(x)',
        'for k, v in {"cuda": 8, "cpu": 2}.items():\n        if k == args.kind: x = f(x)',
        'for k, v in {"cuda": 8, "xla": 8, "cpu": 2}.items():\n        if k == device.type: x = f(x)',
        'seen = {"cuda": 1}\n    seen["cuda"] += 1\n    print(seen["cuda"], seen[args.kind])',
        'seen = {}\n    seen["cuda"] = f\n    seen["xla"] = g\n    x = seen[device.type](x)',
        'if args.type() == "cuda": x = f(x)',
        'seen = {}\n    def put(k): seen[k] = 1\n    put("cuda")\n    put(args.kind)\n    print(seen[device.type])',
        'seen = {}\n    seen["cuda"] = {}\n    print(seen["cuda"][x.device])',
        "if args.device is Device.GPU: x = f(x)",
        "x = getattr(model, args.kind)(x)",
        'def step_cuda(x): return x\n    def step_xla(x): return x\n    x = globals()[f"step_{device.type}"](x)',
        'n = getattr(model, f"self_{device.type}_time")',
        'def step_cuda(x): return x\n    x = globals()[f"step_{args.kind}"](x)',
        'table = {k: f for k in ("cuda", "xla", "cpu")}\n    x = table[device.type](x)',
        'table = {}\n    def put(kind, fn): table[kind] = fn\n    put("cuda", f)\n    put("xla", f)\n    x = table[device.type](x)',
        'table = {k: f for k in ("cuda", "cpu")}\n    x = table[args.kind](x)',
    ],
)
def test_other_texts_are_nobodys(body: str) -> None:
    assert migrated(_of(body)) == _of(body)
    assert findings(_of(body)) == []


@each(
    "given, test, after",
    [
        ('kind = "cuda" if torch.cuda.is_available() else "cpu"', 'kind == "cuda"', "xla.is_accelerator(kind)"),
        ('kind = "cuda" if use_cuda else "cpu"', 'kind == "cuda"', "xla.is_accelerator(kind)"),
        ('kind = "cuda" if x.is_cuda else "cpu"', 'kind != "cuda"', "not xla.is_accelerator(kind)"),
        ('kind = "cuda" if torch.cuda.is_available() else "cpu"', '"cuda" in kind', "xla.is_accelerator(kind)"),
        ('kind = "cuda" if torch.cuda.is_available() else "cpu"', 'kind.startswith("cuda")', "xla.is_accelerator(kind)"),
        ('kind = "cuda" if torch.cuda.is_available() else "cpu"', 'kind in ("cuda", "mps")', "xla.is_accelerator(kind)"),
        ('args.kind = "cuda" if torch.cuda.is_available() else "cpu"', 'args.kind == "cuda"', "xla.is_accelerator(args.kind)"),
        ('c = {"kind": "cuda" if torch.cuda.is_available() else "cpu"}', 'c["kind"] == "cuda"', 'xla.is_accelerator(c["kind"])'),
        ('c = {}; c["kind"] = "cuda" if torch.cuda.is_available() else "cpu"', 'c["kind"] == "cuda"', 'xla.is_accelerator(c["kind"])'),
        ('def kind(): return "cuda" if torch.cuda.is_available() else "cpu"', 'kind() == "cuda"', "xla.is_accelerator(kind())"),
        ('kind = "cuda"', 'args.kind == kind', "args.kind == kind"),
        ('kind = "cuda"', 'kind == "cuda"', 'kind == "cuda"'),
    ],
)  # fmt: skip
def test_strings_that_say_xla_are_asked_otherwise(given: str, test: str, after: str) -> None:
    assert f"    if {after}: x = f(x)" in migrated(_of(f"{given}\n    if {test}: x = f(x)"))


def test_what_asks_the_runtime_asks_for_cuda_itself() -> None:
    source = """
import torch
from xla_migrate import runtime as xla

def main(x):
    kind = xla.device_type()
    if kind == "cuda" or xla.device_type() == "cuda":
        print("on CUDA")
    return x
"""
    assert migrated(source) == source
    assert findings(source) == []


@each(
    "before, after",
    [
        ('getattr(x, "is_cuda")', "xla.is_accelerator(x)"),
        ('getattr(x, "is_cuda", False)', '(hasattr(x, "is_cuda") and xla.is_accelerator(x))'),
        ('getattr(f(x), "is_cuda", False)', 'getattr(f(x), "is_cuda", False)'),
        ('operator.attrgetter("is_cuda")(x)', "xla.is_accelerator(x)"),
        ('getattr(x, "is_leaf")', 'getattr(x, "is_leaf")'),
    ],
)
def test_is_cuda_by_its_name(before: str, after: str) -> None:
    source = _of(f"if {before}: x = g(x)")
    assert f"    if {after}: x = g(x)" in migrated(source)
    assert bool(findings(source)) is ("is_cuda" in before)


MAIN = """
import torch
import consts
from consts import CUDA, Device, DEVICES, kind, KIND

def main(x, f):
    x = x.cuda()
    return f(x) if {test} else x
"""
CONSTS = """
import enum
import torch
CUDA = "cuda"
class Device(str, enum.Enum):
    CUDA = "cuda"
    CPU = "cpu"
class Plain(enum.Enum):
    GPU = "cuda"
def kind():
    return "cuda" if torch.cuda.is_available() else "cpu"
KIND = "cuda" if torch.cuda.is_available() else "cpu"
"""


@each(
    "test, after",
    [
        ("x.device.type == Device.CUDA", "xla.is_accelerator(x.device)"),
        ("x.device.type == consts.Device.CUDA", "xla.is_accelerator(x.device)"),
        ("x.device.type == consts.Plain.GPU.value", "xla.is_accelerator(x.device)"),
        ("x.device.type == CUDA", "xla.is_accelerator(x.device)"),
        ("consts.CUDA != str(x.device)", "not xla.is_accelerator(x.device)"),
        ("x.device.type in (Device.CUDA,)", "xla.is_accelerator(x.device)"),
        ('kind() == "cuda"', "xla.is_accelerator(kind())"),
        ('consts.kind() == "cuda"', "xla.is_accelerator(consts.kind())"),
        ('KIND == "cuda"', "xla.is_accelerator(KIND)"),
        ("x.device.type == Device.CPU", "x.device.type == Device.CPU"),
    ],
)
def test_words_of_other_modules(test: str, after: str) -> None:
    files = {"main.py": MAIN.format(test=test).encode(), "consts.py": CONSTS.encode()}
    for consts in (CONSTS, migrate(CONSTS.encode()).data.decode()):
        files["consts.py"] = consts.encode()
        done = migrate(files["main.py"], Options(), "main.py", Project(Modules(files), "main.py"))
        assert f"return f(x) if {after} else x" in done.data.decode()


@pytest.mark.parametrize(
    "test",
    ["torch.version.cuda is not None", "bool(torch.version.cuda)", "torch.version.cuda != None"],
)
def test_what_torch_was_built_for(test: str) -> None:
    moved = _of(f"if {test}: x = x.cuda()")
    assert "    if xla.is_available(): x = x.to(xla.xla_device())" in migrated(moved)
    assert [code for _, code in findings(_of(f"flag = {test}"))] == ["XLA102"]
    assert findings(_of("print(torch.version.cuda)")) == []


@each(
    "name, asks",
    [
        ("is_built_with_cuda", False),
        ("compiled_with_cuda", False),
        ("has_cuda_build", False),
        ("cuda_version", False),
        ("has_cuda", True),
        ("use_gpu", True),
    ],
)
def test_a_name_that_tells_of_the_build(name: str, asks: bool) -> None:
    asked = [
        f"import torch\nmodel.cuda()\ndef {name}():\n    return torch.version.cuda is not None\n",
        f"import torch\nmodel.cuda()\n{name} = bool(torch.version.cuda)\n",
    ]
    for source in asked:
        assert ("XLA102" in [code for _, code in findings(source)]) is asks


@each(
    "before, after",
    [
        ("torch._C._cuda_getDeviceCount() > 0", "xla.is_available()"),
        ('hasattr(torch._C, "_cuda_getDeviceCount")', "xla.is_available()"),
        ("torch.backends.cuda.is_built()", "xla.is_available()"),
    ],
)
def test_other_ways_to_ask_for_an_accelerator(before: str, after: str) -> None:
    assert f"    if {after}: x = x.to(" in migrated(_of(f"if {before}: x = x.cuda()"))
    chosen = migrated(_of(f'kind = torch.device("cuda" if {before} else "cpu")'))
    assert "    kind = xla.xla_device()" in chosen


def test_the_number_of_a_tensors_device() -> None:
    assert "torch.zeros(2, device=x.device)" in migrated(
        _of("y = torch.zeros(2, device=x.device.index)")
    )
