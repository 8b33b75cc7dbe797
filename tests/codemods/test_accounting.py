"""Every CUDA-only name has an account: it is rewritten, or a finding speaks at its line, or it is provably dead.

Each name of the catalog is planted in each of the settings in which names have slipped through.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from xla_codemods import catalog
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.catalog import row as kinds
from xla_codemods.catalog.families import is_cuda_only
from xla_codemods.engine import Migration, Options, check, migrate

from .helpers import findings, migrated

# C++ extensions, which run on the host, are built by the same functions as kernels; and to read a setting does no harm.
EXCUSED = {
    "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cuda.matmul.fp32_precision",
}
# A package is found by its import, a class that is rewritten needs no second account, and a program of remote calls that
# names no device trains on the host.
ELSEWHERE = {"torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.distributed.rpc.init_rpc"}
NAMES = [
    name
    for name, row in catalog.table().items()
    if re.fullmatch(r"\w+(\.\w+)+", name)
    and is_cuda_only(name)
    and row.fate != kinds.STAYS
    and row.left != kinds.HARMLESS
    and name not in EXCUSED
]

Setting = Callable[[str, str, str], str]
SETTINGS: dict[str, Setting] = {
    "called": lambda home, last, root: f"import {root}\nprint({home}.{last}(1))\n",
    "unused": lambda home, last, root: (
        f"import {root}\ndef f():\n    kept = {home}.{last}(1)\n    return 3\n"
    ),
    "imported in a branch": lambda home, last, root: (
        f"def f(a):\n    if a:\n        from {home} import {last} as planted\n"
        "    else:\n        from other import thing as planted\n    return planted(a)\n"
    ),
    "beside a definition": lambda home, last, root: (
        f"if a:\n    from {home} import {last} as planted\nelse:\n    def planted(x):\n"
        "        return x\nprint(planted(2))\n"
    ),
    "in the else of a rewritten test": lambda home, last, root: (
        f"import torch\nimport {root}\nif not torch.cuda.is_available():\n    x = torch.ones(2)\n"
        f"else:\n    kept = {home}.{last}(1)\n    print(kept)\n"
    ),
    "under a second name": lambda home, last, root: (
        f"import {root}\nimport other\nplanted = {home}.{last} if other.x else other.y\nplanted(1)\n"
    ),
    "by getattr": lambda home, last, root: f"import {root}\nx = getattr({home}, '{last}')(1)\n",
    "imported by name": lambda home, last, root: (
        f"import importlib\nmod = importlib.import_module('{home}')\nx = mod.{last}(1)\n"
    ),
    "in an attribute": lambda home, last, root: (
        f"import {root}\nclass A:\n    def __init__(self):\n        self.mod = {home}\n"
        f"    def g(self, loss):\n        loss.backward()\n        return self.mod.{last}(1)\n"
    ),
    "as a default": lambda home, last, root: (
        f"import {root}\ndef g(a, planted={home}.{last}):\n    return planted(a)\n"
    ),
    "in a dictionary": lambda home, last, root: f"import {root}\nT = {{'a': {home}.{last}}}\n",
    "as a decorator": lambda home, last, root: (
        f"import {root}\n@{home}.{last}\ndef f():\n    pass\n"
    ),
}


def is_accounted_for(result: Migration, home: str, last: str) -> bool:
    """Whether nothing of the name is left in the new source, or something is said of it."""
    data = result.data.decode()
    root = home.partition(".")[0]
    if re.search(r"from xla_migrate\.runtime\.compat\S* import", data):  # of the same names
        return re.search(rf"^\s*(import|from) {root}\b", data, re.MULTILINE) is None
    here = rf"\b{re.escape(home)}\.{last}\b|\bimport {last}\b|\bmod\.{last}\b|, '{last}'\)"
    return bool(result.left) or re.search(here, data) is None


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_name_of_the_catalog(setting: str) -> None:
    """Each name is planted in four of the twelve settings, and the next name of its family in four others."""
    assert len(NAMES) > 400
    silent = []
    for name in NAMES[[*SETTINGS].index(setting) % 3 :: 3]:
        home, _, last = name.rpartition(".")
        if setting == "in an attribute" and ("." not in home or name in ELSEWHERE):
            continue
        source = SETTINGS[setting](home, last, name.partition(".")[0])
        if not is_accounted_for(migrate(source.encode()), home, last):
            silent.append(name)
    assert not silent, f"nobody speaks of {silent[:20]}"


def in_project(files: dict[str, str], path: str) -> Migration:
    modules = Modules({name: text.encode() for name, text in files.items()})
    return migrate(files[path].encode(), Options(), path, Project(modules, path))


@pytest.mark.parametrize(
    ("home", "name"),
    [("torch.nn.parallel", "DDP"), ("torch.nn.parallel", "Wrapped"), ("apex.parallel", "ApexDDP")],
)
@pytest.mark.parametrize(
    ("imported", "used"),
    [
        ("import ext_dist", "ext_dist.{}"),
        ("import ext_dist as E", "E.{}"),
        ("from ext_dist import {}", "{}"),
        ("from ext_dist import {} as Other", "Other"),
    ],
)
def test_names_that_a_module_of_the_project_hands_on(
    home: str, name: str, imported: str, used: str
) -> None:
    lib = f"from {home} import DistributedDataParallel as {name}\n"
    main = f"{imported.format(name)}\ndef f(model, x):\n    model = {used.format(name)}(model)\n    model(x).backward()\n"
    result = in_project({"ext_dist.py": lib, "main.py": main}, "main.py")
    assert "model = xla.DistributedDataParallel(model)" in result.data.decode()


@pytest.mark.parametrize(
    ("imported", "used"),
    [
        ("from .utils import device_module", "device_module"),
        ("from .utils import device_module as dm", "dm"),
        ("from . import utils", "utils.device_module"),
        ("from .utils import *", "device_module"),
        ("from pkg.utils import device_module", "device_module"),
    ],
)
def test_a_module_of_torch_that_is_kept_in_another_file(imported: str, used: str) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/utils.py": "import torch\ndevice_module = torch.cuda\n",
        "pkg/main.py": f"{imported}\ndef main(rank):\n    {used}.set_device(rank)\n    {used}.empty_cache()\n    loss.backward()\n",
    }
    result = in_project(files, "pkg/main.py")
    assert "    xla.set_device(rank)\n" in result.data.decode()
    assert "empty_cache" not in result.data.decode()


def test_what_only_cuda_has_is_found_where_a_module_hands_it_on() -> None:
    files = {
        "lib.py": "from torch.cuda import CUDAGraph as Graph\n",
        "main.py": "import lib\nfrom lib import Graph as G\ndef f(loss):\n    loss.backward()\n    return lib.Graph(), G()\n",
    }
    assert [f.code for f in in_project(files, "main.py").left] == ["XLA901", "XLA901"]


def test_a_module_that_keeps_a_class_hands_it_on() -> None:
    files = {
        "ext_dist.py": "import torch\nWrapped = torch.nn.parallel.DistributedDataParallel\n",
        "main.py": "import ext_dist\ndef f(model, x):\n    ext_dist.Wrapped(model)(x).backward()\n",
    }
    assert "xla.DistributedDataParallel" in in_project(files, "ext_dist.py").data.decode()


def test_a_modules_own_class_of_that_name_is_its_own() -> None:
    files = {
        "ext_dist.py": "class DDP:\n    pass\n",
        "main.py": "import ext_dist\ndef f(model):\n    return ext_dist.DDP(model)\n",
    }
    assert in_project(files, "main.py").data.decode() == files["main.py"]


@pytest.mark.parametrize(
    "source",
    [
        "if torch.cuda.is_available() and HAS_TRITON:\n    triton_kernel(x)\n",
        "if pin_memory and not torch.cuda.is_available():\n    pin_memory = False\n",
        "n = isinstance(s, torch.cuda.amp.GradScaler)\n",
        "def f(m: torch.nn.parallel.DistributedDataParallel):\n    return m\n",
        "k = torch.utils.cpp_extension.load(name='t', sources=['t.cpp'])\n",
        "a = torch.backends.cudnn.benchmark\n",
    ],
)
def test_what_a_rule_lets_stay_is_accounted_for(source: str) -> None:
    assert findings("import torch\nimport torch.utils.cpp_extension\n" + source) == []


def test_an_import_with_two_meanings_is_found_at_its_line() -> None:
    """Neither can be rewritten: which of them the name is, the program decides."""
    source = """
        def wrap(args, model):
            if args.apex:
                from apex.parallel import DistributedDataParallel as DDP
            else:
                from torch.nn.parallel import DistributedDataParallel as DDP
            return DDP(model)
        """
    assert [line for line, _ in findings(source)] == [4, 6]


def test_a_module_got_by_name_is_followed() -> None:
    source = """
        import importlib
        import torch

        cuda = importlib.import_module("torch.cuda")
        print(cuda.is_available(), importlib.import_module("torch.cuda").device_count())
        print(getattr(torch, "cuda").is_available(), getattr(torch.cuda, "device_count")())
        """
    assert migrated(source).count("xla.is_available()") == 2
    assert migrated(source).count("xla.device_count()") == 2


@pytest.mark.parametrize(
    "source",
    [
        "@compute_type(nn.DataParallel)\ndef shape(module):\n    return module.module\n",
        "@table.register(nn.DataParallel, 2)\nclass Wrapped:\n    pass\n",
        "SHAPES = {nn.DataParallel: 1, nn.Linear: 2}\n",
    ],
)
def test_a_type_by_which_something_is_chosen_is_a_note(source: str) -> None:
    found = check(
        f"import torch\nfrom torch import nn\nx = torch.ones(2).cuda()\n{source}".encode()
    )
    assert {f.severity for f in found if "DataParallel" in f.message} <= {"info"}
