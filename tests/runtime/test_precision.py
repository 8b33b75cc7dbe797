"""Autocast and matrix products."""

from __future__ import annotations

import copy
import logging
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch_xla.backends
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.eager import backend as eager_backend


def _dtype(context: object, device: torch.device) -> torch.dtype:
    layer = nn.Linear(2, 2).to(device)
    with context:  # type: ignore[attr-defined]
        return layer(torch.ones(1, 2, device=device)).dtype


@pytest.mark.filterwarnings("ignore")
def test_fact_1_71_autocast_for_cuda_does_nothing_to_xla(device: torch.device) -> None:
    assert _dtype(torch.autocast("cuda", dtype=torch.float16), device) is torch.float32


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"device_type": "cuda"},
        {"device_type": "cuda:0", "dtype": torch.float16},
        {"device_type": torch.device("cuda")},
        {"device_type": "xla", "dtype": torch.bfloat16},
    ],
)
def test_fact_1_71_autocast_reaches_xla_in_bfloat16(
    device: torch.device, arguments: dict[str, object]
) -> None:
    assert _dtype(xla.autocast(**arguments), device) is torch.bfloat16  # type: ignore[arg-type]


def test_fact_1_70_torch_xlas_own_autocast_is_unusable_here(device: torch.device) -> None:
    from torch_xla.amp import autocast

    with pytest.raises(AttributeError), autocast(device):
        pass


def test_autocast_can_be_turned_off_and_on_inside(device: torch.device) -> None:
    assert _dtype(xla.autocast(enabled=False), device) is torch.float32
    with xla.autocast():
        assert _dtype(xla.autocast(enabled=False), device) is torch.float32


@pytest.mark.parametrize("amp", [True, False, 1, 0, None])
def test_autocast_is_called_like_that_of_cuda(device: torch.device, amp: Any) -> None:
    """`context = torch.cuda.amp.autocast`, whose first argument is `enabled`."""
    expected = torch.bfloat16 if amp else torch.float32
    assert _dtype(xla.autocast(amp), device) is expected
    assert _dtype(xla.autocast(amp, torch.float16, False), device) is expected


def test_autocast_decorates(device: torch.device) -> None:
    @xla.autocast("cuda", dtype=torch.float16)
    def forward(layer: nn.Module) -> torch.Tensor:
        return layer(torch.ones(1, 2, device=device))

    assert forward(nn.Linear(2, 2).to(device)).dtype is torch.bfloat16


def test_autocast_for_the_cpu_is_for_the_cpu(device: torch.device) -> None:
    assert _dtype(xla.autocast("cpu"), torch.device("cpu")) is torch.bfloat16
    assert _dtype(xla.autocast("cpu"), device) is torch.float32


def test_eager_autocast_on_the_cpu(eager: None) -> None:
    assert _dtype(xla.autocast("cuda", dtype=torch.float16), torch.device("cpu")) is torch.bfloat16


