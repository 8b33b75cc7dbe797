"""What is asked together with bfloat16: what says nothing of an XLA host is dropped, the rest is kept."""

from __future__ import annotations

import pytest

from ...helpers import migrated

HEAD = """import torch
import torch.distributed as dist
import torch.cuda.nccl as nccl
from packaging import version
"""


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        ("torch.version.cuda and torch.cuda.is_bf16_supported()", "xla.is_bf16_supported()"),
        ("wanted and torch.cuda.is_bf16_supported() and dist.is_nccl_available()", "wanted and xla.is_bf16_supported()"),
        ("torch.cuda.is_bf16_supported() and nccl.version() >= (2, 10)", "xla.is_bf16_supported()"),
        (
            "version.parse(torch.version.cuda).release >= (11, 0) and torch.cuda.is_bf16_supported()",
            "xla.is_bf16_supported()",
        ),
        (
            "version.parse(torch.version.cuda) >= version.parse('11.0') and torch.cuda.is_bf16_supported()",
            "xla.is_bf16_supported()",
        ),
        # Of torch's version, and of other things, the answer counts.
        (
            "version.parse(torch.__version__) >= version.parse('2.0') and torch.cuda.is_bf16_supported()",
            "version.parse(torch.__version__) >= version.parse('2.0') and xla.is_bf16_supported()",
        ),
        ("nccl.version() >= minimum() and torch.cuda.is_bf16_supported()", "nccl.version() >= minimum() and xla.is_bf16_supported()"),
        ("dist.is_nccl_available() or torch.cuda.is_bf16_supported()", "xla.is_available() or xla.is_bf16_supported()"),
    ],
)  # fmt: skip
def test_versions_asked_with_bfloat16(asked: str, after: str) -> None:
    assert (
        f"    return {after}"
        in migrated(f"{HEAD}\ndef ready(wanted):\n    return {asked}\n").splitlines()
    )
