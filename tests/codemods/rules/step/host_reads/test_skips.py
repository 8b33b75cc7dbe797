"""Steps that a condition skips are left to the device, where nothing but the step hangs on it."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....helpers import migrated

SCRIPT = """import logging, math, sys
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

device = torch.device("cuda")
logger = logging.getLogger(__name__)


def train(model, batches: DataLoader, optimizer: torch.optim.Optimizer, scheduler, ema, args):
    total, seen, skipped = 0.0, 0, 0
    for step, (x, y) in enumerate(batches):
        x, y = x.to(device), y.to(device)
        {lines}
    print(total, seen, skipped)
"""

LOSS = "loss = F.cross_entropy(model(x), y)"
NORM = f"optimizer.zero_grad()\n{LOSS}\nloss.backward()\nnorm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
ZEROED = f"optimizer.zero_grad()\n{LOSS}"


def _source(lines: str) -> str:
    return SCRIPT.format(lines=lines.replace("\n", "\n        "))


def after_migration(lines: str) -> list[str]:
    """The lines of the turn, behind the move of the batch."""
    found = [line.strip() for line in migrated(_source(lines)).splitlines()]
    return found[found.index("x, y = x.to(device), y.to(device)") + 1 : -1]


def _is_left_to_the_device(lines: str) -> bool:
    return "where=" in migrated(_source(lines))


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ("torch.isfinite(norm)", "torch.isfinite(norm)"),
        ("torch.isfinite(norm).all()", "torch.isfinite(norm).all()"),
        ("torch.isfinite(norm).item()", "torch.isfinite(norm)"),
        ("bool(torch.isfinite(norm))", "torch.isfinite(norm)"),
        ("math.isfinite(norm)", "torch.isfinite(norm)"),
        ("np.isfinite(norm.item())", "torch.isfinite(norm)"),
        ("norm.isfinite()", "norm.isfinite()"),
        ("not torch.isnan(norm)", "~torch.isnan(norm)"),
        ("not (torch.isnan(norm) or torch.isinf(norm))", "~torch.isnan(norm) & ~torch.isinf(norm)"),
        ("~(norm.isnan() | torch.isinf(norm))", "~(norm.isnan() | torch.isinf(norm))"),
        ("not norm.isnan() | norm.isinf()", "~(norm.isnan() | norm.isinf())"),
        ("norm < 100", "norm < 100"),
        ("norm.item() < 100", "norm < 100"),
        ("not norm > 1e3", "~(norm > 1000.0)"),
        ("torch.isfinite(norm) and norm < 100", "torch.isfinite(norm) & (norm < 100)"),
        ("args.always or torch.isfinite(norm)", "bool(args.always) | torch.isfinite(norm)"),
        ("step > 9 and torch.isfinite(norm)", "bool(step > 9) & torch.isfinite(norm)"),
    ],
)  # fmt: skip
def test_the_step_says_where_it_is_taken(condition: str, where: str) -> None:
    found = after_migration(f"{NORM}\nif {condition}:\n    optimizer.step()")
    wanted = where.replace("1000.0", "1e3")
    assert found[-1] == f"xla.optimizer_step(optimizer, where={wanted})"
    assert not any(line.startswith("if ") for line in found)


@pytest.mark.parametrize(
    "condition",
    [
        "norm < 0.1",  # which float32 has not: rounded, it may be on the other side
        "norm.item() < args.limit",
        "loss_of(norm)",
        "norm is not None and torch.isfinite(norm)",
        "all(torch.isfinite(p.grad).all() for p in model.parameters())",
        "len(parts) > 1 and torch.isfinite(norm[0])",
    ],
)
def test_what_the_device_cannot_be_asked_is_asked_by_the_host(condition: str) -> None:
    lines = f"{NORM}\nif {condition}:\n    optimizer.step()"
    assert f"if {condition}:" in [line.strip() for line in migrated(_source(lines)).splitlines()]


def test_what_is_shown_where_no_step_is_taken_is_shown_later() -> None:
    lines = f"{NORM}\nif torch.isfinite(norm):\n    optimizer.step()\nelse:\n    print(f'{{norm}} at {{step}}')\n    optimizer.zero_grad()"
    assert after_migration(lines)[-2:] == [
        "xla.later(lambda norm=norm, step=step, isfinite_norm=torch.isfinite(norm): print(f'{norm} at {step}') if not isfinite_norm else None)",
        "xla.optimizer_step(optimizer, where=torch.isfinite(norm))",
    ]


def test_what_is_shown_first() -> None:
    lines = f"{NORM}\nif not torch.isfinite(norm):\n    logger.warning('skipped %d', step)\nelse:\n    optimizer.step()"
    assert after_migration(lines)[-2:] == [
        "xla.later(lambda step=step, isfinite_norm=torch.isfinite(norm): logger.warning('skipped %d', step) if not isfinite_norm else None)",
        "xla.optimizer_step(optimizer, where=torch.isfinite(norm))",
    ]


def test_backward_and_zeroing_are_done_in_every_turn() -> None:
    lines = f"{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()"
    assert after_migration(lines)[2:] == [
        "finite = ~torch.isnan(loss)",
        "loss.backward()",
        "xla.optimizer_step(optimizer, where=finite)",
    ]


def test_a_turn_that_is_left() -> None:
    lines = f"""{LOSS}
value = loss.item()
if not math.isfinite(value):
    print(f"loss is {{value}}")
    skipped += 1
    optimizer.zero_grad()
    continue
