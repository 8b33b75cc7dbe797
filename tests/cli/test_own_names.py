"""Names of the user's own, mapped in the settings (XLA003)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xla_codemods import wrappers

from .conftest import Runner


def settings(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(text)


def migrated(run: Runner, here: Path, source: str, *words: str) -> str:
    (here / "a.py").write_text(source)
    run("-q", *words, "a.py")
    return (here / "a.py").read_text()


def test_the_manuals_example_works(run: Runner, here: Path) -> None:
    """The settings in the manual are read, and their example is tested, before anything is done."""
    block = re.search(r"```toml\n(.*?)```", wrappers.__doc__ or "", re.DOTALL)
    assert block is not None
    settings(here, block[1])
    source = "import torch\nfrom mylib import to_gpu\n\nmodel = to_gpu(torch.nn.Linear(2, 2))\n"
    assert migrated(run, here, source) == (
        "import torch\nfrom xla_migrate import runtime as xla\n\n"
        "model = torch.nn.Linear(2, 2).to(xla.xla_device())\n"
    )


ALL = """
[tool.xla-migrate.devices]
"mylib.get_device" = "xla_device"
"mylib.pick" = true
[tool.xla-migrate.optimizers]
"mylib.FusedAdamW" = "torch.optim.AdamW"
"mylib.build_optimizer" = true
[tool.xla-migrate.loaders]
"mylib.CudaLoader" = "torch.utils.data.DataLoader"
"mylib.make_loader" = true
[tool.xla-migrate.functions]
"mylib.cuda_sync" = "synchronize"
"mylib.to_gpu" = "{0}.to({xla}.xla_device())"
"""


def test_every_table(run: Runner, here: Path) -> None:
    settings(here, ALL)
    source = """\
import torch
from mylib import CudaLoader, FusedAdamW, build_optimizer, cuda_sync, get_device, make_loader, to_gpu

def train(data):
    model = to_gpu(torch.nn.Linear(2, 2))
    first = FusedAdamW(model.parameters(), lr=1e-3)
    second = build_optimizer(model)
    device = get_device()
    for x in CudaLoader(data):
        x = x.to(device)
        model(x).sum().backward()
        first.step()
    for x in make_loader(data):
        x = x.to(device)
        model(x).sum().backward()
        second.step()
    cuda_sync()
"""
    assert (
        migrated(run, here, source)
        == """\
import torch
from mylib import build_optimizer, make_loader
from xla_migrate import runtime as xla

def train(data):
    model = torch.nn.Linear(2, 2).to(xla.xla_device())
    first = torch.optim.AdamW(model.parameters(), lr=1e-3)
    second = build_optimizer(model)
    device = xla.xla_device()
    for x in xla.MpDeviceLoader(torch.utils.data.DataLoader(data)):
        x = x.to(device)
        model(x).sum().backward()
        xla.optimizer_step(first)
    for x in xla.MpDeviceLoader(make_loader(data)):
        x = x.to(device)
        model(x).sum().backward()
        xla.optimizer_step(second)
    xla.synchronize()
