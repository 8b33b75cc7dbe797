"""Measure the processor time of each test: `python -m pytest -p tests.processor_time ...`.

Other work on the machine distorts wall-clock durations, and most of the slow tests wait for other
processes. This plugin adds up the time of pytest and of all processes that it started, the runs of
the warm interpreters included, and counts the processes started on the machine meanwhile. It works
under xdist, where the figures of tests that run at the same time and share a warm interpreter mix.

`PROCESSOR_TIME=FILE` writes a line of JSON for each test as it ends: its id, seconds and processes.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_SHOWN = 40
_figures: dict[str, tuple[float, int]] = {}
_before: dict[str, tuple[float, int]] = {}


def _processes() -> dict[int, tuple[int, int]]:
    """Return the parent and the used clock ticks of every process, ended children included."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(entry)] = int(fields[1]), sum(map(int, fields[11:15]))
    return found


def _descendants(processes: dict[int, tuple[int, int]], root: int) -> Iterator[int]:
    below = defaultdict(list)
    for process, (parent, _) in processes.items():
        below[parent].append(process)
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += below[process]


def used() -> float:
    """Return the seconds of processor time of this process and all those that it started."""
    processes = _processes()
    ticks = sum(processes[process][1] for process in _descendants(processes, os.getpid()))
    return ticks / _TICKS


def started() -> int:
    """Return the number of processes that the machine has started since it booted."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("processes "))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _before[item.nodeid] = used(), started()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "teardown" and item.nodeid in _before:
        seconds, processes = _before.pop(item.nodeid)
        figures = round(used() - seconds, 3), started() - processes
        report.user_properties.append(("processor_time", figures))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the figures of a test; with xdist this runs in the process that starts the workers."""
    for name, figures in report.user_properties:
        if name != "processor_time" or report.when != "teardown":
            continue
        assert isinstance(figures, (tuple, list))
        _figures[report.nodeid] = float(figures[0]), int(figures[1])
        if path := os.environ.get("PROCESSOR_TIME"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps([report.nodeid, *figures]) + "\n")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the files and the tests that used the most processor time, and the sum of all."""
    files: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for test, (seconds, processes) in _figures.items():
        name = test.partition("::")[0]
        files[name] = files[name][0] + seconds, files[name][1] + processes
    terminalreporter.section("processor time, processes")
    for figures in (files, _figures):
        for name in sorted(figures, key=lambda name: -figures[name][0])[:_SHOWN]:
            terminalreporter.write_line(f"{figures[name][0]:8.2f} s {figures[name][1]:5d}  {name}")
    total = sum(seconds for seconds, _ in _figures.values())
    terminalreporter.write_line(f"{total:8.2f} s in {len(_figures)} tests")
