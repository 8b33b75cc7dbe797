"""Environment variables that no XLA host has."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

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


@pytest.mark.parametrize(
    "line",
    [
        'env = dict(os.environ, CUDA_VISIBLE_DEVICES="1")',
        'env = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}',
        'env = os.environ.copy(); env["CUDA_VISIBLE_DEVICES"] = "1"',
        'env = dict(os.environ); env["CUDA_VISIBLE_DEVICES"] = "1"',
        'env = os.environ.copy(); env.update(CUDA_VISIBLE_DEVICES="1")',
        'os.environ.update(CUDA_VISIBLE_DEVICES="1")',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": "1", "HOME": "/"})',
    ],
)
def test_what_a_process_is_given(line: str) -> None:
    assert findings(f"import os\n{line}\n") == [(2, "XLA912")]


@pytest.mark.parametrize(
    "line",
    [
        'env = {"CUDA_VISIBLE_DEVICES": "1"}',
        'env = dict(CUDA_VISIBLE_DEVICES="1")',
        'env = dict(os.environ, HOME="/")',
        'env = os.environ.copy(); other["CUDA_VISIBLE_DEVICES"] = "1"',
    ],
)
def test_other_dicts_are_none_of_our_business(line: str) -> None:
    assert findings(f"import os\nother = {{}}\n{line}\n") == []


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "-1"', True),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = ""', True),
        ('os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")', True),
        ('env = dict(os.environ, CUDA_VISIBLE_DEVICES="")', True),
        ('env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}', True),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"', False),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = gpus', False),
    ],
)
def test_devices_that_are_hidden(line: str, hidden: bool) -> None:
    (found,) = check(f"import os\n{line}\n".encode())
    assert ("hides no XLA device" in found.message) is hidden
