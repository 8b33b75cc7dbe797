"""The searches that save work hide no finding: what rules listen to is seen in the bytes of a file, and on its lines."""

from __future__ import annotations

import pytest

from xla_codemods import hot_lines
from xla_codemods.analysis import parsed_file
from xla_codemods.catalog.families import PACKAGES, PARTS, is_cuda_only
from xla_codemods.engine import _DISPATCH, check
from xla_codemods.prefilter import concerns
from xla_codemods.source import Source

from ..each import each

NAMES = sorted({*_DISPATCH.calls, *_DISPATCH.references})
# Of these the arguments decide, which hold a word themselves (commands, paths, variables' names), or what their workers do.
OF_PYTHON = set(
    "asyncio cloudpickle concurrent ctypes dill functools importlib invoke joblib multiprocessing operator os pathlib pexpect pickle safetensors shutil subprocess".split()
)


class EveryLine(parsed_file.HotLines):
    def between(self, first: int, last: int) -> bool:
        return True


def found(source: str) -> list[tuple[str, int, int, str]]:
    return [(f.code, f.line, f.column, f.message) for f in check(source.encode())]


def hidden(source: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int, str]]:
    """What is found in `source` only if every line of it is walked."""
    seen = found(source)
    with monkeypatch.context() as patch:
        patch.setattr(parsed_file, "HotLines", EveryLine)
        everything = found(source)
    return [finding for finding in everything if finding not in seen]


def sources(name: str) -> list[str]:
    """Files that use `name` under every local name that an import can give it."""
    home, _, last = name.rpartition(".")
    root = name.partition(".")[0]
    return [
        f"import {root}\n\ny = {name}(1)\n",
        f"import {root}\n\n\nx = {name}\n",
        f"import {root}\n\ndef f(a):\n    return {name}(a)\n",
        f"from {home} import {last}\n\ny = {last}(1)\n",
        f"from {home} import {last} as z\n\ny = z(1)\n",
        f"import {home} as h\n\ny = h.{last}(1)\n",
        f"def f():\n    from {home} import {last} as z\n    y = z(1)\n",
        # what rules say only of files that compute on a device
        f"import {root}\n\nx = dict(device = 1)\n\n\ndef f(a):\n    return {name}(a)\n",
    ]


@each("name", [name for name in NAMES if is_cuda_only(name) and "." in name])
def test_names_are_hot_where_a_star_imports_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _, last = name.rpartition(".")
    for source in (
        f"from {home} import *\n\ny = {last}(1)\n",
        f"try:\n    import x\nexcept ImportError:\n    from {home} import *\n\ny = {last}(1)\n",
    ):
        assert not hidden(source, monkeypatch), source


def test_a_star_is_told_where_its_names_may_hide() -> None:
    star = "from torch.cuda import *\n"
    assert ("XLA121", 2) in [finding[:2] for finding in found(f"{star}synchronize()\n")]
    assert ("XLA906", 1) in [finding[:2] for finding in found(f"{star}from mine import *\n")]


def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_lines, "_TEXTS", {})
    monkeypatch.setattr(hot_lines, "_MENTIONED", {})
    assert hidden("import torch\n\nx = torch.cuda.is_available()\n", monkeypatch)


def test_of_parts_that_begin_alike_each_is_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_lines, "_TEXTS", {})
    monkeypatch.setattr(hot_lines, "_MENTIONED", {})
    hot_lines.listen_to_parts(("device=rank", "device=gpu", ".pool(", "capturable"))
    text = "f(device=rank)\nf(device=other)\nf(Device=GPU)\nx.pool(1)\nx.pool\nnot_capturable\n"
    assert hot_lines.HotLines(Source(text.encode())).lines == [1, 3, 4, 6]


@each("name", NAMES)
def test_names_that_rules_listen_to_are_hot(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in sources(name):
        assert not hidden(source, monkeypatch), source


@each("method", sorted(_DISPATCH.methods))
def test_methods_that_rules_listen_to_are_hot(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (
        f"import torch\n\nx = torch.ones(2)\nx.{method}()\n",
        f"import torch\n\nm = torch.nn.Linear(2, 2)\nm.{method}(1)\n",
        f"import torch\n\ndef f(x, model, optimizer):\n    x.{method}('cuda')\n"
        f"    return model.{method}() + optimizer.{method}(0)\n",
        f"import torch\n\nx = dict(device = 1)\n\n\ndef f(model, x):\n    return model.{method}(x)\n",
    ):
        assert not hidden(source, monkeypatch), source


def test_imports_of_everything_concern_us() -> None:
    names = [name for name in (*NAMES, *PARTS) if name.partition(".")[0] not in OF_PYTHON]
    for name in (*names, *PACKAGES):
        home, _, last = name.rpartition(".")
        assert concerns(f"import {name}\n".encode()), name
        if home:
            assert concerns(f"from {home} import {last}\n".encode()), name


def test_words_within_other_words_do_not() -> None:
    assert not concerns(b"import flask\nfrom flags import kernels_of\nimport rmmod\n")


def test_files_that_start_launchers() -> None:
    command = b'run(["accelerate", "launch", "--multi_gpu", "t.py"])\n'
    assert concerns(b"from subprocess import run\n" + command)
    assert concerns(b"import os\n\n\ndef f():\n    os.system('deepspeed t.py')\n")
    assert not concerns(b"from mine import run\n" + command)
    assert not concerns(b"import os, subprocess\n\nsubprocess.run(['ls'])\n")
