"""Strings that stay strings: variables, options, defaults, entries."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('device = "cuda"', "device = xla.device_type()"),
        ('device = "cuda:0"', "device = xla.device_type()"),
        ('device = "cuda:1"', "device = str(xla.xla_device(1))"),
        ('device = f"cuda:{rank}"', "device = str(xla.xla_device(rank))"),
        ('device = "cuda" if torch.cuda.is_available() else "cpu"', "device = xla.device_type()"),
        ('device = "cuda" if flag else "cpu"', 'device = xla.device_type() if flag else "cpu"'),
        ('DEVICE: str = "cuda"', "DEVICE: str = xla.device_type()"),
        ('self.device = "cuda"', "self.device = xla.device_type()"),
        ('config["device"] = "cuda"', 'config["device"] = xla.device_type()'),
        ('device, n = "cuda", 1', "device, n = xla.device_type(), 1"),
        ('device = args.device or "cuda"', "device = args.device or xla.device_type()"),
        ('device_type = "cuda" if "cuda" in device else "cpu"',
         'device_type = xla.device_type() if xla.is_accelerator(device) else "cpu"'),
        ('where = "cuda"\nx.to(where)', "where = xla.device_type()\nx.to(where)"),
        ('loc = f"cuda:{rank}"', "loc = str(xla.xla_device(rank))"),
        ('def f(x, device="cuda"): pass', "def f(x, device=xla.device_type()): pass"),
        ('def f(x, *, dev="cuda:0"): pass', "def f(x, *, dev=xla.device_type()): pass"),
        ('f = lambda x, device="cuda": x', "f = lambda x, device=xla.device_type(): x"),
        ('config = {"device": "cuda", "lr": 1}', 'config = {"device": xla.device_type(), "lr": 1}'),
        ('config = dict(device="cuda")', "config = dict(device=xla.device_type())"),
        ('def get_device():\n    return "cuda"', "def get_device():\n    return xla.device_type()"),
        ('def device_and_dtype():\n    return "cuda", torch.half', "def device_and_dtype():\n    return xla.device_type(), torch.half"),
        ('def pick():\n    return "cuda"\nx.to(pick())', "def pick():\n    return xla.device_type()\nx.to(pick())"),
        ('p.add_argument("--device", default="cuda")', 'p.add_argument("--device", default=xla.device_type(), type=xla.device_type)'),
        ('p.add_argument("-d", "--dev", default="cuda:0", choices=["cuda:0", "cpu"])',
         'p.add_argument("-d", "--dev", default=xla.device_type(), choices=[xla.device_type(), "cpu"], type=xla.device_type)'),
        ('p.add_argument("--devices", nargs="+", default=["cuda", "cpu"])',
         'p.add_argument("--devices", nargs="+", default=[xla.device_type(), "cpu"], type=xla.device_type)'),
        ('p.add_argument("--device", nargs=2, type=str, default=("cuda:0", "cuda"))',
         'p.add_argument("--device", nargs=2, type=xla.device_type, default=(xla.device_type(), xla.device_type()))'),
        ('@click.option("--device", default="cuda")\ndef f(device): pass',
         '@click.option("--device", default=xla.device_type())\ndef f(device): pass'),
        ('d = getattr(args, "device", "cuda")', 'd = getattr(args, "device", xla.device_type())'),
        ('d = kwargs.pop("device", "cuda")', 'd = kwargs.pop("device", xla.device_type())'),
        ('d = os.environ.get("DEVICE", "cuda")', 'd = os.environ.get("DEVICE", xla.device_type())'),
        ('train(model, device="cuda")', "train(model, device=xla.device_type())"),
        ('def train(model, where):\n    model.to(where)\ntrain(m, "cuda")',
         "def train(model, where):\n    model.to(where)\ntrain(m, xla.device_type())"),
        ('for device in ["cpu", "cuda"]: pass', 'for device in ["cpu", xla.device_type()]: pass'),
        ('with maybe_autocast(device_type="cuda"): pass', "with maybe_autocast(device_type=xla.device_type()): pass"),
        ('class C:\n    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")',
         "class C:\n    device: str = field(default_factory=lambda: xla.device_type())"),
        ('class C:\n    device = attr.ib(factory=lambda: "cuda")',
         "class C:\n    device = attr.ib(factory=lambda: xla.device_type())"),
        ('get_device = lambda: "cuda"', "get_device = lambda: xla.device_type()"),
        ('pick = lambda i: f"cuda:{i}"\nx.to(pick(0))', "pick = lambda i: str(xla.xla_device(i))\nx.to(pick(0))"),
        ('device = ["cpu", "cuda"][torch.cuda.is_available()]',
         'device = ["cpu", xla.device_type()][xla.is_available()]'),
        ('device = ("cpu", "cuda:0")[use]', 'device = ("cpu", xla.device_type())[use]'),
        ('x.to(["cpu", "cuda"][use])', 'x.to(["cpu", xla.device_type()][use])'),
        ('device = {True: "cuda", False: "cpu"}[use]', 'device = {True: xla.device_type(), False: "cpu"}[use]'),
        ('device = torch.device({"gpu": "cuda"}[kind])', 'device = torch.device({"gpu": xla.device_type()}[kind])'),
        ('DEVICES = {"gpu": "cuda", "cpu": "cpu"}', 'DEVICES = {"gpu": xla.device_type(), "cpu": "cpu"}'),
        ('where = "cuda" if torch.cuda.is_available() else "cpu"', "where = xla.device_type()"),
        ('where = "cuda" if flag else "cpu"', 'where = xla.device_type() if flag else "cpu"'),
        ('settings = {"where": "cuda" if torch.cuda.is_available() else "cpu"}', 'settings = {"where": xla.device_type()}'),
        ('setattr(args, "device", "cuda")', 'setattr(args, "device", xla.device_type())'),
        ('m = Auto.from_pretrained(n, device_map="cuda")', "m = Auto.from_pretrained(n, device_map=xla.device_type())"),
        ('m = Auto.from_pretrained(n, device_map={"": "cuda:0"})',
         'm = Auto.from_pretrained(n, device_map={"": xla.device_type()})'),
    ],
)  # fmt: skip
def test_stays_a_string(before: str, after: str) -> None:
    assert line(before) == after


def test_fields_of_dataclasses() -> None:
    before = 'class Config:\n    device: str = field(default="cuda")\n    backend: str = "cuda"'
    after = 'class Config:\n    device: str = field(default=xla.device_type())\n    backend: str = "cuda"'
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        'class Backend(Enum):\n    DEVICE = "cuda"',
        'backend = "cuda"',
        'def device_properties():\n    return "cuda", 8',
        'def device_key(n):\n    return f"cuda/{n}"',
        'def describe_device_count():\n    return "cuda"',
        'DEVICES = {"a": ("cuda", "xpu"), "b": ("cuda",)}',
        'def only_cuda(test):\n    return only_on("cuda")(test)',
        'def build(backend="cuda"): pass',
        'p.add_argument("--backend", default="cuda")',
        'p.add_argument("--device", choices=["cuda", "cpu"], help="cuda")',
        'sources = {"cuda": "kernel.cu"}',
        'x = table["cuda"]',
        'x = table.get("cuda", None)',
        'SUPPORTED_DEVICES = ("cuda", "xpu")',
        'supported_device = ["cuda", "cpu", "mps"]',
        'if any(device in kinds for device in ["cuda", "xpu"]): pass',
        'print("running on", "cuda")',
        'logger.info("cuda:0")',
        'name = "cuda".upper()',
        'path = os.path.join("cuda", "a")',
        'hasattr(torch, "cuda")',
        'self.assertEqual(kind, "cuda")',
        'register("cuda", Kernel)',
        'def f(kind: Literal["cuda"]): pass',
        '"""cuda"""',
        'link = f"cuda:{a}:{b}"',
        'm = {"cuda:%d" % 0: "cuda:%d" % rank}',
        'word = lambda: "cuda"\nprint(word())',
        'backend = "cuda" if flag else "rocm"',
        'print("cuda" if flag else "cpu")',
        'suffix = "cuda" if flag else ""',
        'again = lambda: again() or "cuda"',
        'kind = ["cpu", "cuda"][use]',
        'class C:\n    backend: str = field(default_factory=lambda: "cuda")',
        'setattr(args, "backend", "cuda")',
    ],
)
def test_words_that_are_no_devices_stay(source: str) -> None:
    assert line(source) == source
    assert not [code for code in codes(source) if code.startswith("XLA1")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('train(model, "cuda")', "train(model, xla.device_type())"),
        ('tag = "cuda:0"', "tag = xla.device_type()"),
    ],
)
def test_what_cannot_be_told_is_reported_and_changed_only_when_asked(
    before: str, after: str
) -> None:
    assert line(before) == before
    assert codes(before) == ["XLA105"]
    assert line(before, unsafe=True) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('default="cuda"', "default=xla.device_type(), type=xla.device_type"),
        ('type=click.Choice(["cuda", "cpu"]), default="cuda"',
         'type=click.Choice(["cuda", "cpu"]), default="cuda", '
         "callback=lambda context, option, chosen: xla.device_type(chosen)"),
    ],
)  # fmt: skip
def test_options_of_click(before: str, after: str) -> None:
    """What is no choice is refused by click itself."""
    end = ")\ndef f(device): pass"
    made = line(f'import click\n@click.option("--device", {before}{end}')
    assert made.endswith(f'@click.option("--device", {after}{end}')


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('start(Model, args=("cuda:1",) + args)', ["XLA105"]),  # of a remote call, a process
        ('start(Model, args=("cuda:1", 2))', ["XLA105"]),
        ('names = ("cuda:0",) + names', ["XLA105"]),
        ('start(Model, args=("cuda",))', []),  # the name of a backend, or of anything
        ('text = "cuda:0" + text', []),
    ],
)
def test_where_it_goes_cannot_be_told(source: str, found: list[str]) -> None:
    assert codes(source) == found


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("_, index = device.split(':')", 'xla.device_type() + ":0"'),
        ("index = int(self.device.split(':')[1])", 'xla.device_type() + ":0"'),
        ("index = device.split(':')[-1]", 'xla.device_type() + ":0"'),
        ("kind = device.split(':')[0]", "xla.device_type()"),
        ("host, port = address.split(':')", "xla.device_type()"),
    ],
)
def test_a_text_whose_index_is_read_has_one(use: str, name: str) -> None:
    source = f"import torch\ndef f(self, device, address):\n    {use}\n\ndevice = 'cuda:0'\ntorch.ones(2).to(device)\n"
    assert f"device = {name}\n" in migrated(source)


@pytest.mark.parametrize(
    "read",
    [
        "where.split(':')[1]",
        "index(where)",
        "(where or '').partition(':')[2]",
        "options['where'].rsplit(':', 1)[1]",
        "Options(where).index()",
    ],
)
def test_a_text_that_reaches_a_split_keeps_its_index(read: str) -> None:
    source = f"""import torch

