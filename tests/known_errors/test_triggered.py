"""Errors that occur on this machine: each is triggered, and its message is explained."""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import io
import pickle
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.known_errors.explain import find
from xla_migrate.script_environment import free_port

torch_xla = pytest.importorskip("torch_xla")


@pytest.fixture(scope="module")
def device() -> torch.device:
    return xla.xla_device()


def _saved_on(tag: str, monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    file = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: tag)
        torch.save(torch.ones(2), file)
    file.seek(0)
    return file


def packed(device: torch.device) -> None:
    functions: Any = torch._VF  # The runtime has repaired both.
    (pack,), (pad,) = functions._pack_padded_sequence.args, functions._pad_packed_sequence.args
    packed = pack(torch.ones(2, 3, 4, device=device), torch.tensor([3, 2]), True)
    pad(*packed, True, 0.0, -1)


def in_inference_mode(device: torch.device) -> None:
    """As without the runtime, which replaces how `torch.inference_mode` begins."""
    x = torch.ones(1, 2, device=device)
    with torch._C._InferenceMode(True):
        x[0]


def changed_in_place(device: torch.device) -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def changed_leaf(device: torch.device) -> None:
    torch.ones(2, requires_grad=True)[0].add_(1)


def stepped(device: torch.device, **options: Any) -> None:
    layer = nn.Linear(2, 2).to(device)
    layer(torch.ones(1, 2, device=device)).sum().backward()
    optimizer: Any = torch.optim.AdamW(layer.parameters(), **options)
    create = inspect.unwrap(torch.optim.Adam._init_group)  # type: ignore[attr-defined]
    optimizer._init_group = functools.partial(
        create, optimizer
    )  # torch's, without the runtime's patches
    optimizer.step()


def two_graphs(device: torch.device) -> None:
    step = torch_xla.compile(lambda x: x * 3, max_different_graphs=1)
    step(torch.ones(2, device=device))
    step(torch.ones(3, device=device))


def moved_data(device: torch.device) -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = parameter.data.to(device)


def bound_twice(device: torch.device) -> None:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("localhost", 0))
        first.listen()
        second.bind(first.getsockname())


def waited_for_nobody(device: torch.device) -> None:
    store = dist.TCPStore("localhost", free_port(), 1, True)
    store.wait(["never"], timedelta(milliseconds=20))


def group_of_nccl(device: torch.device) -> None:
    dist.init_process_group(
        "nccl", init_method=f"tcp://localhost:{free_port()}", rank=0, world_size=1
    )


def damaged(device: torch.device) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(100), file)
    torch.load(io.BytesIO(file.getvalue()[:300]))


TRIGGERS: dict[str, Callable[[torch.device], object]] = {
    "no-nvidia-driver": lambda device: torch.ones(1).cuda(),
    "triton-without-gpu": lambda device: importlib.import_module("triton").runtime.driver.active.get_current_device(),
    "tf32-option": lambda device: importlib.import_module("transformers").TrainingArguments(tf32=True),
    "no-torch-xla": lambda device: importlib.import_module("libneuronxla"),
    "cuda-extension": lambda device: importlib.import_module("amp_C"),
    "libcudart": lambda device: ctypes.CDLL("libcudart.so.99"),
    "device-before-spawn": lambda device: torch_xla.launch(print, start_method="fork"),
    "cannot-pickle": lambda device: pickle.dumps(lambda: 0),
    "nccl": group_of_nccl,
    "no-process-group": lambda device: dist.get_rank(),
    "port-in-use": bound_twice,
    "collective-timeout": waited_for_nobody,
    "no-storage": lambda device: torch.ones(2, device=device).untyped_storage().data_ptr(),
    "map-location": lambda device: torch.load(_saved(), map_location=device),
    "broken-checkpoint": damaged,
    "sparse": lambda device: torch.eye(2).to_sparse().to(device),
    "no-numpy": lambda device: torch.ones(2, device=device).numpy(),
    "mixed-devices": lambda device: torch.mm(torch.ones(2, 2, device=device), torch.ones(2, 2)),
    "inference-mode": in_inference_mode,
    "not-allocated": packed,
    "no-generator": lambda device: torch.Generator(device="xla"),
    "no-torch-dot-xla": lambda device: torch.get_device_module("xla").device_count(),
    "fused-optimizer": lambda device: stepped(device, fused=True),
    "capturable": lambda device: stepped(device, capturable=True, foreach=True),
    "device-ordinal": lambda device: torch.zeros(2, device="xla:3"),
    "parameter-data": moved_data,
    "inplace-on-view": changed_leaf,
    "modified-in-place": changed_in_place,
    "meta-tensor": lambda device: nn.Linear(2, 2, device="meta").to(device),
    "xla-autocast": lambda device: importlib.import_module("torch_xla.amp").autocast(device).__enter__(),
    "xla-scaler-removed": lambda device: importlib.import_module("torch_xla.amp").GradScaler,
    "removed-from-torch-xla": lambda device: importlib.import_module("torch_xla.core.xla_model").xrt_world_size,
    "pin-memory": lambda device: torch.ones(2, device=device).pin_memory(),
    "too-many-graphs": two_graphs,
    "cache-already-open": lambda device: importlib.import_module("torch_xla.runtime").initialize_cache("/tmp"),
}  # fmt: skip


def _saved() -> io.BytesIO:
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", list(TRIGGERS))
def test_the_error_is_explained(name: str, device: torch.device, capfd: Any) -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011, PT012
        TRIGGERS[name](device)
        torch_xla.sync()
    text = "".join(traceback.format_exception_only(raised.value))
    text += "".join(capfd.readouterr())
    names = [one.error.name for one in find(text.splitlines())]
    assert name in names, text


def test_a_checkpoint_of_a_gpu_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.load(_saved_on("cuda:0", monkeypatch))
    assert [one.error.name for one in find([str(raised.value)])] == ["cuda-checkpoint"]


def test_a_damaged_checkpoint_of_the_runtime_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(xla.CheckpointError) as raised:
        xla.load(path)
    found = find("".join(traceback.format_exception_only(raised.value)).splitlines())
    assert [one.error.name for one in found] == ["broken-checkpoint"]
