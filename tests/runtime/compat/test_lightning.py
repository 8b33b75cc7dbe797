"""Lightning trains on every XLA device, and in bfloat16, where it is patched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat import lightning

from ... import warm

SCRIPT = """\
import json, sys
import torch
import {package} as L
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 2)
        self.seen = set()

    def training_step(self, batch, index):
        (x,) = batch
        y = self.net(x)
        self.seen.add((x.device.type, str(y.dtype)))
        return y.float().square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

if sys.argv[2] != "unpatched":
    xla.patch_lightning()
    xla.patch_lightning()
L.seed_everything(0)
model = Net()
trainer = L.Trainer(
    max_epochs=2, devices=1, precision=sys.argv[1], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=8))
print(json.dumps([sorted(model.seen), model.net.weight.detach().cpu().flatten().tolist()]))
"""


def trained(
    tmp_path: Path, package: str, precision: str, kind: str = "", **env: str
) -> tuple[list[list[str]], list[float]]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("{package}", package))
    done = subprocess.run(
        [warm.choosing(), str(script), precision, kind],
        env={**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen, weights = json.loads(done.stdout.splitlines()[-1])
    return seen, weights


@pytest.mark.e2e
@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning"])
def test_it_trains_on_xla_as_without(package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    pytest.importorskip("torch_xla")
    for precision, dtype, allowed in (
        ("32-true", "torch.float32", 1e-5),
        ("bf16-mixed", "torch.bfloat16", 1e-2),
    ):
        seen, weights = trained(tmp_path, package, precision)
        assert seen == [["xla", dtype]]
        seen, others = trained(
            tmp_path, package, precision, XLA_MIGRATE_BACKEND="eager", USE_TORCH_XLA="0"
        )
        assert seen == [["cpu", dtype]]
        assert weights == pytest.approx(others, rel=allowed, abs=1e-4)


@pytest.mark.e2e
def test_what_it_mends_is_still_so(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("torch_xla")
    seen, _ = trained(tmp_path, "lightning", "32-true", "unpatched")
    assert seen == [["cpu", "torch.float32"]]


class _Accelerator:
    """As Lightning's, on a machine with `chips` of a TPU; None: torch_xla refuses to be asked."""

    chips: int | None = 0

    @staticmethod
    def auto_device_count() -> int:
        if _Accelerator.chips is None:
            raise AssertionError
        return _Accelerator.chips

    @staticmethod
    def is_available() -> bool:
        return bool(_Accelerator.chips)


