"""The patches of torch: where they are applied, for which versions, and whether their faults are still there."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from xla_migrate import runtime as xla
from xla_migrate.runtime import patches
from xla_migrate.runtime.patches import averaged_model
from xla_migrate.runtime.patches._versions import Versions

from ..test_processes import in_a_warm_process

FOLDER = Path(patches.__file__).parent
NAMES = [name for names in patches.MODULES.values() for name in names]
MANUAL = Path(__file__).parents[3] / "docs" / "runtime.md"


def test_every_module_is_applied_at_one_moment() -> None:
    paths = (path.relative_to(FOLDER).with_suffix("") for path in FOLDER.rglob("*.py"))
    files = {".".join(path.parts) for path in paths if not path.name.startswith("_")}
    assert sorted(NAMES) == sorted(files)


@pytest.mark.parametrize("name", NAMES)
def test_every_patch_says_what_why_and_how_long(name: str) -> None:
    text = patches.load(name).__doc__
    assert "\nThe fault: " in text
    assert "\nTo see it: " in text
    tests = re.search(r"It can go when (?:this fails|these fail): ([\w,\s]+)\.", text)
    assert tests is not None
    written = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    for test in re.findall(r"\w+", tests[1]):
        assert f"def {test}(" in written


def test_the_manual_lists_every_patch() -> None:
    """Put what this expects into docs/runtime.md when it fails."""
    rows = ["| behaviour that the patch restores | for | applied |", "| --- | --- | --- |"]
    moments = {
        "import": "with the runtime's import",
        "torch_xla": "when torch_xla is imported",
        "device": "when the device is first used",
    }
    for moment, names in patches.MODULES.items():
        for name in names:
            module = patches.load(name)
            what = module.__doc__.splitlines()[0].replace("``", "`").rstrip(".")
            rows.append(f"| {what} | {module.VERSIONS} | {moments[moment]} |")
    assert "\n".join(rows) in MANUAL.read_text()


@pytest.mark.parametrize(
    ("installed", "met"),
    [
        ("2.8.1", False),
        ("2.9.0", True),
        ("2.9.0a1+git", True),
        ("2.9.1+cu128", True),
        ("2.10", False),
    ],
)
def test_versions(installed: str, met: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("torch_xla")
    module.__version__ = installed
    monkeypatch.setitem(__import__("sys").modules, "torch_xla", module)
    assert Versions("torch_xla", "2.9", "2.10").met() is met
    assert str(Versions("torch_xla", "2.9", "2.10")) == "torch_xla >= 2.9, < 2.10"
    assert str(Versions("torch", "2.0")) == "torch >= 2.0"


def test_another_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[str] = []
    module = types.SimpleNamespace(
        VERSIONS=Versions("torch", "99"), apply=lambda: applied.append("x")
    )
    monkeypatch.setattr(patches, "load", lambda name: module)
    patches.apply_one("a patch")
    assert not applied
    module.VERSIONS = Versions("torch", "2")
    patches.apply_one("a patch")
    patches.apply_one("a patch")
    assert applied == ["x"], "once"
    patches._applied.discard("a patch")


WITHOUT_TORCH_XLA = """
import inspect, sys
sys.modules["torch_xla"] = None  # hidden: it cannot be found, nor imported
import torch, torch.utils.data, torch.distributed, torch.utils.checkpoint, torch.optim.swa_utils
import torch.nn.utils, torch.utils._pytree

def state():
    found = {}
    for name, module in list(sys.modules.items()):
        if module is None or name.split(".")[0] != "torch":
            continue
        for key, value in list(vars(module).items()):
            if inspect.isroutine(value):
                found[name, key] = id(value)
            elif inspect.isclass(value) and (value.__module__ or "").split(".")[0] == "torch":
                for attribute, member in list(vars(value).items()):
                    if callable(member) or isinstance(member, (property, staticmethod, classmethod)):
                        found[name, key, attribute] = id(member)
    return found

# What torch itself changes when it is used for the first time.
plain = torch.nn.Linear(4, 2)
plain(torch.ones(3, 4)).sum().backward()
torch.optim.SGD(plain.parameters(), lr=0.1).step()
torch.manual_seed(0)
state()
before = state()
assert len(before) > 20000, len(before)
from xla_migrate import runtime as xla
for name in xla.__all__:
    getattr(xla, name)
device = xla.xla_device("cuda")
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in xla.MpDeviceLoader([torch.ones(3, 4)], device):
    with xla.autocast("cuda", dtype=torch.float16):
        loss = model(x).float().sum()
    loss.backward()
    xla.optimizer_step(optimizer)
