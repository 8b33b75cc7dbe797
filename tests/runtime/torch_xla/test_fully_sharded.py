"""What FullyShardedDataParallel says without SPMD, and of what it has no counterpart for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp

from xla_migrate import runtime as xla
from xla_migrate.runtime.torch_xla import fully_sharded as sharded
from xla_migrate.runtime.torch_xla import spmd as xla_spmd

MIXED = fsdp.MixedPrecision(param_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
BF16 = fsdp.MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)


@pytest.mark.usefixtures("device")
def test_without_spmd_it_says_how_to_begin() -> None:
    """Unsharded on one device it would need the memory of all, without a word."""
    with pytest.raises(RuntimeError, match=r"use_spmd\(batch_per_device=True\)"):
        xla.FullyShardedDataParallel(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"fully_shard on XLA: call xla\.use_spmd"):
        xla.fully_shard(nn.Linear(2, 2))


@pytest.fixture
def marked(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of activations that are marked; as under SPMD, but on one device."""
    seen: list[tuple[int, ...]] = []
    monkeypatch.setattr(sharded.xr, "is_spmd", lambda: True)
    monkeypatch.setattr(xla_spmd, "shard", lambda tensor: None)
    monkeypatch.setattr(xla_spmd, "split_activation", lambda x: seen.append(tuple(x.shape)))
    return seen


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"cpu_offload": fsdp.CPUOffload(offload_params=True)}, "cpu_offload"),
        ({"ignored_modules": [nn.Linear(1, 1)]}, "ignored_modules"),
        ({"device_mesh": object()}, "device_mesh"),
        ({"process_group": object()}, "process_group"),
        ({"sharding_strategy": fsdp.ShardingStrategy.HYBRID_SHARD}, "HYBRID_SHARD"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_counterpart_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(NotImplementedError, match=what):
        xla.FullyShardedDataParallel(nn.Linear(2, 2), **options)


@pytest.mark.usefixtures("marked")
def test_a_mesh_of_one_dimension_divides_over_all_devices() -> None:
    mesh = xla.init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    assert mesh["dp"] is mesh
    model = nn.Linear(2, 2)
    assert xla.fully_shard(model, mesh=mesh["dp"]) is model
    assert xla.FullyShardedDataParallel(nn.Linear(2, 2), device_mesh=mesh).module.weight.is_leaf
    with pytest.raises(KeyError, match="no dimension 'tp'"):
        mesh["tp"]
    with pytest.raises(NotImplementedError, match="2 dimensions"):
        xla.init_device_mesh("cuda", (2, 2))


@pytest.mark.usefixtures("marked")
def test_parameters_on_meta_and_batch_norms_in_mixed_precision_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="meta"):
        xla.FullyShardedDataParallel(nn.Linear(2, 2, device="meta"))
    with pytest.raises(NotImplementedError, match="batch norms"):
        xla.FullyShardedDataParallel(
            nn.Sequential(nn.BatchNorm1d(2)),
            mixed_precision=fsdp.MixedPrecision(param_dtype=torch.bfloat16),
        )
    with pytest.raises(NotImplementedError, match="batch norms"):
        xla.fully_shard(nn.Sequential(nn.BatchNorm1d(2)), mp_policy=BF16)
    with pytest.raises(NotImplementedError, match="mesh"):
        xla.fully_shard(nn.Linear(2, 2), mesh=object())


