"""Compilation, recomputation and inference."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable
from typing import Any

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
    assert isinstance(xla.inference_mode(), torch.inference_mode)

    @xla.inference_mode
    def bare() -> bool:
        return torch.is_grad_enabled()

    assert not bare()


def test_no_warnings_of_our_own(device: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients(device, xla.checkpoint)
