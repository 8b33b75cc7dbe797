"""LocalSGD, and clipping: two replicas of accelerate on XLA train as two on the CPU, where DistributedDataParallel does it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from xla_migrate.runtime.compat.accelerate_buffers import share_buffers

from .. import rehearsal

pytest.importorskip("accelerate")

PATCHED = "from xla_migrate import runtime as xla\nxla.patch_accelerate()\n"
SCRIPT = """
import torch
from accelerate import Accelerator
from accelerate.local_sgd import LocalSGD
from accelerate.utils import set_seed

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.second(self.first(x).tanh())

accelerator = Accelerator()
x = torch.randn(44, 3, generator=torch.Generator().manual_seed(1))
rank = accelerator.process_index

def made(lr=0.1, seed=0):
    set_seed(seed)
    model = Two()
    model.register_buffer("shift", torch.randn(2))
    model.register_buffer("mask", torch.rand(4) > 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loader = torch.utils.data.DataLoader(x, batch_size=2)
    prepared = accelerator.prepare(model, optimizer, loader)
    assert prepared[1].param_groups[0]["params"][2] is accelerator.unwrap_model(prepared[0]).second.weight
    return prepared

def values(model):
    return [float(v) for p in model.parameters() for v in p.detach().cpu().flatten()]

def train(name, steps=3, window=1, enabled=True, clip=None, raises=None, batches=None, nested=False, after=0, part=False):
    accelerator.gradient_accumulation_steps = window
    accelerator.step = 0
    model, optimizer, loader = made()
    told = []
    def one(batch, local=None):
        with accelerator.accumulate(model):
            accelerator.backward((model(batch) ** 2).mean())
            if clip is not None and accelerator.sync_gradients:
                getattr(accelerator, "clip_grad_" + clip)(model.parameters(), 0.3)
            optimizer.step()
            optimizer.zero_grad()
            if local is not None:
                local.step()
        told.append(values(model))
    def loop():
        with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=steps, enabled=enabled) as local:
            for i, batch in enumerate(loader):
                if i == raises:
                    raise KeyError("sample")
                one(batch, local)
                if nested and i == 4:
                    with LocalSGD(accelerator, model, 100):
                        told.append(values(model))
                if i == batches:
                    break
        return local
    if raises is None:
        local = loop()
        report(name + " state", [bool(local.enabled), local.num_steps])
    else:
        try:
            loop()
        except KeyError as error:
            report(name + " raised", str(error))
    told.append(values(model))
    for i, batch in enumerate(loader):
        if i < after:
            one(batch)
    report(name, told)
