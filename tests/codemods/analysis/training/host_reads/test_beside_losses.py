"""Reads of values that a step computes from what its loss is computed from."""

from __future__ import annotations

import pytest

from ....helpers import findings, migrated

STEP = """\
import numpy as np
import torch

device = torch.device("cuda")


class Agent:
    def __init__(self, policy, optimizer):
        self.policy, self.optimizer, self.values = policy, optimizer, []

    def update(self, obs, old, adv):
        logp = self.policy(obs).log_softmax(-1)[:, 0]
        ratio = torch.exp(logp - old)
        loss = -(ratio * adv).mean()
        {computed}
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {read}


def learn(agent, buffer):
    for obs, old, adv in buffer:
        agent.update(obs.to(device), old.to(device), adv.to(device))
"""


def _reads(computed: str, read: str) -> int:
    text = STEP.format(computed=computed, read=read)
    return sum(code == "XLA503" for _, code in findings(text))


@pytest.mark.parametrize(
    ("computed", "read"),
    [
        ("kl = ((ratio - 1) - (logp - old)).mean()", "self.kl = kl.item()"),
        ("clip = ((ratio - 1).abs() > 0.2).float().mean()", "self.values.append(clip.item())"),
        ("clip = torch.mean((torch.abs(ratio - 1) > 0.2).float()).item()", "self.values.append(clip)"),
        ("entropy = -(loss * loss).mean()", "self.entropy = float(entropy)"),
        ("log_ratio = logp - old", "self.kl = torch.mean(log_ratio.exp() - 1 - log_ratio).cpu().numpy()"),
    ],
)  # fmt: skip
def test_a_read_is_reported(computed: str, read: str) -> None:
    assert _reads(computed, read) == 1


@pytest.mark.parametrize(
    ("computed", "read"),
    [
        ("on_host = ratio.detach().mean().cpu()", "pass"),  # one read, at `.cpu()`
        ("pass", "self.last = loss.item()"),
    ],
)
def test_each_read_is_reported_once(computed: str, read: str) -> None:
    assert _reads(computed, read) == 1


@pytest.mark.parametrize(
    ("computed", "read"),
    [
        ("n = torch.tensor(3.0)", "self.n = n.item()"),  # on the host
        ("n = np.float64(3.0)", "self.n = n.item()"),
        ("shown = old.size(0)", "self.n = float(shown)"),
        ("x = self.count", "self.n = x.item()"),
    ],
)
def test_a_value_of_the_host_is_not(computed: str, read: str) -> None:
    assert _reads(computed, read) == 0


def test_the_read_is_deferred_where_its_use_allows_it() -> None:
    text = STEP.format(
        computed="kl = ((ratio - 1) - (logp - old)).mean()", read="self.kl = kl.item()"
    )
    assert "self.kl = xla.item(kl)" in migrated(text)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("F.mse_loss(x, y)", "xla.item(value)"),
        ("(x - y).pow(2).mean()", "xla.item(value)"),
        ("torch.mean(x - y)", "xla.item(value)"),
        ("(x == y).sum()", "xla.computed(float, xla.item(value))"),
    ],
)
def test_float_of_a_name_of_floats_needs_no_conversion(value: str, kept: str) -> None:
    source = f"""
        import torch
        from torch.nn import functional as F

        class Agent:
            def update(self, batches):
                for x, y in batches:
                    x, y = self.model(x.cuda()), y.cuda()
                    value = {value}
                    self.record.append(float(value))
                    F.l1_loss(x, y).backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()

            def __init__(self, model):
                self.record = []
                self.model = model.cuda()
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def show(self):
                print(self.record[-1])
        """
    assert f"self.record.append({kept})" in migrated(source)


def test_a_deferred_call_binds_no_name_of_a_constant() -> None:
    source = """
        import torch

        EPOCHS = 3

        def train(model, loader, optimizer):
            width = 5
            model.cuda()
            for epoch in range(EPOCHS):
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    optimizer.step()
                    print(f"{epoch:{width}}/{EPOCHS}: {loss.item():.3f}")
        """
    assert "xla.later(lambda epoch=epoch, loss=loss: " in migrated(source)
