"""From graphs to an outcome, with a compiler that is made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.target.compile import interpreter, judge, report, session, tracing
from xla_migrate.target.compile.topologies import topology

from .test_judge import OUT_OF_MEMORY, graph, reply

Compiled = Callable[..., session.CompileOutcome]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the compiler was asked; it says of each graph what `said` has, or that it is small."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    seen: list[dict[str, Any]] = []
    compiler = interpreter.Compiler("python", "0.7.1", "0.0.21")
    monkeypatch.setattr(session, "find", lambda given: compiler)

    def run(python: str, requests: Any, jobs: int, timeout: Any, done: Any) -> None:
        for i, request in enumerate(requests):
            text = Path(request["text"]).read_text(encoding="utf-8")
            seen.append({**request, "text": text})
            error = next((say for part, say in SAID.items() if part in text), None)
            done(i, reply(arguments=1 << 20) if error is None else error)

    monkeypatch.setattr(session.pool, "run", run)
    return seen


SAID: dict[str, dict[str, Any]] = {
    "3932160x8192": {"error": OUT_OF_MEMORY},
    "tensor<9x": {"error": "UNIMPLEMENTED: no"},
    "tensor<99x": {"error": OUT_OF_MEMORY},
    "tensor<98x": {"error": "not compiled within 1 s", "passing": True},
}


@pytest.fixture
def compiled(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Compiled:
    script = tmp_path / "train.py"
    script.write_text("")

    def outcome(*graphs: tracing.Traced, level: str = "", **more: Any) -> session.CompileOutcome:
        found = tracing.Tracing(list(graphs), steps=3, **more)
        monkeypatch.setattr(tracing, "trace", lambda *_, **__: found)
        options = session.CompileOptions(level=level)
        return session.compile_script(script, [], topology("v5e"), options)

    return outcome


def test_all_fit(compiled: Compiled) -> None:
    outcome = compiled(graph("backward"), graph("evaluation", shape="2x8xf32"))
    assert outcome.exit_code == 0
    assert [one.limit for one in outcome.verdicts] == [int(15.75 * (1 << 30))] * 2


def test_a_second_run_compiles_nothing(compiled: Compiled, asked: list[dict[str, Any]]) -> None:
    compiled(graph())
    assert len(asked) == 2  # the graph, and one that tells what the chip has
    again = compiled(graph())
    assert len(asked) == 2
    assert again.verdicts[0].cached
    assert "compiled now: 0" in "\n".join(report.lines(again))
    compiled(graph(), level="O1")
    assert len(asked) == 3  # another level is another compilation; the chip is the same


def test_no_answer_is_asked_for_again(compiled: Compiled, asked: list[dict[str, Any]]) -> None:
    for _ in range(2):
        assert compiled(graph(shape="98x8xf32")).exit_code == 2
    assert sum("98x8" in request["text"] for request in asked) == 2


@pytest.mark.parametrize("shape", ["9x8xf32", "99x8xf32"])
def test_one_that_is_refused_or_too_large_fails(compiled: Compiled, shape: str) -> None:
    assert compiled(graph(), graph(shape=shape)).exit_code == 1


def test_a_tracing_with_a_problem_proves_nothing(compiled: Compiled) -> None:
    assert compiled(graph(), problem="train.py:3: ValueError: no").exit_code == 2
    assert compiled().exit_code == 2


def test_the_report(compiled: Compiled) -> None:
    outcome = compiled(
        graph("backward", "forward", "optimizer step"),
        graph("backward", "forward", "optimizer step", shape="3x8xf32"),
        graph("evaluation", shape="99x8xf32"),
        graph("forward", shape="9x8xf32"),
        reads={"train.py:30": "1.0"},
    )
    said = "\n".join(report.lines(outcome, lambda place: place.replace("train.py", "src/train.py")))
    assert "src/train.py:7: graph 1: training step, ended by a step mark (1 times): fits" in said
    assert "1.0 MiB of 15.75 GiB: arguments 1.0 MiB" in said
    assert "2 all-reduce" in said
    assert "as an earlier graph, in other shapes: f32[3,8] for f32[4,8]" in said
    assert "graph 3: evaluation, ended by a step mark (1 times): too large" in said
    assert "Used 100.00G of 15.75G hbm" in said
    assert "the TPU compiler refuses it: UNIMPLEMENTED: no" in said
    assert "not seen in 3 optimizer steps: a checkpoint" in said
    assert "src/train.py:30 (1.0)" in said
    assert report.NOT_RUN in said
    plain = report.plain(outcome)
    assert plain["executed"] is False
    assert [one["status"] for one in plain["graphs"]] == [
        judge.FITS,
        judge.FITS,
        judge.TOO_LARGE,
        judge.REFUSED,
    ]


def test_devices_of_a_program_for_all(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("xla.use_spmd()")
    seen: dict[str, Any] = {}
    one = graph()
    one.spmd = True

    def trace(*_: Any, **named: Any) -> tracing.Tracing:
        seen.update(named)
        return tracing.Tracing([one])

    monkeypatch.setattr(tracing, "trace", trace)
    session.compile_script(script, [], topology("v5e:2x2"), session.CompileOptions())
    assert seen["devices"] == 4
    assert [request["devices"] for request in asked if "4x8" in request["text"]] == [4]
