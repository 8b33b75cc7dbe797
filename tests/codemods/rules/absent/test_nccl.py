"""NCCL's own names: where a backend is asked for, the answer no is the right one."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check


@pytest.mark.parametrize(
    "test",
    [
        "self.backend == dist.Backend.NCCL",
        "dist.Backend.NCCL != self.backend",
        "self.backend in (dist.Backend.GLOO, dist.Backend.NCCL)",
        "torch.distributed.Backend.NCCL == kind",
        "kind is dist.Backend.NCCL",
    ],
)
def test_a_backend_that_is_asked_for_is_not_removed(test: str) -> None:
    source = (
        f"import torch\nimport torch.distributed as dist\ndef f(self, kind):\n    return {test}\n"
    )
    found = [f for f in check(source.encode()) if f.code == "XLA911"]
    assert all(f.severity != "error" for f in found)
    assert all("remove" not in f.message for f in found)
