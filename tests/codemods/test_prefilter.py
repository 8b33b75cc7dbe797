"""The search that saves work hides no finding: what rules listen to is seen in the bytes of a file."""

from __future__ import annotations

from xla_codemods.catalog.families import PACKAGES, PARTS
from xla_codemods.engine import _DISPATCH, check
from xla_codemods.prefilter import concerns

NAMES = sorted({*_DISPATCH.calls, *_DISPATCH.references})
# Of these the arguments decide, which hold a word themselves (commands, paths, variables' names), or what their workers do.
OF_PYTHON = set(
    "asyncio cloudpickle concurrent ctypes dill functools importlib invoke joblib multiprocessing operator os pathlib pexpect pickle safetensors shutil subprocess".split()
)


def found(source: str) -> list[tuple[str, int]]:
    return [(f.code, f.line) for f in check(source.encode())]


def test_a_star_import_is_reported_if_its_names_may_hide_cuda_names() -> None:
    star = "from torch.cuda import *\n"
    assert ("XLA121", 2) in found(f"{star}synchronize()\n")
    assert ("XLA906", 1) in found(f"{star}from mine import *\n")


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


def test_wrapped_optimizers_need_no_import() -> None:
    """`ScheduledOptim`, in a file of its own that imports numpy or nothing."""
    assert concerns(b"class Wrapper:\n    def step(self):\n        self._optimizer.step()\n")
    assert concerns(b"def train(loss):\n    loss.backward()\n")
    assert not concerns(b"def act(env, action):\n    env.step(action)\n")
