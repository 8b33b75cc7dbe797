"""`torch.distributions` on XLA: nothing is read in a step, and what is not allowed is still told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import distributions as D

from xla_migrate import runtime as xla
from xla_migrate.runtime import patches

from ..test_processes import in_a_warm_process


@pytest.fixture(autouse=True)
def patched(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first `torch.compile` of a process turns it off.
    monkeypatch.setattr(D.Distribution, "_validate_args", __debug__)
    patches.apply_one("distributions")
    xla.flush()


def reads() -> int:
    return xla.metrics()["host_reads"] or 0


def test_torch_asks_the_device_for_each_distribution() -> None:
    """The fault."""
    script = (
        "import torch, torch_xla, torch_xla.debug.metrics as met\n"
        "device = torch_xla.device()\n"
        "mean, deviation = torch.zeros(2).to(device), torch.ones(2).to(device)\n"
        "count = lambda: (met.metric_data('TransferFromDeviceTime') or (0,))[0]\n"
        "before = count()\n"
        "torch.distributions.Normal(mean, deviation).log_prob(mean)\n"
        "print('reads', count() - before)\n"
    )
    assert "reads 3" in in_a_warm_process("target", script, PJRT_DEVICE="CPU").stdout


MADE: dict[str, Callable[[torch.Tensor], D.Distribution]] = {
    "normal": lambda x: D.Normal(x, torch.ones_like(x)),
    "categorical": lambda x: D.Categorical(logits=x),
    "probabilities": lambda x: D.Categorical(probs=torch.softmax(x, -1)),
    "bernoulli": lambda x: D.Bernoulli(logits=x),
    "independent": lambda x: D.Independent(D.Normal(x, torch.ones_like(x)), 1),
    "laplace": lambda x: D.Laplace(x, torch.ones_like(x)),
    "squashed": lambda x: D.TransformedDistribution(
        D.Normal(x, torch.ones_like(x)), [D.TanhTransform(cache_size=1)]
    ),
    "mixture": lambda x: D.MixtureSameFamily(
        D.Categorical(logits=x), D.Normal(x, torch.ones_like(x))
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_is_read_and_the_probabilities_are_torchs(name: str, device: torch.device) -> None:
    x = torch.tensor([[0.1, -0.2, 0.3], [0.5, 0.4, -0.1]])
    there = x.to(device)
    expected = MADE[name](x)
    torch.manual_seed(0)
    value = expected.sample()
    wanted = expected.log_prob(value)
    value = value.to(device)
    xla.mark_step()
    before = reads()
    found = MADE[name](there).log_prob(value)
    assert reads() == before
    xla.mark_step()
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
    xla.flush()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: D.Normal(x, -torch.ones_like(x)),
        lambda x: D.Normal(x, torch.full_like(x, float("nan"))),
        lambda x: D.Categorical(probs=x + torch.tensor([2.0, -1.0, 0.0], device=x.device)),
        lambda x: D.Bernoulli(probs=x + 2),
        lambda x: D.Categorical(logits=x).log_prob(torch.tensor(9, device=x.device)),
        lambda x: D.Exponential(torch.ones_like(x)).log_prob(-torch.ones_like(x)),
    ],
)
def test_what_is_not_allowed_is_told_behind_the_step(
    wrong: Callable[[torch.Tensor], object], device: torch.device
) -> None:
    kept = wrong(torch.zeros(3).to(device))
    with pytest.raises(ValueError, match="constraints"):
        xla.flush()
    del kept


def test_it_is_told_at_a_mark(device: torch.device) -> None:
    x = torch.zeros(3).to(device)
    D.Normal(x, -torch.ones_like(x))
    with pytest.raises(ValueError, match="Normal"):  # noqa: PT012
        for _ in range(40):
            x.add_(1)
            D.Normal(x, torch.ones_like(x))
            xla.mark_step()
    xla.flush()


def test_a_print_does_not_wait_for_it(device: torch.device) -> None:
    x = torch.zeros(3).to(device)
    D.Normal(x, torch.ones_like(x))
    before = reads()
    print("a line")
    assert reads() == before
    xla.flush()


def test_the_cpu_is_asked_at_once() -> None:
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(torch.zeros(2), -torch.ones(2))


def test_what_is_not_to_be_checked_is_not(device: torch.device) -> None:
    x = torch.zeros(3).to(device)
    D.Normal(x, -torch.ones_like(x), validate_args=False)
    xla.flush()
