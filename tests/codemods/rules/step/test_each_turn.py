"""What is logged at each step by default is read later; what is logged now and then is read then."""

from __future__ import annotations

import pytest

from ...helpers import migrated

SCRIPT = """import torch
from torch.utils.data import DataLoader

log_interval = {interval}
{settings}

def train(model, dataset, optimizer, master, args):
    for step, x in enumerate(DataLoader(dataset)):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if {test}:
            shown = loss.item() * 4
            print(f"{{step}}: {{shown:.4f}}")
"""


def _after(test: str, interval: str = "1", settings: str = "") -> str:
    return migrated(SCRIPT.format(test=test, interval=interval, settings=settings))


@pytest.mark.parametrize(
    "test",
    [
        "step % log_interval == 0",
        "step % log_interval == 0 and master",
        "master and step % log_interval == 0",
        "(step + 1) % log_interval == 0",
        "step % 1 == 0",
        "args.scale == 0",
        'args.augment and args.loss["kind"] >= 1',
    ],
)
def test_by_default_it_is_each_turn(test: str) -> None:
    after = _after(test)
    assert "shown = xla.item(loss) * 4" in after
    assert "xla.later(lambda step=step, shown=shown: print(" in after


@pytest.mark.parametrize(
    ("test", "interval", "settings"),
    [
        ("step % log_interval == 0", "10", ""),
        ("step % log_interval == 0", "1", "log_interval = 10"),
        ("step % log_interval == 1", "1", ""),
        ("step % log_interval == 0 and step % 50 == 0", "1", ""),
        ("step % log_interval == 0 and args.verbose", "1", ""),
        ("step % args.log_interval == 0", "1", ""),
        ("args.global_step == 0", "1", ""),
        ("master == 0", "1", ""),
    ],
)
def test_elsewhere_it_is_now_and_then(test: str, interval: str, settings: str) -> None:
    assert "shown = loss.item() * 4" in _after(test, interval, settings)
