"""Scripts that start their own processes, and those that torchrun starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.verify.experiments.starting import starts_processes

LAUNCH = """
import torch.multiprocessing as mp

def launch(main, count, args=()):
    if count > 1:
        mp.start_processes(_worker, nprocs=count, args=(main, args))
    else:
        main(*args)

def get_rank():
    return 0
"""


JOIN = """
import torch.distributed as dist
import torch.multiprocessing as mp

def setup(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)

def worker(rank, size):
    setup(rank, size)

def run(size):
    for rank in range(size):
        mp.Process(target=worker, args=(rank, size)).start()

def read(queue):
    queue.get()

def count(queue):
    mp.Process(target=read, args=(queue,)).start()
"""


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder / "train.py"


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": "import torch.multiprocessing as mp\nmp.spawn(main, nprocs=2)\n"},
        {"train.py": "from engine import launch\nlaunch(main, 2)\n", "engine.py": LAUNCH},
        {"train.py": "import engine as comm\ncomm.launch(main, 2)\n", "engine.py": LAUNCH},
        {"train.py": "from .lib.engine import launch\nlaunch(main)\n", "lib/engine.py": LAUNCH},
        {
            "train.py": "from lib import run\nrun(main)\n",
            "lib/__init__.py": "from .start import run\n",
            "lib/start.py": "from .engine import launch\ndef run(f):\n    launch(f, 2)\n",
            "lib/engine.py": LAUNCH,
        },
        {"train.py": "from xla_migrate import runtime as xla\nxla.launch(main)\n"},
        {
            "train.py": "from engine import run\nrun(main)\n",
            "engine.py": "from xla_migrate import runtime as xla\ndef run(f):\n    xla.launch(f)\n",
        },
        {"train.py": JOIN + "run(2)\n"},
        {"train.py": "from engine import run\nrun(2)\n", "engine.py": JOIN},
        {
            "train.py": "import multiprocessing\nfrom engine import worker\n"
            "multiprocessing.get_context('spawn').Process(target=worker, args=(0, 1)).start()\n",
            "engine.py": JOIN,
        },
    ],
)
def test_scripts_that_start_their_own(tmp_path: Path, files: dict[str, str]) -> None:
    assert starts_processes(written(tmp_path, files), tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": "import torch\ntorch.distributed.init_process_group('nccl')\n"},
        {
            "train.py": "from engine import count, setup\nsetup(0, 1)\ncount([])\n",
            "engine.py": JOIN,
        },
        {"train.py": "from engine import get_rank\nget_rank()\n", "engine.py": LAUNCH},
        {
            "train.py": "import engine\ndef launch():\n    pass\nlaunch()\n",
            "engine.py": LAUNCH,
        },
        {"train.py": "from engine import launch\nlaunch(main\n", "engine.py": LAUNCH},  # no Python
        {"train.py": "launch(main, 2)\n", "engine.py": LAUNCH},  # another's
        {"train.py": "import engine as xla\nxla.launch(main)\n", "engine.py": "launch = print\n"},
    ],
)
def test_scripts_that_torchrun_starts(tmp_path: Path, files: dict[str, str]) -> None:
    assert not starts_processes(written(tmp_path, files), tmp_path)
