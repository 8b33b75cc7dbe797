"""An error behind the step is raised in its place: what is shown after it is not shown, and no weights are saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from xla_migrate import runtime as xla

from ... import warm
from .steps import steps_of


def _end(step: int, value: torch.Tensor, *, exits: bool = False) -> None:
    def end(step: int = step, value: torch.Tensor = value) -> None:
        if value.item() > 1:
            print("over at", step)
            sys.exit(step) if exits else xla.stop(ValueError(f"step {step}"))

    xla.later(end)


def test_what_was_to_be_shown_after_it_is_not_shown(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    for k, value in steps_of(device, 6):
        _end(k, value)
        xla.later(lambda k=k, value=value: print(k, value.item()))
    with pytest.raises(ValueError, match="step 2"):
        xla.flush()
    print("afterwards")
    assert capsys.readouterr().out.splitlines() == ["0 0.0", "1 1.0", "over at 2", "afterwards"]
    xla.flush()
    assert capsys.readouterr().out == ""


def test_output_that_comes_behind_it_raises_it(device: torch.device) -> None:
    for k, value in steps_of(device, 6):
        _end(k, value)
    with pytest.raises(ValueError, match="step 2"):
        print("not shown")


def test_weights_are_not_saved_behind_it(device: torch.device, tmp_path: Path) -> None:
    for k, value in steps_of(device, 3):
        _end(k, value, exits=True)
    with pytest.raises(SystemExit) as raised:
        xla.save({"weight": torch.ones(1, device=device)}, tmp_path / "last.pt")
    assert raised.value.code == 2
    assert not list(tmp_path.iterdir())


def test_numbers_on_their_way_come_all_the_same(device: torch.device) -> None:
    total = 0.0
    for k, value in steps_of(device, 4):
        _end(k, value)
        total += xla.item(value)
    with pytest.raises(ValueError, match="step 2"):
        xla.flush()
    assert xla.arrived(total) == 6.0


def test_an_interrupt_loses_nothing(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(value: torch.Tensor) -> None:
        raise KeyboardInterrupt

    for k, value in steps_of(device, 2):
        if k == 0:
            xla.later(lambda value=value: interrupted(value))
        xla.later(lambda k=k, value=value: print(k, value.item()))
    with pytest.raises(KeyboardInterrupt):
        xla.flush()
    xla.flush()
    assert capsys.readouterr().out.splitlines() == ["0 0.0", "1 1.0"]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("end", "code", "last"),
    [
        ("xla.stop(ValueError(k))", 1, "ValueError: 4"),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('over')", 1, "over"),
        ("sys.exit()", 0, ""),
    ],
)
def test_the_code_of_a_process_whose_end_makes_it(
    tmp_path: Path, end: str, code: int, last: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import atexit, sys, torch\n"
        "from xla_migrate import runtime as xla\n"
        "atexit.register(print, 'bye')\n"
        "for k in range(5):\n"
        "    loss = torch.ones((), device=xla.xla_device()) * k\n"
        f"    xla.later(lambda k=k, loss=loss: {end} if loss.item() > 3 else None)\n"
        "    xla.mark_step()\n"
    )
    env = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": os.pathsep.join(sys.path)}
    python = sys.executable if end == "sys.exit(7)" else warm.for_side("target")
    command = [python, str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stdout == "bye\n"
    assert (done.stderr.splitlines() or [""])[-1] == last


def test_a_class_is_raised_too(device: torch.device) -> None:
    with pytest.raises(ZeroDivisionError):
        xla.stop(ZeroDivisionError)
