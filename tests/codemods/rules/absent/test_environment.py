"""Environment variables that no XLA host has."""

from __future__ import annotations

import pytest

from ...helpers import findings


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('n = int(os.environ["SM_NUM_GPUS"])', True),
        ('n = os.environ.get("SM_NUM_GPUS", "0")', True),
        ('n = os.getenv("SLURM_GPUS_ON_NODE")', True),
        ('n = os.environ["SM_NUM_NEURONS"]', False),
        ('n = os.environ["SLURM_NTASKS"]', False),
        ('n = settings["SM_NUM_GPUS"]', False),
    ],
)
def test_counts_of_gpus(line: str, found: bool) -> None:
    source = f"import os\nimport torch\n{line}\nuse_cuda = torch.cuda.is_available()\n"
    assert ((3, "XLA912") in findings(source)) is found