after = state()
changed = [key for key, value in before.items() if after.get(key) != value]
classes = {key[:2] for key in before if len(key) == 3}
changed += [key for key in after if key not in before and key[:2] in classes]
assert not changed, changed
"""


def test_without_torch_xla_nothing_of_torch_is_changed() -> None:
    result = in_a_warm_process("reference", WITHOUT_TORCH_XLA, XLA_MIGRATE_BACKEND="")
    assert result.returncode == 0, result.stderr


@pytest.mark.e2e
def test_the_comparison_finds_a_change() -> None:
    """With torch_xla as the backend, the same script sees what is changed."""
    shown = WITHOUT_TORCH_XLA.replace('sys.modules["torch_xla"] = None', "pass").split("device = ")[
        0
    ]
    rest = "after = state()" + WITHOUT_TORCH_XLA.split("after = state()")[1]
    script = "import os\n" + shown + rest
    result = in_a_warm_process(
        "reference", script, XLA_MIGRATE_BACKEND="torch_xla", PJRT_DEVICE="CPU"
    )
    assert "_apply" in result.stderr
    assert "'numpy'" in result.stderr


# Whether the faults are still there


def test_numpy_has_no_bfloat16() -> None:
    torchs: Any = torch.Tensor.numpy.__wrapped__  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="BFloat16"):
        torchs(torch.ones(1, dtype=torch.bfloat16))


def test_gru_refuses_cpu_tensors(device: torch.device) -> None:
    torch_xlas: Any = nn.GRU.forward.__wrapped__  # type: ignore[attr-defined]
    with pytest.raises(Exception, match=r"XLA|xla"):
        torch_xlas(nn.GRU(3, 4), torch.ones(1, 1, 3))


def test_packing_on_xla_has_no_batch_sizes(device: torch.device) -> None:
    ours: Any = torch._VF._pack_padded_sequence
    x, lengths = torch.randn(2, 3, 1), torch.tensor([3, 2])
    (torchs,) = ours.args
    _, batch_sizes = torchs(x.to(device), lengths, True)
    assert torch._is_functional_tensor(batch_sizes)


def test_batch_norms_keep_the_biased_variance(device: torch.device) -> None:
    from xla_migrate.runtime.patches import batch_norm

    x = torch.tensor([[1.0], [2.0], [4.0]], device=device)
    mean, variance = torch.zeros(1, device=device), torch.ones(1, device=device)
    batch_norm._torch_batch_norm(x, mean, variance, training=True, momentum=1.0)
    torch.testing.assert_close(variance.cpu(), x.cpu().var(0, correction=0))


def _pooled_after_norm(device: torch.device) -> torch.Tensor:
    """The gradient of the first convolution, in the types of CUDA's autocast: a half input, float32 weights."""
    torch.manual_seed(0)
    first, norm, second = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)
    for module in (first, norm, second):
        module.to(device)
    x = torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8).to(device)
    with xla.autocast("cuda", dtype=torch.bfloat16):
        y = nn.functional.max_pool2d(torch.relu_(norm(first(x))), 2)
        y = torch.relu_(norm(second(y)))
    assert y.dtype == torch.bfloat16
    y.float().pow(2).sum().backward()
    assert first.weight.grad is not None
    return first.weight.grad.cpu()


def test_torch_xla_mixes_types_in_a_batch_norm(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.runtime.patches import batch_norm

    assert torch.isfinite(_pooled_after_norm(device)).all()
    monkeypatch.setattr(batch_norm, "_mixes_types", lambda *tensors: False)
    with pytest.raises(ValueError, match="mixed precision is disallowed"):
        _pooled_after_norm(device)


@pytest.mark.parametrize("training", [True, False])
def test_a_half_input_of_a_batch_norm_is_computed_in_float32(
    device: torch.device, training: bool
) -> None:
    x = torch.linspace(-3, 5, 96).reshape(4, 3, 8).to(torch.bfloat16)
    norm, theirs = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    norm.to(device).train(training)
    theirs.train(training)
    ours = norm(x.to(device))
    expected = theirs(x.float()).to(torch.bfloat16)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.cpu(), expected)
    torch.testing.assert_close(norm.running_var.cpu(), theirs.running_var)


def test_averages_take_the_memory_of_frozen_layers(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)).to(device)
    model[0].requires_grad_(False)
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(5, 8).to(device)).pow(2).mean().backward()
        optimizer.step()
        averaged_model._update_parameters(average, model)
        xla.mark_step()

    with pytest.raises(RuntimeError, match="deleted"):  # noqa: PT012
        for _ in range(4):
            step()


def test_torch_xla_runs_the_forward_pass_again_for_each_read(device: torch.device) -> None:
    read: Any = torch.Tensor.item
    while hasattr(read, "__wrapped__"):
        read = read.__wrapped__
    x = torch.ones(3, device=device)
    xla.mark_step()
    before = xla.metrics()["launches"] or 0
    y = x * 3
    read(y.sum())
    read(y.mean())
    y = y + 1
    xla.mark_step()
    assert (xla.metrics()["launches"] or 0) - before == 3


def _joins(x: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([torch.stack(x, dim=0), torch.vstack(x)], 0)


def _magnitude(x: torch.Tensor) -> torch.Tensor:
    return torch.abs(x) + x.abs() + torch.absolute(x)


def _product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ij,jk->ik", x, y)


def _padded(x: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(x)


def _packed(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.nn.utils.rnn.pack_padded_sequence(x, lengths).data


@pytest.mark.parametrize("function", [_joins, _magnitude, _product, _padded, _packed])
def test_scripts_compile_what_is_replaced(device: torch.device, function: Any) -> None:
    assert device.type == "xla"  # so all is in its place
    assert torch.jit.script(function).graph is not None
