"""Devices that come from the command line, the environment, or a configuration."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import findings, migrated
from ..lines import line

ARGS = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("d = torch.device(args.device)", "d = xla.xla_device(args.device)"),
        ("x.to(args.device)", "x.to(xla.xla_device(args.device))"),
        ("x = torch.zeros(2, device=args.device)", "x = torch.zeros(2, device=xla.xla_device(args.device))"),
        ("d = torch.device(args.device if torch.cuda.is_available() else 'cpu')",
         "d = xla.xla_device(args.device if xla.is_available() else 'cpu')"),
        ('d = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))',
         "d = xla.xla_device(args.device or xla.device_type())"),
        ("d = torch.device(args.device, rank)", 'd = xla.xla_device("{}:{}".format(args.device, rank))'),
        ("d = torch.device(args.device, torch.cuda.current_device())", "d = xla.xla_device(args.device)"),
        ("d = torch.device(args.gpu)", "d = xla.xla_device(args.gpu)"),
    ],
)  # fmt: skip
def test_options(before: str, after: str) -> None:
    assert line(ARGS + before).endswith(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('d = torch.device(config["device"])', 'd = xla.xla_device(config["device"])'),
        ('d = torch.device(os.environ["DEVICE"])', 'd = xla.xla_device(os.environ["DEVICE"])'),
        ("def f(device):\n    return torch.device(device)", "def f(device):\n    return xla.xla_device(device)"),
        ('d = torch.device(f"{kind}:{n}")', 'd = xla.xla_device(f"{kind}:{n}")'),
        ("d = torch.device(cfg.device)", "d = xla.xla_device(cfg.device)"),
        ("d = torch.device(self.device)", "d = xla.xla_device(self.device)"),
    ],
)  # fmt: skip
def test_what_the_file_does_not_say(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "d = torch.device(x.device)",
        "d = torch.device(model.device)",
        'd = torch.device("cpu")',
        'host = "cpu"\nd = torch.device(host)',
        "d = torch.device(first.type, index=0)",
        "args.device = torch.device('cpu')\nx.to(args.device)",
        "x.to(device)",
        "x.to(args.dtype)",
        "x = torch.FloatTensor(2, 3, device=args.device)",
        'd = torch.device(f"mps:{n}")',
        'd = torch.device(args.device) == torch.device("meta")',
        'd = torch.device(args.device).type == "mps"',
    ],
)
def test_what_is_a_device_already_stays(source: str) -> None:
    assert line(ARGS + source) == ARGS + source


def test_options_that_the_file_turns_into_a_device_are_turned_once() -> None:
    before = ARGS + "args.device = torch.device(args.device)\nx.to(args.device)"
    assert line(before).endswith("args.device = xla.xla_device(args.device)\nx.to(args.device)")


@pytest.mark.parametrize(
    "head",
    [
        "import yaml\ncfg = yaml.safe_load(f)",
        "import json\ncfg = json.load(f)",
        "from omegaconf import OmegaConf\ncfg = OmegaConf.load(f)",
        "import yaml\nfrom easydict import EasyDict\ncfg = EasyDict(yaml.load(f, yaml.Loader))",
        "import yaml\nfrom argparse import Namespace\ncfg = Namespace(**yaml.safe_load(f))",
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("device = cfg.device", "device = xla.device_type(cfg.device)"),
        ('device = cfg["device"]', 'device = xla.device_type(cfg["device"])'),
        ('device = cfg.get("device")', 'device = xla.device_type(cfg.get("device"))'),
        ('d = cfg.device if torch.cuda.is_available() else "cpu"',
         'd = xla.device_type(cfg.device) if xla.is_available() else "cpu"'),
        ("x.to(cfg.train.device)", "x.to(xla.xla_device(cfg.train.device))"),
        ('x = torch.ones(2, device=cfg["train"]["device"])', 'x = torch.ones(2, device=xla.xla_device(cfg["train"]["device"]))'),
        ("lr = cfg.lr", "lr = cfg.lr"),
        ("x.to(cfg.dtype)", "x.to(cfg.dtype)"),
    ],
)  # fmt: skip
def test_settings_that_are_read_from_a_file(head: str, before: str, after: str) -> None:
    assert line(f"{head}\n{before}").endswith(after)


def test_what_hydra_hands_to_main() -> None:
    head = "import hydra\n@hydra.main(config_path='conf')\ndef main(cfg):\n"
    assert line(f"{head}    model.to(cfg.device)").endswith("model.to(xla.xla_device(cfg.device))")


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, cfg):\n    return x.to(self.device), x.to(y.device), x.to(model.config.dtype)",
        "def f(x, batch):\n    device = batch.device\n    return x.to(device)",
        "args.device = torch.device('cpu')\ndef f(self, x):\n    return x.to(self.args.device)",
        "device = torch.ones(2).device",
    ],
)
def test_devices_of_things_are_no_settings(source: str) -> None:
    assert line(source) == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('dev = os.environ["DEVICE"]', 'dev = xla.device_type(os.environ["DEVICE"])'),
        ('dev = os.getenv("DEVICE") or "cpu"', 'dev = xla.device_type(os.getenv("DEVICE") or "cpu")'),
        ('dev = os.environ.get("DEVICE", "cpu")', 'dev = xla.device_type(os.environ.get("DEVICE", "cpu"))'),
        ('dev = os.environ.get("DEVICE", name)', 'dev = xla.device_type(os.environ.get("DEVICE", name))'),
        ('dev = os.environ.get("DEVICE", torch.device("cuda"))', 'dev = xla.xla_device(os.environ.get("DEVICE", xla.xla_device()))'),
        ('dev = os.getenv("DEVICE", torch.device("cuda", 0))', 'dev = xla.xla_device(os.getenv("DEVICE", xla.xla_device()))'),
        ('dev = os.getenv("DEVICE", torch.device("cuda" if torch.cuda.is_available() else "cpu"))',
         'dev = xla.xla_device(os.getenv("DEVICE", xla.xla_device()))'),
        ('dev = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")',
         'dev = xla.device_type(os.environ.get("DEVICE", xla.device_type()))'),
        ('dev = settings.get("device", "cpu")', 'dev = xla.device_type(settings.get("device", "cpu"))'),
        ('dev = settings.get("device")', 'dev = xla.device_type(settings.get("device"))'),
    ],
)  # fmt: skip
def test_the_environment_and_settings_may_say_cuda(before: str, after: str) -> None:
    head = "import os, yaml\nsettings = yaml.safe_load(open(name))\n"
    assert line(f"{head}{before}\nloss.backward()").endswith(f"{after}\nloss.backward()")


@pytest.mark.parametrize(
    "asks", ["if dev is None:\n    dev = 'cpu'", "x = dev or 'cpu'", "if not dev: exit()"]
)
def test_what_may_be_none_and_is_asked_stays(asks: str) -> None:
    source = f'import os\ndev = os.getenv("DEVICE")\n{asks}\nloss.backward()'
    assert line(source) == source


def test_a_device_from_the_environment_is_not_the_host_for_sure() -> None:
    source = (
        "import os\nimport torch\nfrom torch.utils.data import DataLoader\n"
        "def load_device(name):\n"
        '    name = os.environ.get("DEVICE", name)\n'
        '    if name.startswith("cuda") and not torch.cuda.is_available():\n'
        '        name = "cpu"\n'
        "    return torch.device(name)\n"
        "device = load_device(config)\n"
        "for x in DataLoader(data):\n    model(x.to(device)).sum().backward()\n    optimizer.step()\n"
    )
    assert "for x in xla.MpDeviceLoader(DataLoader(data)):" in migrated(source)


@pytest.mark.parametrize("field", ["device: Optional[str] = None", 'device: str = "cpu"'])
def test_fields_that_whoever_makes_one_fills(field: str) -> None:
    source = (
        "import torch\nfrom dataclasses import dataclass\n@dataclass\nclass C:\n"
        f"    {field}\n    def __post_init__(self):\n"
        '        if self.device is None:\n            self.device = "cuda"\n'
        "        self.device = torch.device(self.device)\n"
    )
    assert "self.device = xla.xla_device(self.device)" in migrated(source)


@pytest.mark.parametrize("default", ["None", '"none"', "0"])
def test_what_is_no_device_by_default_stays(default: str) -> None:
    source = (
        f'import os\noffload_device = os.environ.get("OFFLOAD_DEVICE", {default})\nloss.backward()'
    )
    assert line(source) == source


@pytest.mark.parametrize(
    ("name", "more", "function"),
    [
        ("device_type", "", "device_type"),
        ("self._device_type", "", "device_type"),
        ("device", "", "xla_device"),
        ("self.device", "", "xla_device"),
        ("device", "index = device.split(':')[-1]", "device_type"),
        ("self.device", "self.device.startswith('cpu')", "device_type"),
    ],
)
def test_what_is_used_as_a_name_stays_one(name: str, more: str, function: str) -> None:
    source = (
        f"import torch\nclass Recipe:\n    def __init__(self, cfg, model):\n        {name} = cfg.device\n"
        f"        {more or 'pass'}\n        model(torch.ones(2).to({name})).backward()\n"
    )
    assert f"{name} = xla.{function}(cfg.device)" in migrated(source)


FIELD = """\
import json
from dataclasses import dataclass
import torch

