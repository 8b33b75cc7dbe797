"""Compilation, recomputation, inference and slices."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
import torch_xla
import torch_xla.utils.checkpoint
from torch import nn

from xla_migrate import runtime as xla


class Block(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(8, 16), nn.Linear(16, 8), nn.Dropout(p)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x + scale * self.dropout(self.down(torch.tanh(self.up(x))))


Run = Callable[..., Any]


def gradients(
    device: torch.device,
    run: Run,
    *,
    wants_grad: bool = False,
    cut: bool = False,
    amp: bool = False,
) -> list[torch.Tensor]:
    """Of two blocks with dropout, each called by ``run(block, x)``; the loss comes first."""
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block() for _ in range(2)).to(device)
    x = torch.randn(4, 8).to(device).requires_grad_(wants_grad)
    xla.manual_seed(3)
    xla.mark_step()
    h = x
    with xla.autocast(enabled=amp):
        for block in blocks:
            h = run(block, h)
        loss = h.float().square().mean()
    if cut:
        xla.mark_step()
    loss.backward()
    results = [loss, *(p.grad for p in blocks.parameters()), *([x.grad] if wants_grad else [])]
    return [result.detach().cpu() for result in results if result is not None]


def plainly(block: Run, x: torch.Tensor) -> torch.Tensor:
    return block(x)


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


# Compilation (1.100)


def test_fact_1_100_inductor_fails_on_xla(device: torch.device) -> None:
    """Found by name, so that the test does not depend on a compiler on the machine."""
    from torch._inductor.codegen.common import device_codegens

    assert "xla" not in device_codegens


def test_fact_1_100_compile_is_the_identity_on_xla(device: torch.device) -> None:
    model = Block()
    assert xla.compile(model) is model
    assert xla.compile(model, mode="max-autotune", fullgraph=True) is model

    @xla.compile
    def bare(x: int) -> int:
        return x

    @xla.compile(dynamic=True)
    def called(x: int) -> int:
        return x

    assert bare(1) == called(1) == 1


def test_compile_is_left_out_on_the_cpu(eager: None) -> None:
    model = Block()
    assert xla.compile(model) is model


# Recomputation (1.101, 1.102)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_fact_1_101_torchs_checkpoint_fails_on_xla(
    device: torch.device, use_reentrant: bool
) -> None:
    def run(block: Run, x: torch.Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant)

    with pytest.raises(AttributeError, match="no attribute 'xla'"):
        gradients(device, run, wants_grad=True)


def test_fact_1_101_torch_xlas_needs_an_input_with_gradients(device: torch.device) -> None:
    with pytest.warns(UserWarning, match="None of the inputs"), pytest.raises(RuntimeError):
        gradients(device, torch_xla.utils.checkpoint.checkpoint)
    with pytest.raises(ValueError, match="use_reentrant"):
        torch_xla.utils.checkpoint.checkpoint(Block(), torch.ones(1, 8), use_reentrant=False)


@pytest.mark.parametrize("use_reentrant", [None, True, False])
@pytest.mark.parametrize("wants_grad", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_fact_1_102_gradients_through_dropout_are_right(
    device: torch.device, use_reentrant: bool | None, wants_grad: bool, cut: bool
) -> None:
    def run(block: Run, x: torch.Tensor) -> Any:
        return xla.checkpoint(block, x, use_reentrant=use_reentrant)

    expected = gradients(device, plainly, wants_grad=wants_grad, cut=cut)
    found = gradients(device, run, wants_grad=wants_grad, cut=cut)
    for one, other in zip(expected, found, strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-7)


def test_fact_1_102_the_graph_has_torch_xlas_barriers(device: torch.device) -> None:
    """Without them XLA would keep what is to be recomputed."""

    def counts(run: Run) -> tuple[int, int, int]:
        torch.manual_seed(0)
        blocks = nn.ModuleList(Block() for _ in range(2)).to(device)
        h = torch.randn(4, 8).to(device).requires_grad_()
        xla.mark_step()
        for block in blocks:
            h = run(block, h)
        h.sum().backward()
        grads = [p.grad for p in blocks.parameters()]
        hlo = torch_xla._XLAC._get_xla_tensors_hlo(grads)
        # Products, barriers, and what goes through them: inputs and gradients.
        return (
            len(re.findall(r" dot\(", hlo)),
            hlo.count("opt-barrier("),
            hlo.count("get-tuple-element("),
        )

    plain, ours = counts(plainly), counts(xla.checkpoint)
    assert plain[1] == 0
    assert ours == counts(torch_xla.utils.checkpoint.checkpoint)
    assert ours[0] > plain[0]


def test_checkpoint_under_autocast(device: torch.device) -> None:
    expected = gradients(device, plainly, amp=True)
    found = gradients(device, xla.checkpoint, amp=True)
    for one, other in zip(expected, found, strict=True):
        assert torch.allclose(one, other, rtol=1e-2, atol=1e-3)
    assert not same(found, gradients(device, xla.checkpoint)), "it did run in bfloat16"


def test_checkpoint_takes_keywords_and_nests(device: torch.device) -> None:
    def plain(block: Run, x: torch.Tensor) -> Any:
        return {"y": (block(x, scale=0.5), 3)}["y"][0]

    def ours(block: Run, x: torch.Tensor) -> Any:
        def inner(inputs: dict[str, torch.Tensor], *, scale: float) -> Any:
            return {"y": (xla.checkpoint(block, inputs["x"], scale=scale), 3)}

        return xla.checkpoint(inner, {"x": x}, scale=0.5)["y"][0]

    expected, found = gradients(device, plain), gradients(device, ours)
    for one, other in zip(expected, found, strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-7)


def test_checkpoint_by_autograd_grad_and_twice(device: torch.device) -> None:
    block = Block(p=0.0).to(device)
    x = torch.ones(2, 8, device=device)
    expected = torch.autograd.grad(block(x).sum(), block.up.weight)[0]
    loss = xla.checkpoint(block, x).sum()
    for _ in range(2):
        found = torch.autograd.grad(loss, block.up.weight, retain_graph=True)[0]
        assert torch.equal(found.cpu(), expected.cpu())


def test_checkpoint_without_anything_to_train(device: torch.device) -> None:
    block = Block().to(device).requires_grad_(False)
    out = xla.checkpoint(block, torch.ones(2, 8, device=device))
    assert not out.requires_grad
    head = nn.Linear(8, 1).to(device)
    head(out).sum().backward()
    assert head.weight.grad is not None
    with torch.no_grad():
        assert not xla.checkpoint(head, out).requires_grad


def test_checkpoint_leaves_the_random_stream_where_it_was(device: torch.device) -> None:
    def next_number(run: Run) -> float:
        gradients(device, run)
        return torch.rand(1).item()

    assert next_number(plainly) == next_number(xla.checkpoint)


def test_checkpoint_context_and_options(device: torch.device) -> None:
    entered: list[str] = []

    @contextlib.contextmanager
    def note(name: str) -> Any:
        entered.append(name)
        yield

    block = Block(p=0.0).to(device)
    out = xla.checkpoint(
        block,
        torch.ones(2, 8, device=device),
        context_fn=lambda: (note("forward"), note("again")),
        preserve_rng_state=False,
        determinism_check="none",
    )
    out.sum().backward()
    assert entered == ["forward", "again"]


def test_checkpoint_holds_no_gradients_afterwards(device: torch.device) -> None:
    """The hooks that see gradients arrive let go of them."""
    import gc

    block = Block(p=0.0).to(device)
    out = xla.checkpoint(block, torch.ones(2, 8, device=device))
    out.sum().backward()
    xla.mark_step()
    gc.collect()
    shapes = [o for o in gc.get_objects() if type(o).__name__ == "_Segment"]
    assert all(not segment._gradients for segment in shapes)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_checkpoint_sequential(device: torch.device, segments: int) -> None:
    torch.manual_seed(0)
    blocks = nn.Sequential(*(Block(p=0.0) for _ in range(3))).to(device)
    x = torch.ones(2, 8, device=device)

    def grads(out: torch.Tensor) -> list[torch.Tensor]:
        blocks.zero_grad()
        out.sum().backward()
        return [p.grad.cpu() for p in blocks.parameters() if p.grad is not None]

    expected = grads(blocks(x))
    assert same(grads(xla.checkpoint_sequential(blocks, segments, x)), expected)
    assert same(grads(xla.checkpoint_sequential(list(blocks), segments, x)), expected)


def test_eager_checkpoint_is_torchs(eager: None) -> None:
    cpu = torch.device("cpu")
    for use_reentrant in (True, False):
        found = gradients(
            cpu,
            lambda block, x, flag=use_reentrant: xla.checkpoint(block, x, use_reentrant=flag),
            wants_grad=True,
        )
        assert same(found, gradients(cpu, plainly, wants_grad=True))


# Inference


def test_section_2_inference_mode_fails_on_xla(device: torch.device) -> None:
    layer = nn.Linear(2, 2).to(device)
    x = torch.ones(1, 2, device=device)
    with pytest.raises(RuntimeError, match="version_counter"), torch.inference_mode():
        layer(x)


def test_section_2_ours_works(device: torch.device) -> None:
    layer = nn.Linear(2, 2).to(device)
    x = torch.ones(1, 2, device=device)
    with xla.inference_mode():
        assert not layer(x).requires_grad
        with xla.inference_mode(False):
            assert layer(x).requires_grad
    with xla.inference_mode(mode=False):
        assert layer(x).requires_grad

    @xla.inference_mode()
    def called() -> bool:
        return layer(x).requires_grad

    @xla.inference_mode
    def bare() -> bool:
        return layer(x).requires_grad

    assert called() is bare() is False
    assert layer(x).requires_grad


def test_eager_inference_mode_is_torchs(eager: None) -> None:
    with xla.inference_mode():
        assert torch.ones(1).is_inference()

    @xla.inference_mode
    def bare() -> bool:
        return torch.is_inference_mode_enabled()

    assert bare()


# Slices (3.31)


def _compiles(slices: Callable[[int], torch.Tensor]) -> int:
    before = xla.metrics()["compiles"] or 0
    for start in range(6):
        kept = slices(start)
        xla.mark_step()
        del kept
    return (xla.metrics()["compiles"] or 0) - before


def test_fact_3_31_a_slice_compiles_for_every_start(device: torch.device) -> None:
    x = torch.randn(3, 11).to(device)
    xla.mark_step()
    assert _compiles(lambda start: x[:, start : start + 4] * 2) == 6


def test_fact_3_31_narrow_compiles_once(device: torch.device) -> None:
    x = torch.randn(3, 12).to(device)
    xla.mark_step()
    assert _compiles(lambda start: xla.narrow(x, 1, start, 4) * 2) == 1
    starts = torch.arange(6).to(device)
    xla.mark_step()
    by_tensor = [xla.narrow(x, 1, starts[2], 4), xla.narrow(x, 1, torch.tensor(2), 4)]
    assert all(torch.equal(found.cpu(), x.cpu()[:, 2:6]) for found in by_tensor)


def test_narrow_is_torchs(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    for dim, start, length in ((0, 0, 4), (0, 3, 1), (1, 1, 5), (-1, -2, 2), (1, 6, 0), (0, 2, 0)):
        expected = torch.narrow(x.cpu(), dim, start, length)
        assert torch.equal(xla.narrow(x, dim, start, length).cpu(), expected)


@pytest.mark.parametrize(("start", "length"), [(0, 7), (5, 2), (7, 0), (-7, 1), (-1, 2), (0, -1)])
def test_narrow_outside_is_refused_not_clamped(
    device: torch.device, start: int, length: int
) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        torch.narrow(torch.zeros(4, 6), 1, start, length)
    with pytest.raises(IndexError, match="size 6"):
        xla.narrow(torch.zeros(4, 6, device=device), 1, start, length)


def test_gradients_flow_through_narrow(device: torch.device) -> None:
    x = torch.ones(2, 6, device=device, requires_grad=True)
    xla.narrow(x, 1, 2, 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0, 1, 1, 1, 0]] * 2


def test_eager_narrow_is_a_view(eager: None) -> None:
    x = torch.zeros(4)
    xla.narrow(x, 0, 1, 2).fill_(1)
    assert x.tolist() == [0, 1, 1, 0]


def test_no_warnings_of_our_own(device: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients(device, xla.checkpoint)


def test_fact_3_31_put_compiles_once(device: torch.device) -> None:
    x = torch.zeros(3, 12).to(device)
    xla.mark_step()

    def stored(start: int) -> torch.Tensor:
        x[:, start] = 1.0
        return x

    def put(start: int) -> torch.Tensor:
        xla.put(x, 1, start, 2.0)
        return x

    assert _compiles(stored) == 6
    assert _compiles(put) == 1


@pytest.mark.parametrize(
    ("dim", "start", "length", "shape"),
    [
        (0, 2, None, (6,)),
        (0, -1, None, ()),
        (1, 5, None, (4,)),
        (0, 1, 2, (2, 6)),
        (-1, 2, 3, (4, 3)),
        (1, 2, 3, (3,)),
        (1, 0, 6, ()),
    ],
)
def test_put_is_an_assignment(
    device: torch.device, dim: int, start: int, length: int | None, shape: tuple[int, ...]
) -> None:
    value = torch.randn(shape)
    expected, x = torch.zeros(4, 6), torch.zeros(4, 6).to(device)
    where = start if length is None else slice(start, start + length)
    expected[(slice(None), where) if dim else where] = value
    xla.put(x, dim, start, value, length)
    xla.put(x, dim, start, value.to(device), length)
    assert torch.equal(x.cpu(), expected)


def test_put_keeps_the_dtype_and_takes_numbers(device: torch.device) -> None:
    x = torch.zeros(3, dtype=torch.long).to(device)
    xla.put(x, 0, torch.tensor(1), 2.0)
    xla.put(x, 0, torch.tensor(2).to(device), 3)
    assert x.tolist() == [0, 2, 3]


@pytest.mark.parametrize(("start", "length"), [(6, None), (-7, None), (4, 3)])
def test_put_outside_is_refused_not_dropped(
    device: torch.device, start: int, length: int | None
) -> None:
    with pytest.raises(IndexError, match=r"put: .* size 6"):
        xla.put(torch.zeros(6, device=device), 0, start, 1.0, length)


def test_gradients_flow_through_put(device: torch.device) -> None:
    weight = torch.ones(2, device=device, requires_grad=True)
    x = torch.zeros(3, 2, device=device)
    xla.put(x, 0, 1, weight * 3)
    x.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [3, 3]


def test_eager_put_is_an_assignment(eager: None) -> None:
    x = torch.zeros(2, 4)
    xla.put(x, -1, 1, torch.ones(2, 2), 2)
    xla.put(x, 0, 1, 5.0)
    assert x.tolist() == [[0, 1, 1, 0], [5, 5, 5, 5]]


def _assigned(x: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
    """What torch does on the host; a tensor gives its elements under the mask."""
    x = x.cpu().clone()
    given = value.cpu() if isinstance(value, torch.Tensor) else value
    x[mask.cpu()] = given[mask.cpu()] if isinstance(value, torch.Tensor) and value.dim() else given
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("value", [0, 0.5, -1, float("inf"), torch.tensor(2.0), "other"])
def test_assign_is_torchs(device: torch.device, dtype: torch.dtype, rows: bool, value: Any) -> None:
    if value == float("inf") and not dtype.is_floating_point:
        pytest.skip("no integer")
    x = torch.randn(4, 3).to(dtype).to(device)
    mask = torch.tensor([True, False, True, False]).to(device)
    if not rows:
        mask = torch.rand(4, 3).to(device) > 0.5
    other = torch.randn(4, 3).to(dtype).to(device) if isinstance(value, str) else value
    expected = _assigned(x, mask, other)
    xla.assign(x, mask, other)
    assert torch.equal(x.cpu(), expected)


def test_assign_in_an_empty_batch(device: torch.device) -> None:
    x, mask = torch.zeros(0, 3, device=device), torch.zeros(0, dtype=torch.bool, device=device)
    xla.assign(x, mask, torch.ones(0, 3, device=device))
    xla.assign(x, mask, 1.0)
    assert x.shape == (0, 3)


def test_assign_through_views_and_gradients(device: torch.device) -> None:
    def grads(assign: Callable[..., None], where: torch.device) -> list[Any]:
        x = torch.arange(6.0).view(2, 3).to(where).requires_grad_()
        y = torch.ones(2, 3).to(where).requires_grad_()
        z = x * 2
        assign(z[:, 1:], z[:, 1:] > 3, (y * 3)[:, 1:])
        (z * z).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        return [z.tolist(), x.grad.tolist(), y.grad.tolist()]

    def plainly(x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> None:
        x[mask] = value[mask]

    assert grads(xla.assign, device) == grads(plainly, torch.device("cpu"))


def test_assign_with_other_indices_is_an_assignment(device: torch.device) -> None:
    x = torch.zeros(4, device=device)
    xla.assign(x, torch.tensor([0, 2], device=device), torch.arange(4.0, device=device))
    assert x.tolist() == [0, 0, 2, 0]
    rows = np.zeros(3)
    xla.assign(rows, np.array([True, False, True]), 1)  # type: ignore[arg-type]
    assert rows.tolist() == [1, 0, 1]


def test_facts_3_22_and_3_23_assign_reads_nothing_and_compiles_once(device: torch.device) -> None:
    x = torch.arange(12.0).to(device)
    limits = torch.arange(12.0).to(device)

    def stored(start: int) -> torch.Tensor:
        y = x * 1
        y[x > xla.narrow(limits, 0, start, 1)] = 0.0
        return y

    def assigned(start: int) -> torch.Tensor:
        y = x * 1
        xla.assign(y, x > xla.narrow(limits, 0, start, 1), 0.0)
        return y

    assert _compiles(stored) >= 6
    assert _compiles(assigned) == 1
