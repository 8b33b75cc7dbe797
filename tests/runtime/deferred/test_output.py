"""Output of others, of loggers that are set anew, of copies of this process and of pools, comes in its place."""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tqdm import tqdm

from xla_migrate import runtime as xla
from xla_migrate.runtime.deferred.waiting import queue

from ... import warm
from .steps import steps_of


class Stream(io.StringIO):
    """Keeps what was there at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def test_a_flush_comes_behind_the_lines_that_wait(device: torch.device) -> None:
    """So that they are there before a program that is started then writes, or a copy of this process."""
    stream = Stream()
    with contextlib.redirect_stdout(stream):
        for k, value in steps_of(device, 2):
            xla.later(lambda k=k, value=value: print(k, value.item()))
            sys.stdout.flush()
        subprocess.run(["true"], check=True)
        assert stream.flushed[-2:] == ["0 0.0\n", "0 0.0\n1 1.0\n"]


@pytest.mark.e2e
def test_lines_are_not_written_twice_by_a_copy_of_the_process(tmp_path: Path) -> None:
    """Workers of a loader write what is left in the buffer of `sys.stdout` when they end."""
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, os, torch\n"
        "from xla_migrate import runtime as xla\n"
        "for k in range(3):\n"
        "    loss = torch.ones((), device=xla.xla_device()) * k\n"
        "    xla.later(lambda k=k, loss=loss: print('line', k, loss.item()))\n"
        "    xla.mark_step()\n"
        "copy = multiprocessing.get_context('fork').Process(target=os.getpid)\n"
        "copy.start()\n"
        "copy.join()\n"
        "print('end', flush=True)\n"
    )
    done = subprocess.run(
        [warm.for_side("target"), str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["line 0 0.0", "line 1 1.0", "line 2 2.0", "end"]


def test_records_are_logged_at_the_level_of_when_they_were_written(
    device: torch.device,
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log = logging.getLogger("test_output")
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    for k, value in steps_of(device):
        xla.later(lambda k=k, value=value: log.info("%d %.1f", k, value.item()))
        if k == 1:
            log.setLevel(logging.ERROR)
    handler.setLevel(logging.ERROR)
    log.setLevel(logging.INFO)
    for _, value in steps_of(device):
        xla.later(lambda value=value: log.info("%f", value.item()))
    log.removeHandler(handler)
    xla.flush()
    assert stream.getvalue() == "0 0.0\n1 1.0\n"


def test_a_bar_that_is_closed_shows_what_it_was_told_last(device: torch.device) -> None:
    stream = io.StringIO()
    bar = tqdm(total=9, file=stream, mininterval=99)
    for k, value in steps_of(device):
        xla.later(lambda value=value: bar.set_postfix(loss=value.item(), refresh=False))
        bar.update(1)
        if k == 1:
            break
    bar.close()
    assert "loss=1" in stream.getvalue().split("\r")[-1]


def test_who_waits_for_a_pools_thread_finds_what_it_has_written(
    device: torch.device, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "owner", None)  # that of the first that asks
    monkeypatch.setattr(queue, "_thread", None)

    def job() -> int:
        for k, value in steps_of(device):
            xla.later(lambda k=k, value=value: print(k, value.item()))
        return 3

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        print(pool.submit(job).result())
    assert capsys.readouterr().out == "0 0.0\n1 1.0\n2 2.0\n3\n"
