"""What the processes wrote is read back as it was."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tests.verify.traces import step
from xla_migrate.verify.judge.trace import OptimizerStep, Read, Trace, read

PARAMETERS = {
    "kind": "parameters",
    "optimizer": 0,
    "kind_of_optimizer": "SGD",
    "built": "train.py:9",
    "names": ["weight", "bias"],
    "shapes": [[2, 3], [2]],
    "trains": [True, False],
    "devices": ["xla"],
    "redirected": False,
    "about": {"torch": "2.9.0"},
}


def record(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "step",
        "event": number,
        "optimizer": 0,
        "step": number + 1,
        "skipped": False,
        "where": "train.py:20",
        "backwards": ["train.py:18"],
        "left": 0,
        "with_gradient": [True, False],
        "seconds": 0.5,
        "harness": 0.01,
        "counts": {"compiles": 1},
        "reads": [["train.py:21", "item()", 2]],
        "options": None,
        **changes,
    }


def written(folder: Path, *records: dict[str, Any], tail: str = "") -> Trace:
    path = folder / "rank1.4711.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records) + tail)
    return read(path)


def test_everything_is_read(tmp_path: Path) -> None:
    trace = written(
        tmp_path,
        PARAMETERS,
        {"kind": "initial", "optimizer": 0, "weights": [1.0, 2.0, 3.0, 4.0]},
        record(0, options=[{"lr": 0.1}]),
        record(1),
        {
            "kind": "values",
            "event": 0,
            "losses": [2.0, 0.5],
            "gradients": [3.0],
            "moved": [0.1],
            "weights": [1.0, 3.0],  # of the weight: biases are not weighed
        },
        {"kind": "values", "event": 1, "losses": ["nan"], "gradients": ["inf"]},
        {
            "kind": "end",
            "stopped": True,
            "events": 2,
            "fallbacks": ["aten::histc"],
            "device_draws": 3,
            "notes": ["n"],
        },
    )
    assert (trace.rank, trace.process) == (1, 4711)
    assert [(p.name, p.shape, p.trains) for p in trace.parameters[0]] == [
        ("weight", (2, 3), True),
        ("bias", (2,), False),
    ]
    assert (trace.optimizers[0].kind, trace.optimizers[0].built) == ("SGD", "train.py:9")
    assert trace.initial[0] == ([1.0, 2.0], [3.0, 4.0])
    assert trace.about == {"torch": "2.9.0"}
    first, second = trace.steps
    assert (first.loss, first.gradient_norm, first.host_reads) == (2.5, 3.0, 2)
    assert first.reads == [Read("train.py:21", "item()", 2)]
    assert (first.norms, first.projections, first.moved) == ([1.0, 0.0], [3.0, 0.0], [0.1, 0.0])
    assert second.loss is not None
    assert math.isnan(second.loss)
    assert second.gradient_norm == math.inf
    assert (trace.finished, trace.stopped, trace.fallbacks, trace.device_draws) == (
        True,
        True,
        ["aten::histc"],
        3,
    )


def test_options_hold_until_they_change(tmp_path: Path) -> None:
    trace = written(
        tmp_path,
        PARAMETERS,
        record(0, options=[{"lr": 0.1}]),
        record(1),
        record(2, options=[{"lr": 0.05}]),
        record(3),
    )
    assert [s.options for s in trace.steps] == [
        [{"lr": 0.1}],
        [{"lr": 0.1}],
        [{"lr": 0.05}],
        [{"lr": 0.05}],
    ]


def test_options_of_one_optimizer_are_not_anothers(tmp_path: Path) -> None:
    trace = written(tmp_path, PARAMETERS, record(0, options=[{"lr": 0.1}]), record(1, optimizer=1))
    assert trace.steps[1].options is None


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    trace = written(tmp_path, PARAMETERS, record(0), tail='{"kind": "step", "eve')
    assert len(trace.steps) == 1
    assert not trace.finished


def test_gradients_skip_tensors_without_one() -> None:
    one = step(1, with_gradient=[False, True, True], gradients=[2.0, 3.0])
    assert [one.gradient_of(i) for i in range(3)] == [None, 2.0, 3.0]
    assert step(1, gradients=[]).gradient_of(0) is None
    assert step(1, gradients=[]).gradient_norm is None
    assert step(1, None).loss is None


def test_iterations_begin_with_the_first_optimizers_steps() -> None:
    def of(*optimizers: int) -> list[OptimizerStep]:
        return [step(n + 1, optimizer=o) for n, o in enumerate(optimizers)]

    trace = Trace(0, steps=of(1, 0, 1, 0, 0, 1))
    assert trace.primary == 1
    assert [[s.optimizer for s in i] for i in trace.iterations()] == [[1, 0], [1, 0, 0], [1]]
    assert Trace(0).iterations() == []