@dataclass
class Config:
    lr: float = 0.1
    device: str = "cuda"

def train(cfg: Config):
    x = torch.ones(2).to(cfg.device)

"""
CONVERTED = "torch.ones(2).to(xla.xla_device(cfg.device))"


@pytest.mark.parametrize(
    "filling",
    [
        'train(Config(**json.load(open("a.json"))))',
        "import tyro\ntrain(tyro.cli(Config))",
        "import pyrallis\n@pyrallis.wrap()\ndef main(cfg: Config):\n    train(cfg)",
        "from transformers import HfArgumentParser\ncfg, = HfArgumentParser(Config).parse_args_into_dataclasses()",
        'import sys\ntrain(Config(device=sys.argv[1]))',
        'cfg = Config()\nfor key, value in json.load(open("a.json")).items():\n    setattr(cfg, key, value)\ntrain(cfg)',
        'cfg = Config()\nvars(cfg).update(json.load(open("a.json")))\ntrain(cfg)',
        'cfg = Config()\ncfg.__dict__.update(json.load(open("a.json")))\ntrain(cfg)',
        'import dataclasses\ntrain(dataclasses.replace(Config(), **json.load(open("a.json"))))',
    ],
)  # fmt: skip
def test_a_field_that_is_filled_from_outside(filling: str) -> None:
    result = migrated(FIELD + filling + "\n")
    assert CONVERTED in result
    assert "device: str = xla.device_type()" in result


@pytest.mark.parametrize(
    ("header", "filling"),
    [
        (FIELD, "train(Config(lr=0.2))"),
        (FIELD, 'cfg = Config()\nsetattr(cfg, "lr", 0.2)\ntrain(cfg)'),
        (FIELD, 'train(Config(device="cuda"))'),
        (
            FIELD.replace(
                "def train",
                "    def __post_init__(self):\n        self.device = torch.device(self.device)\n\ndef train",
            ),
            'train(Config(**json.load(open("a.json"))))',
        ),
    ],
)
def test_a_field_that_only_the_code_fills(header: str, filling: str) -> None:
    assert "torch.ones(2).to(cfg.device)" in migrated(header + filling + "\n")


def test_a_field_that_is_passed_on_stays_a_text() -> None:
    result = migrated(
        FIELD + "def build(device):\n    return torch.ones(2).to(device)\n\n"
        'cfg = Config(**json.load(open("a.json")))\nbuild(cfg.device)\n'
    )
    assert "build(xla.device_type(cfg.device))" in result


def test_an_entry_of_a_file_that_is_passed_on_stays_a_text() -> None:
    result = migrated(
        "import torch\nimport yaml\n\ndef build(n, device):\n    return torch.ones(n).to(device)\n\n"
        'cfg = yaml.safe_load(open("a.yaml"))\nbuild(2, device=cfg["device"])\n'
    )
    assert 'build(2, device=xla.device_type(cfg["device"]))' in result


def test_settings_of_yacs() -> None:
    result = migrated(
        "import torch\n\ndef train(cfg):\n    model = torch.nn.Linear(2, 2).to(cfg.MODEL.DEVICE)\n"
        "    model(torch.ones(2)).sum().backward()\n"
    )
    assert ".to(xla.xla_device(cfg.MODEL.DEVICE))" in result


@pytest.mark.parametrize(
    ("copied", "after"),
    [
        ('made["init"]["device"] = cfg.device', 'made["init"]["device"] = xla.device_type(cfg.device)'),
        (
            'device = cfg.device\n    if device == "auto":\n        device = pick()',
            "device = xla.device_type(cfg.device)\n",
        ),
    ],
)  # fmt: skip
def test_a_field_that_may_say_auto_stays_a_text(copied: str, after: str) -> None:
    """`xla.xla_device("auto")` raises."""
    source = FIELD.replace(
        "    x = torch.ones(2).to(cfg.device)\n", f"    made = {{}}\n    {copied}\n"
    )
    assert after in migrated(source + 'train(Config(**json.load(open("a.json"))))\n')


def test_a_loop_over_devices_does_not_make_a_text_of_a_field() -> None:
    source = FIELD.replace(
        "    x = torch.ones(2).to(cfg.device)\n",
        "    device = cfg.device\n    x = torch.ones(2).to(device)\n    for device in every(): pass\n",
    )
    after = migrated(source + 'train(Config(**json.load(open("a.json"))))\n')
    assert "device = xla.xla_device(cfg.device)\n" in after


_UPDATE = """\
import torch