def test_float16_without_bfloat16_is_warned_of(
    eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without its GradScaler, on a GPU that is too old for bfloat16."""
    monkeypatch.setattr(eager_backend, "is_bf16_supported", lambda: False)
    with pytest.warns(UserWarning, match="without loss scaling"):
        assert eager_backend.autocast_dtype(None) is torch.float16


def test_bfloat16_is_supported(device: torch.device) -> None:
    assert xla.is_bf16_supported()


@pytest.mark.parametrize(
    ("asked", "set_on_xla"), [("highest", "highest"), ("high", "high"), ("medium", "default")]
)
def test_fact_1_108_matmul_precision_reaches_xla(
    device: torch.device, asked: str, set_on_xla: str, logged: list[logging.LogRecord]
) -> None:
    try:
        xla.set_float32_matmul_precision(asked)
        assert torch.get_float32_matmul_precision() == asked
        assert torch_xla.backends.get_mat_mul_precision() == set_on_xla
        assert not logged, "torch_xla's warning against a second call is not for the first"
    finally:
        xla.set_float32_matmul_precision("medium")
        torch.set_float32_matmul_precision("highest")


def test_unknown_precisions_are_refused(device: torch.device) -> None:
    with pytest.raises(ValueError, match="'best' is none of highest, high, medium"):
        xla.set_float32_matmul_precision("best")


def test_cudnn_flags_are_left_alone_without_cuda(device: torch.device) -> None:
    before = torch.backends.cudnn.benchmark
    xla.set_cudnn(benchmark=not before, deterministic=True)
    assert torch.backends.cudnn.benchmark is before


def test_cudnn_flags_are_set_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    from xla_migrate.runtime import precision

    monkeypatch.setattr(precision, "accelerator_type", lambda: "cuda")
    before = torch.backends.cudnn.benchmark
    try:
        xla.set_cudnn(benchmark=not before)
        assert torch.backends.cudnn.benchmark is not before
    finally:
        torch.backends.cudnn.benchmark = before


def test_no_warnings_from_autocast(device: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _dtype(xla.autocast("cuda", dtype=torch.float16), device)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.seen: list[torch.dtype] = []

    def forward(self, x: torch.Tensor, fail: bool = False) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        self.seen.append(y.dtype)
        if fail:
            raise LookupError
        return {"y": y, "ids": torch.arange(2)}


def test_mixed_precision_runs_forward_in_bfloat16_and_hands_out_float32(
    device: torch.device,
) -> None:
    model = Net().to(device)
    assert xla.mixed_precision(model) is model
    x = torch.ones(1, 2, device=device)
    out = model(x)
    assert model.seen == [torch.bfloat16]
    assert (out["y"].dtype, out["ids"].dtype) == (torch.float32, torch.int64)
    out["y"].sum().backward()
    assert model.layer.weight.grad is not None
    assert model.layer.weight.grad.dtype is torch.float32


def test_mixed_precision_ends_with_forward_even_if_it_raises(device: torch.device) -> None:
    model = xla.mixed_precision(Net().to(device))
    x = torch.ones(1, 2, device=device)
    with pytest.raises(LookupError):
        model(x, fail=True)
    assert not torch.is_autocast_enabled("xla")
    assert model(x)["y"].dtype is torch.float32
    assert not torch.is_autocast_enabled("xla")


def test_mixed_precision_is_copied_and_pickled_with_the_model(device: torch.device) -> None:
    model = xla.mixed_precision(Net())
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin.to(device)(torch.ones(1, 2, device=device))
        assert twin.seen == [torch.bfloat16]
    assert model.seen == []


def test_mixed_precision_of_several_and_of_none(device: torch.device) -> None:
    models = [Net().to(device), Net().to(device)]
    assert xla.mixed_precision(models) is models
    plain = xla.mixed_precision(Net().to(device), enabled=False)
    for model in (*models, plain):
        model(torch.ones(1, 2, device=device))
    assert [model.seen[0] for model in (*models, plain)] == [torch.bfloat16] * 2 + [torch.float32]


def test_arrays_of_bfloat16_tensors_are_float32(device: torch.device) -> None:
    """The CUDA script's were float16, which numpy has."""
    tensor = torch.tensor([1.5, -2.25], dtype=torch.bfloat16)
    with xla.autocast(dtype=torch.float16):
        made = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    for array in (tensor.numpy(), np.asarray(tensor), np.concatenate([tensor, tensor])[:2]):
        assert array.dtype == np.float32
        assert array.tolist() == [1.5, -2.25]
    assert made.detach().cpu().numpy().tolist() == [[2, 2], [2, 2]]
    assert tensor.requires_grad_().numpy(force=True).tolist() == [1.5, -2.25]
    with pytest.raises(RuntimeError, match="requires grad"):
        tensor.numpy()


def test_other_arrays_share_their_memory_as_ever() -> None:
    tensor = torch.zeros(2)
    tensor.numpy()[0] = 3
    assert tensor.tolist() == [3, 0]
    assert torch.ones(1, dtype=torch.float16).numpy().dtype == np.float16
    assert torch.ones(1, dtype=torch.int64).numpy().dtype == np.int64
