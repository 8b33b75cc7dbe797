"""Replicas that read a file which only the master writes."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from xla_migrate.runtime.saving import written

from ..rehearsal import run


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> object:
    made = dist.HashStore()  # type: ignore[attr-defined]
    monkeypatch.setattr(written, "_store", lambda: made)
    monkeypatch.setattr(written, "_counted", (None, Counter()))
    return made


@pytest.mark.e2e
def test_a_replica_that_loads_what_all_save_waits_for_the_master(tmp_path: Path) -> None:
    script = f"""
import time, torch
from xla_migrate import runtime as xla
xla.init_process_group()
path = {str(tmp_path / "best.pt")!r}
for epoch in range(3):
    if xla.rank() == 0:
        time.sleep(0.3)
    xla.save({{"epoch": epoch}}, path)
    report(str(epoch), xla.load(path)["epoch"])
"""
    assert run(script) == [{"0": 0, "1": 1, "2": 2}] * 2


def test_a_replica_that_saves_more_often_than_the_master_is_warned_once(
    store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "_PATIENCE", 0.05)
    written.skipped("best.pt")
    with pytest.warns(UserWarning, match=r"best\.pt"):
        written.wait_for("best.pt")
    written.wait_for("best.pt")  # Returns at once.


def test_a_master_that_has_left_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(key: str, number: int) -> int:
        raise dist.DistNetworkError("Connection reset by peer")

    store = SimpleNamespace(add=add)
    monkeypatch.setattr(written, "_store", lambda: store)
    monkeypatch.setattr(written, "_counted", (store, Counter()))
    written.skipped("best.pt")
    written.wait_for("best.pt")


def test_a_file_that_this_replica_did_not_skip_is_read_at_once(store: object) -> None:
    written.wait_for("other.pt")


def test_a_new_process_group_counts_from_zero(
    store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.skipped("best.pt")
    later = dist.HashStore()  # type: ignore[attr-defined]
    monkeypatch.setattr(written, "_store", lambda: later)
    written.wait_for("best.pt")  # Returns at once.
    written.skipped("best.pt")
    written.written("best.pt")
    written.wait_for("best.pt")


def test_the_wait_ends_with_the_write(store: Any) -> None:
    written.skipped("best.pt")
    writer = threading.Timer(0.1, written.written, ["best.pt"])
    writer.start()
    written.wait_for("best.pt")
    assert store.add(written._key("best.pt"), 0) == 1
    writer.join()


def test_a_file_that_the_master_does_not_write_is_warned_of_once(
    store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "_PATIENCE", 0.0)
    written.skipped("0.codes.pt")
    with pytest.warns(UserWarning, match=r"0\.codes\.pt' was not written.*master_only=False"):
        written.skipped("1.codes.pt")


@pytest.mark.filterwarnings("error")
def test_files_that_the_master_writes_are_not_warned_of(
    store: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "_PATIENCE", 0.0)
    for step in range(3):
        written.written(f"{step}.pt")
        written.skipped(f"{step}.pt")
        written.skipped(f"{step}.pt")