def index(name):
    return int(name.split(":")[1])

class Options:
    def __init__(self, name):
        self.name = name

    def index(self):
        return self.name.split(":")[1]

where = "cuda:0"
options = {{"where": where}}
torch.ones(2).to(where)
print({read})
"""
    assert 'where = xla.device_type() + ":0"\n' in migrated(source)


@pytest.mark.parametrize(
    "text",
    [
        'base + ":" + str(rank)',
        '"%s:%d" % (base, rank)',
        '"{}:{}".format(base, rank)',
        '":".join([base, str(rank)])',
        'f"{base}:{rank:d}"',
        '"cuda" + f":{rank}"',
        '"cuda" + ":" + str(rank)',
        '":".join(("cuda", str(rank)))',
    ],
)
def test_a_name_that_is_put_together_becomes_a_device(text: str) -> None:
    source = f"import torch\ndef f(x, rank):\n    base = 'cuda'\n    return x.to({text})\n"
    assert "x.to(xla.xla_device(rank))" in migrated(source)


@pytest.mark.parametrize(
    "branch",
    [
        'device += f":{rank}"',
        'device = device + ":" + str(rank)',
        'device = f"{device}:{rank}"',
        'device = "%s:%d" % (device, rank)',
        'device = "{}:{}".format(device, rank)',
    ],
)
def test_a_test_that_only_adds_an_index_is_kept(branch: str) -> None:
    source = f"""\