optimizer.zero_grad()
loss.backward()
optimizer.step()
total += value * x.size(0)
seen += x.size(0)
if step % 100 == 0:
    logger.info("%d", step)"""
    assert after_migration(lines) == [
        LOSS,
        "value = xla.item(loss)",
        "finite = torch.isfinite(loss)",
        "skipped += xla.item(~finite)",
        'xla.later(lambda value=value: print(f"loss is {value}") if not math.isfinite(value) else None)',
        "optimizer.zero_grad()",
        "loss.backward()",
        "xla.optimizer_step(optimizer, where=finite)",
        "total += xla.item(torch.where(finite, loss, 0)) * x.size(0)",
        "seen += x.size(0) * xla.item(finite)",
        "xla.later(lambda finite=finite, step=step, value=step % 100 == 0: logger.info(\"%d\", step) if value and finite else None)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("total += loss.item()", "total += xla.item(torch.where(finite, loss, 0))"),
        ("total = total + loss.item()", "total = total + xla.item(torch.where(finite, loss, 0))"),
        ("total += loss.detach()", "total += torch.where(finite, loss.detach(), 0)"),
        ("seen += 1", "seen += xla.item(finite)"),
        ("seen += len(x)", "seen += len(x) * xla.item(finite)"),
        ("print(step, loss.item())", "xla.later(lambda step=step, loss=loss, finite=finite: print(step, loss.item()) if finite else None)"),
    ],
)  # fmt: skip
def test_what_is_summed_up_and_shown_hangs_on_the_condition(line: str, after: str) -> None:
    lines = (
        f"{ZEROED}\nif torch.isnan(loss):\n    continue\nloss.backward()\noptimizer.step()\n{line}"
    )
    assert after_migration(lines)[-1] == after


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (f"{NORM}\nif torch.isfinite(norm):\n    optimizer.step()\n    scheduler.step()", "scheduler.step()"),
        (f"{NORM}\nif torch.isfinite(norm):\n    optimizer.step()\n    ema.update(model)", "ema.update(model)"),
        (f"{NORM}\nif not torch.isfinite(norm):\n    scheduler.step()\nelse:\n    optimizer.step()", "is done where no step is taken"),
        (f"{NORM}\nif torch.isfinite(norm):\n    optimizer.step()\nelse:\n    print(loss)", "is shown as it is"),
        (f"{LOSS}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()", "added up"),
        (f"{LOSS}\nloss.backward()\nif not torch.isnan(loss):\n    optimizer.step()\n    optimizer.zero_grad()", "added up"),
        (f"{LOSS}\nif torch.isnan(loss):\n    continue\nloss.backward()\nif step % 4 == 0:\n    optimizer.step()\n    optimizer.zero_grad()", "in some turns only"),
        (f"{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)\n    optimizer.step()", "clip_grad_norm_"),
        (f"torch.autograd.set_detect_anomaly(True)\n{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()", "anomaly"),
        (f"{ZEROED}\nif torch.isnan(loss):\n    continue\nloss.backward()\noptimizer.step()\nseen += 1\nif seen > 9: scheduler.step()", "is done with it"),
    ],
)  # fmt: skip
def test_what_more_hangs_on_it_stands_in_the_way(lines: str, reason: str) -> None:
    after = migrated(_source(lines))
    assert "where=" not in after
    said = [f.message for f in check(after.encode()) if f.code == "XLA503"]
    assert any("whether the weights change" in text and reason in text for text in said), said


def test_every_optimizer_of_the_turn_is_zeroed() -> None:
    other = "other = torch.optim.SGD(model.parameters(), 0.1)\n"
    turn = f"{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()\n"
    assert not _is_left_to_the_device(f"{other}{turn}if step % 2: other.zero_grad()\nother.step()")
    assert _is_left_to_the_device(f"{other}{turn}other.zero_grad()\nother.step()")
    zeroed = turn.replace("optimizer.zero_grad()", "other.zero_grad()")
    assert not _is_left_to_the_device(f"{other}{zeroed}if step % 9 == 0: optimizer.zero_grad()")
    assert _is_left_to_the_device(turn.replace("optimizer.zero_grad()", "model.zero_grad()"))


def test_what_was_denied_is_not_denied_twice() -> None:
    lines = f"{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()\nelse:\n    print('nan', step)"
    assert "xla.later(lambda step=step, isnan_loss=torch.isnan(loss): print('nan', step) if isnan_loss else None)" in after_migration(lines)  # fmt: skip


def test_a_mean_over_some_turns_is_stepped_by_where_it_is_zeroed() -> None:
    inner = f"{LOSS}\n(loss / 4).backward()\nif step % 4 == 3:\n    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    if torch.isfinite(norm):\n        optimizer.step()\n    optimizer.zero_grad()"
    assert "if torch.isfinite(norm):" in migrated(_source(inner))  # it is read now and then


def test_what_is_written_for_torch_xla_is_not_told() -> None:
    source = _source(f"{NORM}\nif torch.isfinite(norm):\n    xm.optimizer_step(optimizer)")
    assert "where=" not in migrated(f"import torch_xla.core.xla_model as xm\n{source}")


def test_a_name_that_is_taken() -> None:
    lines = f"finite = step\n{ZEROED}\nif not torch.isnan(loss):\n    loss.backward()\n    optimizer.step()"
    assert "finite_ = ~torch.isnan(loss)" in after_migration(lines)


def test_comments_stay() -> None:
    lines = f"{NORM}\nif torch.isfinite(norm):  # one\n    # two\n    optimizer.step()  # three\nelse:  # four\n    # five\n    print('nan')  # six\n    # seven"
    after = migrated(_source(lines))
    assert all(after.count(f"# {word}") == 1 for word in "one two three four five six".split())
    lines = f"{ZEROED}\nif torch.isnan(loss):  # one\n    # two\n    continue  # three\nloss.backward()\noptimizer.step()"
    after = migrated(_source(lines))
    assert "where=" in after
    assert all(after.count(f"# {word}") == 1 for word in "one two three".split())
