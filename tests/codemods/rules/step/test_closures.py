"""What an optimizer's step returns is the loss of its closure, which is read later as any other."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated

SCRIPT = """import torch

def train(model, x, y, steps):
    optimizer = torch.optim.{kind}(model.parameters())
    for step in range(steps):
        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
            loss.backward()
            return {returned}

        loss = optimizer.step({given})
        print(step, {shown})
"""

LATER = "xla.later(lambda step=step, loss=loss: print(step, loss.item()))"


def _after(
    kind: str = "SGD", returned: str = "loss", given: str = "closure", shown: str = "loss.item()"
) -> list[str]:
    source = SCRIPT.format(kind=kind, returned=returned, given=given, shown=shown)
    text = migrated(source)
    assert not [f for f in check(text.encode()) if f.code == "XLA503"]
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "LBFGS"])
@pytest.mark.parametrize("given", ["closure", "closure=closure", "lambda: closure()"])
def test_the_loss_that_a_step_returns_is_read_later(kind: str, given: str) -> None:
    assert LATER in _after(kind, given=given)


@pytest.mark.parametrize("returned", ["loss.item()", "float(loss)"])
def test_a_closure_that_returns_a_number_has_been_read(returned: str) -> None:
    assert "print(step, loss)" in _after(returned=returned, shown="loss")
