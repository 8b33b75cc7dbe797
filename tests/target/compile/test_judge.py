"""Verdicts on what the compiler replied: with replies that it gave (libtpu 0.0.21), shortened."""

from __future__ import annotations

from typing import Any

import pytest

from xla_migrate.target.compile import judge
from xla_migrate.target.compile.tracing import Traced

GIB = 1 << 30
V5E = int(15.75 * GIB)
OUT_OF_MEMORY = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 100.00G of 15.75G hbm. Exceeded hbm capacity by 84.25G.

Total hbm usage >= 100.25G:
    reserved        258.00M
    program         unknown size
    arguments       100.00G

Output size 100.00G; shares 0B with arguments.
"""
TEMPORARY = OUT_OF_MEMORY.replace("arguments       100.00G", "arguments       2.00G")
OTHER_WORDS = "RESOURCE_EXHAUSTED: CompileTimeHbmOom: Size (32.00G) exceeds available HBM (15.75G)"


def graph(*phases: str, beside: int = 0, shape: str = "4x8xf32") -> Traced:
    text = f"""module @m {{
  func.func @main(%arg0: tensor<{shape}>) -> (tensor<{shape}>) {{
    %0 = stablehlo.tanh %arg0 : tensor<{shape}>
    return %0 : tensor<{shape}>
  }}
}}
"""
    return Traced(text, "train.py:7", "step mark", list(phases), beside=beside)


def reply(**memory: int) -> dict[str, Any]:
    kinds = ("arguments", "outputs", "aliased", "temporary", "code")
    return {
        "seconds": 1.5,
        "memory": {kind: memory.get(kind, 0) for kind in kinds},
        "cost": {"flops": 2e9, "bytes": 3e6},
        "collectives": {"all-reduce": 2},
    }


def test_what_outputs_take_over_counts_once() -> None:
    said = reply(arguments=8 * GIB, outputs=8 * GIB, aliased=7 * GIB, temporary=4 * GIB)
    one = judge.verdict(graph("backward"), said, V5E)
    assert (one.status, one.peak, one.flops) == (judge.FITS, 13 * GIB, 2e9)


def test_the_compiler_may_accept_what_does_not_fit() -> None:
    # Seen: arguments of 8.25 GiB and outputs of 8 GiB compile for a chip of 15.75 GiB.
    one = judge.verdict(graph(), reply(arguments=int(8.25 * GIB), outputs=8 * GIB), V5E)
    assert one.status == judge.TOO_LARGE
    assert one.reason.startswith(
        "needs 16.25 GiB of 15.75 GiB: arguments 8.25 GiB, outputs 8.00 GiB"
    )


def test_what_lies_beside_the_graph_counts() -> None:
    one = judge.verdict(graph("evaluation", beside=10 * GIB), reply(temporary=6 * GIB), V5E)
    assert one.status == judge.TOO_LARGE
    assert "10.00 GiB held outside the graph" in one.reason


def test_without_a_limit_nothing_is_said_to_fit() -> None:
    assert judge.verdict(graph(), reply(arguments=1), 0).status == judge.UNKNOWN


def test_what_the_compiler_cannot_count_is_too_large() -> None:
    error = (
        "INTERNAL: RET_CHECK failure allocation_size_words <= std::numeric_limits<int32_t>::max()"
    )
    huge = judge.verdict(graph(shape="99999999x8192xf32"), {"error": error}, V5E)
    assert (huge.status, huge.reason) == (judge.TOO_LARGE, error)


@pytest.mark.parametrize(
    ("error", "used"), [(OUT_OF_MEMORY, 100), (TEMPORARY, 100), (OTHER_WORDS, 32)]
)
def test_a_refusal_for_memory_has_the_compilers_figures(error: str, used: int) -> None:
    one = judge.verdict(graph("backward"), {"error": error}, 0)
    assert one.status == judge.TOO_LARGE
    assert (one.peak, one.limit) == (used * GIB, V5E)
    assert one.reason == error.splitlines()[0]
    assert judge.capacity(error) == V5E


def test_advice_is_for_what_takes_the_memory() -> None:
    held = judge.verdict(graph("backward"), {"error": OUT_OF_MEMORY}, 0).advice
    activations = judge.verdict(graph("backward"), {"error": TEMPORARY}, 0).advice
    evaluation = judge.verdict(graph("evaluation"), {"error": TEMPORARY}, 0).advice
    assert held[0].startswith("weights and optimizer state sharded")
    assert activations[0].startswith("activation checkpointing")
    assert not any("checkpointing" in line for line in evaluation)


def test_any_other_refusal_is_a_finding() -> None:
    one = judge.verdict(graph(), {"error": "UNIMPLEMENTED: no such op\nmore"}, V5E)
    assert (one.status, one.reason) == (judge.REFUSED, "UNIMPLEMENTED: no such op")


def test_no_answer_is_no_verdict() -> None:
    said = {"error": "the compiler's process ended (-6): F0000", "passing": True}
    assert judge.verdict(graph(), said, V5E).status == judge.UNKNOWN


def test_other_shapes_are_named() -> None:
    verdicts = [
        judge.verdict(graph(shape=shape), reply(), V5E)
        for shape in ("4x8xf32", "3x8xf32", "4x8xbf16")
    ]
    judge.name_differences(verdicts)
    assert [one.differs for one in verdicts] == ["", "f32[3,8] for f32[4,8]", ""]


def test_sizes() -> None:
    assert judge.figure("15.75G") == V5E
    assert judge.figure("258.00M") == 258 << 20
    assert judge.size(1536) == "1.5 KiB"
    assert judge.size(V5E) == "15.75 GiB"
    assert judge.argument_bytes(graph(shape="4x8xbf16").text) == 64
