"""How operations without a kernel are shown."""

from __future__ import annotations

from xla_migrate.target.kernels.report import LookUp, Missing, lines, plain
from xla_migrate.target.kernels.targets import KernelTarget

TARGET = KernelTarget("tpu", "torch_tpu 0.2.0", (), "raises an error")


def blocks(count: int) -> list[Missing]:
    return [
        Missing("aten::median", "train.py:7", f"blocks.{i} (Block)", False, 6) for i in range(count)
    ]


def looked_up(missing: list[Missing], unknown: tuple[str, ...] = ()) -> LookUp:
    return LookUp(
        {"aten::add.Tensor", *(m.operation for m in missing), *unknown}, missing, set(unknown)
    )


def test_modules_that_share_a_line_share_one_line() -> None:
    head, line, instead = lines(looked_up(blocks(12)), TARGET, 3, lambda place: f"my/{place}")
    assert head == "tpu: 1 operation has no kernel (torch_tpu 0.2.0; 3 optimizer steps traced)"
    assert line == (
        "    my/train.py:7: aten::median in blocks.0 (Block), blocks.1 (Block) and 10 more: "
        "raises an error; 24 per step"
    )
    assert instead.startswith("        instead: ")


def test_a_backward_pass_and_what_runs_now_and_then() -> None:
    found = [
        Missing("aten::mode", "train.py:9", "", True, 4),
        Missing("aten::histc", "train.py:12", "", False, 1),
    ]
    told = list(lines(looked_up(found), TARGET, 4, str))
    assert told[1].endswith("aten::mode, backward pass: raises an error; 1 per step")
    assert told[2].startswith("        instead: other operations, or this one on the host")
    assert told[3].endswith("aten::histc: raises an error; once")


def test_nothing_missing_says_how_much_was_traced() -> None:
    found = looked_up([], unknown=("aten::nonzero",))
    assert list(lines(found, TARGET, 2, str)) == [
        "tpu: no operation without a kernel among 1 (torch_tpu 0.2.0; 2 optimizer steps traced)",
        "    unknown, because their parts need values: aten::nonzero",
    ]


def test_a_script_that_ran_nothing_on_the_device_is_not_fine() -> None:
    assert list(lines(LookUp(), TARGET, 0, str)) == [
        "tpu: the script ran no operation on the device"
    ]


def test_json_has_each_module() -> None:
    found = plain(looked_up(blocks(3)), TARGET, 3, str)
    assert [one["module"] for one in found["missing"]] == [f"blocks.{i} (Block)" for i in range(3)]
    assert {one["consequence"] for one in found["missing"]} == {"raises an error"}
