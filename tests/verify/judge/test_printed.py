"""What both scripts print is compared, number by number."""

from __future__ import annotations

import pytest

from tests.verify.traces import run
from xla_migrate.verify.judge import printed
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.judgement import Check, Judgement, Status
from xla_migrate.verify.judge.trace import PrintedLine


def judged(theirs: list[str], ours: list[str]) -> Judgement | None:
    reference, target = run(), run(side="target")
    for one, texts in ((reference, theirs), (target, ours)):
        one.traces[0].printed = [PrintedLine(t, f"train.py:{n}") for n, t in enumerate(texts, 1)]
    return printed.judge(reference, target, 1e-5)


def judged_again(theirs: list[str], again: list[str], ours: list[str]) -> Judgement | None:
    """`again` is what the original prints with another clock."""
    runs = run(), run(), run(side="target")
    for one, texts in zip(runs, (theirs, again, ours), strict=True):
        one.traces[0].printed = [PrintedLine(t, f"train.py:{n}") for n, t in enumerate(texts, 1)]
    return printed.judge(runs[0], runs[2], 1e-5, (runs[0], runs[1]))


LOSSES = [f"step {n} loss {1 / (n + 1):.6f}" for n in range(5)]


def test_the_same_numbers_are_proven_in_whatever_order_kinds_come() -> None:
    found = judged(["start 7", *LOSSES, "mean 0.4567"], ["mean 0.4567", "start 7", *LOSSES])
    assert found is not None
    assert (found.name, found.status) == (Check.PRINTED, Status.OK)
    assert found.detail.startswith("12 printed numbers alike")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("loss 1.2345", "loss 1.2346"),  # the last digit that is printed
        ("loss 0.500000001", "loss 0.5"),
        ("loss nan", "loss nan"),
        ("device cuda:0 loss 1.5", "device xla:0 loss 1.5"),
        ("epoch 3: time 12.1s, loss 1.5", "epoch 3: time 99.7s, loss 1.5"),
        ("1.5 it/s, loss 2.0", "7.5 it/s, loss 2.0"),
        ("loss 2.0 ms/batch 12.5", "loss 2.0 ms/batch 712.5"),
        ("loss 2.0 points 48 ms 17.1435", "loss 2.0 points 48 ms 10.0637"),
        ("forward_ms=3.2 loss 2.0", "forward_ms=9.2 loss 2.0"),
        ("{'loss': 1.5, 'train_runtime': 2.5}", "{'loss': 1.5, 'train_runtime': 9.0}"),
        ("2026-11-22 10:00:00,123 loss 2.0", "2026-11-22 11:30:12,999 loss 2.0"),
        ("run 2026_11_28-09_30_52-tiny, lr 0.1", "run 2026_11_28-09_31_17-tiny, lr 0.1"),
        ("runs/Nov28_09-30-52_host loss 2.0", "runs/Nov28_11-02-00_host loss 2.0"),
        ("exp 20261128_093052 loss 2.0", "exp 20261128_093117 loss 2.0"),
        ("Mem: 123.4 MB, loss 1.0", "Mem: 0.0 MB, loss 1.0"),
        ("saved /tmp/a/run1/model3.pt at step 7", "saved /var/b/run2/model3.pt at step 7"),
        ("loss 1.0 elapsed 0:00:12", "loss 1.0 elapsed 0:01:59"),
        ("Time  0.171 ( 0.171)\tLoss 2.0", "Time  0.193 ( 0.201)\tLoss 2.0"),
        ("Data  0.025 ( 0.025)\tLoss 2.0", "Data  3.375 ( 1.692)\tLoss 2.0"),
        ("time: 1.2/1.4, loss 2.0", "time: 7.2/9.4, loss 2.0"),
        ("batch time 1.2 (avg: 1.3) loss 2.0", "batch time 2.2 (avg: 9.3) loss 2.0"),
        ("SPS: 53", "SPS: 3"),
        ("loss 2.0 | wps=812.5 | ups=3.1 | wall 12", "loss 2.0 | wps=12.5 | ups=0.1 | wall 99"),
        (
            "{'loss': 2.0, 'gb_free': 3.25, 'free': 0.97}",
            "{'loss': 2.0, 'gb_free': 1.5, 'free': 0.91}",
        ),
        ("Loss: 2.0 Data (t): 0.004 Batch (t): 0.588", "Loss: 2.0 Data (t): 0.1 Batch (t): 1.5"),
        ("0/1 0.661G 0.2227", "0/1 0.874G 0.2227"),  # memory
        ("{'loss': 2.0, 'gb_used': 0.6}", "{'loss': 2.0, 'gb_used': 0.9}"),
        ("loss 2.0 | peak_gb 1.25 | MiB: 12", "loss 2.0 | peak_gb 0.0 | MiB: 31"),
        ("vram=3.5 loss=2.0", "vram=0.1 loss=2.0"),
        ("loss 2.0 scale 65536.0", "loss 2.0 scale 1.0"),  # a loss scaler's, which is gone
        ("loss 2.0 loss_scale: 1024", "loss 2.0 loss_scale: 1"),
        ("{'loss': 2.0, 'amp_scale': 32768.0}", "{'loss': 2.0, 'amp_scale': 1.0}"),
    ],
)
def test_alike(theirs: str, ours: str) -> None:
    found = judged([theirs], [ours])
    assert found is None or found.status is Status.OK, found


