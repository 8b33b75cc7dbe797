"""Waiting for the device, and where it is CUDA's kernels that are waited for."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("test", "stays"),
    [
        ("if x.is_cuda and HAS_CUPY:\n    y = cupy.asarray(x)", True),
        ("fast = HAS_CUPY and x.device.type == 'cuda'\nif fast:\n    y = cupy.asarray(x)", True),
        ("use_triton = torch.cuda.is_available()\nif use_triton:\n    kernel(x)", True),
        ("if torch.cuda.is_available():\n    y = flash_attn_func(x)", True),
        ("fast = ready and x.device.type == 'cuda'\nif fast:\n    y = cupy.asarray(x)", True),
        ("fast = x.is_cuda\nif fast and big:\n    y = cupy.asarray(x)", True),
        ("if torch.cuda.is_available() and timed:\n    print(1)", False),
        ("timed = torch.cuda.is_available()\nif timed:\n    print(1)", False),
    ],
)
def test_a_wait_for_kernels_stays_with_them(test: str, stays: bool) -> None:
    after = line(f"{test}\n    torch.cuda.synchronize()")
    assert ("torch.cuda.synchronize()" in after) is stays


@pytest.mark.parametrize(
    ("source", "stays"),
    [
        ("if x.is_cuda:\n    torch.cuda.current_stream(x.device).synchronize()", True),
        ("if x.device.type == 'cuda':\n    torch.cuda.current_stream().synchronize()", True),
        ("if torch.cuda.is_available():\n    torch.cuda.default_stream().synchronize()", True),
        ("if x[0].is_cuda:\n    torch.cuda.current_stream(x[0].device).synchronize()", True),
        ("if x.is_cuda and fresh:\n    torch.cuda.current_stream().synchronize()", True),
        ("if x.is_cuda:\n    torch.cuda.synchronize()", False),
        ("if x.is_cuda:\n    torch.cuda.current_stream().synchronize()\n    y = x.cuda()", False),
    ],
)
def test_an_order_between_streams_is_cudas_affair(source: str, stays: bool) -> None:
    assert (line(source) == source) is stays
    if stays:
        assert codes(source) == []


def test_a_wait_stays_where_a_person_decides_on_the_test() -> None:
    source = (
        "import torch\nfrom lib import optional, to_cupy\n\ndef transform(x, y):\n    edt, found = optional('cucim', 'cupy')\n"
        "    fast = found and x.device.type == 'cuda'\n    if fast:\n        edt(to_cupy(x))\n        torch.cuda.synchronize()\n"
        "    return y\n"
    )
    assert migrated(source) == source


STEP = """import time
import torch

def train(model, batches, optimizer, args, timer):
    for i, x in enumerate(batches):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        LINE
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("torch.cuda.synchronize()", ""),
        ("torch.cuda.synchronize(torch.cuda.current_device())", ""),
        ("torch.cuda.synchronize(); print(i)", "print(i)"),
        ("if i % 10 == 0: torch.cuda.synchronize()", "if i % 10 == 0: xla.synchronize()"),
        ("torch.cuda.synchronize(); now = time.time()", "xla.synchronize(); now = time.time()"),
        ("torch.cuda.synchronize(); timer.tick()", "xla.synchronize(); timer.tick()"),
        (
            "torch.cuda.synchronize(); args.epoch_time += i",
            "xla.synchronize(); args.epoch_time += i",
        ),
    ],
)
def test_a_wait_in_every_step_goes_where_no_clock_is_read(line: str, after: str) -> None:
    body = migrated(STEP.replace("LINE", line)).partition("xla.optimizer_step(optimizer)\n")[2]
    assert body.strip() == after


def test_a_wait_that_is_handed_on_or_behind_the_loop_stays() -> None:
    source = STEP.replace("LINE", "pass") + "    torch.cuda.synchronize()\n"
    assert migrated(source).endswith("\n    xla.synchronize()\n")


@pytest.mark.parametrize(
    ("copy", "stays"),
    [
        ('host = x.cuda().to("cpu", non_blocking=True)', True),
        ("buffer.copy_(loss, non_blocking=True)", True),
        ("buffer.copy_(loss, True)", True),
        ('host = x.cuda().to("cpu", non_blocking=False)', False),
        ('y = x.to("cuda", non_blocking=True)', False),
        ("buffer.copy_(loss)", False),
    ],
)
def test_a_wait_for_a_copy_to_the_host_stays(copy: str, stays: bool) -> None:
    source = STEP.replace("import time\n", "").replace(", timer", "")
    after = migrated(source.replace("LINE", f"{copy}; torch.cuda.synchronize()"))
    assert ("xla.synchronize()" in after) is stays


@pytest.mark.parametrize(("around", "stays"), [("main", False), ("train", True)])
def test_a_clock_around_all_steps_measures_none_of_them(around: str, stays: bool) -> None:
    clock = {"main": "pass", "train": "pass", around: "start = time.time()"}
    source = f"""
import time
import torch

def train(model, batches, optimizer):
    {clock["train"]}
    for x in batches:
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()

def main(model, batches, optimizer):
    {clock["main"]}
    train(model, batches, optimizer)
    print("done")
"""
    assert ("xla.synchronize()" in migrated(source)) is stays


@pytest.mark.parametrize(
    ("name", "stays"), [("sync_device", True), ("deviceSynchronize", True), ("async_step", False)]
)
def test_a_function_that_synchronises_for_its_callers_keeps_its_call(
    name: str, stays: bool
) -> None:
    source = """
        import torch

        def sync_device(serial, device):
            if not serial:
                torch.cuda.synchronize(device)

        def train(model, batches, optimizer, device):
            for x in batches:
                model(x.to(device)).mean().backward()
                optimizer.step()
                sync_device(False, device)
        """
    done = migrated(source.replace("sync_device", name))
    assert ("xla.synchronize(device)" in done) is stays
