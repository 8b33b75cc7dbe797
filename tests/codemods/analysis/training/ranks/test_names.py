"""Names that hold a rank without saying so."""

from __future__ import annotations

import pytest

from ....helpers import findings

SCRIPT = """
import os, torch
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(gpu, args):
    dist.init_process_group("nccl", rank=gpu, world_size=2)
    {before}
    inner({handed})
    if {test}:
        dist.all_reduce(x)

def inner(which):
    if which == 0:
        dist.barrier()

mp.spawn(worker, nprocs=2, args=(1,))
"""


def reported(test: str, before: str = "pass", handed: str = "1") -> list[int]:
    source = SCRIPT.format(test=test, before=before, handed=handed)
    return [line for line, code in findings(source) if code == "XLA606"]


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("pass", "gpu == 0"),
        ("args.gpu = gpu", "args.gpu == 0"),
        ('local = int(os.environ["LOCAL_RANK"])', "not local"),
        ('local = int(os.environ.get("SLURM_LOCALID", 0))', "local == 0"),
        ('card = int(os.getenv("OMPI_COMM_WORLD_LOCAL_RANK", "0"))', "card in (0, -1)"),
        ("args.rank, args.gpu = 0, 0; args.gpu = args.rank % n", "args.gpu == 0"),
        ("index = gpu", "index != 0"),
    ],
)
def test_what_holds_a_rank(before: str, test: str) -> None:
    assert reported(test, before) == [11]


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("chosen = args.device", "chosen == 0"),
        ("i = 3", "i == 0"),
        ("args.gpu = args.gpus[0]", "args.gpu == 0"),
        ("pass", "args.gpu == 0"),
        ("count = int(os.environ['WORLD_SIZE'])", "count == 0"),
        ("for step in loader: pass", "step == 0"),
        ("gpu = pick()", "gpu == 0"),
    ],
)
def test_what_does_not(before: str, test: str) -> None:
    assert reported(test, before) == []


def test_what_is_handed_on() -> None:
    assert reported("True", handed="gpu") == [15]
    assert reported("True", handed="args.chosen") == []


def test_what_is_passed_to_a_constructor() -> None:
    trainer = """
class Trainer:
    def __init__(self, model, card):
        self.card = card

    def step(self, x):
        if self.card == 0:
            dist.all_reduce(x)
"""
    source = SCRIPT.format(test="True", before="trainer = Trainer(1, {})", handed="1") + trainer
    assert [line for line, code in findings(source.format("gpu")) if code == "XLA606"] == [25]
    assert [line for line, code in findings(source.format("3")) if code == "XLA606"] == []