class _Precision:
    """Lightning's for XLA, of the Trainer."""

    def __init__(self, precision: str) -> None:
        if precision != "32-true":
            raise ValueError(precision)

    def forward_context(self) -> AbstractContextManager[None]:
        return nullcontext()

    def convert_module(self, module: Any) -> Any:
        return module

    convert_input = convert_output = convert_module

    def tensor_init_context(self) -> AbstractContextManager[None]:
        return nullcontext()

    module_init_context = tensor_init_context

    def main_params(self, optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
        yield from optimizer.param_groups[0]["params"]

    def _xla_wrap_closure(self, optimizer: Any, closure: Callable[[], Any]) -> Any:
        raise NotImplementedError


class _Half(_Precision):
    def __init__(self, precision: str) -> None:
        self.precision = precision

    def convert_module(self, module: Any) -> Any:
        return module.to(torch.bfloat16)


class _Connector:
    """What a Trainer's or a Fabric's choices arrive at."""

    told: dict[str, Any]
    devices: Any
    _accelerator_flag = "tpu"

    def _check_config_and_set_final_flags(self, **told: Any) -> None:
        self.told = told

    def _check_device_config_and_set_final_flags(self, devices: Any, num_nodes: int) -> None:
        self.devices = devices


class _Loader:
    """Fabric's: it moves batches to a device, where the strategy's own loader does not."""

    def __init__(self, device: str | None) -> None:
        self._device = torch.device(device) if device else None

    def __iter__(self) -> Iterator[int]:
        yield from range(3)


class _Strategy:
    """Of one device."""

    def validation_step(self, batch: int) -> int:
        return batch + 1

    test_step = predict_step = validation_step


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[_Accelerator]:
    """Modules of Lightning's names; the class that was patched."""

    class Accelerator(_Accelerator):
        pass

    class Precision(_Precision):
        pass

    class Connector(_Connector):
        pass

    class Loader(_Loader):
        def __iter__(self) -> Iterator[int]:
            return super().__iter__()

    names = ("lightning", "lightning.fabric", "lightning.fabric.accelerators")
    for name in (*names, "lightning.fabric.plugins", "lightning.fabric.plugins.precision"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, found in (
        ("lightning.fabric.accelerators.xla", {"XLAAccelerator": Accelerator}),
        ("lightning.fabric.connector", {"_Connector": Connector}),
        ("lightning.fabric.wrappers", {"_FabricDataLoader": Loader}),
        ("lightning.fabric.plugins.precision.half", {"HalfPrecision": _Half}),
        ("lightning.fabric.plugins.precision.xla", {"XLAPrecision": Precision}),
    ):
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    for other in ("lightning_fabric", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    monkeypatch.setattr("xla_migrate.runtime.compat.lightning.uses_torch_xla", lambda: True)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return Accelerator


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An entry for each step mark."""
    found: list[None] = []
    monkeypatch.setattr(lightning, "mark_step", lambda: found.append(None))
    return found


@pytest.mark.parametrize(("device", "expected"), [("xla", 3), ("cpu", 0), (None, 0)])
def test_each_turn_over_fabrics_loader_is_marked(
    stand_in: type[_Accelerator], marks: list[None], device: str | None, expected: int
) -> None:
    xla.patch_lightning()
    xla.patch_lightning()
    assert list(sys.modules["lightning.fabric.wrappers"]._FabricDataLoader(device)) == [0, 1, 2]
    assert len(marks) == expected


def test_each_batch_of_an_evaluation_is_marked(marks: list[None]) -> None:
    class Strategy(_Strategy):
        pass

    lightning._marks_evaluations(Strategy)
    strategy = Strategy()
    assert [strategy.validation_step(1), strategy.test_step(2), strategy.predict_step(3)] == [
        2,
        3,
        4,
    ]
    assert len(marks) == 3


EVALUATED = """\
import sys
import torch
import lightning as L
import torch_xla.debug.metrics as metrics
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 2)

    def validation_step(self, batch, index):
        self.log("loss", self.net(batch).square().mean())

if sys.argv[1] == "patched":
    xla.patch_lightning()
kind = "auto" if sys.argv[1] == "patched" else L.pytorch.accelerators.XLAAccelerator()
L.pytorch.accelerators.XLAAccelerator.is_available = staticmethod(lambda: True)
L.fabric.accelerators.XLAAccelerator.auto_device_count = staticmethod(lambda: 1)
trainer = L.Trainer(accelerator=kind, devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False)
found = trainer.validate(Net(), DataLoader(torch.ones(48, 8), batch_size=4), verbose=False)
print(metrics.metric_data("ExecuteTime")[0], found)
"""


@pytest.mark.e2e
def test_an_evaluation_is_a_graph_for_each_batch(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    pytest.importorskip("torch_xla")
    launches = []
    for how in ("unpatched", "patched"):
        done = subprocess.run(
            [warm.choosing(), "-c", EVALUATED, how],
            env={**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        launches.append(int(done.stdout.splitlines()[-1].split()[0]))
    assert launches[0] < 12 <= launches[1]


@pytest.mark.parametrize(("chips", "devices"), [(0, 1), (None, 1), (4, 4)])
def test_a_tpu_is_counted_by_lightning_and_others_are_one(
    chips: int | None,
    devices: int,
    stand_in: type[_Accelerator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Accelerator, "chips", chips)
    xla.patch_lightning()
    assert stand_in.is_available()
    assert stand_in.auto_device_count() == devices
    patched = stand_in.auto_device_count
    xla.patch_lightning()
    assert stand_in.auto_device_count is patched


def test_nothing_is_changed_without_torch_xla(
    stand_in: type[_Accelerator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_migrate.runtime.compat.lightning.uses_torch_xla", lambda: False)
    xla.patch_lightning()
    assert not stand_in.is_available()


def _connected(**told: Any) -> dict[str, Any]:
    connector = sys.modules["lightning.fabric.connector"]._Connector()
    connector._check_config_and_set_final_flags(plugins=None, **told)
    told = connector.told
    del told["plugins"]
    return told


class DDPStrategy:
    """As Lightning's, which is not installed everywhere."""


class MyStrategy(DDPStrategy):
    pass


@pytest.mark.usefixtures("stand_in")
def test_what_asks_for_cuda_asks_for_xla() -> None:
    xla.patch_lightning()
    xla.patch_lightning()
    asked = {"accelerator": "auto", "strategy": "auto", "precision": None}
    own = MyStrategy()
    for given, becomes in (
        ({"accelerator": "gpu"}, {}),
        ({"accelerator": "cuda", "strategy": "ddp"}, {}),
        ({"accelerator": "tpu", "strategy": "dp"}, {"accelerator": "tpu"}),
        ({"strategy": "DDP_find_unused_parameters_true"}, {}),
        ({"strategy": DDPStrategy()}, {}),
        ({"strategy": own}, {"strategy": own}),
        ({"strategy": "fsdp"}, {"strategy": "fsdp"}),  # which Lightning refuses
        ({"precision": "16-true"}, {"precision": "16-true"}),
        ({"precision": "bf16-mixed"}, {"precision": "bf16-mixed"}),
        (
            {"accelerator": "cpu", "strategy": "ddp", "precision": 16},
            {"accelerator": "cpu", "strategy": "ddp", "precision": 16},
        ),
    ):
        assert _connected(**{**asked, **given}) == {**asked, **becomes}, given
    for precision in ("16-mixed", 16, "16"):
        with pytest.warns(UserWarning, match="float16 is bfloat16"):
            told = _connected(accelerator="gpu", strategy="auto", precision=precision)
        assert told["precision"] == "bf16-mixed"


def test_samples_come_in_the_order_of_ddp_where_it_is_asked_for() -> None:
    class Connector(_Connector):
        is_distributed = property(lambda self: False)

    class Trainer:
        distributed_sampler_kwargs = property(lambda self: None)

        def __init__(self, strategy: Any) -> None:
            self._accelerator_connector = Connector()
            self._accelerator_connector._check_config_and_set_final_flags(
                accelerator="gpu", strategy=strategy, precision=None
            )

    lightning._samples_as_ddp(Connector, Trainer)
    lightning._as_on_cuda(Connector, "lightning.fabric")
    for strategy, asked in (("ddp", True), (DDPStrategy(), True), ("auto", False)):
        trainer = Trainer(strategy)
        assert trainer._accelerator_connector.is_distributed is asked
        one = {"num_replicas": 1, "rank": 0} if asked else None
        assert trainer.distributed_sampler_kwargs == one


@pytest.mark.parametrize(("of_ddp", "seeds"), [(True, 1), (False, 0)])
def test_random_numbers_of_the_host_start_as_under_ddp(
    of_ddp: bool, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strategy:
        lightning_module = SimpleNamespace(
            trainer=SimpleNamespace(_accelerator_connector=SimpleNamespace(of_ddp=of_ddp))
        )

        def setup_environment(self) -> None:
            events.append("environment")

    events: list[str] = []
    seed = ModuleType("lightning.fabric.utilities.seed")
    monkeypatch.setattr(seed, "reset_seed", lambda: events.append("seed"), raising=False)
    monkeypatch.setitem(sys.modules, seed.__name__, seed)
    lightning._seeds_as_ddp(Strategy, "lightning.pytorch")
    Strategy().setup_environment()
    assert events == ["environment", *["seed"] * seeds]


@pytest.mark.usefixtures("stand_in")
def test_all_devices() -> None:
    xla.patch_lightning()
    connector = sys.modules["lightning.fabric.connector"]._Connector()
    for given, becomes in ((-1, "auto"), ("-1", "auto"), (1, 1), ("auto", "auto"), ([0], [0])):
        connector._check_device_config_and_set_final_flags(devices=given, num_nodes=1)
        assert connector.devices == becomes
    with pytest.warns(UserWarning, match="not 4: this host gives it 1"):
        connector._check_device_config_and_set_final_flags(devices=4, num_nodes=1)
    assert connector.devices == "auto"
    connector._accelerator_flag = "cpu"
    connector._check_device_config_and_set_final_flags(devices=-1, num_nodes=1)
    assert connector.devices == -1


@pytest.mark.usefixtures("stand_in")
def test_processes_of_another_launcher_would_train_a_model_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    xla.patch_lightning()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="start the script once"):
        _connected(accelerator="gpu", strategy="auto", precision=None)
    _connected(accelerator="cpu", strategy="auto", precision=None)
    monkeypatch.setenv("WORLD_SIZE", "1")
    _connected(accelerator="gpu", strategy="auto", precision=None)


@pytest.mark.usefixtures("stand_in")
def test_weights_in_bfloat16_are_so() -> None:
    xla.patch_lightning()
    made = sys.modules["lightning.fabric.plugins.precision.xla"].XLAPrecision
    for precision, dtype in (("bf16-true", torch.bfloat16), ("32-true", torch.float32)):
        plugin = made(precision)
        assert plugin.precision == precision
        assert plugin.convert_module(torch.nn.Linear(1, 1)).weight.dtype == dtype
    assert "XLA_USE_BF16" not in os.environ


@pytest.mark.usefixtures("stand_in")
def test_gradients_are_averaged_before_they_are_clipped_and_before_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = "xla_migrate.runtime.compat.lightning"
    done: list[str] = []
    monkeypatch.setattr(f"{home}.reduce_gradients", lambda optimizer: done.append("averaged"))
    xla.patch_lightning()
    plugin = sys.modules["lightning.fabric.plugins.precision.xla"].XLAPrecision("32-true")
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    assert list(plugin.main_params(optimizer)) == [weight]
    assert done == ["averaged"]
    assert plugin._xla_wrap_closure(optimizer, lambda: done.append("loss") or 3) == 3  # type: ignore[func-returns-value]
    assert done == ["averaged", "loss", "averaged"]
