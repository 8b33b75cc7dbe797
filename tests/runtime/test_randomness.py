"""Seeds that reach the device."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_xla.core.xla_model as xm

from xla_migrate import runtime as xla
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend


def draw(device: torch.device) -> list[float]:
    xla.mark_step()
    numbers: list[float] = torch.rand(4, device=device).tolist()
    return numbers


def test_fact_1_30_torchs_seed_does_not_reach_xla(device: torch.device) -> None:
    torch.manual_seed(0)
    first = draw(device)
    torch.manual_seed(0)
    assert draw(device) != first


def test_fact_1_30_our_seed_does(device: torch.device) -> None:
    xla.manual_seed(0)
    first, on_cpu = draw(device), torch.rand(2)
    xla.manual_seed(0)
    assert draw(device) == first
    assert torch.equal(torch.rand(2), on_cpu)
    xla.manual_seed(1)
    assert draw(device) != first


def test_device_only_leaves_the_cpu_alone(device: torch.device) -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    xla.manual_seed(9, device_only=True)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63, 2**64 - 1])
def test_every_seed_of_torch_is_taken(device: torch.device, seed: int) -> None:
    if seed < 0:
        with pytest.raises(TypeError):
            xm.set_rng_state(seed)
    xla.manual_seed(seed)
    first = draw(device)
    xla.manual_seed(seed)
    assert draw(device) == first


def test_fact_1_31_an_unseeded_process_is_not_seeded_alike_everywhere(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_use() -> int:
        monkeypatch.setattr(torch_xla_backend, "_first_use", True)
        xm.set_rng_state(torch_xla_backend._UNSEEDED)
        xla.xla_device()
        state: int = xm.get_rng_state()
        return state

    torch.manual_seed(42)
    assert first_use() == 42, "what a library told torch before the device was used"
    torch.seed()
    one = first_use()
    torch.seed()
    assert one != first_use()


def test_fact_1_31_a_seed_given_before_first_use_is_kept(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_xla_backend, "_first_use", True)
    xm.set_rng_state(7)
    xla.xla_device()
    assert xm.get_rng_state() == 7


def test_fact_1_31_torch_xla_seeds_every_process_with_101() -> None:
    assert torch_xla_backend._UNSEEDED == 101  # test_processes.py looks at a fresh process.


def test_fact_1_32_a_state_continues_where_it_was_taken(device: torch.device) -> None:
    xla.manual_seed(3)
    torch.rand(2, device=device)
    state = xla.get_rng_state()
    assert state.dtype is torch.uint8
    assert state.device.type == "cpu"
    expected = [draw(device), draw(device)]
    xla.set_rng_state(state)
    assert [draw(device), draw(device)] == expected


def test_states_of_all_devices(device: torch.device) -> None:
    states = xla.get_rng_state_all()
    assert len(states) == 1
    expected = draw(device)
    xla.set_rng_state_all(states)
    assert draw(device) == expected


def test_torch_xlas_own_state_is_understood(device: torch.device) -> None:
    xla.set_rng_state(17)
    assert xm.get_rng_state() == 17


def test_a_process_takes_its_own_of_several_states(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.runtime import randomness

    states = [torch.tensor([n, 0, 0, 0, 0, 0, 0, 0], dtype=torch.uint8) for n in range(4)]
    monkeypatch.setattr(randomness, "local_rank", lambda: 2)
    xla.set_rng_state_all(states)
    assert xm.get_rng_state() == 2


def test_a_cuda_state_seeds_with_a_warning(device: torch.device) -> None:
    cuda_state = torch.arange(16, dtype=torch.uint8)
    results = []
    for state in (cuda_state, cuda_state, cuda_state + 1):
        with pytest.warns(UserWarning, match="another device"):
            xla.set_rng_state(state)
        results.append(draw(device))
    assert results[0] == results[1] != results[2]


def test_an_empty_list_restores_nothing_with_a_warning(device: torch.device) -> None:
    with pytest.warns(UserWarning, match="nothing is restored"):
        xla.set_rng_state_all([])


def test_eager_states_are_torchs_own(eager: None) -> None:
    xla.manual_seed(4)
    state = xla.get_rng_state("cuda")
    expected = torch.rand(3)
    xla.set_rng_state_all([state])
    assert torch.equal(torch.rand(3), expected)
    xla.manual_seed(4, device_only=True)
    with pytest.warns(UserWarning, match="another device"):
        xla.set_rng_state(torch.zeros(8, dtype=torch.uint8))


def test_dropout_changes_each_step_and_follows_the_seed(device: torch.device) -> None:
    def masks() -> list[list[float]]:
        xla.manual_seed(1)
        xla.mark_step()
        kept = []
        for _ in range(3):
            kept.append(torch.nn.functional.dropout(torch.ones(32, device=device)).tolist())
            xla.mark_step()
        return kept

    first = masks()
    assert first == masks()
    assert first[0] != first[1] != first[2]


def test_no_warnings_for_a_state_of_ones_own(device: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xla.set_rng_state(xla.get_rng_state())


def test_fork_rng_puts_both_streams_back(device: torch.device) -> None:
    xla.manual_seed(2)
    expected = draw(device), torch.rand(1).item()
    for enabled in (True, False):
        xla.manual_seed(2)
        with xla.fork_rng(devices=[0], enabled=enabled):
            torch.rand(3)
            torch.rand(3, device=device)
            xla.manual_seed(99)
        assert ((draw(device), torch.rand(1).item()) == expected) is enabled


def test_fact_1_33_xla_has_no_generators(device: torch.device) -> None:
    with pytest.raises(RuntimeError):
        torch.Generator(device="xla")
    for spec in (None, "cuda", "cuda:1", "cpu"):
        generator = xla.generator(spec).manual_seed(0)
        assert generator.device.type == "cpu"
    assert torch.randperm(5, generator=generator).shape == (5,)


def test_eager_fork_and_generator(eager: None) -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with xla.fork_rng():
        torch.rand(5)
    assert torch.equal(torch.rand(1), expected)
    assert xla.generator().device.type == xla.device_type()


def test_fact_1_32_marks_move_the_stream_only_where_something_was_drawn(
    device: torch.device,
) -> None:
    """A restarted job does not mark as often between its checkpoint and its next step."""

    def drawn(marks: int) -> list[float]:
        xla.manual_seed(7)
        first = torch.rand(3, device=device)
        for _ in range(marks):
            xla.mark_step()
            torch.ones(2, device=device).add_(1).tolist()
        return first.tolist() + torch.rand(3, device=device).tolist()

    assert drawn(1) == drawn(2) == drawn(5)
    xla.manual_seed(7)
    xla.mark_step()
    state = xla.get_rng_state()
    once = torch.rand(3, device=device).tolist()
    xla.mark_step()
    xla.set_rng_state(state)
    xla.mark_step()
    assert torch.rand(3, device=device).tolist() == once