@pytest.mark.parametrize(
    ("number", "expected"),
    [("32768.0", Status.OK), ("65536", Status.OK), ("1024", Status.FAILED), ("3", Status.FAILED)],
)
def test_a_number_is_the_scalers_if_the_scaler_had_it(number: str, expected: Status) -> None:
    reference, target = run(), run(side="target")
    reference.traces[0].steps[0].scale = 65536.0
    for one, shown in ((reference, number), (target, "1.0")):
        line = f'{{"tag": "train/scale", "value": {shown}, "loss": 2.0}}'
        one.traces[0].printed = [PrintedLine(line, "train.py:1")]
    found = printed.judge(reference, target, 1e-5)
    assert found is not None
    assert found.status is expected


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("loss 1.2345", "loss 1.2347"),
        ("2026-11-22 loss 2.0", "2026-11-22 loss 2.1"),  # a number behind a date is no time
        ("2026-11-22 12 items", "2026-11-22 13 items"),
        ("loss 1.5", "loss nan"),
        ("correct 9234/10000", "correct 9233/10000"),
        ("{'loss': 1.5, 'train_runtime': 2.5}", "{'loss': 1.6, 'train_runtime': 2.5}"),
        ("learning rate 0.001", "learning rate 0.002"),
        ("loss -0.5", "loss 0.5"),
        ("loss 1e-3", "loss 3e-3"),
        ("ppl 1,234.5", "ppl 1,274.5"),
        ("Time 0.171 ( 0.171) Loss 2.00 (2.00)", "Time 0.193 ( 0.171) Loss 2.00 (2.17)"),
        ("data loss 0.5", "data loss 0.7"),
        ("loss 2.0 scale 65536.0", "loss 2.0 scale 32768.0"),
        ("loss 2.0 scale 3.0", "loss 2.0 scale 1.0"),
        ("scale: loss 2.0", "scale: loss 1.0"),
        ("1.5 Good, loss 2.0", "1.6 Good, loss 2.0"),
        ("mb_loss 2.0", "mb_loss 2.5"),  # of a minibatch
    ],
)
def test_other_numbers(theirs: str, ours: str) -> None:
    found = judged(["first 1", theirs], ["first 1", ours])
    assert found is not None
    assert found.status is Status.FAILED
    assert found.where == "train.py:2"
    assert theirs in found.detail
    assert ours in found.detail


def test_the_first_difference_in_the_originals_order_is_named() -> None:
    ours = [line.replace("0.333333", "0.444444") for line in LOSSES]
    found = judged(LOSSES, ["later 1", *ours])
    assert found is not None
    assert "0.333333 in the original, 0.444444 here" in found.detail
    assert "the 3rd line of its kind" in found.detail
    assert found.where == "train.py:4"  # of the migrated script


def test_a_line_that_is_lost_and_one_that_is_printed_twice() -> None:
    lost = judged(LOSSES, LOSSES[:-1])
    assert lost is not None
    assert "missing: the migrated script prints such a line only 4 times" in lost.detail
    twice = judged(LOSSES, [*LOSSES, LOSSES[-1]])
    assert twice is not None
    assert "printed 6 times here, 5 times in the original" in twice.detail


def test_what_lightning_says_of_the_machine_is_not_compared() -> None:
    at = "/opt/lib/python3.11/site-packages/lightning/pytorch/summary.py:242: Precision"
    found = judged(
        [
            "TPU available: False, using: 0 TPU cores",
            "Using 16bit Automatic Mixed Precision (AMP)",
            "Using 16-bit Automatic Mixed Precision (AMP)",
            "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]",
            "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1",
            "All distributed processes registered. Starting with 1 processes",
            f"{at} 16-mixed is not supported by the model summary. Using 32 bits instead.",
            "loss 0.25",
        ],
        ["TPU available: True, using: 1 TPU cores", "loss 0.25"],
    )
    assert found is not None
    assert (found.status, found.detail[:9]) == (Status.OK, "1 printed")
    # A script's own line that is like it is compared.
    for line in ("train.py:12: loss", "step on TPU available:"):
        found = judged([f"{line} 0.25"], [f"{line} 0.5"])
        assert found is not None
        assert found.status is Status.FAILED