"""
    )


def test_files_without_torch_are_looked_at(run: Runner, here: Path) -> None:
    settings(here, ALL)
    (here / "a.py").write_text("import mylib\nmylib.cuda_sync()\n")
    (here / "b.py").write_text("import other\nother.cuda_synchronise()\n")
    assert run("check", ".").out.splitlines()[0].startswith("a.py:2:1: XLA003 [*] ")
    assert "1 finding in 1 of 2 files" in run("check", ".").out


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("mylib.to_gpu(x, 3)", "its arguments differ from the mapping's"),
        ("mylib.to_gpu(*x)", "its arguments differ from the mapping's"),
        ("mylib.to_gpu()", "its arguments differ from the mapping's"),
        ("map(mylib.to_gpu, x)", "its arguments differ from the mapping's"),
        ("mylib.other()", "the file does not import `elsewhere`"),
    ],
)
def test_what_does_not_fit_is_left_to_a_person(
    run: Runner, here: Path, call: str, reason: str
) -> None:
    settings(here, ALL + '"mylib.other" = "elsewhere.thing"\n')
    source = f"import mylib\nx = {call}\n"
    assert migrated(run, here, source) == source
    result = run("check", "a.py")
    assert result.code == 1
    assert "[*]" not in result.out
    assert reason in result.out


def test_holes_keep_their_meaning(run: Runner, here: Path) -> None:
    settings(here, '[tool.xla-migrate.functions]\n"m.f" = "g({b}, {0}, {\'k\': {1}}, {xla})"\n')
    source = "import m\ny = m.f(a + 1, m.f(1, 2, b=3), b=lambda: 0)\n"
    assert migrated(run, here, source).splitlines()[-1] == (
        "y = g(lambda: 0, a + 1, {'k': g(3, 1, {'k': 2}, xla)}, xla)"
    )


def test_operators_are_put_in_parentheses(run: Runner, here: Path) -> None:
    settings(here, ALL)
    source = "import mylib\ny = mylib.to_gpu(a + b)\n"
    assert migrated(run, here, source).endswith("\ny = (a + b).to(xla.xla_device())\n")


def test_names_are_resolved_not_matched(run: Runner, here: Path) -> None:
    settings(here, ALL)
    source = "import other as mylib\n\ndef to_gpu(x): ...\n\nmylib.to_gpu(1)\nto_gpu(2)\n'mylib.to_gpu(3)'\n"
    assert migrated(run, here, source) == source
    assert "import mylib as m" not in migrated(run, here, "import mylib as m\nm.to_gpu(x)\n")


def test_relative_imports_within_the_package(run: Runner, here: Path) -> None:
    settings(here, '[tool.xla-migrate.functions]\n"mylib.utils.sync" = "synchronize"\n')
    for name in ("mylib/train/a.py", "mylib/b.py", "other/b.py"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("from .utils import sync\nsync()\n")
    (here / "mylib/train/a.py").write_text("from ..utils import sync\nsync()\n")
    assert run("check", "--statistics", ".").out.startswith("2  XLA003  [*] own-name\n")
    assert run("check", "other").code == 0


def test_safety_and_message(run: Runner, here: Path) -> None:
    settings(
        here,
        '[tool.xla-migrate.functions]\n"m.f" = { to = "synchronize", safety = "unsafe", message = "ask Ann" }\n',
    )
    source = "import m\nm.f()\n"
    assert migrated(run, here, source) == source
    assert run("check", "a.py").out.startswith("a.py:2:1: XLA003 ask Ann\n")
    assert "xla.synchronize()" in migrated(run, here, source, "--unsafe")


def test_messages_say_it_as_it_would_be_written(run: Runner, here: Path) -> None:
    settings(here, ALL)
    (here / "a.py").write_text("import mylib\nmylib.cuda_sync()\nmylib.to_gpu(x)\n")
    out = run("check", "a.py").out
    assert "`mylib.cuda_sync` is for CUDA: use `xla.synchronize`" in out
    assert "`mylib.to_gpu` is for CUDA: use `x.to(xla.xla_device())`" in out


def test_suppressed_and_ignored_like_any_other(run: Runner, here: Path) -> None:
    settings(here, ALL)
    (here / "a.py").write_text("import mylib\nmylib.cuda_sync()  # xla-migrate: ignore[XLA003]\n")
    assert run("check", ".").code == 0
    (here / "a.py").write_text("import mylib\nmylib.cuda_sync()\n")
    assert run("check", "--ignore", "XLA003", ".").code == 0


def test_a_runtime_name_must_exist(run: Runner, here: Path) -> None:
    settings(here, '[tool.xla-migrate.functions]\n"m.f" = "synchronise"\n')
    (here / "a.py").write_text("import m\n")
    result = run("check", "a.py")
    assert result.code == 2
    assert (
        'functions."m.f": the runtime has no `synchronise`; did you mean `synchronize`?'
        in result.err
    )


def test_examples_are_tested_before_anything_is_done(run: Runner, here: Path) -> None:
    text = '[tool.xla-migrate.functions."m.f"]\nto = "g({0})"\nexamples = [{ before = "import m\\ny = m.f(x)", after = "%s" }]\n'
    (here / "a.py").write_text("import m\nm.f(1)\n")
    settings(here, text % "import m\\ny = g(x)")
    expected = "examples: line 1 becomes `y = g(x)`, and `after` says `import m`"
    for words in (["a.py"], ["check", "."], ["--no-cache", "a.py"], ["-"]):
        result = run(*words)
        assert (result.code, result.out) == (2, "")
        assert expected in result.err
        assert result.err.count("\n") == 1
    assert (here / "a.py").read_text() == "import m\nm.f(1)\n"
    settings(here, text % "y = g(x)")
    assert run("a.py").code == 0
    assert (here / "a.py").read_text() == "g(1)\n"


def test_what_modules_of_the_project_hand_on(run: Runner, here: Path) -> None:
    settings(here, '[tool.xla-migrate.functions]\n"acme.gpu.sync" = "synchronize"\n')
    for name, text in {
        "acme/__init__.py": "",
        "acme/gpu.py": "def sync(): ...\n",
        "acme/api.py": "from .gpu import sync\n",
        "more.py": "from acme.api import sync\nfrom own import sync as other\n",
        "own.py": "def sync(): ...\n",
        "train.py": "import acme.api\nimport more\nfrom own import sync\n"
        "acme.api.sync()\nmore.sync()\nsync()\nmore.other()\n",
    }.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text)
    lines = run("check", "train.py").out.splitlines()
    assert [line.split(": ")[0] for line in lines[:-1]] == ["train.py:4:1", "train.py:5:1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"m.f" = "{0}.to({xla}.nonsense())"', 'functions."m.f": the runtime has no `nonsense`'),
        ('"m.f" = "sync"\n[tool.xla-migrate.devices]\n"m.f" = true', "is also in another table"),
        ('"m.f" = { to = "{0}", examples = [{ before = "x = (", after = "" }] }',
         'functions."m.f".examples: line 1 of `before` is no Python: \'(\' was never closed'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_line(run: Runner, here: Path, text: str, said: str) -> None:
    settings(here, f"[tool.xla-migrate.functions]\n{text}\n")
    (here / "a.py").write_text("import m\nm.f(1)\n")
    result = run("check", "a.py")
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_a_device_of_ones_own_is_an_accelerator(run: Runner, here: Path) -> None:
    settings(here, '[tool.xla-migrate.devices]\n"mylib.pick" = true\n')
    (here / "a.py").write_text(
        "import torch\nfrom mylib import pick, model, opt\nfor b in [1]:\n"
        "    loss = model(torch.ones(b, device=pick())).sum()\n    loss.backward()\n    opt.step()\n"
        "    print(loss.item())\n"
    )
    assert "a.py:7:11: XLA503" in run("check", "a.py").out


@pytest.mark.parametrize(
    "source",
    [
        "from mylib.gpu import to_gpu as tg\n\nx = load()\ny = tg(x)\n",
        "from mylib.gpu import (\n    other,\n    to_gpu as tg,\n)\n\n\ndef f(x):\n    return tg(x)\n",
        "def f(x):\n    from mylib.gpu import to_gpu as tg\n    return tg(x)\n",
        "import mylib.gpu as g\n\nx = load()\ny = g.to_gpu(x)\n",
    ],
)
def test_under_another_name(run: Runner, here: Path, source: str) -> None:
    (here / "pyproject.toml").write_text(
        "[tool.xla-migrate.functions]\n'mylib.gpu.to_gpu' = '{0}.to({xla}.xla_device())'\n"
    )
    (here / "a.py").write_text(source)
    assert "XLA003 [*]" in run("check", "a.py").out
    assert run("a.py").code == 0
    assert "x.to(xla.xla_device())" in (here / "a.py").read_text()
