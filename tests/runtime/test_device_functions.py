"""`torch.get_device_module` has no module for XLA; the runtime has."""

from __future__ import annotations

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime import device_functions as functions


@pytest.mark.parametrize("spec", [None, "cuda", "cuda:1", "xla", torch.device("cuda", 0)])
def test_the_accelerators_module_has_cudas_functions(device: torch.device, spec: object) -> None:
    module = xla.device_module(spec)  # type: ignore[arg-type]
    assert module.is_available()
    assert module.device_count() >= 1
    assert module.current_device() == (device.index or 0)
    module.set_device(device)
    module.synchronize()
    module.empty_cache()


def test_memory_is_told_in_bytes(device: torch.device) -> None:
    if device.type != "xla":
        pytest.skip("torch.cpu tells nothing of memory")
    module = xla.device_module()
    held = torch.ones(1024, device=device)
    xla.synchronize()
    assert module.memory_allocated() > 0
    assert held.shape == (1024,)
    assert module.max_memory_allocated() >= 0
    assert module.get_device_properties(0).total_memory


def test_seeds_and_states_are_the_devices(device: torch.device) -> None:
    if device.type != "xla":
        pytest.skip("torch.cpu has no generators")
    module, before = xla.device_module(), torch.get_rng_state()
    module.manual_seed(3)
    state = module.get_rng_state()
    first = torch.rand(2, device=device).tolist()
    module.set_rng_state(state)
    assert torch.rand(2, device=device).tolist() == first
    assert torch.equal(torch.get_rng_state(), before)


def test_what_xla_lacks_is_named(device: torch.device) -> None:
    if device.type != "xla":
        pytest.skip("torch.cpu is torch's own")
    with pytest.raises(AttributeError, match=r"no equivalent of torch\.cuda\.CUDAGraph"):
        xla.device_module().CUDAGraph  # noqa: B018


def test_the_host_has_torchs_own_module() -> None:
    assert xla.device_module("cpu") is torch.cpu


def test_fact_1_3_torch_has_no_module_for_xla() -> None:
    """Once it has, the runtime's is not needed."""
    with pytest.raises(RuntimeError, match="module registered"):
        torch.get_device_module("xla")


def test_its_names_are_those_of_torch_cuda() -> None:
    assert [name for name in functions.__all__ if not hasattr(torch.cuda, name)] == []
