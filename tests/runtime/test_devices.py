"""Devices in every spelling of a CUDA script."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.eager import backend as eager_backend

ACCELERATOR_SPECS = [
    None,
    0,
    3,
    "cuda",
    "cuda:3",
    "gpu",
    "gpu:1",
    "0",
    "xla",
    "xla:0",
    torch.device("cuda"),
    torch.device("cuda", 1),
    torch.device("xla"),
]


@pytest.mark.parametrize("spec", ACCELERATOR_SPECS, ids=repr)
def test_every_spelling_is_the_accelerator(device: torch.device, spec: object) -> None:
    assert xla.xla_device(spec) == device  # type: ignore[arg-type]
    assert xla.is_accelerator(spec)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["cpu", torch.device("cpu"), torch.device("cpu", 0)], ids=repr)
def test_the_cpu_is_the_cpu(device: torch.device, spec: object) -> None:
    assert xla.xla_device(spec) == torch.device("cpu")  # type: ignore[arg-type]
    assert not xla.is_accelerator(spec)  # type: ignore[arg-type]


def test_meta_is_meta(device: torch.device) -> None:
    assert xla.xla_device("meta") == torch.device("meta")
    assert not xla.is_accelerator("meta")


@pytest.mark.parametrize("spec", ["banana", "gpu:x", "", -1, True, "0,1", "CUDA"])
def test_what_is_no_device_is_refused(device: torch.device, spec: object) -> None:
    with pytest.raises(ValueError, match="device"):
        xla.xla_device(spec)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device"):
        xla.is_accelerator(spec)  # type: ignore[arg-type]


def test_fact_1_2_the_device_has_its_index(device: torch.device) -> None:
    assert torch.device("xla") != device, "so a device without index would compare unequal"
    assert torch.ones(1, device=device).device == xla.xla_device()


def test_fact_1_3_torch_has_no_module_for_xla(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="xla"):
        torch.get_device_module("xla")
    with pytest.raises(RuntimeError, match="xla"), torch.random.fork_rng(device_type="xla"):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="with CUDA its activity is recorded")
def test_fact_1_107_the_profilers_activity_cuda_alone_fails(device: torch.device) -> None:
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with (
        pytest.raises(AssertionError, match="activities"),
        torch.profiler.profile(activities=activities),
    ):
        pass


def test_fact_1_4_torch_accelerator_does_not_know_xla(device: torch.device) -> None:
    assert torch.accelerator.is_available() is torch.cuda.is_available()
    assert xla.is_available()
    assert xla.device_type() == "xla"


def test_is_accelerator_of_tensors_and_modules(device: torch.device) -> None:
    assert not torch.ones(1, device=device).is_cuda, "why is_cuda has to be replaced"
    assert xla.is_accelerator(torch.ones(1, device=device))
    assert not xla.is_accelerator(torch.ones(1))
    assert xla.is_accelerator(nn.Linear(1, 1).to(device))
    assert not xla.is_accelerator(nn.Linear(1, 1))
    assert xla.is_accelerator(nn.BatchNorm1d(1, affine=False).to(device))
    assert not xla.is_accelerator(nn.ReLU())


def test_count_and_name(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert xla.device_count() == 1
    assert xla.device_name() == "XLA:CPU"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert xla.device_count() == 4


def test_eager_without_an_accelerator(eager: None) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    assert xla.xla_device("cuda:1") == torch.device("cpu")
    assert not xla.is_available()
    assert not xla.is_initialized()
    assert not xla.is_accelerator("cuda")
    assert not xla.is_accelerator(None)
    assert xla.device_type() == "cpu"
    assert xla.device_count() == 1
    assert xla.device_name()


def test_there_is_no_device_to_choose_on_xla(device: torch.device) -> None:
    for spec in (1, "cuda:1", torch.device("cuda", 1), None, "cpu", "cuda"):
        xla.set_device(spec)  # type: ignore[arg-type]
        with xla.device_index(spec):  # type: ignore[arg-type]
            assert xla.xla_device() == device
    with pytest.raises(ValueError, match="banana"):
        xla.set_device("banana")


def test_a_chosen_eager_device_stays_chosen(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with four of them, which has to be made up here."""
    current = [0]
    monkeypatch.setattr(eager_backend, "_chosen", False)
    monkeypatch.setattr(eager_backend, "device_type", lambda: "cuda")
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 4)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: current[0])
    monkeypatch.setattr(
        torch.accelerator, "set_device_index", lambda index: current.__setitem__(0, index)
    )
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert xla.xla_device() == torch.device("cuda", 2), "each process of a host has its own"
    assert xla.xla_device("cuda:1") == torch.device("cuda", 1)
    xla.set_device(3)
    assert xla.xla_device() == torch.device("cuda", 3)
    assert xla.device_count() == 4


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, "xla"),
        ("cuda", "xla"),
        ("cuda:1", "xla"),
        ("gpu", "xla"),
        (1, "xla"),
        (torch.device("cuda", 1), "xla"),
        ("cpu", "cpu"),
        ("meta", "meta"),
        ("auto", "auto"),
        ("0,1", "0,1"),
        ("", ""),
    ],
)
def test_kinds_of_what_users_type(device: torch.device, given: Any, kind: str) -> None:
    assert xla.device_type(given) == kind


def test_an_index_counts_where_a_process_has_several_devices(
    eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.runtime.eager import backend as eager_backend

    monkeypatch.setattr(eager_backend, "device_type", lambda: "cuda")
    assert xla.device_type("cuda:1") == "cuda:1"
    assert xla.device_type("cuda") == "cuda"


def test_facts_of_cuda_devices_read_not_available_elsewhere(device: torch.device) -> None:
    properties = xla.device_properties(device)
    assert properties.name == xla.device_name(device)
    assert properties.total_memory > 0
    assert f"{properties.major}.{properties.minor:d} {properties.clock_rate:.1f}" == "n/a.n/a n/a"
    assert f"{round(properties.temperature, 2)}" == "n/a"
    assert json.dumps({"sm": properties.multi_processor_count}) == '{"sm": "n/a"}'
    assert [str(part) for part in xla.device_capability(device)] == ["n/a", "n/a"]
    assert (int(properties.major), f"{float(properties.temperature)}") == (
        -1,
        "nan",
    )  # as in "%d %f"
    assert "total_memory" in repr(properties)


def test_an_unknown_memory_is_displayed_in_gigabytes_too(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.runtime.torch_xla import backend as torch_xla_backend

    monkeypatch.setattr(torch_xla_backend, "memory_info", lambda device: {"bytes_limit": None})
    memory = xla.device_properties(device).total_memory
    assert f"{memory / 2**30:.1f} GiB, {memory // 2**20} MiB" == "n/a GiB, n/a MiB"
