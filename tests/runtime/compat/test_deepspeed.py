"""DeepSpeed's engine beside a loop that is written out, on both backends.

The figures of DeepSpeed 0.19.8 itself, on the CPU, are in `OF_DEEPSPEED`: ZeRO's stages 0 and 2 gave the same.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat import deepspeed
from xla_migrate.runtime.compat.deepspeed import config as configuration

from ... import warm

CONFIG: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 3,
    "gradient_clipping": 0.5,
    "optimizer": {
        "type": "Adam",
        "params": {"lr": 0.01, "betas": [0.9, 0.95], "weight_decay": 0.1, "torch_adam": True},
    },
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 2, "total_num_steps": 4},
    },
    "zero_optimization": {"stage": 2},
}
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
# Losses of twelve batches, rates behind each, and the gradients' norm at the first update.
OF_DEEPSPEED = (
    "1.3537616 1.1158484 0.9545290 1.1197764 1.0744890 1.3430805 0.9798872 1.0253589 1.0665178 "
    "1.1809368 0.9728454 1.2248279".split(),
    [0.0] * 5 + [0.01] * 6 + [0.005],
    0.5915,
)


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def _batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    g = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 8, generator=g), torch.randint(0, 3, (4,), generator=g))
        for _ in range(count)
    ]


def _engine(config: Any, **options: Any) -> Any:
    model = options.pop("model", None) or _model()
    return deepspeed.initialize(model=model, config=config, **options)[0]


def _losses(engine: Any, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    losses = []
    for x, y in batches:
        x = x.to(engine.device, next(engine.parameters()).dtype)
        loss = F.cross_entropy(engine(x).float(), y.to(engine.device))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    """`initialize` starts the process group and sets ranks; other tests begin without them."""
    before = {name: os.environ.get(name) for name in RANKS}
    yield
    deepspeed.engine.destroy_process_group()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(params=["device", "eager"])
def backend(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(request.param)
    return str(request.param)


def test_it_trains_as_deepspeed_does(backend: str) -> None:
    engine = _engine(CONFIG)
    rates, losses = [], []
    for batch in _batches(12):
        losses += _losses(engine, [batch])
        rates.append(round(engine.get_lr()[0], 6))
        if engine.global_steps == 1 and engine.micro_steps == 3:
            assert float(engine.get_global_grad_norm()) == pytest.approx(OF_DEEPSPEED[2], abs=1e-4)
    assert losses == pytest.approx([float(x) for x in OF_DEEPSPEED[0]], abs=1e-6)
    assert rates == OF_DEEPSPEED[1]
    assert (engine.global_steps, engine.global_samples) == (4, 48)
    assert engine.zero_optimization_stage() == 2


def test_one_graph_is_launched_for_each_batch(device: torch.device) -> None:
    def launches(batches: Any) -> int:
        engine = _engine({**CONFIG, "gradient_accumulation_steps": 1})
        total = torch.zeros((), device=device)
        xla.mark_step()
        before = xla.metrics()["launches"] or 0
        for x, y in batches:
            loss = F.cross_entropy(engine(x.to(device) * 2), y.to(device))
            engine.backward(loss)
            engine.step()
            total += loss.detach()  # part of the same graph
        xla.mark_step()
        return int((xla.metrics()["launches"] or 0) - before)

    batches = _batches(5)
    loader = xla.MpDeviceLoader(DataLoader(batches, batch_size=None), device)
    for given in (batches, loader):
        launches(given)  # with the graphs of the start
        assert launches(given) == len(batches)


def test_weights_are_exact_behind_bfloat16(backend: str) -> None:
    config = {**CONFIG, "bf16": {"enabled": True}}
    engine = _engine(config)
    assert engine.bfloat16_enabled()
    assert not engine.fp16_enabled()
    assert next(engine.parameters()).dtype is torch.bfloat16
    exact = [float(x) for x in OF_DEEPSPEED[0]]
    assert _losses(engine, _batches(12)) == pytest.approx(exact, abs=5e-3)
    master = engine.optimizer.param_groups[0]["params"][0]
    assert master.dtype is torch.float32
    module = engine.module[0].weight
    assert torch.equal(module.cpu(), master.detach().cpu().bfloat16())
    # Steps of 1e-4 are lost in bfloat16's last place, and are not lost here.
    assert not torch.equal(master.detach().cpu(), module.detach().cpu().float())


def test_float16_is_bfloat16(eager: None) -> None:
    engine = _engine({**CONFIG, "fp16": {"enabled": True, "loss_scale": 0}})
    assert next(engine.parameters()).dtype is torch.bfloat16


def test_a_checkpoint_goes_on_where_it_was_saved(backend: str, tmp_path: Path) -> None:
    config = {**CONFIG, "bf16": {"enabled": True}}
    batches = _batches(12)
    engine = _engine(config)
    _losses(engine, batches[:6])
    assert engine.save_checkpoint(str(tmp_path), client_state={"epoch": 3})
    expected = _losses(engine, batches[6:])
    again = _engine(config)
    path, client = again.load_checkpoint(str(tmp_path))
    assert Path(path).name == "mp_rank_00_model_states.pt"
    assert Path(path).parent.name == "global_step2"
    assert client == {"epoch": 3}
    assert (again.global_steps, again.micro_steps) == (2, 6)
    assert _losses(again, batches[6:]) == expected


def test_no_checkpoint_is_none(eager: None, tmp_path: Path) -> None:
    assert _engine(CONFIG).load_checkpoint(str(tmp_path)) == (None, None)


def test_of_deepspeeds_own_shards_the_model_is_read(eager: None, tmp_path: Path) -> None:
    folder = tmp_path / "global_step7"
    folder.mkdir()
    other = _model()
    nn.init.ones_(other[0].weight)  # type: ignore[index, arg-type]
    torch.save(
        {"module": other.state_dict(), "optimizer": None, "global_steps": 7},
        folder / "mp_rank_00_model_states.pt",
    )
    (tmp_path / "latest").write_text("global_step7")
    engine = _engine(CONFIG)
    with pytest.raises(ValueError, match="load_optimizer_states=False"):
        engine.load_checkpoint(str(tmp_path))
    engine.load_checkpoint(str(tmp_path), load_optimizer_states=False)
    assert engine.global_steps == 7
    assert torch.equal(engine.module[0].weight, torch.ones(16, 8))


def test_optimizers_and_schedules_of_ones_own(eager: None) -> None:
    plain = {"train_batch_size": 4, "gradient_clipping": 0}
    model = _model()
    reference = copy.deepcopy(model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5)
    engine, optimizer, loader, scheduler = deepspeed.initialize(
        model=model, optimizer=sgd, lr_scheduler=schedule, config=plain
    )
    assert (optimizer, loader, scheduler) == (sgd, None, schedule)
    losses = _losses(engine, _batches(3))
    by_hand = torch.optim.SGD(reference.parameters(), lr=0.1)
    for expected, (x, y), rate in zip(losses, _batches(3), (0.1, 0.05, 0.025)):
        by_hand.param_groups[0]["lr"] = rate
        loss = F.cross_entropy(reference(x), y)
        by_hand.zero_grad()
        loss.backward()
        by_hand.step()
        assert loss.item() == expected
    made = _engine(plain, optimizer=lambda parameters: torch.optim.Adagrad(parameters, lr=0.3))
    assert type(made.optimizer) is torch.optim.Adagrad


def test_the_boundary_by_hand(eager: None) -> None:
    engine = _engine(CONFIG)
    engine.set_gradient_accumulation_boundary(True)
    _losses(engine, _batches(2))
    assert engine.global_steps == 2
    assert engine.was_step_applied()
    engine.set_gradient_accumulation_boundary(False)
    _losses(engine, _batches(4))
    assert engine.global_steps == 2
    assert not engine.was_step_applied()


def test_importing_it_chooses_no_backend() -> None:
    code = (
        "import sys; from xla_migrate.runtime.compat import deepspeed; "
        "assert 'torch_xla' not in sys.modules"
    )
    done = subprocess.run([warm.for_side("reference"), "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _numbers(loader: Any) -> list[list[int]]:
    return [x.flatten().tolist() for (x,) in loader]


def test_a_loader_has_deepspeeds_order_in_each_epoch(eager: None) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10))
    torch.manual_seed(5)  # of no effect: DeepSpeed's sampler has its own seed
    engine, _, loader, _ = deepspeed.initialize(model=_model(), config=CONFIG, training_data=data)
    expected = [[4, 1, 7, 5], [3, 9, 0, 8], [6, 2]]  # DeepSpeed 0.19.8
    assert _numbers(loader) == _numbers(loader) == expected
    assert _numbers(engine.deepspeed_io(data, 5)) == [[4, 1, 7, 5, 3], [9, 0, 8, 6, 2]]
    for route in ("eval", "predict"):
        assert _numbers(engine.deepspeed_io(data, 5, route)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    own = engine.deepspeed_io(data, data_sampler=[9, 8, 7], num_local_io_workers=0)
    assert _numbers(own) == [[9, 8, 7]]


def test_a_loader_may_leave_out_the_rest(eager: None) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10))
    config = {**CONFIG, "dataloader_drop_last": True}
    loader = deepspeed.initialize(model=_model(), config=config, training_data=data)[2]
    assert [len(x) for (x,) in loader] == [4, 4]


def test_a_loader_of_samples_that_come_one_by_one(eager: None) -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(6))

    engine = _engine(CONFIG, collate_fn=lambda samples: torch.tensor(samples) * 2)
    loader = engine.deepspeed_io(Stream(), num_local_io_workers=0)
    assert [x.tolist() for x in loader] == [[0, 2, 4, 6], [8, 10]]


def test_the_rank_on_the_host_is_set_in_the_arguments(eager: None) -> None:
    args = argparse.Namespace(local_rank=-1, deepspeed_config=None)
    _engine(CONFIG, args=args)
    assert args.local_rank == 0


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("WarmupLR", {"warmup_num_steps": 4, "warmup_type": "linear"}, [0, 0, 0.25, 0.5, 0.75, 1]),
        ("WarmupLR", {"warmup_num_steps": 4}, [0, 0, 0.5, 0.792481, 1, 1]),
        (
            "WarmupCosineLR",
            {"warmup_num_steps": 2, "total_num_steps": 4, "warmup_type": "linear"},
            [0, 0, 0.5, 0.50005, 0.0001, 0.0001],
        ),
        (
            "OneCycle",
            {"cycle_min_lr": 0.1, "cycle_max_lr": 1.0, "cycle_first_step_size": 2}
            | {"cycle_second_step_size": 3, "decay_step_size": 2, "decay_lr_rate": 0.5},
            [0.1, 0.55, 1.0, 0.7, 0.4, 0.1, 0.08, 0.066667],
        ),
        (
            "LRRangeTest",
            {"lr_range_test_min_lr": 0.1, "lr_range_test_step_size": 2}
            | {"lr_range_test_staircase": True},
            [0.1, 0.1, 0.2, 0.2, 0.3],
        ),
    ],
)
def test_schedules(eager: None, kind: str, arguments: dict[str, Any], expected: Any) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = deepspeed.engine.SCHEDULES[kind](optimizer, **arguments)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in expected[1:]:
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
        assert schedule.get_last_lr() == [rates[-1]]
    assert rates == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sparse_attention": {"mode": "fixed"}}, "`sparse_attention` is not available"),
        ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 1}}}, "OneBitAdam"),
        ({"optimizer": {"type": "Lamb", "params": {"max_grad_norm": 1}}}, "gradient_clipping"),
        ({"optimizer": {"type": "Muon", "params": {"lr": 1}}}, "Muon"),
        (
            {"optimizer": {"type": "Adam", "params": {"lr": 1, "bias_correction": False}}},
            "Adam without bias correction",
        ),
        ({"scheduler": {"type": "ReduceLROnPlateau", "params": {}}}, "ReduceLROnPlateau"),
        ({"train_batch_size": "auto"}, "`train_batch_size` is `auto`"),
        ({"optimizer": {"type": "Adam", "params": "auto"}}, "`optimizer` is `auto`"),
        ({"train_batch_size": 5}, "train_batch_size is 5"),
        ({"gradient_allreduce_op": "SUM"}, "`gradient_allreduce_op` is not available"),
        ({"managed_gradient_accumulation": False}, "`managed_gradient_accumulation` is not"),
        ({"torch_autocast": {"enabled": True}}, "`torch_autocast` is not available"),
        ({"compile": {"deepcompile": True}}, "`compile` is not available"),
    ],
)
def test_what_has_no_counterpart_is_refused(
    eager: None, change: dict[str, Any], message: str
) -> None:
    with pytest.raises((NotImplementedError, ValueError), match=message):
        _engine({**CONFIG, **change})


def test_model_parallelism_is_refused(eager: None) -> None:
    with pytest.raises(NotImplementedError, match=r"mpu=\.\.\."):
        deepspeed.initialize(model=_model(), config=CONFIG, mpu=object())


def test_what_is_switched_off_is_not_asked_for(eager: None) -> None:
    off = {
        "flops_profiler": {"enabled": False},
        "sparse_gradients": False,
        "gradient_allreduce_op": "mean",
        "managed_gradient_accumulation": True,
        "torch_autocast": {"enabled": False},
        "compile": {"deepcompile": False},
        "seq_parallel_comm_data_type": "bf16",
    }
    _engine({**CONFIG, **off})


def test_zero_that_is_switched_on_is_its_first_stage() -> None:
    assert configuration.read({**CONFIG, "zero_optimization": True}, replicas=1).stage == 1


def test_nothing_is_offloaded(eager: None) -> None:
    zero = {"stage": 3, "offload_optimizer": {"device": "cpu"}}
    with pytest.warns(UserWarning, match="offloading has no effect"):
        _engine({**CONFIG, "zero_optimization": zero})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"train_batch_size": 32}, (16, 1)),
        ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4}, (4, 4)),
        ({"train_batch_size": 32, "gradient_accumulation_steps": 2}, (8, 2)),
        ({"train_micro_batch_size_per_gpu": 4}, (4, 1)),
    ],
)
def test_two_of_three_batch_sizes_give_the_third(
    given: dict[str, Any], expected: tuple[int, int]
) -> None:
    found = configuration.read(given, replicas=2)
    assert (found.micro_batch, found.accumulation) == expected


def test_options_of_the_command_line(eager: None, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(CONFIG))
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    args = parser.parse_args(["--deepspeed", "--deepspeed_config", str(tmp_path / "ds.json")])
    engine = deepspeed.initialize(args=args, model=_model())[0]
    assert engine.train_batch_size() == 12
    with pytest.raises(ValueError, match="--deepspeed_config FILE"):
        deepspeed.initialize(args=parser.parse_args([]), model=_model())


def test_attributes_are_the_models(eager: None) -> None:
    model = _model()
    model.vocabulary = 7
    engine = _engine(CONFIG, model=model)
    assert engine.vocabulary == 7
    with pytest.raises(AttributeError):
        _ = engine.nothing
    with deepspeed.zero.Init(config_dict_or_path=CONFIG), deepspeed.zero.GatheredParameters([]):
        pass


def test_scripts_may_tell_the_timer_of_epochs(eager: None) -> None:
    engine = deepspeed.initialize(model=nn.Linear(2, 2), config={"train_batch_size": 4})[0]
    engine.tput_timer.update_epoch_count()


def test_the_device_as_deepspeed_asks_for_it(backend: str) -> None:
    found = deepspeed.get_accelerator()
    name = found.device_name(0)
    assert torch.zeros(1).to(name).device == found.device()
    assert found.device_count() >= 1
    found.set_device(0)
    found.synchronize()
    found.empty_cache()
    assert not found.is_fp16_supported()


def test_the_lists_of_what_is_taken_agree() -> None:
    from xla_codemods.analysis.frameworks import deepspeed as told
    from xla_migrate.runtime.compat.deepspeed.schedules import OF_TORCH, SCHEDULES

    assert configuration.TAKEN == told.TAKEN
    assert configuration.DEFAULTS == told.DEFAULTS
    assert configuration.OPTIMIZERS.keys() == told.OPTIMIZERS
    assert {*SCHEDULES, *OF_TORCH} == told.SCHEDULES


def test_betas_go_against_the_cycle(eager: None) -> None:
    """DeepSpeed's own OneCycle gave these."""
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = deepspeed.engine.SCHEDULES["OneCycle"](optimizer, 0.1, 1.0, cycle_first_step_size=2)
    betas = []
    for _ in range(6):
        betas.append(optimizer.param_groups[0]["betas"])
        schedule.step()
    assert [b for _, b in betas] == [0.99] * 6
    assert [b for b, _ in betas] == pytest.approx([0.8, 0.85, 0.8, 0.85, 0.9, 0.9], abs=1e-9)


