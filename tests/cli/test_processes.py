"""Work spread over processes: every result once, whatever happens to a process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from xla_migrate.cli.migrate import processes
from xla_migrate.cli.migrate.processes import spread

from .conftest import CUDA, Runner


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork as soon as there is anything left to do."""
    monkeypatch.setattr(processes, "_TRY", -1.0)
    monkeypatch.setattr(processes, "_WORTH", -1.0)


def results(items: list[int], do: object, jobs: int) -> dict[int, object]:
    found: dict[int, object] = {}

    def done(k: int, result: object) -> None:
        assert k not in found
        found[k] = result

    spread(items, items, do, jobs, done, lambda item, reason: f"{item}: {reason}")  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 400])
@pytest.mark.usefixtures("at_once")
def test_every_item_once(count: int, jobs: int) -> None:
    items = list(range(1, count + 1))
    assert results(items, lambda item: item * 2, jobs) == {k: 2 * k + 2 for k in range(count)}


@pytest.mark.usefixtures("at_once")
def test_it_is_really_done_by_others() -> None:
    found = results(list(range(1, 60)), lambda item: (time.sleep(0.02), os.getpid())[1], 2)
    assert len(set(found.values())) == 3  # this one, and two more


def test_little_work_stays_here() -> None:
    assert set(results(list(range(1, 60)), lambda item: os.getpid(), 4).values()) == {os.getpid()}


@pytest.mark.usefixtures("at_once")
def test_large_results_fit_through() -> None:
    found = results([5, 4, 3, 2, 1], lambda item: b"x" * item * 1_000_000, 2)
    assert [len(found[k]) for k in range(5)] == [
        5_000_000,
        4_000_000,
        3_000_000,
        2_000_000,
        1_000_000,
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.usefixtures("at_once")
def test_a_process_that_dies_loses_one_item_only(ending: signal.Signals) -> None:
    here = os.getpid()

    def do(item: int) -> int:
        if item == 30 and os.getpid() != here:
            os.kill(os.getpid(), ending)
        return item

    found = results(list(range(1, 100)), do, 3)
    assert found[29] == "30: the process that analysed it died"
    assert [found[k] for k in range(99) if k != 29] == [k + 1 for k in range(99) if k != 29]


@pytest.mark.usefixtures("at_once")
def test_an_interrupt_ends_the_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    here, fork = os.getpid(), os.fork
    begun: list[int] = []

    def do(item: int) -> int:
        if os.getpid() != here:
            time.sleep(60)
        return item

    def forked() -> int:
        child = fork()
        if child:
            begun.append(child)
            signal.setitimer(signal.ITIMER_REAL, 0.3)  # after the last of them
        return child

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fork", forked)
    before = signal.signal(signal.SIGALRM, stop)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            results([4, 3, 2, 1], do, 2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30
    assert len(begun) == 2
    for child in begun:
        with pytest.raises(ChildProcessError):  # it has ended, and was waited for
            os.waitpid(child, os.WNOHANG)


@pytest.mark.e2e
@pytest.mark.usefixtures("at_once")
def test_the_output_does_not_depend_on_the_processes(run: Runner, here: Path) -> None:
    for k in range(60):
        (here / f"{k}.py").write_text(CUDA * (1 + k % 3))
    (here / "bad.py").write_text("torch (")
    outputs = [run("check", "--no-cache", "--jobs", str(jobs), ".") for jobs in (1, 2, 3, 7)]
    assert outputs[0].out.count("\n") == 60 * 2 + 2
    assert all(output == outputs[0] for output in outputs)
    rewritten = run("--jobs", "3", ".")
    assert rewritten.code == 2
    assert "120 of 120 findings migrated in 60 files." in rewritten.out
    assert all((here / f"{k}.py.orig").exists() for k in range(60))
    assert run("check", ".").out.count("\n") == 2