def test_progress_bars_warnings_and_lines_without_numbers_are_not_compared() -> None:
    theirs = [
        "hello cuda",
        " 10%|# | 2/20 [00:01<00:09, 1.2it/s, loss=3]",
        "train.py:3: UserWarning: 7",
    ]
    assert judged(theirs, ["hello xla"]) is None


def test_log_files_are_compared() -> None:
    reference, target = run(), run(side="target")
    reference.logs = {"log.csv": "step,loss\n1,0.5\n2,0.25\n", "other.csv": "1"}
    target.logs = {"log.csv": "step,loss\n1,0.5\n2,0.35\n"}
    found = printed.judge(reference, target, 1e-5)
    assert found is not None
    assert (found.status, found.where) == (Status.FAILED, "log.csv:3")


def test_it_is_a_verdict_of_the_comparison_where_something_is_printed() -> None:
    reference, target = run(), run(side="target")
    assert Check.PRINTED not in [v.name for v in compare(reference, target).verdicts]
    reference.traces[0].printed = [PrintedLine("loss 1.5", "a.py:1")]
    target.traces[0].printed = [PrintedLine("loss 1.7", "a.py:2")]
    comparison = compare(reference, target)
    assert [v.name for v in comparison.failed] == [Check.PRINTED]
    followed = run(), run(side="target")  # the same steps: what they print agrees
    for one in followed:
        one.traces[0].printed = [PrintedLine("loss 1.5", "a.py:1")]
    assert compare(reference, target, followed=followed).proven


def test_a_process_that_was_ended_before_it_could_tell_is_not_held_against_it() -> None:
    reference, target = run(), run(side="target")
    reference.traces[0].printed = [PrintedLine("loss 1.5", "a.py:1")]
    found = printed.judge(reference, target, 1e-5)
    assert found is not None
    assert found.status is Status.NOT_JUDGED


@pytest.mark.parametrize(
    "line",
    [
        "INFO:__main__:[RANK 0] Distributed environment: DistributedType.NO",
        "[rank 0] Distributed environment: MULTI_GPU  Backend: nccl",
        "12 | INFO | Device: cuda:0",
        "2 processes, backend: nccl",
        "[0] Mixed precision type: fp16",
        "rank 0 CUDA available: True",
        "0 using device = cuda",
        "training on redirected CUDA device (CPU) with 1 GPU(s)",
        "capability (8, 0) 108",
        "compute capability: 8.0",
        "GPU capability n/a.n/a",
        "capability XLA:CPU n/a",
    ],
)
def test_a_description_of_the_machine_is_not_compared(line: str) -> None:
    found = judged([line, "loss 0.25"], ["loss 0.25"])
    assert found is not None
    assert found.status is Status.OK


def test_the_name_of_the_migrated_scripts_device_is_not_missed_in_the_original() -> None:
    line = "training on {} with 1 GPU(s)"
    lines = [[line.format(name), "loss 0.25"] for name in ("redirected CUDA device (CPU)", "CPU")]
    found = judged(*lines)
    assert found is not None
    assert found.status is Status.OK


@pytest.mark.parametrize(
    "line",
    [
        "device cuda loss: 0.25",
        "Precision: 0.25",
        "backend: 0.25",
        "Num processes: 2",
        "gpus: 2",
        "capability: 0.25",
        "capability 80",
        "capability 8.01",
    ],
)
def test_a_metric_next_to_such_words_is_compared(line: str) -> None:
    found = judged([line, "loss 0.25"], ["loss 0.25"])
    assert found is not None
    assert found.status is Status.FAILED


ROWS = ["0 1 0.50", "0 2 0.25"]  # seconds, step, loss


def test_numbers_that_the_original_does_not_repeat_are_not_compared() -> None:
    found = judged_again(ROWS, ["3 1 0.50", "9 2 0.25"], ["12 1 0.50", "14 2 0.25"])
    assert found is not None
    assert found.status is Status.OK
    assert found.detail.startswith("4 printed numbers alike")
    assert "not compared: 1 kind of lines" in found.detail


def test_beside_such_numbers_others_are_compared() -> None:
    found = judged_again(ROWS, ["3 1 0.50", "9 2 0.25"], ["12 1 0.50", "14 2 0.26"])
    assert found is not None
    assert found.status is Status.FAILED
    assert "0.25 in the original, 0.26 here" in found.detail


def test_a_line_that_comes_by_the_clock_may_come_more_often() -> None:
    slow = ["still at it 7"]
    found = judged_again(ROWS, [*slow, *ROWS, *slow], [*slow, *ROWS, *slow, *slow])
    assert found is not None
    assert found.status is Status.OK
    lost = judged_again(ROWS, [*slow, *ROWS], [*slow, ROWS[0]])
    assert lost is not None
    assert lost.status is Status.FAILED
    assert "missing" in lost.detail
