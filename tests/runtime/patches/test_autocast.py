"""``xla.autocast`` follows CUDA's policy operation by operation: torch's own tables, and its dispatcher's."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import autocast


@pytest.fixture(scope="module")
def tables() -> Iterator[Any]:
    """Torch's AutocastTestLists, in bfloat16. Their module wants packages of torch's own test suite."""
    name = "torch.testing._internal.common_utils"
    held = sys.modules.get(name)
    stand_in: Any = types.ModuleType(name)
    stand_in.TEST_WITH_ROCM, stand_in.TestCase = False, object
    sys.modules[name] = stand_in
    try:
        from torch.testing._internal.autocast_test_lists import AutocastTestLists

        yield AutocastTestLists(torch.device("cpu"))
    finally:
        if held is None:
            del sys.modules[name]
        else:
            sys.modules[name] = held


GROUPS = [
    ("torch_fp16", torch, torch.bfloat16),
    ("torch_fp32", torch, torch.float32),
    ("torch_need_autocast_promote", torch, torch.float32),
    ("torch_expect_builtin_promote", torch, None),
    ("methods_expect_builtin_promote", None, None),
    ("nn_fp16", torch._C._nn, torch.bfloat16),  # type: ignore[attr-defined]
    ("nn_fp32", torch._C._nn, torch.float32),  # type: ignore[attr-defined]
    ("linalg_fp16", torch._C._linalg, torch.bfloat16),  # type: ignore[attr-defined]
    ("methods_fp16", None, torch.bfloat16),
    ("methods_fp32", None, torch.float32),
]


@pytest.mark.parametrize(("group", "module", "expected"), GROUPS)
@pytest.mark.filterwarnings("ignore")
def test_torchs_tables(
    group: str, module: Any, expected: torch.dtype | None, tables: Any, device: torch.device
) -> None:
    def on_xla(tensor: torch.Tensor) -> torch.Tensor:
        half = tensor.dtype is torch.float16
        return (tensor.bfloat16() if half else tensor).to(device)

    tried = 0
    for name, args, *rest in getattr(tables, group):
        if "cudnn" in name or isinstance(args, str):
            continue
        wanted = expected or rest[0]
        named = rest[0] if rest and isinstance(rest[0], dict) else {}
        given = tree_map_only(torch.Tensor, on_xla, args)
        callables = [getattr(module, name, None)] if module else []
        if isinstance(given[0], torch.Tensor):
            method = getattr(torch.Tensor, name, None)
            callables.append(method)
        for function in filter(None, callables):
            with xla.autocast("cuda"):
                result = function(*given, **named)
            result = result[0] if isinstance(result, tuple | list) else result
            if isinstance(result, torch.Tensor):
                assert result.dtype is wanted, name
            tried += 1
    assert tried >= len([e for e in getattr(tables, group) if "cudnn" not in e[0]]) - 2


def test_our_tables_are_cudas() -> None:
    """Every kernel that the dispatcher has for CUDA's autocast, but for cuDNN's and fused cells."""
    cudas = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        if name.startswith("aten::")
    }
    left = {name for name in cudas if "cudnn" in name or name.startswith(("_thnn", "_scaled_dot"))}
    ours = [
        *autocast.LOWER_PRECISION,
        *autocast.FLOAT32,
        *autocast.FLOAT32_BY_DTYPE,
        *autocast.NORMS,
        *autocast.WIDEST,
    ]
    assert len(set(ours)) == len(ours)
    assert set(ours) == cudas - left - {"binary_cross_entropy"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_cuda_leaves_alone_keeps_its_type(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.rand(2, 3, 8, 8).to(device, dtype)
    norm = nn.BatchNorm2d(3).to(device)
    with xla.autocast("cuda"):
        left: list[Any] = [F.relu(x), F.max_pool2d(x, 2), F.pad(x, (1, 1, 1, 1), mode="reflect")]
        left += [norm(x), x.mean(), x.std(), F.gelu(x), torch.cat([x, x]), x * 2, x.transpose(0, 1)]
    assert [y.dtype for y in left] == [dtype] * len(left)


def test_batch_norm_of_bfloat16_keeps_precise_statistics(device: torch.device) -> None:
    x = (torch.randn(64, 4, 8, 8, generator=torch.Generator().manual_seed(0)) * 3 + 10).bfloat16()
    cpu, ours = nn.BatchNorm2d(4), nn.BatchNorm2d(4).to(device)
    cpu(x.float())
    with xla.autocast("cuda"):
        ours(x.to(device))
    torch.testing.assert_close(ours.running_mean.cpu(), cpu.running_mean, rtol=1e-5, atol=1e-5)  # type: ignore[union-attr]
    torch.testing.assert_close(ours.running_var.cpu(), cpu.running_var, rtol=1e-3, atol=1e-3)  # type: ignore[union-attr]


def test_a_type_that_is_asked_for_is_kept(device: torch.device) -> None:
    x = torch.ones(3, 4).to(device, torch.bfloat16)
    with xla.autocast("cuda"):
        assert x.sum(dtype=torch.bfloat16).dtype is torch.bfloat16
        assert x.softmax(0, dtype=torch.bfloat16).dtype is torch.bfloat16
        assert x.cumsum(0, dtype=torch.float64).dtype is torch.float64
        assert torch.sum(x, dim=1, keepdim=True).shape == (3, 1)
        assert x.double().exp().dtype is torch.float64
        assert torch.ones(2, dtype=torch.bfloat16).exp().dtype is torch.bfloat16, "on the CPU"
        assert torch.arange(3, device=device).sum().dtype is torch.int64


def test_in_place_and_out_forms_keep_their_type(device: torch.device) -> None:
    """As on CUDA, where autocast has functional forms only."""
    x = torch.ones(3, device=device, dtype=torch.bfloat16)
    with xla.autocast("cuda"):
        assert x.exp_().dtype is torch.bfloat16
        assert x.pow_(2).dtype is torch.bfloat16
        assert torch.exp(x, out=torch.empty_like(x)).dtype is torch.bfloat16


def test_disabled_and_nested_regions(device: torch.device) -> None:
    x = torch.ones(2, 2, device=device, dtype=torch.bfloat16)
    assert x.exp().dtype is torch.bfloat16
    with xla.autocast("cuda"):
        with xla.autocast("cuda", enabled=False):
            assert x.exp().dtype is torch.bfloat16
            assert (x.float() @ x.float()).dtype is torch.float32
        assert x.exp().dtype is torch.float32
        with xla.autocast("cuda"):
            assert x.exp().dtype is torch.float32
    assert x.exp().dtype is torch.bfloat16


def test_gradients_have_the_type_of_what_they_are_of(device: torch.device) -> None:
    results = []
    for place in (torch.device("cpu"), device):
        x = torch.linspace(-2, 2, 9).to(place).requires_grad_()
        with xla.autocast("cuda", enabled=place is device):
            loss = (x.bfloat16().exp().sum() + x.pow(2).sum()).log()
        loss.backward()
        assert x.grad is not None
        assert x.grad.dtype is torch.float32
        results.append((loss.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[1], results[0], rtol=2e-2, atol=2e-2)


def test_a_recomputation_runs_in_the_same_types(device: torch.device) -> None:
    seen: list[torch.dtype] = []
    layer = nn.Linear(4, 4).to(device)

    def block(x: torch.Tensor) -> torch.Tensor:
        y = layer(x).exp()
        seen.append(y.dtype)
        return y * y

    with xla.autocast("cuda"):
        loss = xla.checkpoint(block, torch.ones(2, 4, device=device)).sum()
    loss.backward()
    assert seen == [torch.float32] * 2


def test_a_loss_is_as_precise_as_cudas(device: torch.device) -> None:
    """A contrastive loss: exponentials of similarities, summed and logarithmised, after a matmul."""
    x = F.normalize(torch.randn(64, 16, generator=torch.Generator().manual_seed(0)), dim=1)

    on_device = x.to(device)
    with xla.autocast("cuda"):
        ours = -(on_device @ on_device.t() / 0.1).exp().sum(1).log().sum()
    assert ours.dtype is torch.float32
    exact = -(x @ x.t() / 0.1).exp().sum(1).log().sum()
    # XLA may keep more than bfloat16 between operations that it fuses, so this is no tighter.
    torch.testing.assert_close(ours.cpu(), exact, rtol=2e-3, atol=0)


def test_fact_1_72_torch_xlas_own_list_differs_from_cudas(device: torch.device) -> None:
    """Without the kernels of `patches.autocast`."""
    autocast._kept.pop()._destroy()
    try:
        half = torch.ones(2, 4, device=device, dtype=torch.bfloat16)
        with xla.autocast():
            for operation in (torch.exp, torch.log, torch.sum, torch.linalg.vector_norm):
                assert operation(half).dtype is torch.bfloat16  # float32 on CUDA
            q = half.float()[None]
            attention = F.scaled_dot_product_attention(q, q, q)
            assert attention.dtype is torch.float32  # bfloat16 on CUDA
            assert half.float().relu().dtype is torch.bfloat16  # float32 on CUDA
    finally:
        autocast.apply()
    with xla.autocast():
        assert half.exp().dtype is torch.float32