"""
LEFT_OUT = """
def left_out(name, window=1, clips=False):
    accelerator.gradient_accumulation_steps = window
    accelerator.step = 0
    set_seed(0)
    model, other = Two(), Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    prepared = torch.optim.SGD(other.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(x, batch_size=2)
    model, other, prepared, loader = accelerator.prepare(model, other, prepared, loader)
    told = []
    for batch in loader:
        with accelerator.accumulate(model, other):
            accelerator.backward((model(batch) ** 2).mean() + (other(batch) - 1).abs().mean())
            if accelerator.sync_gradients:
                if clips:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
                optimizer.step()
                optimizer.zero_grad()
            prepared.step()
            prepared.zero_grad()
        told.append([values(model), values(other)])
    report(name, told)
left_out("not prepared")
left_out("not prepared, window", window=3)
left_out("not prepared, clipped", clips=True)
"""
CASES = """
train("plain", after=2)
train("window", window=3, after=3)
train("disabled", enabled=False)
train("clipped", clip="norm_")
train("clipped and disabled", clip="norm_", enabled=False)
train("values clipped", clip="value_", enabled=False)
train("raises", raises=4, after=2)
train("left early", batches=4, after=2)
train("nested", nested=True, after=1)
models = [made(seed=accelerator.process_index + 1)[0]]
report("started", [values(models[0]), [b.cpu().double().tolist() for b in models[0].buffers()]])
"""
SEVERAL = """
def pair(name, clip, local_one, first):
    models = [made(), made(0.05)]
    loader = models[0][2]
    told = []
    import contextlib
    context = LocalSGD(accelerator, models[0][0], 4) if local_one else contextlib.nullcontext()
    with context as local:
        for batch in loader:
            loss = sum((model(batch) ** 2).mean() for model, _, _ in models)
            accelerator.backward(loss)
            for model, optimizer, _ in (models if first else models[::-1]):
                if clip:
                    accelerator.clip_grad_norm_(model.parameters(), 0.3)
                optimizer.step()
                optimizer.zero_grad()
            if local is not None:
                local.step()
            told.append([values(model) for model, _, _ in models])
    report(name, told)
pair("one of two", False, True, True)
pair("one of two, the other first", False, True, False)
pair("both clipped", True, False, True)
pair("both clipped, in the other order", True, False, False)
"""


@functools.cache
def on_xla() -> list[dict[str, Any]]:
    return rehearsal.run(PATCHED + SCRIPT + CASES + SEVERAL + LEFT_OUT)


@functools.cache
def on_the_cpu() -> list[dict[str, Any]]:
    script = SCRIPT.replace("Accelerator()", "Accelerator(cpu=True)") + CASES + SEVERAL + LEFT_OUT
    return rehearsal.run(script, USE_TORCH_XLA="0", ACCELERATE_USE_CPU="1")


def flat(told: Any) -> list[float]:
    return [v for part in told for v in flat(part)] if isinstance(told, list) else [told]


@pytest.mark.e2e
def test_replicas_train_by_themselves_and_are_averaged_as_on_the_cpu() -> None:
    for rank, (expected, found) in enumerate(zip(on_the_cpu(), on_xla(), strict=True)):
        assert list(found) == list(expected)
        for name, told in expected.items():
            if isinstance(told, list) and "state" not in name:
                assert flat(found[name]) == pytest.approx(flat(told), rel=1e-4, abs=1e-6), (
                    rank,
                    name,
                )
            else:
                assert found[name] == told, (rank, name)


@pytest.mark.e2e
def test_they_differ_between_the_averages() -> None:
    """Else the comparison would say nothing. At the end they are averaged, and momentum is not."""
    first, second = on_xla()
    equal = [a == pytest.approx(b) for a, b in zip(first["plain"], second["plain"], strict=True)]
    assert equal == [*[False, False, True] * 3, False, False, True, False, False]


@pytest.mark.e2e
def test_one_process_has_nothing_to_average() -> None:
    (found,) = rehearsal.run(PATCHED + SCRIPT + 'train("alone", batches=6)', count=1)
    assert found["alone state"] == [False, 7]
    assert found["alone"][-1] != found["alone"][0]


def test_spmd_is_refused_for_it_has_one_model() -> None:
    script = """
import torch_xla.runtime as xr
xr.use_spmd()
from accelerate import Accelerator
from accelerate.local_sgd import LocalSGD
accelerator, model = Accelerator(), None
report("disabled", LocalSGD(accelerator, model, 8, enabled=False).enabled)
try:
    LocalSGD(accelerator, model, 8)
except NotImplementedError as error:
    report("refused", str(error))
"""
    (found,) = rehearsal.run(PATCHED + script, count=1, CPU_NUM_DEVICES="2")
    assert found["disabled"] is False
    assert "start a process per device" in found["refused"]


def test_only_buffers_that_changed_are_shared(device: torch.device) -> None:
    """A mask that stays is not sent; nor is anything behind a pass without gradients, as DistributedDataParallel does."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to(device)
    model.register_buffer("mask", torch.ones(2, device=device))
    accelerator = SimpleNamespace(sync_gradients=True)
    sent: list[int] = []
    share_buffers(model, accelerator, lambda buffers: sent.append(len(buffers)))
    x = torch.ones(3, 2, device=device)
    model(x)
    assert sent == []
    model(x)
    assert sent == [3]
    with torch.no_grad():
        model(x)
        model(x)
    assert sent == [3, 3]
    accelerator.sync_gradients = False
    model(x)
    model(x)
    accelerator.sync_gradients = True
    model(x)
    assert sent == [3, 3]
    model(x)
    assert sent == [3, 3, 3]
