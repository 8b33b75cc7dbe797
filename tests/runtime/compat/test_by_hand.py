"""What torch_xla alone has: torch_xla's own objects on XLA, stand-ins that take the same arguments elsewhere."""

from __future__ import annotations

import importlib
import inspect
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat import by_hand
from xla_migrate.runtime.compat.by_hand import NAMESPACES, Namespace
from xla_migrate.runtime.compat.by_hand.meshes import SpmdFullyShardedDataParallel

from ...each import each

pytest.importorskip("torch_xla")


@pytest.fixture
def without(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without torch_xla."""
    of_helpers = importlib.import_module(f"{by_hand.__name__}.utilities")
    for module in (by_hand, of_helpers):
        monkeypatch.setattr(module, "uses_torch_xla", lambda: False)


NAMES = [(space, name) for space in NAMESPACES.values() for name in dir(space)]


def stand_in(space: Namespace, name: str) -> Any:
    home = f"xla_migrate.runtime.compat.by_hand.{space._stand_ins}"
    return getattr(importlib.import_module(home), name)


@each("space, name", NAMES)
def test_on_xla_it_is_torch_xlas_own(device: torch.device, space: Namespace, name: str) -> None:
    home = space._homes[name]
    own = getattr(importlib.import_module(home), name) if home else stand_in(space, name)
    assert getattr(space, name) is own


@each("space, name", NAMES)
def test_the_stand_in_takes_its_arguments(space: Namespace, name: str) -> None:
    pytest.importorskip("torch_xla")
    home, ours = space._homes[name] or "torch_xla.core.xla_model", stand_in(space, name)
    own = getattr(importlib.import_module(home), name, None)
    try:
        wanted = inspect.signature(own).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return  # written in C++
    taken = inspect.signature(ours).parameters
    if any(p.kind is p.VAR_KEYWORD for p in (*taken.values(), *wanted.values())):
        return
    assert list(taken) == list(wanted)


def test_what_it_lacks_is_said() -> None:
    with pytest.raises(AttributeError, match=r"xla.spmd has no 'Mash': .*Mesh"):
        xla.spmd.Mash  # noqa: B018


def test_a_mesh_of_one_device(without: None) -> None:
    xla.spmd.use_spmd()
    count = xla.spmd.global_runtime_device_count()
    mesh = xla.spmd.Mesh(range(count), (count, 1), ("data", "model"))
    assert dict(mesh.shape()) == {"data": 1, "model": 1}
    assert mesh.get_axis_name_idx("model") == 1
    assert isinstance(xla.spmd.get_1d_mesh("x"), xla.spmd.Mesh)
    x = torch.ones(2, 3)
    assert xla.spmd.mark_sharding(x, mesh, ("data", None)) is x
    with pytest.raises(ValueError, match="no_axis"):
        xla.spmd.mark_sharding(x, mesh, ("no_axis", None))
    with pytest.raises(AssertionError):
        xla.spmd.mark_sharding(x, mesh, ("data",))
    with pytest.raises(AssertionError, match=r"global number of devices \(1\)"):
        xla.spmd.Mesh(range(4), (4, 1), ("data", "model"))
    split = xla.spmd.ShardingSpec(mesh, ("data", None))
    assert split.can_apply(x)
    loader = torch.utils.data.DataLoader(torch.ones(4, 3), batch_size=2)
    assert len(list(xla.MpDeviceLoader(loader, input_sharding=split))) == 2


def test_the_device_loader_of_a_gpu_takes_its_sharding_alone(without: None) -> None:
    from xla_migrate.runtime.eager import backend

    split = xla.spmd.ShardingSpec(xla.spmd.get_1d_mesh("data"), ("data", None))
    for given in (split, {"x": split, "y": None}):
        assert backend.sender(torch.device("meta"), given, False)
    with pytest.raises(ValueError, match="input_sharding"):
        backend.sender(torch.device("meta"), object(), False)


def test_several_processes_are_no_mesh(without: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="one process"):
        xla.spmd.use_spmd()


def test_fsdp_of_one_device_has_torch_xlas_names(without: None) -> None:
    mesh = xla.spmd.Mesh([0], (1, 1), ("fsdp", "model"))
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    names = sorted(model.state_dict())
    seen: list[torch.Tensor] = []
    policy = partial(xla.spmd.transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
    wrapped = SpmdFullyShardedDataParallel(
        model,
        mesh=mesh,
        auto_wrap_policy=policy,
        shard_output=lambda output, mesh: seen.append(output),
    )
    assert isinstance(wrapped[0], SpmdFullyShardedDataParallel)
    assert wrapped(torch.ones(1, 3)).shape == (1, 2)
    assert len(seen) == 3
    own = [name.replace("_orig_module.", "") for name in wrapped.state_dict()]
    assert sorted(own) == names
    assert "_orig_module.0._orig_module.weight" in wrapped.state_dict()


def test_fsdp_of_one_process_has_torch_xlas_files(without: None, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    plain = {name: value.clone() for name, value in model.state_dict().items()}
    policy = partial(xla.spmd.transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
    wrapped = xla.fsdp.XlaFullyShardedDataParallel(model, auto_wrap_policy=policy)
    assert isinstance(wrapped[0], xla.fsdp.XlaFullyShardedDataParallel)
    assert wrapped.module is model
    state = {"model": wrapped.state_dict(), "shard_metadata": wrapped.get_shard_metadata()}
    torch.save(state, tmp_path / "part-0.pth")
    whole, path = xla.fsdp.consolidate_sharded_model_checkpoints(
        f"{tmp_path}/part-", save_path=str(tmp_path / "whole.pth")
    )
    assert path == str(tmp_path / "whole.pth")
    torch.testing.assert_close(dict(whole), plain)
    wrapped.load_state_dict(state["model"])
    with pytest.raises(NotImplementedError, match="sharding_groups"):
        xla.fsdp.XlaFullyShardedDataParallel(nn.Linear(1, 1), sharding_groups=[[0]])
    with pytest.raises(TypeError, match="by name"):
        xla.fsdp.XlaFullyShardedDataParallel(nn.Linear(1, 1), *[True] * 7, torch.bfloat16)


def test_checkpoints_of_steps(without: None, tmp_path: Path) -> None:
    def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        return model, optimizer

    def states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return {"model": model.state_dict(), "optim": optimizer.state_dict()}

    own = xla.distributed_checkpoint
    manager = own.CheckpointManager(str(tmp_path), 2, max_to_keep=2, chkpt_on_preemption=False)
    for step in range(6):
        assert manager.save_async(step, states(*trained(step + 1))) == (step % 2 == 0)
    manager.join()
    again = own.CheckpointManager(str(tmp_path), 2, chkpt_on_preemption=False)
    assert again.all_steps() == [2, 4]
    model, optimizer = trained(0)
    own.prime_optimizer(optimizer)
    state = states(model, optimizer)
    again.restore(4, state)
    optimizer.load_state_dict(state["optim"])
    torch.testing.assert_close(states(model, optimizer), states(*trained(5)), rtol=0, atol=0)
    with pytest.raises(AssertionError, match="untracked"):
        again.restore(1, state)


def test_loops_compute_what_they_say(without: None) -> None:
    carry, out = xla.loops.scan(
        lambda c, x: (c + x["a"], {"y": c * 2}), torch.zeros(2), {"a": torch.ones(3, 2)}
    )
    assert carry.tolist() == [3.0, 3.0]
    assert out["y"].tolist() == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]
    layers = [nn.Linear(2, 2) for _ in range(2)]
    x = torch.ones(1, 2)
    assert torch.equal(xla.loops.scan_layers(layers, x), layers[1](layers[0](x)))
    model = nn.Linear(2, 1)
    xs = torch.randn(4, 3, 2)
    loss, count = xla.loops.gradient_accumulation(
        lambda x, n: (model(x).pow(2).mean(), n + 1), (xs,), model, torch.tensor(0)
    )
    got, model.weight.grad = model.weight.grad, None
    mean = model(xs).pow(2).mean()
    mean.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(got, model.weight.grad)
    torch.testing.assert_close(loss, mean.detach())
    assert count.item() == 4


def test_what_is_not_recorded_is_said(without: None, logged: list[logging.LogRecord]) -> None:
    server = xla.profiler.start_server(9012)
    assert server is not None
    text = "\n".join(record.getMessage() for record in logged)
    assert "no server" in text or "only torch_xla has a profile server" in text
    with xla.profiler.StepTrace("train", step_num=1), xla.profiler.Trace("forward"):
        assert xla.counters.counter_value("UncachedCompile") is None
    assert xla.counters.metric_names() == []
    assert "nothing is counted" in xla.counters.metrics_report()


def test_helpers(without: None) -> None:
    rate = xla.helpers.RateTracker(smooth_factor=0.5)
    rate.add(10)
    assert rate.global_rate() > 0
    assert rate.rate() > 0
    assert len(list(xla.helpers.SampleGenerator(torch.ones(1), 3))) == 3
    model = xla.helpers.MpModelWrapper(nn.Linear(1, 1))
    assert isinstance(model.to("cpu"), nn.Linear)
    assert xla.helpers.MpSerialExecutor().run(lambda: 3) == 3
    assert xla.helpers.xla_device_hw(xla.xla_device()) == xla.device_type().upper()
    assert xla.helpers.do_on_ordinals(lambda x: x.item(), (torch.tensor(2.0),)) == 2.0
    assert xla.helpers.do_on_ordinals(lambda: 1, ordinals=(1,)) is None
    assert (xla.helpers.process_index(), xla.helpers.process_count()) == (0, 1)
    assert xla.helpers.is_eager_mode()
