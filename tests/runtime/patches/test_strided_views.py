"""`as_strided` on XLA, as `patches.operations.strided_views` computes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ..test_processes import in_a_warm_process
from .computing import Case, assert_computed_on_the_device

Change = Callable[[torch.Tensor], object]


def frames(x: torch.Tensor) -> torch.Tensor:
    """Overlapping pieces of the rows, with the strides that the tensor says it has."""
    rows, columns = x.stride()
    return x.as_strided((2, 2, 2), (rows, columns, columns))


READ: dict[str, Case] = {
    "a tensor": frames,
    "later rows": lambda x: frames(x[1:]),
    "later columns": lambda x: frames(x[:, 1:]),
    "every other column": lambda x: frames(x[:, ::2]),
    "transposed": lambda x: frames(x.t()),
    "a slice of a slice": lambda x: frames(x[1:][:, 2:]),
    "a result": lambda x: frames(x[1:] * 2),
    "an offset": lambda x: x.as_strided((3, 2), (6, 2), 5),
    "one element": lambda x: x[2:].as_strided((), ()),
    "steps of 0": lambda x: x[1:].as_strided((3, 4), (0, 1)),
    "a strided view of a strided view": lambda x: frames(x.as_strided((3, 5), (6, 1))),
}


@pytest.mark.parametrize("name", READ)
def test_values_and_gradients_are_torchs(name: str, device: torch.device) -> None:
    x = torch.arange(24.0).view(4, 6)
    assert_computed_on_the_device(READ[name], x, device)


WRITTEN: dict[str, Change] = {
    "a diagonal": lambda x: x.as_strided((4,), (7,)).fill_(9),
    "a slice": lambda x: x[1:].as_strided((2, 2), (6, 1)).mul_(10),
    "part of the view": lambda x: x[1:].as_strided((2, 2), (6, 1))[0].zero_(),
    "by torch itself": lambda x: x.fill_diagonal_(9),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_to_the_view_changes_the_tensor(name: str, device: torch.device) -> None:
    expected, found = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6).to(device)
    WRITTEN[name](expected)
    WRITTEN[name](found)
    assert found.tolist() == expected.tolist()


def test_an_empty_view_has_no_elements(device: torch.device) -> None:
    assert torch.arange(3).to(device).as_strided((0, 3), (9, 9)).tolist() == []


def test_reading_beyond_the_elements_says_so(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=r"beyond the 6 elements of the tensor"):
        torch.arange(8).to(device)[2:].as_strided((7,), (1,))


PROGRAM = """
import torch, torch_xla
x = torch.arange(6.0).to("xla")
print(x[2:].as_strided((2,), (1,)).tolist())
x.as_strided((2, 2), (3, 1), 1).fill_(9)
print(x.tolist())
"""


def test_fact_3_71_strided_views_of_slices_begin_at_the_whole_tensor() -> None:
    done = in_a_warm_process("target", PROGRAM, PJRT_DEVICE="CPU")
    read, written = done.stdout.splitlines()
    assert read == "[0.0, 1.0]"
    assert written != "[0.0, 9.0, 9.0, 3.0, 9.0, 9.0]"
