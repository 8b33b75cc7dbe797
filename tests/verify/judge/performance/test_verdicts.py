"""Each trap of XLA has its verdict, with evidence and place; good runs pass all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.verify.traces import run
from xla_migrate.verify.judge.compilations import Compilation
from xla_migrate.verify.judge.judgement import Judgement
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.performance.verdicts import judge
from xla_migrate.verify.judge.trace import OptimizerStep, Read, Recompile

LOSSES = [1.0 - n / 100 for n in range(14)]


def target(change: Callable[[OptimizerStep], None] | None = None, **changes: Any) -> ObservedRun:
    return run(LOSSES, side="target", change=change, **changes)


def counting(**changes: float) -> Callable[[OptimizerStep], None]:
    return lambda step: step.counts.update(changes)


def verdict(
    name: str, ours: ObservedRun, theirs: ObservedRun | None = None, hand: ObservedRun | None = None
) -> Judgement:
    verdicts, _ = judge(theirs or run(LOSSES), ours, hand)
    return next(v for v in verdicts if v.name == name)


def test_a_good_run_passes_everything() -> None:
    verdicts, summary = judge(run(LOSSES), target(), None)
    assert [v.status for v in verdicts] == ["ok"] * 5
    assert summary is not None
    assert (summary.launches, summary.compiles, summary.host_reads) == (1, 0, 0)


def test_fact_1_11_a_run_that_was_not_on_xla_fails() -> None:
    verdicts, _ = judge(run(LOSSES), run(LOSSES), None)
    assert [(v.name, v.status) for v in verdicts] == [("device", "failed")]


def test_a_script_without_cuda_has_nothing_to_migrate() -> None:
    theirs = run(LOSSES, devices=["cpu"])
    (found,), _ = judge(theirs, target(devices=["cpu"]), None)
    assert (found.name, found.status) == ("device", "failed")
    assert "there is nothing to migrate" in found.detail
    (found,), _ = judge(run(LOSSES, devices=["cuda"]), target(devices=["cpu"]), None)
    assert found.detail == "the migrated script did not train on XLA but on cpu"


def test_without_an_optimizer_what_is_launched_says_that_it_trains_on_xla() -> None:
    found, _ = judge(run(LOSSES), target(devices=[]), None)
    assert "device" not in {verdict.name for verdict in found}


def test_too_few_steps_are_not_judged() -> None:
    few = run([1.0, 0.9], side="target")
    verdicts, _ = judge(run([1.0, 0.9]), few, None)
    assert [v.status for v in verdicts] == ["not judged"]


def test_a_recompile_each_step_fails_with_cause_and_line() -> None:
    def each_step(step: OptimizerStep) -> None:
        step.counts.update(compiles=1, debug_bytes=100 * step.step)

    ours = target(each_step)
    ours.traces[0].compiled = [
        Compilation("user torch_xla.sync", f"train.py:{10 + n}", 100 * n) for n in range(14)
    ]
    found = verdict("static shapes", ours)
    assert found.status == "failed"
    assert found.where == "train.py:13"  # the first behind the three steps of warm-up
    assert "steps 4, 5, 6, 7, 8, 9, 10, 11, ...: 11 of 11" in found.detail
    assert found.detail.endswith("cause: user torch_xla.sync")


def test_every_process_is_judged_and_its_own_account_read() -> None:
    ours, explained, theirs = target(), target(), run(LOSSES)
    second = target(counting(compiles=1)).traces[0]
    second.rank = 1
    second.compiled = [Compilation("user torch_xla.sync", "train.py:31", 0)]
    ours.traces.append(second)
    theirs.traces *= 2
    found = judge(theirs, ours, None)[0][0]
    assert (found.name, found.status, found.where) == ("static shapes", "failed", "train.py:31")
    assert found.detail.startswith("process 1: compiled again at steps 4, 5")
    explained.traces *= 2
    explained.traces[1] = replace(
        second, recompiles=[Recompile(n, "train.py:7", "ones()") for n in (5, 6, 7)]
    )
    assert judge(theirs, ours, None, explained)[0][0].where == "train.py:7"


def test_a_recompile_that_was_explained_is_told_by_its_cause_and_line() -> None:
    ours = target(counting(compiles=1))
    ours.traces[0].compiled = [Compilation("user torch_xla.sync", "train.py:10", 0)]
    explained = target()
    causes = [(1, "train.py:5", "warm-up"), (6, "train.py:9", "once")]
    causes += [(n, "train.py:7", f"ones() with ({n})") for n in (7, 8, 9)]
    explained.traces[0].recompiles = [Recompile(*cause) for cause in causes]
    found = judge(run(LOSSES), ours, None, explained)[0][0]
    assert (found.status, found.where) == ("failed", "train.py:7")
    assert found.detail.endswith("cause: ones() with (7)")


def test_compilations_of_code_that_had_not_run_before_are_innocent() -> None:
    """Averaged weights that begin late: their update, their batch norms and their evaluation are graphs of their own."""
    late = (5, 6, 9, 13)
    ours = target(lambda step: step.counts.update(compiles=float(step.step in late)))
    assert verdict("static shapes", ours).status == "failed"
    for new, status in (((5, 6, 9), "ok"), ((5,), "failed"), ((), "failed"), ((1, 2, 3), "failed")):
        explained = target()
        causes = {*late, *new}
        explained.traces[0].recompiles = [Recompile(n, "train.py:7", "", n in new) for n in causes]
        found = judge(run(LOSSES), ours, None, explained)[0][0]
        assert found.status == status, new
    assert "at 3 for code" in judge(run(LOSSES), ours, None, _new_at(5, 6, 9))[0][0].detail


def test_of_three_steps_two_compilations_of_known_code_are_not_isolated() -> None:
    """A run with `--steps 6` that compiles in each step, of which one runs new code."""
    ours = target(counting(compiles=1))
    ours.traces[0].steps = ours.traces[0].steps[:6]
    found = judge(run(LOSSES), ours, None, _new_at(4))[0][0]
    assert (found.name, found.status) == ("static shapes", "failed")


def _new_at(*steps: int) -> ObservedRun:
    explained = target()
    explained.traces[0].recompiles = [Recompile(n, "train.py:7", "", True) for n in steps]
    return explained


def test_fact_3_25_isolated_compilations_have_innocent_causes() -> None:
    isolated = target(lambda step: step.counts.update(compiles=float(step.step in (1, 6, 14))))
    assert verdict("static shapes", isolated).status == "ok"


def test_graphs_of_the_first_evaluation_and_epochs_end_are_innocent() -> None:
    phases = target(lambda step: step.counts.update(compiles=float(step.step in (5, 6, 7, 11))))
    assert verdict("static shapes", phases).status == "ok"
    every_fourth = target(lambda step: step.counts.update(compiles=float(step.step % 3 == 2)))
    assert verdict("static shapes", every_fourth).status == "failed"


def test_compilations_of_warm_up_do_not_count() -> None:
    assert (
        verdict(
            "static shapes", target(lambda s: s.counts.update(compiles=float(s.step <= 3)))
        ).status
        == "ok"
    )


def test_a_graph_that_grows_fails() -> None:
    found = verdict("bounded graph", target(lambda s: s.counts.update(graph=100.0 * s.step)))
    assert (found.status, found.where) == ("failed", "train.py:20")
    assert "grew from 400 to 1400 nodes" in found.detail


def test_a_graph_that_is_never_launched_fails() -> None:
    found = verdict("bounded graph", target(counting(launches=0)))
    assert found.status == "failed"
    assert "no graph was launched" in found.detail


def test_graphs_of_two_sizes_are_bounded() -> None:
    alternating = target(lambda s: s.counts.update(graph=100.0 + 80 * (s.step % 2)))
    assert verdict("bounded graph", alternating).status == "ok"


def test_a_fallback_fails_by_name() -> None:
    found = verdict("no fallback", target(fallbacks=["aten::_local_scalar_dense", "aten::histc"]))
    assert found.status == "failed"
    assert found.detail.endswith("aten::histc")


def test_a_fallback_fails_with_the_lines_that_call_it() -> None:
    slow = target(fallbacks=["aten::histc", "aten::trace"])
    explained = target()
    explained.traces[0].fallback_places = {"aten::histc": ["net.py:7", "train.py:3"]}
    verdicts, _ = judge(run(LOSSES), slow, None, explained)
    found = next(one for one in verdicts if one.name == "no fallback")
    assert found.detail.endswith("aten::histc (net.py:7, train.py:3), aten::trace")
    assert found.where == "net.py:7"


def test_a_fallback_is_told_beside_the_launches_that_it_makes() -> None:
    often = target(counting(launches=3), fallbacks=["aten::histc"])
    assert "operations on the CPU also end the graph" in verdict("launches", often).detail
    assert "the CPU" not in verdict("launches", target(counting(launches=3))).detail
    rare = target(counting(launches=1), fallbacks=["aten::histc"])
    assert "the CPU" not in verdict("launches", rare).detail


def test_scalar_reads_are_no_fallback() -> None:
    assert verdict("no fallback", target(fallbacks=["aten::_local_scalar_dense"])).status == "ok"


def test_fact_4_4_launches_are_one_for_each_backward_pass_and_read() -> None:
    assert verdict("launches", target(counting(launches=2))).status == "failed"
    reading = run(LOSSES, change=lambda s: s.reads.append(Read("train.py:21", "item()", 1)))
    assert verdict("launches", target(counting(launches=2)), reading).status == "ok"
    micro = target(
        lambda s: (s.counts.update(launches=3), setattr(s, "backwards", ["train.py:18"] * 3))
    )
    assert verdict("launches", micro).status == "ok"


def test_an_evaluation_between_two_steps_is_no_launch_too_many() -> None:
    evaluating = target(lambda s: s.counts.update(launches=20.0 if s.step in (5, 10) else 1.0))
    assert verdict("launches", evaluating).status == "ok"


def test_a_hand_written_script_sets_the_limit_of_launches() -> None:
    two = target(counting(launches=2))
    assert verdict("launches", two, hand=target(counting(launches=2))).status == "ok"
    assert verdict("launches", two, hand=target()).status == "failed"


def test_a_host_read_each_step_fails_with_its_line() -> None:
    def reads(step: OptimizerStep) -> None:
        step.reads = [Read("train.py:22", "item()", 2), Read("train.py:30", "print", 1)]
        step.counts["reads"] = 2

    found = verdict("host reads", target(reads))
    assert (found.status, found.where) == ("failed", "train.py:22")
    assert found.detail == "3.00 per step, 0.00 in the original; item() at train.py:22"


def test_a_read_that_only_the_migrated_script_has_is_named() -> None:
    mask = Read("train.py:22", "mask index", 3)

    def reads(step: OptimizerStep) -> None:
        step.reads = [mask, Read("train.py:30", "masked assignment", 1)]

    original = run(LOSSES)
    for step in original.traces[0].steps:
        step.reads = [mask]
    found = verdict("host reads", target(reads), original)
    assert found.where == "train.py:30"


def test_reads_that_the_original_asked_for_pass() -> None:
    def reads(step: OptimizerStep) -> None:
        step.reads = [Read("train.py:22", "item()", 1)]

    assert verdict("host reads", target(reads), run(LOSSES, change=reads)).status == "ok"


def test_reads_at_log_steps_may_move_by_one() -> None:
    def every_fifth(offset: int) -> Callable[[OptimizerStep], None]:
        return lambda s: s.reads.extend(
            [Read("a.py:1", "item()", 1)] if s.step % 5 == offset else []
        )

    assert (
        verdict("host reads", target(every_fifth(4)), run(LOSSES, change=every_fifth(0))).status
        == "ok"
    )


def test_transfers_that_no_call_explains_fail() -> None:
    found = verdict("host reads", target(counting(reads=1)))
    assert found.status == "failed"
    assert "unexplained transfers at 100% of the steps" in found.detail


def test_fact_5_1_a_rehearsals_own_reductions_are_not_held_against_it() -> None:
    rehearsal = target(counting(launches=3, reads=2), about={"PJRT_DEVICE": "CPU"})
    rehearsal.traces.append(rehearsal.traces[0])
    assert verdict("launches", rehearsal).status == "not judged"
    assert verdict("host reads", rehearsal).status == "ok"
    alone = target(counting(launches=3, reads=2), about={"PJRT_DEVICE": "CPU"})
    assert verdict("launches", alone).status == "failed"
    assert verdict("host reads", alone).status == "failed"


def test_a_read_and_a_mark_for_each_choice_of_an_action_are_fine() -> None:
    """Reinforcement learning: episodes of other lengths, each action read from the device and marked."""

    def episode(step: OptimizerStep) -> None:
        actions = 4 + 12 * (step.step % 3 > 0)
        step.reads = [Read("train.py:7", "cpu()", actions)]
        if step.counts:
            step.counts.update(launches=2 * actions + 1, forward_marks=actions, reads=actions)

    theirs = run(LOSSES, change=episode)
    assert verdict("launches", target(episode), theirs).status == "ok"

    def twice(step: OptimizerStep) -> None:
        episode(step)
        step.counts["launches"] += 1

    assert verdict("launches", target(twice), theirs).status == "failed"


def test_reads_alone_do_not_cut_the_graph() -> None:
    def every_third(step: OptimizerStep) -> None:
        step.counts.update(marks=0, launches=float(step.step % 3 == 0))

    found = verdict("bounded graph", target(every_third))
    assert found.status == "failed"
    assert "only reads end the graph, no step mark does: it holds up to 3 steps" in found.detail
    marked = target(lambda s: s.counts.update(marks=s.step % 3 == 0, launches=s.step % 3 == 0))
    assert verdict("bounded graph", marked).status == "ok", (
        "several steps of one optimizer per mark"
    )