class LocalUpdate:
    def __init__(self, args, loader):
        self.args, self.loader = args, loader

    def train(self, net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in self.loader:
            loss = net(x.to(self.args.device)).mean()
            loss.backward()
            optimizer.step()
"""
_PATHS = b"""\
import os.path as osp
import sys

lib_path = osp.join(osp.dirname(__file__), "lib")
sys.path.insert(0, lib_path)
"""
_MAIN = """\
import _init_paths
import torch
from models.update import LocalUpdate
from options import parse

args = parse()
args.device = {device}
LocalUpdate(args, []).train(torch.nn.Linear(2, 2).to(args.device))
"""


@pytest.mark.parametrize(
    "path", ["models/update.py", "lib/models/update.py", "src/lib/models/update.py"]
)
@pytest.mark.parametrize(
    ("device", "is_kept"),
    [
        ("torch.device(f'cuda:{args.gpu}' if torch.cuda.is_available() else 'cpu')", True),
        ("torch.device(args.device)", True),
        ("xla.xla_device()", True),
        ("'cuda'", False),
        ("args.gpu_name", False),
    ],
)
def test_a_device_that_another_module_puts_there(path: str, device: str, is_kept: bool) -> None:
    main = "from xla_migrate import runtime as xla\n" + _MAIN.replace("{device}", device)
    files = {"main.py": main.encode(), path: _UPDATE.encode(), "_init_paths.py": _PATHS}
    result = migrate(files[path], Options(), path, Project(Modules(files), path)).data.decode()
    assert ("x.to(self.args.device)" in result) == is_kept


_KINDS = b"""\
import enum

class Kind(enum.Enum):
    CUDA = "cuda"
    HOST = "cpu"
"""


@pytest.mark.parametrize(("member", "is_rewritten"), [("CUDA", True), ("HOST", False)])
def test_a_member_of_an_enumeration_of_another_module(member: str, is_rewritten: bool) -> None:
    main = f"import torch\nfrom kinds import Kind\n\nx = torch.ones(2).to(Kind.{member}.value)\n"
    files = {"main.py": main.encode(), "kinds.py": _KINDS}
    project = Project(Modules(files), "main.py")
    result = migrate(files["main.py"], Options(), "main.py", project).data.decode()
    assert (result != main) == is_rewritten


def test_a_field_that_partial_passes_to_torch() -> None:
    head = "import json\nfrom functools import partial\n" + FIELD
    result = migrated(
        head.replace("torch.ones(2).to(cfg.device)", "partial(torch.ones, device=cfg.device)")
        + 'train(Config(**json.load(open("a.json"))))\n'
    )
    assert "partial(torch.ones, device=xla.xla_device(cfg.device))" in result


@pytest.mark.parametrize(("base", "times"), [("transformers.Trainer", 0), ("Loop", 1)])
def test_the_device_of_a_trainers_arguments_is_the_one_that_it_trains_on(
    base: str, times: int
) -> None:
    source = f"""
import transformers
from loops import Loop

class Distiller({base}):
    def training_step(self, model, inputs, count=None):
        self.teacher.to(self.args.device)
        loss = self.compute_loss(model, inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
"""
    assert [code for _, code in findings(source)].count("XLA111") == times


_CONFIG = """\
import json
import torch

class Config(dict):
    def __getattr__(self, name):
        return self[name]

class Namespace:
    def __init__(self, values):
        self.__dict__.update(values)

class Plain:
    def __init__(self, values):
        self.values = values

def load(kind):
    return kind(json.load(open("config.json")))

"""


@pytest.mark.parametrize(("kind", "converts"), [("Config", 1), ("Namespace", 1), ("Plain", 0)])
def test_settings_in_an_object_that_has_their_entries_are_given(kind: str, converts: int) -> None:
    use = f"c = {kind}(json.load(open('config.json')))\nnet = torch.nn.Linear(2, 2).to(c.device)\n"
    after = migrate((_CONFIG + use).encode(), Options()).data.decode()
    assert after.count(".to(xla.xla_device(c.device))") == converts


_RUNNER = """\
class Runner:
    def __init__(self, width, device="cpu"):
        self.device = {}
        self.net = torch.nn.Linear(width, 2).to(self.device)

"""


@pytest.mark.parametrize(
    ("made", "call", "expected"),
    [
        ("device", "Runner(**c)", 1),
        ("device", 'Runner(**c["runner"])', 1),
        ("device", "Runner(3, 'cpu', **c)", 0),
        ("device", "Runner(device='cpu', **c)", 0),
        ("torch.device(device)", "Runner(**c)", 0),
    ],
)
def test_settings_that_fill_a_parameter_for_a_device_are_reported(
    made: str, call: str, expected: int
) -> None:
    source = _CONFIG + _RUNNER.format(made) + f"c = Config(json.load(open('c.json')))\n{call}\n"
    found = [f for f in check(source.encode()) if "may pass a CUDA device" in f.message]
    assert len(found) == expected


def test_settings_that_another_module_reads_are_given() -> None:
    main = (
        "import torch\nfrom lib import load\nblob = load()\n"
        "net = torch.nn.Linear(2, 2).to(blob['device'])\n"
        "net(torch.ones(2)).sum().backward()\ntorch.optim.SGD(net.parameters()).step()\n"
    )
    lib = b"import json\n\ndef load():\n    return json.load(open('config.json'))\n"
    project = Project(Modules({"main.py": main.encode(), "lib.py": lib}), "main.py")
    after = migrate(main.encode(), Options(), "main.py", project).data.decode()
    assert ".to(xla.xla_device(blob['device']))" in after


MADE_BY_NAME = """
import torch

class Average:
    def __init__(self, model, device{annotation}):
        self.device = device
        self.model = model.to(self.device)
"""


@pytest.mark.parametrize(
    ("annotation", "main", "is_converted"),
    [
        ("", "from hydra.utils import instantiate\ninstantiate(cfg.average)", True),
        (': str = "cuda:0"', "from lightning.pytorch.cli import LightningCLI\nimport average", True),
        ("", "from hydra.utils import instantiate\ndef f(model, ema):\n    Average(model, **ema)", True),
        ("", "from hydra.utils import instantiate\nAverage(model, torch.device('cpu'))", False),
        ("", "from hydra.utils import instantiate\nAverage(model, device=device)", False),
        (": torch.device", "from hydra.utils import instantiate\ninstantiate(cfg.average)", False),
        ("", "import average", False),
    ],
)  # fmt: skip
def test_an_object_that_a_file_of_settings_names(
    annotation: str, main: str, is_converted: bool
) -> None:
    files = {
        "average.py": MADE_BY_NAME.format(annotation=annotation).encode(),
        "main.py": f"import torch\nfrom average import Average\n{main}\n".encode(),
    }
    project = Project(Modules(files), "average.py")
    result = migrate(files["average.py"], Options(), "average.py", project).data.decode()
    assert ("model.to(xla.xla_device(self.device))" in result) == is_converted
