"""Waiting for the device, and where it is CUDA's kernels that are waited for."""

from __future__ import annotations

import pytest

from ..lines import line


@pytest.mark.parametrize(
    ("test", "stays"),
    [
        ("if x.is_cuda and HAS_CUPY:\n    y = cupy.asarray(x)", True),
        ("fast = HAS_CUPY and x.device.type == 'cuda'\nif fast:\n    y = cupy.asarray(x)", True),
        ("use_triton = torch.cuda.is_available()\nif use_triton:\n    kernel(x)", True),
        ("if torch.cuda.is_available():\n    y = flash_attn_func(x)", True),
        ("fast = x.is_cuda\nif fast and big:\n    y = cupy.asarray(x)", False),
        ("if torch.cuda.is_available() and timed:\n    print(1)", False),
        ("timed = torch.cuda.is_available()\nif timed:\n    print(1)", False),
    ],
)
def test_a_wait_for_kernels_stays_with_them(test: str, stays: bool) -> None:
    after = line(f"{test}\n    torch.cuda.synchronize()")
    assert ("torch.cuda.synchronize()" in after) is stays
