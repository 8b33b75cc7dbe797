"""What torch_xla compiles and launches in loops: facts that the rules on step marks rest on."""

from __future__ import annotations

import torch
from torch import nn

from xla_migrate import runtime as xla


def _counts() -> tuple[int, int]:
    """Compilations and launches so far."""
    seen = xla.metrics()
    return seen["compiles"] or 0, seen["launches"] or 0


def test_fact_3_24_a_schedule_of_learning_rates_compiles_nothing(device: torch.device) -> None:
    """Why numbers of an optimizer are no finding (XLA505)."""
    model = nn.Linear(3, 3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    x = torch.ones(2, 3, device=device)
    compiles = []
    for _ in range(8):
        optimizer.zero_grad()
        model(x).sum().backward()
        xla.optimizer_step(optimizer)
        schedule.step()
        xla.mark_step()
        compiles.append(_counts()[0])
    assert compiles[-1] == compiles[3]


def test_fact_3_29_a_smaller_last_batch_is_one_graph_more(device: torch.device) -> None:
    """Why a loader without `drop_last` is a note and no more (XLA504)."""
    weight = torch.full((7,), 0.123, device=device)
    batches = [torch.ones(size, 7) for size in (4, 4, 4, 3)]
    compiles = []
    for _ in range(3):
        for x in xla.MpDeviceLoader(batches):
            weight = weight + (x @ weight).sum() * 1e-3
        compiles.append(_counts()[0])
    assert compiles[1] == compiles[2]


def test_fact_3_30_marks_within_an_accumulation_settle(device: torch.device) -> None:
    """Why micro-batches are cut (XLA502): a launch each, the step with the last, and few graphs."""
    model = nn.Linear(5, 5).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(2, 5, device=device)
    seen = []
    for _ in range(5):
        for _ in range(3):
            xla.mark_step()
            (model(x).pow(2).sum() / 3).backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        optimizer.zero_grad()
        seen.append(_counts())
    assert seen[-1][0] == seen[2][0], "no compilation after the third step"
    assert seen[-1][1] - seen[-2][1] == 3, "three micro-batches, three launches"


def test_fact_3_32_an_evaluation_without_marks_is_one_graph(device: torch.device) -> None:
    """Why evaluation loops are marked (XLA502)."""
    model = nn.Linear(6, 6).to(device)

    def launches(marked: bool) -> int:
        xla.mark_step()
        before = _counts()[1]
        with torch.no_grad():
            total = torch.zeros((), device=device)
            for _ in range(5):
                total = total + model(torch.ones(2, 6).to(device)).sum()
                if marked:
                    xla.mark_step()
        xla.mark_step()
        return _counts()[1] - before

    assert launches(marked=False) == 1
    assert launches(marked=True) == 5


def test_fact_3_34_a_step_that_is_skipped_before_its_mark_joins_the_next(
    device: torch.device,
) -> None:
    """Why marks stand before each `continue` (XLA502), or at the top of a loop."""
    state = torch.full((9,), 0.7, device=device)
    launches = []
    for step in range(6):
        xla.mark_step()
        before = _counts()[1]
        state = state * 1.5
        if step != 3:
            xla.mark_step()
        launches.append(_counts()[1] - before)
    assert launches == [1, 1, 1, 0, 1, 1]
