"""A device that is the default of a parameter is chosen when the function is called."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ...helpers import migrated

USE = "    return torch.zeros(n, device=device)\n"


def _result(source: str) -> str:
    return migrated("import functools\nimport torch\n\n\n" + source)


@pytest.mark.parametrize(
    ("default", "after"),
    [
        ('device="cuda"', "device=None"),
        ('device: str = "cuda:0"', "device: str | None = None"),
        ('*, device: "str" = "cuda"', '*, device: "str | None" = None'),
        ('device="cuda" if torch.cuda.is_available() else "cpu"', "device=None"),
        ("device=torch.cuda.current_device()", "device=None"),
    ],
)
def test_the_name_of_a_device(default: str, after: str) -> None:
    result = _result(f"def f(n, {default}):\n{USE}")
    assert f"def f(n, {after}):\n    if device is None:\n        device = xla." in result
    assert result.count("device_type()") + result.count("xla_device()") == 1


@pytest.mark.parametrize(
    "default",
    [
        'torch.device("cuda")',
        'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
        'torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")',
    ],
)
def test_a_device(default: str) -> None:
    result = _result(f'def f(n, device: torch.device = {default}):\n    """Zeros."""\n{USE}')
    assert (
        "def f(n, device: torch.device | None = None):\n"
        '    """Zeros."""\n'
        "    if device is None:\n"
        "        device = xla.xla_device()\n" + USE
    ) in result


def test_a_device_with_an_index_does_not_start_the_runtime_at_import() -> None:
    result = _result(f'def f(n, device="cuda:1"):\n{USE}')
    assert "def f(n, device=None):" in result
    assert "        device = str(xla.xla_device(1))\n" in result


def test_methods_and_nested_functions() -> None:
    result = migrated(
        """\
        import torch
        from torch import nn


        class Net(nn.Module):
            def __init__(self, n, device="cuda"):
                super().__init__()
                self.fc = nn.Linear(n, 1).to(device)

            @torch.no_grad()
            def predict(self, x, device="cuda"):
                def inner(y, device="cuda"):
                    return y.to(device)

                return self.fc(inner(x.to(device)))
        """
    )
    assert result.count("device=None") == result.count("if device is None:") == 3


@pytest.mark.parametrize(
    "function",
    [
        # None already means something
        'def f(n, device="cuda"):\n    return torch.zeros(n, device=device or "cpu")',
        'def f(n, device="cuda"):\n    if device is not None:\n        n = 2\n    return torch.zeros(n, device=device)',
        'def f(n, device="cuda"):\n    return torch.zeros(n, device=device)\n\n\nx = f(2, None)',
        'def f(n, device="cuda"):\n    return torch.zeros(n, device=device)\n\n\n'
        "def g(device=None):\n    return f(2, device=device)",
        # no body to choose it in
        'f = lambda n, device="cuda": torch.zeros(n, device=device)',
        'def f(n, device="cuda"): return torch.zeros(n, device=device)',
        'class P:\n    def f(self, n, device="cuda"): ...',
        # a decorator that may read the signature
        '@functools.singledispatch\ndef f(n, device="cuda"):\n    return torch.zeros(n, device=device)',
    ],
)
def test_where_none_may_mean_something_else_the_default_is_a_name(function: str) -> None:
    result = _result(function + "\n")
    assert "device=xla.device_type()" in result


def test_a_module_that_a_launching_program_loads_starts_no_device() -> None:
    constant = (
        b'import torch\n\nDEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    )
    program = (
        b"import torch\nimport torch.multiprocessing as mp\nfrom settings import DEVICE\n\n\n"
        b"def work(rank):\n    torch.ones(2).to(DEVICE)\n\n\n"
        b'if __name__ == "__main__":\n    mp.spawn(work, nprocs=2)\n'
    )
    files = {"settings.py": constant, "train.py": program}
    for found, expected in (
        (files, "torch.device(xla.device_type())"),
        ({"settings.py": constant}, "xla.xla_device()"),
    ):
        result = migrate(
            constant, Options(), "settings.py", Project(Modules(found), "settings.py")
        ).data.decode()
        assert f"DEVICE = {expected}\n" in result


def test_the_union_of_a_default_device_gets_none_without_brackets() -> None:
    source = """
        import torch

        def make(shape, device: str | torch.device = "cuda"):
            return torch.zeros(shape, device=device)
        """
    assert "device: str | torch.device | None = None" in migrated(source)
