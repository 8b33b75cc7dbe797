"""The targets of `compile --ops`."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.target.kernels.targets import TargetError, parse


def test_the_table_of_torch_tpu_says_what_it_was_made_from() -> None:
    target = parse("tpu")
    assert target.source.startswith("torch_tpu 0.")
    assert {"aten::add.out", "aten::convolution"} <= set(target.listed)
    assert not {"aten::median", "aten::kthvalue.values", "aten::trace"} & set(target.listed)
    assert not [name for name in target.listed if "_amp_" in name]


@pytest.mark.parametrize(
    "text",
    [
        "aten::median\naten::mode\n",
        "['aten::median', 'aten::mode']",
        '{"aten::mode": 3, "aten::median": 1}',
    ],
)
def test_a_list_of_neurons_fallbacks_may_have_any_form(text: str, tmp_path: Path) -> None:
    file = tmp_path / "fallbacks.txt"
    file.write_text(text)
    target = parse(f"neuron={file}")
    assert target.listed == ("aten::median", "aten::mode")
    assert target.source == str(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("neuron", "unknown without a list"),
        ("cuda", "tpu, xla, or neuron=FILE"),
        ("tpu=file", "tpu, xla, or neuron=FILE"),
        ("neuron=absent.txt", "No such file"),
    ],
)
def test_what_cannot_be_told_is_one_line(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_file_without_operations_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("nothing")
    with pytest.raises(TargetError, match="lists no operation"):
        parse(f"neuron={file}")
