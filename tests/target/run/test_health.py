"""`doctor --devices`: every device and collective is tried, and a fault names its rank."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.target.run.health import Health, Replica, examined, faults

from ... import warm


def _replica(rank: int, *done: str, **more: dict[str, object]) -> Replica:
    results: dict[str, dict[str, object]] = {name: {} for name in done}
    results["device"] = {"device": f"xla:{rank}", "replicas": 3}
    return Replica(rank, {**results, **more}, begun=[*done, "device"][0], finished=True)


def test_all_well() -> None:
    assert faults(Health([_replica(r) for r in range(3)], 0, ""), 60) == []


def test_wrong_numbers_name_the_rank() -> None:
    wrong = _replica(1, matmul={"wrong": 3, "of": 9})
    other = _replica(2, **{"all-reduce": {"got": [1.0], "wanted": [6.0]}})
    assert faults(Health([_replica(0), wrong, other], 0, ""), 60) == [
        "rank 1 on xla:1: matmul: 3 of 9 elements are wrong",
        "rank 2 on xla:2: all-reduce: [1.0], not [6.0]",
    ]


def test_of_those_that_wait_the_one_furthest_behind_is_named() -> None:
    waiting = [_replica(r, "matmul", "group") for r in (0, 2)]
    for replica in waiting:
        replica.begun, replica.finished = "all-reduce", False
    behind = _replica(1, "matmul")
    behind.begun, behind.finished = "group", False
    told = faults(Health([waiting[0], behind, waiting[1]], None, ""), 60)
    assert told == ["rank 1 on xla:1: group did not end in 60 s"]


def test_a_replica_that_did_not_start_is_named() -> None:
    told = faults(Health([_replica(0), _replica(2)], 1, ""), 60)
    assert told == ["rank 1: did not start"]
    assert faults(Health([], 1, "x\nNo TPU\n"), 60) == ["no device answered: No TPU"]


def test_usage() -> None:
    assert main(["doctor", "--nproc", "2"]) == 2
    assert main(["doctor", "--devices", "--nproc", "x"]) == 2


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("fault", "told", "timeout"),
    [
        ("probe.factors = lambda: (torch.eye(4), torch.zeros(4, 4) / 0)", "matmul", 400),
        ("import time; probe.matmul = lambda: time.sleep(900)", "matmul did not end", 60),
    ],
)
def test_a_fault_of_one_of_two_real_replicas(
    fault: str, told: str, timeout: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", warm.choosing())
    script = tmp_path / "probe.py"
    script.write_text(
        "import sys\nimport torch\nfrom xla_migrate import runtime as xla\n"
        "from xla_migrate.target.run import health_probe as probe\n"
        "def replica(index, folder):\n"
        f"    if xla.rank() == 1:\n        {fault or 'pass'}\n"
        "    probe.replica(index, folder)\n"
        "if __name__ == '__main__':\n"
        "    xla.launch(replica, (sys.argv[1],), nprocs=int(sys.argv[2]))\n"
    )
    env = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": os.pathsep.join(sys.path)}
    health = examined(env, timeout, 2, probe=[str(script)])
    (found,) = faults(health, timeout)
    assert found.startswith(f"rank 1 on xla:0 (XLA:CPU): {told}"), (found, health)


@pytest.mark.e2e
def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setattr(sys, "executable", warm.choosing())
    assert main(["doctor", "--devices", "--nproc=2", "--output-format=json"]) == 0
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["devices"]["status"] == "ok"
    assert "2 replicas" in checks["devices"]["detail"]
