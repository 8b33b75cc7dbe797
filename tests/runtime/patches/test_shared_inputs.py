"""Lists that share tensors otherwise than in an earlier step (fact 3.60)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import shared_inputs

PAIRS = list(itertools.permutations(range(3), 2))


def _pool(device: torch.device, size: int) -> list[torch.Tensor]:
    pool = [torch.full((1,), float(i)).to(device) for i in range(size)]
    xla.mark_step()
    return pool


def _joined(
    join: Callable[..., torch.Tensor], pool: Sequence[torch.Tensor], *picks: Sequence[int]
) -> list[list[float]]:
    """What one step makes of the lists that it picks from the pool."""
    results = [join([pool[i] for i in pick]) for pick in picks]
    xla.mark_step()
    return [result.flatten().tolist() for result in results]


def test_fact_3_60_torch_xla_takes_the_program_of_another_step(device: torch.device) -> None:
    """https://github.com/pytorch/xla/issues/8353: where this fails, `shared_inputs` can go."""
    a, b = torch.zeros(5, device=device), torch.ones(5, device=device)
    xla.mark_step()
    for first, second in [((a, b), (a, b)), ((a, b), (b, a))]:
        differences = first[0] - first[1], second[0] - second[1]
        xla.mark_step()
        assert [difference[0].item() for difference in differences] == [-1.0, -1.0]


def test_fact_3_60_tensors_that_are_moved_when_drawn_or_kept_as_one_are_right(
    device: torch.device,
) -> None:
    """What docs/guides/troubleshooting.md advises."""
    host = [torch.full((2,), float(i)) for i in range(4)]
    together = torch.stack(host).to(device)
    xla.mark_step()
    for draw in (lambda i: host[i].to(device), lambda i: together[torch.tensor(i, device=device)]):
        for ids in [(0, 1, 0, 1), (0, 1, 1, 0), (2, 3, 2, 0), (2, 3, 0, 2), (1, 1, 2, 2)]:
            drawn = [draw(i) for i in ids]
            differences = drawn[0] - drawn[1], drawn[2] - drawn[3]
            xla.mark_step()
            expected = [ids[0] - ids[1], ids[2] - ids[3]]
            assert [difference[0].item() for difference in differences] == expected


@pytest.mark.parametrize("name", ["cat", "stack", "concat", "hstack"])
def test_each_list_has_its_own_tensors(device: torch.device, name: str) -> None:
    pool = _pool(device, 3)
    for first, second in itertools.product(PAIRS, PAIRS):
        expected = [[float(i) for i in first], [float(i) for i in second]]
        assert _joined(getattr(torch, name), pool, first, second) == expected


def test_padded_lists(device: torch.device) -> None:
    pool = _pool(device, 3)
    for first, second in itertools.product(PAIRS[:3], PAIRS):
        expected = [[float(i) for i in first], [float(i) for i in second]]
        assert _joined(torch.nn.utils.rnn.pad_sequence, pool, first, second) == expected


def test_a_list_that_holds_a_tensor_twice(device: torch.device) -> None:
    pool = _pool(device, 4)
    for pick in [(0, 1, 0), (0, 1, 1), (2, 2, 1), (3, 0, 0), (0, 1, 0), (1, 2, 3)]:
        assert _joined(torch.cat, pool, pick) == [[float(i) for i in pick]]


def test_what_is_drawn_from_a_replay_buffer(device: torch.device) -> None:
    """A transition's next state is the next one's state, as in the DQN tutorial of PyTorch."""
    pool = _pool(device, 21)
    generator = random.Random(0)
    for _ in range(12):
        states = generator.sample(range(20), 8)
        following = [i + 1 for i in states if i % 5]
        expected = [[float(i) for i in states], [float(i) for i in following]]
        assert _joined(torch.stack, pool, states, following) == expected


def _launches(*steps: Callable[[], Any]) -> int:
    before = xla.metrics()["launches"] or 0
    for step in steps:
        step()
    return (xla.metrics()["launches"] or 0) - before


def test_the_same_pattern_in_every_step_costs_no_launch(device: torch.device) -> None:
    pool = list(torch.ones(12, 7, device=device).unbind())
    xla.mark_step()

    def step(first: int) -> Callable[[], None]:
        def take() -> None:
            both = torch.cat([pool[first], pool[first + 1]]) * torch.cat([pool[first]] * 2)
            joined = torch.cat([both, torch.cat([pool[first + 1], pool[first]])])
            xla.mark_step()
            assert joined.device.type == "xla"

        return take

    assert _launches(*[step(i) for i in range(8)]) == 8


def test_what_is_computed_in_the_step_is_not_run_before(device: torch.device) -> None:
    pool = _pool(device, 3)

    def step() -> None:
        a, b, c = (t + 1 for t in pool)
        joined = [torch.cat([a, b]), torch.cat([b, a]), torch.cat([c, b])]
        xla.mark_step()
        assert [j.tolist() for j in joined] == [[1, 2], [2, 1], [3, 2]]

    assert _launches(step, step) == 2


def test_gradients_reach_what_is_joined(device: torch.device) -> None:
    pool = [torch.full((1,), float(i), device=device, requires_grad=True) for i in range(3)]
    xla.mark_step()
    for first, second in [((0, 1), (0, 1)), ((0, 1), (2, 0)), ((0, 0), (1, 1))]:
        for tensor in pool:
            tensor.grad = None
        weights = torch.cat([pool[i] for i in first]) * torch.tensor([1.0, 2.0], device=device)
        (weights + torch.cat([pool[i] for i in second]) * 10).sum().backward()
        xla.mark_step()
        expected = [0.0, 0.0, 0.0]
        for place, (i, j) in enumerate(zip(first, second, strict=True)):
            expected[i] += place + 1
            expected[j] += 10
        assert [0.0 if t.grad is None else t.grad.item() for t in pool] == expected


def test_replicas_are_told(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch_xla.runtime.world_size", lambda: 2)
    watch = shared_inputs._Watch()
    pool = _pool(device, 3)
    watch.distinguishable(pool[:2])
    watch.distinguishable(pool[:2])
    xla.mark_step()
    torch.zeros(5, device=device).cpu()
    watch.distinguishable(pool[:2])
    with pytest.warns(UserWarning, match="join them on the CPU"):
        watch.distinguishable(pool[1::-1])


def test_tensors_of_the_host_are_left_alone() -> None:
    tensors = [torch.ones(1), torch.zeros(1)]
    assert torch.cat(tensors).tolist() == [1.0, 0.0]
    assert torch.stack(tuple(tensors), dim=1).shape == (1, 2)
