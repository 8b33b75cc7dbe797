"""Parallel compilation, with a stand-in for the compiler's process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xla_migrate.target.compile import pool

STAND_IN = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "die":
        sys.stderr.write("I0000 well\\nF0000 chip config not found\\n"); sys.stderr.flush()
        os.abort()
    if request["do"] == "hang":
        time.sleep(60)
    print(json.dumps({"did": request["do"], "process": os.getpid()}), flush=True)
"""


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(STAND_IN)
    monkeypatch.setattr(pool, "WORKER", worker)


def test_replies_come_in_the_order_of_requests() -> None:
    told: list[int] = []
    replies = pool.run(
        sys.executable, [{"do": str(i)} for i in range(6)], 2, done=lambda i, _: told.append(i)
    )
    assert [reply["did"] for reply in replies] == [str(i) for i in range(6)]
    assert len({reply["process"] for reply in replies}) <= 2
    assert sorted(told) == list(range(6))


def test_a_process_that_dies_takes_only_its_graph() -> None:
    replies = pool.run(sys.executable, [{"do": "a"}, {"do": "die"}, {"do": "b"}], 1)
    assert [reply.get("did") for reply in replies] == ["a", None, "b"]
    assert replies[1]["passing"]
    assert "F0000 chip config not found" in replies[1]["error"]


@pytest.mark.e2e  # waits
def test_one_that_hangs_is_ended() -> None:
    replies = pool.run(sys.executable, [{"do": "hang"}, {"do": "b"}], 1, timeout=3.0)
    assert "within 3 s" in replies[0]["error"]
    assert replies[1]["did"] == "b"


def test_nothing_to_do() -> None:
    assert pool.run(sys.executable, [], 2) == []