def test_a_schedule_of_torchs_in_the_configuration(eager: None) -> None:
    entry = {"type": "StepLR", "params": {"step_size": 1, "gamma": 0.5}}
    engine = _engine({**CONFIG, "gradient_accumulation_steps": 1, "scheduler": entry})
    _losses(engine, _batches(2))
    assert engine.get_lr() == [0.0025]


# DeepSpeed 0.19.8, its Lion on the CPU, ten batches: learning rate 0.003, betas 0.9 and 0.99, decay 0.1.
OF_LION = "1.3537616 1.1107717 0.9653978 1.1193224 1.0880919 1.3355931 0.9896002 1.0305485 1.1010673 1.1905699".split()


def test_lion_is_deepspeeds(backend: str) -> None:
    params = {"lr": 0.003, "betas": [0.9, 0.99], "weight_decay": 0.1}
    config = {"train_batch_size": 4, "gradient_clipping": 1.0}
    engine = _engine({**config, "optimizer": {"type": "Lion", "params": params}})
    found = _losses(engine, _batches(10))
    assert found == pytest.approx([float(x) for x in OF_LION], abs=1e-6)


def test_lion_moves_what_has_no_gradient(eager: None) -> None:
    """As the kernel for CUDA does: `c > 0 ? -lr : lr`."""
    from xla_migrate.runtime.compat.deepspeed_optimizers import FusedLion

    parameter = nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([1.0, -1.0, 0.0])
    FusedLion([parameter], lr=0.5).step()
    assert parameter.tolist() == [-0.5, 0.5, 0.5]


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "bias_correction": False}])
def test_lamb_is_that_of_the_kernel(backend: str, options: dict[str, Any]) -> None:
    """Of csrc/lamb, as `verify` runs originals with; a bias of 0 has the ratio 1."""
    from xla_migrate.verify.stubs.deepspeed.ops.lamb import FusedLamb as Kernel

    params = {"lr": 0.02, "betas": [0.9, 0.99], "max_coeff": 0.5, "min_coeff": 0.1, **options}
    config = {"train_batch_size": 4, "gradient_clipping": 0}
    engine = _engine({**config, "optimizer": {"type": "Lamb", "params": params}})
    own = _model()
    kernel = Kernel(own.parameters(), **{**params, "betas": (0.9, 0.99)})
    expected = []
    for x, y in _batches(6):
        kernel.zero_grad()
        loss = F.cross_entropy(own(x), y)
        loss.backward()
        kernel.step()
        expected.append(loss.item())
    assert _losses(engine, _batches(6)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "options", [{"eps_inside_sqrt": True, "eps": 1e-3}, {"weight_decay": 0.1, "max_coeff": 0.2}]
)
def test_a_scripts_own_lamb_is_that_of_the_kernel(eager: None, options: dict[str, Any]) -> None:
    """With groups of their own rates, and a parameter of zeros."""
    from xla_migrate import runtime as xla
    from xla_migrate.verify.stubs.deepspeed.ops.lamb import FusedLamb as Kernel

    told = []
    for make in (Kernel, xla.BoundedLamb):
        model = _model()
        first, *others = model.parameters()
        groups = [{"params": [first], "lr": 0.05}, {"params": others}]
        optimizer = make(groups, 0.02, **options)
        losses = []
        for x, y in _batches(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        told.append(losses)
    assert told[1] == pytest.approx(told[0], rel=1e-6)
    assert told[1][-1] != told[1][0]


def test_without_a_norm_gradients_are_clipped_as_deepspeed_does(eager: None) -> None:
    """To 1.0 since 0.19.3, and not at all before."""
    config = {k: v for k, v in CONFIG.items() if k != "gradient_clipping"}
    with pytest.warns(UserWarning, match="clipped to a norm of 1.0"):
        engine = _engine(config)
    assert engine.gradient_clipping() == 1.0
    assert _engine({**config, "gradient_clipping": 0}).gradient_clipping() == 0.0


@pytest.mark.parametrize(
    "text",
    [
        '{"train_batch_size": 4, "note": "# // kept, }"}',
        '{\n\t"train_batch_size": 4, // per update\n\t"note": "# // kept, }", # last\n}',
        '/* by hand */ {"train_batch_size": 4, "note": "# // kept, }" /* , */ , }',
    ],
)
def test_comments_of_a_file_are_no_part_of_it(tmp_path: Path, text: str) -> None:
    assert configuration._parsed(text) == {"train_batch_size": 4, "note": "# // kept, }"}


def test_checkpointed_parts_have_the_same_gradients(device: torch.device) -> None:
    assert not deepspeed.checkpointing.is_configured()
    deepspeed.checkpointing.configure(None, partition_activations=True)
    assert deepspeed.checkpointing.is_configured()
    model = _model().to(device)
    x = torch.randn(4, next(model.parameters()).shape[1], device=device)
    gradients = []
    for run in (model, lambda given: deepspeed.checkpointing.checkpoint(model, given)):
        model.zero_grad()
        run(x).square().sum().backward()
        gradients.append([p.grad.cpu() for p in model.parameters()])
    torch.testing.assert_close(*gradients)


def test_ranks_are_in_the_environment(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    deepspeed.init_distributed()
    assert [os.environ[name] for name in RANKS] == ["0", "0", "1"]
    for name in RANKS:
        monkeypatch.setenv(name, "7")  # as a launcher sets them
    deepspeed.init_distributed()
    assert [os.environ[name] for name in RANKS] == ["7"] * 3


def test_parts_without_a_counterpart_are_named() -> None:
    assert not hasattr(deepspeed, "moe")
    with pytest.raises(AttributeError, match=r"deepspeed\.moe has no counterpart .* XLA804"):
        deepspeed.moe  # noqa: B018