def test_a_module_is_torch_s_fsdp_module_and_what_says_when_is_nothing(
    marked: list[tuple[int, ...]],
) -> None:
    model: Any = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    names, first = list(model.state_dict()), model[0].weight
    assert xla.fully_shard(model[0]) is model[0]
    assert xla.fully_shard(model) is model
    assert isinstance(model, nn.Sequential)
    assert isinstance(model, fsdp.FSDPModule)
    assert isinstance(model[0], fsdp.FSDPModule)
    assert not isinstance(model[1], fsdp.FSDPModule)
    assert type(model[0]).__name__ == "FSDPLinear"
    assert list(model.state_dict()) == names
    assert model[0].weight is first
    for name in vars(fsdp.FSDPModule):
        if (
            name.startswith("set_")
            and "hook" not in name
            and "divide" not in name
            and "custom" not in name
        ):
            assert getattr(model, name)(True) is None
        elif name.startswith("set_"):
            with pytest.raises(NotImplementedError, match=name):
                getattr(model, name)(1.0)
    assert model.reshard() is model.unshard() is None
    model.unshard(async_op=True).wait()
    part = model[:1]
    part(torch.ones(4, 2, device=xla.xla_device()))
    assert marked == [(4, 3)]
    copied = copy.deepcopy(model)
    assert copied[0].weight is not first
    copied(torch.ones(4, 2, device=xla.xla_device()))


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: xla.fully_shard(model, mp_policy=BF16),
        lambda model: xla.FullyShardedDataParallel(model, mixed_precision=MIXED),
    ],
    ids=["fully_shard", "FSDP"],
)
def test_parts_that_run_again_compute_in_the_type_of_the_first_time(
    wrap: Callable[[nn.Module], nn.Module], reentrant: bool
) -> None:
    """Checkpointed in a module that is not called again; `scale` is its own."""
    seen = []

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
            self.scale = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((x.dtype, self.linear.weight.dtype, self.scale.dtype, self.shift.dtype))
            return self.norm(self.scale * self.linear(x) + self.shift.to(x.dtype))

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scaled()

        def forward(self, x: torch.Tensor) -> Any:
            return xla.checkpoint(self.inner, x, use_reentrant=reentrant)

    model = wrap(Around())
    x = torch.ones(2, 4, device=xla.xla_device(), requires_grad=True)
    out = model(x)
    whole = isinstance(model, xla.FullyShardedDataParallel)
    assert out.dtype == (torch.bfloat16 if whole else torch.float32)
    out.square().sum().backward()
    buffer = torch.bfloat16 if whole else torch.float32
    assert seen == [(*(torch.bfloat16,) * 3, buffer)] * 2
    assert all(b.dtype == torch.float32 for b in model.buffers())
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


