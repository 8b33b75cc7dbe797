"""The eager backend on CUDA: the order of its streams, and, with a GPU, its results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from xla_migrate import runtime as xla
from xla_migrate.runtime.eager import backend as eager_backend
from xla_migrate.runtime.eager.cuda_sender import CudaSender

CPU = torch.device("cpu")
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class Stream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def record_event(self) -> str:
        self.log.append(f"event on {self.name}")
        return f"event of {self.name}"

    def wait_event(self, event: str) -> None:
        self.log.append(f"{self.name} waits for {event}")


class FakeCuda:
    """torch.cuda, so far as the sender uses it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.current = Stream("main", self.log)

    def Stream(self, device: torch.device) -> Stream:
        return Stream("side", self.log)

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextlib.contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.log.append(f"device {device}")
        yield

    def current_stream(self, device: torch.device) -> Stream:
        return self.current


class Gpu(torch.Tensor):
    """A tensor that says what is done to it."""

    log: list[str]

    @classmethod
    def of(cls, values: torch.Tensor, log: list[str]) -> Gpu:
        tensor = values.as_subclass(cls)
        tensor.log = log
        return tensor

    def is_pinned(self, *_: Any) -> bool:
        return False

    def pin_memory(self, *_: Any) -> Gpu:
        self.log.append("pin")
        return self

    def to(self, *args: Any, **kwargs: Any) -> Gpu:
        assert kwargs == {"non_blocking": True}
        self.log.append("copy")
        return self

    def record_stream(self, stream: Stream) -> None:
        self.log.append(f"used on {stream.name}")


def test_batches_are_copied_aside_and_waited_for_on_the_device() -> None:
    cuda = FakeCuda()
    sender = CudaSender(CPU, cuda)
    x = Gpu.of(torch.ones(2), cuda.log)
    sender._copy(x)
    assert cuda.log == ["pin", "copy"]
    cuda.log.clear()
    sent = sender.send({"x": [x]})
    assert cuda.log == ["device cpu", "event on side"], "it is there already"
    assert cuda.current.name == "main"
    assert sender.receive(sent)["x"][0] is x
    assert cuda.log[2:] == ["main waits for event of side", "used on main"]


def test_a_loader_without_workers_is_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its random numbers are then drawn where the original drew them."""
    monkeypatch.setattr(eager_backend, "device_type", lambda: "cuda")
    assert not eager_backend.reads_ahead(workers=0)
    assert eager_backend.reads_ahead(workers=2)


def _losses(batches: Any, device: torch.device) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        xla.optimizer_step(optimizer)
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


@on_cuda
@pytest.mark.parametrize("workers", [0, 2])
def test_losses_are_the_plain_loops_bit_for_bit(eager: None, workers: int) -> None:
    device = xla.xla_device()
    assert device.type == "cuda"
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(4096, 64, generator=generator),
        torch.randint(0, 8, (4096,), generator=generator),
    )
    plain = DataLoader(data, batch_size=64, num_workers=workers)
    assert _losses(xla.MpDeviceLoader(plain, device), device) == _losses(plain, device)


@on_cuda
def test_services_on_cuda(eager: None) -> None:
    assert isinstance(xla.Event(enable_timing=True), torch.cuda.Event)
    held = torch.ones(1000, 1000, device=xla.xla_device())
    assert (xla.memory_info()["bytes_used"] or 0) >= held.numel() * 4
    xla.reset_peak_memory_stats()
    xla.manual_seed(1)
    state = xla.get_rng_state()
    first = torch.rand(3, device="cuda")
    xla.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="cuda"), first)
    assert xla.device_name()