import torch
def f(x, device, rank):
    if device == "cuda":
        {branch}
    return x.to(device)
"""
    assert migrated(source) == source
    other = source.replace("    return", "    else:\n        device = 'cpu'\n    return")
    assert "if xla.is_accelerator(device):" in migrated(other)


CHOICE = '("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{CHOICE} + ":0"', 'xla.device_type() + ":0"'),
        (f'{CHOICE} + ":" + str(rank)', "str(xla.xla_device(rank))"),
        (f"f'{{{CHOICE}}}:{{rank}}'", "str(xla.xla_device(rank))"),
        ('("cuda" if flag else "cpu") + ":0"', '(xla.device_type() if flag else "cpu") + ":0"'),
    ],
)
def test_a_choice_gets_an_index(before: str, after: str) -> None:
    source = (
        f"import torch\ndef f(x, rank, flag):\n    device = {before}\n    return x.to(device)\n"
    )
    assert f"device = {after}\n" in migrated(source)


def test_a_choice_next_to_other_text_is_no_device() -> None:
    source = "import torch\nprint(('cuda' if fast else 'cpu') + ' runs', f\"{'cuda' if fast else 'cpu'}: 1\")\n"
    assert migrated(source) == source


def test_a_choice_is_passed_to_another_module() -> None:
    choice = '"cuda" if torch.cuda.is_available() else "cpu"'
    files = {
        "mover.py": b"import torch\nclass Mover:\n    def __init__(self, kind):\n"
        b"        self.where = torch.device(kind)\n",
        "main.py": f"import torch\nfrom mover import Mover\nm = Mover({choice})\n".encode(),
        "other.py": f"import torch\nfrom missing import Mover\nm = Mover({choice})\n".encode(),
    }

    def after(path: str) -> str:
        project = Project(Modules(files), path)
        return migrate(files[path], Options(), path, project).data.decode()

    assert "Mover(xla.device_type())" in after("main.py")
    assert f"Mover({choice})" in after("other.py")  # the test and the name change together