@pytest.mark.usefixtures("marked")
def test_parameters_are_put_back_where_forward_raises() -> None:
    class Fails(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError(str(self.weight.dtype))

    model = nn.Sequential(Fails(2, 2))
    xla.fully_shard(model, mp_policy=BF16)
    for _ in range(2):
        with pytest.raises(KeyError, match="bfloat16"):
            model(torch.ones(1, 2))
        assert model[0].weight.dtype == torch.float32
        assert isinstance(model[0].weight, nn.Parameter)


def test_parameters_on_meta_are_split_when_they_are_made(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    split: list[torch.Tensor] = []
    monkeypatch.setattr(sharded.xr, "is_spmd", lambda: True)
    monkeypatch.setattr(xla_spmd, "shard", split.append)
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    for part in model:
        xla.fully_shard(part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert not split
    model.to_empty(device=device)
    assert {id(p) for p in split} == {id(p) for p in model.parameters()}
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in split}


def test_names_are_those_of_the_wrapped_module(marked: list[tuple[int, ...]]) -> None:
    """Of a model whose layers are wrapped one by one, too."""
    plain = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    names = list(plain.state_dict())
    model = xla.FullyShardedDataParallel(
        nn.Sequential(xla.FullyShardedDataParallel(nn.Linear(2, 3)), nn.Linear(3, 1)),
        device_id=0,
        cpu_offload=fsdp.CPUOffload(offload_params=False),
    )
    assert [name for name, _ in model.named_parameters()] == names
    assert list(model.state_dict()) == names
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model[1].weight.cpu(), plain[1].weight)
    assert isinstance(model, xla.FullyShardedDataParallel)
    assert model.module[1] is model[1]
    model(torch.ones(4, 2, device=xla.xla_device()))
    assert marked == [(4, 3), (4, 1)]


@pytest.mark.usefixtures("marked")
def test_state_dicts_are_whole() -> None:
    model = xla.FullyShardedDataParallel(nn.Linear(2, 3))
    with xla.FullyShardedDataParallel.state_dict_type(
        model, fsdp.StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(offload_to_cpu=True)
    ):
        assert model.state_dict()["weight"].shape == (3, 2)


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("kind", list(fsdp.StateDictType))
def test_whatever_kind_is_asked_for(kind: fsdp.StateDictType) -> None:
    """What a script asks for by its settings, and asks about."""
    ours = xla.FullyShardedDataParallel
    model = ours(nn.Linear(2, 3))
    whole = ours.get_state_dict_type(model)
    with ours.state_dict_type(model, kind):
        assert ours.get_state_dict_type(model).state_dict_type is kind
        assert model.state_dict()["weight"].shape == (3, 2)
    assert ours.get_state_dict_type(model) == whole
    before = ours.set_state_dict_type(model, kind)
    assert before == whole
    assert type(ours.get_state_dict_type(model)) is type(whole)
    assert ours.get_state_dict_type(model).state_dict_type is kind


@pytest.fixture
def trained(marked: list[tuple[int, ...]]) -> tuple[Any, torch.optim.Optimizer]:
    """Two groups, in another order than the model's parameters."""
    model = xla.FullyShardedDataParallel(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
    parameters = list(model.parameters())
    groups = [{"params": parameters[2:]}, {"params": parameters[:2], "lr": 0.5}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    model(torch.ones(4, 2, device=xla.xla_device())).sum().backward()
    optimizer.step()
    return model, optimizer


def test_optimizer_states_go_by_names_as_in_torchs_files(trained: Any) -> None:
    ours = xla.FullyShardedDataParallel
    model, optimizer = trained
    plain = optimizer.state_dict()
    state = ours.optim_state_dict(model, optimizer)
    assert [g["params"] for g in state["param_groups"]] == [
        ["1.weight", "1.bias"],
        ["0.weight", "0.bias"],
    ]
    assert state["state"]["0.weight"]["exp_avg"].shape == (3, 2)
    assert ours.full_optim_state_dict(model, optimizer).keys() == state.keys()
    for back in (
        ours.optim_state_dict_to_load(model, optimizer, state),
        ours.scatter_full_optim_state_dict(state, model),
        ours.shard_full_optim_state_dict(state, model, optim=optimizer),
        ours.flatten_sharded_optim_state_dict(state, model, optimizer),
        ours.optim_state_dict_to_load(model, optimizer, plain),
    ):
        assert back["param_groups"] == plain["param_groups"]
        assert back["state"].keys() == plain["state"].keys()
        assert all(back["state"][k] is v for k, v in plain["state"].items())
    ours.optim_state_dict_to_load(model, optimizer, state, load_directly=True)
    assert optimizer.state_dict()["param_groups"] == plain["param_groups"]


def test_another_order_of_groups_is_put_right(trained: Any) -> None:
    ours = xla.FullyShardedDataParallel
    model, optimizer = trained
    other = torch.optim.AdamW(model.parameters(), lr=0.1)
    state = ours.optim_state_dict_to_load(model, other, ours.optim_state_dict(model, optimizer))
    assert state["state"][0]["exp_avg"].shape == (3, 2)
    state = ours.optim_state_dict(model, optimizer)
    state["param_groups"][0]["params"] = ["1.weight", "2.bias"]
    with pytest.raises(ValueError, match=r"other parameters than the model's: 1\.bias, 2\.bias"):
        ours.optim_state_dict_to_load(model, optimizer, state)


def test_the_policy_says_whose_outputs_are_marked(marked: list[tuple[int, ...]]) -> None:
    policy = fsdp.wrap.ModuleWrapPolicy({nn.ReLU})
    model = xla.FullyShardedDataParallel(
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), auto_wrap_policy=policy
    )
    out = model(torch.ones(4, 2, device=xla.xla_device()))
    assert marked == [(4, 3), (4, 1)]
    out.sum().backward()
    with model.no_sync():
        norm = model.clip_grad_norm_(1e-3)
    assert norm.item() > 1e-3
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert gradients.norm().item() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.usefixtures("marked")
def test_mixed_precision_casts_in_forward_alone() -> None:
    seen: list[torch.dtype] = []

    class Net(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.extend([x.dtype, self.weight.dtype])
            return super().forward(x)

    model = xla.FullyShardedDataParallel(
        Net(2, 2), mixed_precision=fsdp.MixedPrecision(param_dtype=torch.float16)
    )
    out = model(torch.ones(4, 2, device=xla.xla_device()))
    assert [*seen, out.dtype] == [torch.bfloat16] * 3
    out.sum().backward()
    for parameter in model.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32


@pytest.fixture
def group(eager: None) -> Iterator[None]:
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_on_eager_devices_it_is_torchs_and_the_optimizer_step_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each replica has other gradients: their average over replicas would be none of them."""
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    assert issubclass(xla.FullyShardedDataParallel, fsdp.FullyShardedDataParallel)
    assert xla.use_spmd(batch_per_device=True) == 1
    model = xla.fully_shard(nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    from xla_migrate.runtime import _gradients

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert _gradients.to_average(optimizer) == []
    plain = nn.Linear(2, 2)
    plain(torch.ones(1, 2)).sum().backward()
    assert len(_gradients.to_average(torch.optim.SGD(plain.parameters()))) == 2


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("options", [{}, {"device_id": None}, {"device_id": torch.device("cpu")}])
def test_on_a_host_without_an_accelerator_it_trains_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Torch's own refuses to begin there unless it is told that the device is the CPU."""
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    plain = nn.Linear(3, 2)
    model = xla.FullyShardedDataParallel(copy.deepcopy(plain), **options)
    x = torch.randn(4, 3)
    for trained in (model, plain):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        trained(x).sum().backward()
        optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[name])
