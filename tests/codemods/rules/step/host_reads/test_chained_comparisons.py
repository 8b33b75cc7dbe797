"""A chain of comparisons asks each tensor of it but the last, where a single comparison stays on the device."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, check, migrate

STEP = """\
import torch
from xla_migrate import runtime as xla


def train(model, batches, optimizer, n, log):
    for step, x in enumerate(xla.MpDeviceLoader(batches)):
        ids = x.to(xla.xla_device())
        loss = model(ids).mean()
        {line}
        optimizer.zero_grad()
        loss.backward()
        xla.optimizer_step(optimizer)
"""


def _messages(line: str) -> list[str]:
    return [f.message for f in check(STEP.format(line=line).encode()) if f.code == "XLA503"]


@pytest.mark.parametrize(
    "line",
    [
        "xla.later(lambda ok=0 <= ids.min() <= ids.max() < n: print(ok))",
        "xla.later(print, 0 <= ids.min() < n)",
        "ok = 0 <= ids.min() <= ids.max() < n",
        "log(step, n > ids.max() >= 0)",
    ],
)
def test_a_chain_is_reported(line: str) -> None:
    (message,) = _messages(line)
    assert message.startswith("a chain of comparisons with a tensor")
    assert message.endswith("compare each pair, and join the results with `&`")


@pytest.mark.parametrize(
    "line",
    [
        "xla.later(lambda ok=(ids.min() >= 0) & (ids.max() < n): print(ok))",
        "ok = ids.max() < n",
        "ok = 0 <= step < n",
        "ok = 0 <= len(ids) < n",
    ],
)
def test_a_single_comparison_is_not(line: str) -> None:
    assert not _messages(line)


@pytest.mark.parametrize(
    ("line", "test"),
    [
        ("assert 0 <= ids.min() <= ids.max() < 10", "0 <= value <= value_2 < 10"),
        ("if not 0 <= ids.min() < 10:\n            raise ValueError", "not 0 <= value < 10"),
    ],
)
def test_a_chain_that_checks_is_computed_later_of_the_tensors_that_it_compares(
    line: str, test: str
) -> None:
    script = STEP.replace("def train(model, batches, optimizer, n, log)", "if True")
    after = migrate(script.format(line=line).encode(), Options())
    assert test in after.data.decode()
    assert "value=ids.min()" in after.data.decode() or "= ids.min()\n" in after.data.decode()
    assert "XLA503" not in [f.code for f in after.left]
