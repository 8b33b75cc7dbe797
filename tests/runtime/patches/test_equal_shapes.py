"""Operands of equal shapes, and those whose result has to be worked out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import _meta_registrations as registrations

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import equal_shapes


@pytest.fixture
def worked_out(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operands whose result was worked out in Python."""
    seen: list[Any] = []
    for name in ("_prim_elementwise_meta", "_broadcast_shapes"):
        function = getattr(registrations, name)

        def counted(*args: Any, function: Any = function, **kwargs: Any) -> Any:
            seen.append(args)
            return function(*args, **kwargs)

        monkeypatch.setattr(registrations, name, counted)
    return seen


def adam(device: torch.device) -> torch.Tensor:
    x, y, z = (torch.full((2, 3), n).to(device) for n in (1.0, 2.0, 4.0))
    x.lerp_(y, 0.5).addcmul_(y, z, value=0.25).addcdiv_(y, z, value=-1.0)
    return x.mul_(0.5).add_(y, alpha=-0.25)


def test_torch_works_out_the_results_of_equal_operands(
    device: torch.device, worked_out: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equal_shapes, "_fit", lambda *args: False)
    assert adam(device).tolist() == [[1.0] * 3] * 2
    assert len(worked_out) > 3


def test_equal_operands_and_numbers_fit(device: torch.device, worked_out: list[Any]) -> None:
    assert adam(device).tolist() == [[1.0] * 3] * 2
    assert worked_out == []


def test_other_shapes_are_asked(device: torch.device, worked_out: list[Any]) -> None:
    x = torch.ones(2, 3).to(device)
    x.add_(torch.arange(3.0).to(device))
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert worked_out
    for wrong in (torch.ones(2), torch.ones(4, 2, 3)):
        with pytest.raises(RuntimeError):
            x.add_(wrong.to(device))
    xla.mark_step()
    assert x.tolist() == [[1.0, 2.0, 3.0]] * 2


def test_integers_take_no_fractions(device: torch.device) -> None:
    """Nor do they on CUDA; operands of one shape, and numbers."""
    for other in (0.5, torch.full((3,), 0.5).to(device)):
        with pytest.raises(RuntimeError):
            torch.arange(3).to(device).add_(other)
    with pytest.raises(RuntimeError):
        torch.arange(3).to(device).addcdiv_(torch.arange(3).to(device), torch.arange(3).to(device))


@pytest.mark.parametrize(
    "other",
    [
        torch.arange(3.0),
        torch.tensor(2.0),
        torch.arange(6.0).reshape(3, 2).t(),
        torch.ones(2, 3, dtype=torch.float64),
        torch.arange(6).reshape(2, 3),
        torch.tensor([[True, False, True]] * 2),
    ],
    ids=["broadcast", "number", "transposed", "other type", "integers", "truths"],
)
def test_results_of_other_operands_are_those_of_the_host(
    device: torch.device, other: torch.Tensor
) -> None:
    x = torch.full((2, 3), 2.0)
    ours = x.to(device)
    for tensor, given in ((x, other), (ours, other.to(device))):
        tensor.mul_(given).addcmul_(given, given).add_(given)
    assert ours.dtype == x.dtype
    assert ours.cpu().tolist() == x.tolist()


def _operands(operation: Any) -> list[Any]:
    """Tensors and numbers as it takes them."""
    kinds = [str(a.type) for a in operation._schema.arguments if not a.has_default_value()]
    made = torch.linspace(0.2, 0.8, 6).reshape(2, 3)
    kinds += ["Number"] if operation.name() == "aten::clamp_" else []
    return [made.clone() if kind == "Tensor" else 1 if kind == "int" else 0.5 for kind in kinds]


def test_each_operation_gives_what_it_does_on_the_host(device: torch.device) -> None:
    ours, expected, names = [], [], []
    for operation in equal_shapes.computed_in_place():
        given = _operands(operation)
        moved = [x.to(device) if isinstance(x, torch.Tensor) else x for x in given]
        try:
            operation(*given)
        except (RuntimeError, NotImplementedError):  # none of floats
            continue
        if operation.name() == "aten::xlogy_.Scalar_Other":  # torch_xla does not take it
            continue
        ours.append(operation(*moved))
        expected.append(given[0])
        names.append(operation.name())
    assert len(names) > 80
    for name, one, other in zip(names, torch.stack(ours).cpu(), expected, strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_torch_does_not_say_that_these_go_element_by_element() -> None:
    for name in equal_shapes.UNTAGGED:
        operation = getattr(torch.ops.aten, name.partition("::")[2])
        assert torch.Tag.pointwise not in operation.default.tags
