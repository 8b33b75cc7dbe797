"""Modules of a project tell each other what one file alone cannot know."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from xla_codemods.analysis.inference.values import ACCEL, DEVICE, LOADER, MODULE, OPTIMIZER, TENSOR
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.analysis.script import Script
from xla_codemods.engine import Options, migrate
from xla_codemods.finding import Finding
from xla_codemods.source import Source

LOOP = """
    import torch

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = model(x.cuda(), y.cuda())
            loss.backward()
            optimizer.step()
    """


def modules(files: dict[str, str]) -> Modules:
    return Modules({path: textwrap.dedent(text).encode() for path, text in files.items()})


def after(files: dict[str, str]) -> dict[str, str]:
    """All files, migrated; a second run must change nothing."""
    results = _migrated(modules(files))
    assert _migrated(modules(results)) == results, "a second run changes something"
    return results


def _migrated(given: Modules) -> dict[str, str]:
    return {
        path: migrate(data, path=path, project=Project(given, path)).data.decode()
        for path, data in given.files.items()
    }


def left(files: dict[str, str], path: str) -> list[Finding]:
    given = modules(files)
    return migrate(given.files[path], Options(), path, Project(given, path)).left


# Names that a module only hands on.

AMP = {
    "direct": {"util/amp.py": "from torch.cuda.amp import GradScaler, autocast"},
    "renamed": {
        "util/amp.py": "from .old import cast as autocast, Scaler as GradScaler",
        "util/old.py": "from torch.cuda.amp import autocast as cast\nfrom torch.cuda.amp import GradScaler as Scaler",
    },
    "fallback": {
        "util/amp.py": """
            try:
                from torch.cuda.amp import GradScaler, autocast
            except ImportError:
                class autocast:
                    pass
                class GradScaler:
                    pass
            """
    },
    "star": {
        "util/amp.py": "from .old import *",
        "util/old.py": "import os\nfrom torch.cuda.amp import *",
    },
    "in brackets": {
        "util/amp.py": "from torch.cuda.amp import (  # both)\n    GradScaler,\n    autocast,  # (old)\n)"
    },
}
TRAIN = """
    import torch
    from util.amp import GradScaler, autocast

    def train(model, loader, optimizer):
        scaler = GradScaler()
        for x, y in loader:
            with autocast():
                loss = model(x.cuda(), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """


@pytest.mark.parametrize("kind", AMP)
@pytest.mark.parametrize("package", [True, False])
def test_what_is_handed_on_is_what_it_was(kind: str, package: bool) -> None:
    """`with autocast():` would do nothing on XLA, and say nothing (fact 1.71)."""
    files = {"train.py": TRAIN, **AMP[kind], **({"util/__init__.py": ""} if package else {})}
    result = after(files)["train.py"]
    assert "with xla.autocast():" in result
    assert "caler" not in result
    assert "util" not in result


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("from ..util import autocast", "autocast"),
        ("from .. import util", "util.autocast"),
        ("from ..util import amp", "amp.autocast"),
        ("import lib.util", "lib.util.autocast"),
        ("from lib import util as u", "u.amp.autocast"),
    ],
)
def test_however_the_module_is_imported(line: str, use: str) -> None:
    files = {
        "lib/__init__.py": "",
        "lib/util/__init__.py": "from .amp import autocast",
        "lib/util/amp.py": "from torch.cuda.amp import autocast",
        "lib/train/loop.py": f"import torch\n{line}\n\ndef f(model, x):\n    with {use}():\n        return model(x)\n",
    }
    assert "with xla.autocast():" in after(files)["lib/train/loop.py"]


def test_a_function_of_the_module_itself_stays() -> None:
    files = {
        "util.py": """
            from contextlib import nullcontext
            from torch.cuda.amp import autocast as torch_autocast

            def autocast(on=False):
                return torch_autocast() if on else nullcontext()
            """,
        "train.py": TRAIN.replace("util.amp", "util"),
    }
    assert "with autocast():" in after(files)["train.py"]


def test_a_name_that_the_module_rebinds_stays() -> None:
    files = {
        "util.py": "from torch.cuda.amp import autocast\nif slow():\n    autocast = Nothing\n",
        "train.py": TRAIN.replace("util.amp", "util"),
    }
    assert "with autocast():" in after(files)["train.py"]


def test_modules_that_import_each_other_end() -> None:
    files = {"a.py": "from b import autocast", "b.py": "from a import autocast"}
    files["train.py"] = TRAIN.replace("util.amp", "a")
    assert "with autocast():" in after(files)["train.py"]


def test_a_module_that_cannot_be_parsed_tells_nothing() -> None:
    files = {"util.py": "from torch.cuda.amp import autocast\nprint 'old'", "train.py": TRAIN}
    files["train.py"] = TRAIN.replace("util.amp", "util")
    given = modules(files)
    result = migrate(given.files["train.py"], project=Project(given, "train.py"))
    assert b"with autocast():" in result.data


COMMON = """
    import os
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.backends.cudnn as cudnn
    from torch.cuda.amp import autocast, GradScaler

    cudnn.benchmark = True
    device = torch.device("cuda")
    """
STARRED = """
    from common import *

    def train(model, loader):
        torch.manual_seed(0)
        cudnn.deterministic = True
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        scaler = GradScaler()
        for x, y in loader:
            with autocast():
                loss = model(x.to(device), y.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save(model.state_dict(), "last.pt")
        torch.cuda.empty_cache()
    """


def test_all_that_a_star_brings() -> None:
    result = after({"common.py": COMMON, "train.py": STARRED})
    train = result["train.py"]
    for line in (
        "xla.manual_seed(0)",
        "xla.set_cudnn(deterministic=True)",
        "fused=xla.supports_fused()",
        "with xla.autocast():",
        'xla.save(model.state_dict(), "last.pt")',
    ):
        assert line in train
    assert "cuda" not in train
    assert "caler" not in train


def test_what_a_star_brings_to_others_stays() -> None:
    """`cudnn` is not used any more in the module that imports it; another has it from there."""
    other = "from common import *\n\ndef fast():\n    return cudnn.version()\n"
    files = {"common.py": COMMON, "train.py": STARRED, "other.py": other}
    assert "import torch.backends.cudnn as cudnn" in after(files)["common.py"]
    alone = migrate(textwrap.dedent(COMMON).encode()).data.decode()
    assert "import torch.backends.cudnn as cudnn" not in alone, "by itself it is of no use"


@pytest.mark.parametrize(
    "importing",
    [
        "from common import cudnn",
        "from common import (os,\n    cudnn)",
        "import common\ncommon.cudnn.version()",
        "import common as c\nprint(c.cudnn)",
    ],
)
def test_what_others_import_stays(importing: str) -> None:
    files = {"common.py": COMMON, "other.py": importing}
    assert "import torch.backends.cudnn as cudnn" in after(files)["common.py"]


@pytest.mark.parametrize(
    ("public", "stays"), [("['device']", False), ("('device', 'cudnn')", True)]
)
def test_a_star_brings_what_all_names(public: str, stays: bool) -> None:
    common = textwrap.dedent(COMMON) + f"__all__ = {public}\n"
    result = after({"common.py": common, "other.py": "from common import *"})["common.py"]
    assert ("cudnn as cudnn" in result) == stays


def test_what_others_import_under_that_name_from_elsewhere_is_not_meant() -> None:
    files = {"common.py": COMMON, "other.py": "import common\nfrom torch.backends import cudnn"}
    assert "cudnn as cudnn" not in after(files)["common.py"]


def test_all_says_what_a_star_brings() -> None:
    common = textwrap.dedent(COMMON) + "__all__ = ['device']\n"
    files = {"common.py": common, "train.py": STARRED}
    assert "with autocast():" in after(files)["train.py"]


@pytest.mark.parametrize(
    "public",
    [
        "__all__ = ['device', 'autocast', 'torch']",
        "__all__ = ('autocast', 'device')",
        "__all__ = ['device']\n__all__ += ['autocast']",
        "__all__ = ['autocast'] + others.__all__",
        "__all__: list[str] = ['autocast']",
    ],
)
def test_what_all_names_is_what_a_star_brings(public: str) -> None:
    """Left alone, such an `autocast` would silently do nothing."""
    common = textwrap.dedent(COMMON) + public + "\n"
    assert "with xla.autocast():" in after({"common.py": common, "train.py": STARRED})["train.py"]


@pytest.mark.parametrize(
    "public", ["__all__ = ['torch', 'cudnn']", "__all__ = [n for n in dir() if n[0] != '_']"]
)
def test_what_all_may_not_name_is_left(public: str) -> None:
    files = {"common.py": f"{textwrap.dedent(COMMON)}{public}\n", "train.py": STARRED}
    assert "with autocast():" in after(files)["train.py"]


def test_all_names_what_begins_with_an_underscore() -> None:
    files = {
        "common.py": "import torch as _torch\n__all__ = ['_torch']\n",
        "train.py": "import torch\nfrom common import *\n_torch.cuda.synchronize()\n",
    }
    assert "xla.synchronize()" in after(files)["train.py"]


def test_a_star_of_an_unknown_module_beside_it_could_hide_all() -> None:
    train = STARRED.replace("from common import *", "from common import *\n    from other import *")
    files = {"common.py": COMMON, "train.py": train}
    assert "with autocast():" in after(files)["train.py"]


def test_a_star_of_an_unknown_module_does_not_hide_modules_of_torch() -> None:
    files = {
        "common.py": "import os\nfrom other import *\n",
        "own.py": "import torch\nfrom torch.backends import cudnn\n",
        "train.py": "from common import *\nfrom own import *\ntorch.cuda.synchronize()\ncudnn.benchmark = True\n",
    }
    result = after(files)["train.py"]
    assert "xla.synchronize()" in result
    assert "xla.set_cudnn(benchmark=True)" in result


def test_a_star_brings_nothing_that_begins_with_an_underscore() -> None:
    files = {
        "common.py": "import torch as _torch",
        "train.py": "import torch\nfrom common import *\n_torch.cuda.synchronize()\n",
    }
    assert "_torch.cuda.synchronize()" in after(files)["train.py"]


# Scalers that other modules reach for.

TRAINER = """
    import torch

    class Trainer:
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.scaler = torch.amp.GradScaler("cuda")

        def step(self, loss):
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
    """
HOOK = """
    import torch

    def save(trainer):
        torch.save({"scaler": trainer.scaler.state_dict()}, "last.pt")
    """


def test_a_scaler_that_another_module_asks_for_its_state_stays() -> None:
    main = "from trainer import Trainer\nfrom hook import save\nsave(Trainer(None))\n"
    result = after({"trainer.py": TRAINER, "hook.py": HOOK, "main.py": main})
    assert "self.scaler = xla.GradScaler()" in result["trainer.py"]
    assert "trainer.scaler.state_dict()" in result["hook.py"]
    assert "loss.backward()" in result["trainer.py"]


def test_one_that_nobody_else_has_goes() -> None:
    main = "from trainer import Trainer\nTrainer(None)\n"
    result = after({"trainer.py": TRAINER, "hook.py": HOOK, "main.py": main})
    assert "caler" not in result["trainer.py"], "nothing connects the hook with the trainer"


def test_a_scaler_that_another_module_imports_stays() -> None:
    files = {
        "loop.py": """
            import torch

            scaler = torch.cuda.amp.GradScaler()

            def step(loss, optimizer):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
        "main.py": "from loop import scaler, step\nprint(scaler.is_enabled())\n",
    }
    result = after(files)
    assert "scaler = xla.GradScaler()" in result["loop.py"]


# Programs that train on an accelerator.

SEED = "import torch\n\ndef set_seed(seed):\n    torch.manual_seed(seed)\n"


def test_the_seed_of_a_program_that_trains_on_an_accelerator() -> None:
    """The module that seeds speaks of none; on XLA the seed would not be the device's (fact 1.30)."""
    main = "from seed import set_seed\nfrom loop import train\nset_seed(0)\ntrain()\n"
    files = {"seed.py": SEED, "loop.py": LOOP, "main.py": main}
    assert "    xla.manual_seed(seed)\n" in after(files)["seed.py"]


@pytest.mark.parametrize(
    "files",
    [
        {"loop.py": LOOP, "main.py": "from seed import set_seed\n"},
        {
            "loop.py": LOOP,
            "tests/test_loop.py": "from seed import set_seed\nfrom loop import train",
        },
        {"loop.py": LOOP.replace(".cuda()", ""), "main.py": "import seed, loop\n"},
        {"loop.py": "import torch\ntorch.cuda.synchronize()", "main.py": "import seed, loop\n"},
    ],
    ids=["not together", "a test", "on the host", "no training"],
)
def test_other_seeds_stay(files: dict[str, str]) -> None:
    assert after({"seed.py": SEED, **files})["seed.py"] == SEED


# Slices in functions of other modules.

BATCH = """
    def get_batch(source, i, length):
        length = min(length, len(source) - 1 - i)
        return source[i : i + length], source[i + 1 : i + 1 + length].view(-1)
    """
SLICED = """
    import torch
    from lib import get_batch

    def train(model, optimizer, device):
        source = torch.arange(1000).to(device)
        for i in range(0, 900, 10):
            x, y = get_batch({arguments})
            loss = model(x, y)
            loss.backward()
            optimizer.step()
    """


@pytest.mark.parametrize("arguments", ["source, i, 10", "i=i, length=10, source=source"])
def test_a_function_that_slices_what_it_is_given(arguments: str) -> None:
    """Compiles in every step (fact 3.31); here nothing is sliced, and there nothing is on a device."""
    files = {
        "lib/__init__.py": "from .batches import get_batch",
        "lib/batches.py": BATCH,
        "train.py": SLICED.format(arguments=arguments),
    }
    (finding,) = left(files, "train.py")
    assert (finding.code, finding.edits) == ("XLA506", ())
    assert "`get_batch` slices at a Python number that changes" in finding.message


@pytest.mark.parametrize("arguments", ["source, 5, 10", "list(range(900)), i, 10", "source, 0, i"])
def test_one_that_does_not(arguments: str) -> None:
    batch = BATCH.replace("source[i : i + length], source[i + 1 : i + 1 + length]", "source[i:]")
    files = {"lib.py": batch, "train.py": SLICED.format(arguments=arguments)}
    assert left(files, "train.py") == []


# What functions and classes of other modules give.


def value(called: str, lib: str) -> frozenset[str]:
    """The kinds of `called`, in a script that trains, after `from lib import *names of lib*`."""
    names = sorted(set(re.findall(r"(?:def|class) (\w+)", lib)))
    script = f"import torch\nfrom lib import {', '.join(names)}\nloss.backward()\nx = {called}\n"
    given = modules({"lib.py": lib, "train.py": script})
    model = Script(Source(given.files["train.py"]), project=Project(given, "train.py"))
    (binding,) = model.module.bindings["x"]
    return model.value(binding.value).kinds


@pytest.mark.parametrize(
    ("lib", "called", "kinds"),
    [
        ("from torch.optim import Adam\ndef make(m): return Adam(m.parameters())", "make(m)", {OPTIMIZER}),
        ("from torch import nn\nclass Net(nn.Module): pass", "Net()", {MODULE}),
        ("from torch import nn\nclass Net(nn.Module): pass\ndef make(): return Net().cuda()", "make()", {MODULE}),
        ("import torch\ndef get(): return torch.device('cuda')", "get()", {DEVICE, ACCEL}),
        ("from torch.utils.data import DataLoader as D\ndef make(): return D(1), D(2)", "make()[1]", {LOADER}),
        ("import torch\ndef put(x, device): return torch.ones(2).to(device)", "put(1, 2)", {TENSOR, ACCEL}),
        ("class Env:\n    def step(self): pass", "Env()", set()),
        ("def make(name): return globals()[name]()", "make('x')", set()),
        ("def a(): return b()\ndef b(): return a()", "a()", set()),
    ],
)  # fmt: skip
def test_what_a_call_gives(lib: str, called: str, kinds: set[str]) -> None:
    assert value(called, lib) == kinds


# Whole projects.

PROJECTS = Path(__file__).parents[4] / "fixtures" / "projects"


@pytest.mark.parametrize("name", ["ddp_package", "factory", "hooks"])
def test_nothing_is_left(name: str) -> None:
    root = PROJECTS / name
    files = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    result = after(files)
    for path, text in result.items():
        # Only CUDA pins memory, and the modules with loaders do not see the device loader.
        pins = "pin = torch.cuda.is_available()"
        assert "cuda" not in text.replace(pins, "") or path == "vision/compat.py"
        # `self.loss`, which a hook in another module prints, is read in each step.
        expected = ["XLA503"] if path == "vision/core/base.py" else []
        assert [finding.code for finding in left(result, path)] == expected


def test_a_trainer_over_seven_modules() -> None:
    root = PROJECTS / "hooks"
    files = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    result = after(files)
    assert "xla.manual_seed(seed)" in result["vision/seeding.py"]
    assert "self.scaler = xla.GradScaler(enabled=args.amp)" in result["vision/core/base.py"]
    assert "with xla.autocast(enabled=self.args.amp):" in result["vision/core/trainer.py"]
    assert "compat" not in result["vision/core/trainer.py"]
    assert result["vision/compat.py"] == files["vision/compat.py"]


def test_a_file_that_other_modules_decide_depends_on_them() -> None:
    given = modules({"loop.py": LOOP, "seed.py": SEED, "main.py": "from loop import train"})
    asked = {}
    for path, data in given.files.items():
        project = Project(given, path)
        migrate(data, path=path, project=project)
        asked[path] = project.depends_on_modules
    assert asked["loop.py"]
    assert asked["seed.py"]


def test_a_file_that_is_none_of_its_projects_is_judged() -> None:
    """Too large a project has no files at all, and a hidden folder is part of none."""
    source = "import torch\nfrom torch.utils.data import DataLoader\ndef step(x, y):\n    return x.item() + y.cuda()\n"
    source += "class A:\n    def loop(self, data):\n        for x in DataLoader(data):\n            self.f(x).backward()\n"
    for files in ({}, {"main.py": "from other import step"}):
        project = Project(modules(files), "big/train.py")
        migrate(source.encode(), path="big/train.py", project=project)


SAMPLED = """
    import torch
    from torch import nn

    class LM(nn.Module):
        @torch.no_grad()
        def sample(self, ids, steps):
            for _ in range(steps):
                token = self(ids[:, -self.length :]).argmax(-1)
                ids = torch.cat((ids, token), dim=1)
            return ids
    """


@pytest.mark.parametrize(
    ("load", "loads"),
    [
        ("import_module(name or 'net')", True),
        ("__import__(name or 'net')", True),
        ("import_module(name or 'other')", False),
        ("import_module('models.' + name)", True),
        ("import_module(f'models.{name}')", True),
        ("import_module('others.' + name)", False),
    ],
)
def test_modules_that_a_program_loads_by_name(load: str, loads: bool) -> None:
    program = f"""
        from importlib import import_module
        import torch

        def main(name, loader):
            model = {load}.Net().cuda()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x in loader:
                model(x.cuda()).mean().backward()
                optimizer.step()
        """
    net = """
        import torch

        def squared(x):
            return torch.sum(x * x, -1)

        def far(x, n):
            order = torch.arange(n).to(x.device).view(1, n)
            distance = squared(x)
            order[distance > 3] = n
            return order

        class Net(torch.nn.Module):
            def forward(self, x):
                return far(x, 4) * x
        """
    found = after({"train.py": program, "models/net.py": net})
    assert ("xla.assign(order, distance > 3, n)" in found["models/net.py"]) is loads


@pytest.mark.parametrize(
    "load",
    [
        'import_module(f"package.{kind}.{name}")',
        'import_module("package.models." + name)',
        'import_module(f"{__name__}.models.{name}")',
        'import_module(__name__ + ".models." + name)',
        'import_module(f".models.{name}", __name__)',
        'import_module(f".{kind}.{name}", package=__package__)',
    ],
)
def test_packages_that_load_their_modules(load: str) -> None:
    program = """
        import package
        import torch

        def main(loader):
            model = package.TABLE["net"]().cuda()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x in loader:
                model(x.cuda()).mean().backward()
                optimizer.step()
        """
    start = f"""
        import os
        from importlib import import_module
        TABLE = {{}}
        for kind in ("models",):
            for name in os.listdir(kind):
                {load}
        """
    net = """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x, mask):
                return x.masked_select(mask).sum()
        """
    found = after({"train.py": program, "package/__init__.py": start, "package/models/net.py": net})
    assert "xla.masked_sum(x, mask, broadcast=True)" in found["package/models/net.py"]
    other = {
        "train.py": program,
        "package/__init__.py": "TABLE = {}\n",
        "package/models/net.py": net,
    }
    assert "xla." not in after(other)["package/models/net.py"]


def test_a_model_that_names_no_device_samples_on_that_of_its_program() -> None:
    """On XLA a slice from further back than the text is long raises."""
    train = "from model import LM\nLM().cuda()(x).sum().backward()\n"
    assert (
        "max(ids.size(1) - self.length, 0)"
        in after({"model.py": SAMPLED, "train.py": train})["model.py"]
    )
    assert (
        "max(ids"
        not in after({"model.py": SAMPLED, "train.py": "from model import LM\n"})["model.py"]
    )


def test_a_module_that_was_rewritten_is_asked_as_it_was() -> None:
    """Its rewritten text is parsed as well: the nodes of the two are not mixed."""
    files = {
        "log.py": """
            import torch

            def has_gpus(n=2):
                return torch.cuda.is_available() and torch.cuda.device_count() >= n
            """,
        "train.py": """
            import torch
            from log import has_gpus

            assert has_gpus(4)
            x = torch.ones(2).cuda()
            """,
    }
    known = modules(files)
    known.scope("train.py")
    for path in ("train.py", "log.py"):
        done = migrate(known.files[path], path=path, project=Project(known, path))
        assert b"xla." in done.data


@pytest.mark.parametrize(
    "trainer",
    [
        "from transformers import TrainingArguments\nTrainer(args=TrainingArguments('out')).train()",
        "from accelerate import Accelerator\nAccelerator().backward(loss)",
    ],
)
def test_programs_of_frameworks_train_on_an_accelerator(trainer: str) -> None:
    known = modules({"data.py": "import torch", "train.py": f"import data\n{trainer}"})
    assert Project(known, "data.py").runs_accelerated


def test_a_module_called_as_its_package_does_not_hide_the_package() -> None:
    files = modules(
        {
            "ocr/__init__.py": "",
            "ocr/ocr.py": "VERSION = 1",
            "ocr/train/base.py": "class Base:\n    pass",
            "ocr/train/net.py": "from ocr.train.base import Base",
        }
    )
    assert files.locate("ocr.train.base.Base", "ocr/train/net.py") == (
        "ocr/train/base.py",
        ["Base"],
    )
    assert files.locate("ocr.VERSION", "ocr/train/net.py") == ("ocr/__init__.py", ["VERSION"])


def test_a_module_next_to_a_script_comes_first() -> None:
    files = modules({"utils/__init__.py": "", "tools/utils.py": "a = 1", "tools/train.py": ""})
    assert files.locate("utils.a", "tools/train.py") == ("tools/utils.py", ["a"])
