"""Assertions that the process group has the backend which was asked for: they fail on XLA, and go."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import codes

HEAD = "import torch.distributed as dist\n\ndef f(x, args, group):\n"
ASSERTIONS = [
    "assert dist.get_backend() == args.backend",
    "assert args.backend == dist.get_backend(), 'wrong backend'",
    "assert dist.get_backend(group) == args.backend",
    "assert dist.get_backend() in ('nccl', 'gloo')",
    "assert str(dist.get_backend()).lower() == args.backend",
    "if dist.get_backend() != args.backend:\n        raise RuntimeError('wrong backend')",
    "if args.backend != dist.get_backend():\n        raise ValueError",
    "if dist.get_backend() not in ('nccl', args.backend):\n        raise ValueError",
    "if dist.is_initialized() and dist.get_backend() != args.backend:\n        raise ValueError",
    "assert not dist.is_initialized() or dist.get_backend() == args.backend",
]


@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_an_assertion_goes(assertion: str) -> None:
    result = migrated(f"{HEAD}    {assertion}\n    return dist.get_rank()\n")
    assert result == f"{HEAD}    return dist.get_rank()\n"


@pytest.mark.parametrize("assertion", ASSERTIONS)
def test_where_nothing_else_stands_there(assertion: str) -> None:
    result = migrated(f"{HEAD}    {assertion}\n")
    assert "get_backend" not in result
    compile(result, "it", "exec")


@pytest.mark.parametrize(
    ("before", "then"),
    [
        ("assert x and dist.get_backend() == args.backend", "assert x\n"),
        ("assert dist.get_backend() == args.backend and len(x) > 1", "assert len(x) > 1\n"),
        ("if x or dist.get_backend() != args.backend:\n        raise ValueError", "if x:\n"),
        ("b = dist.get_backend()\n    assert args.backend == b\n    return b", "    b = dist.get_backend()\n    return b\n"),
    ],
)  # fmt: skip
def test_the_rest_of_a_test_stays(before: str, then: str) -> None:
    assert then in migrated(f"{HEAD}    {before}\n")


@pytest.mark.parametrize(
    "source",
    [
        "if dist.get_backend() == args.backend:\n        x = x.cpu()",
        "if dist.get_backend() != args.backend:\n        x = x.cpu()\n        raise ValueError",
        "if dist.get_backend() != args.backend:\n        raise ValueError\n    else:\n        x = x.cpu()",
        "assert dist.get_backend() != args.backend",
        "x = 1 if dist.get_backend() == args.backend else 2",
        "while dist.get_backend() != args.backend:\n        x = x.cpu()",
        "assert x.pop() or dist.get_backend() == args.backend",
    ],
)
def test_what_may_mean_more_is_left_and_told(source: str) -> None:
    assert migrated(f"{HEAD}    {source}\n") == f"{HEAD}    {source}\n"
    assert "XLA608" in codes(f"{HEAD}    {source}\n")


def test_one_that_knows_the_group_is_the_hosts_stays() -> None:
    source = f"{HEAD}    assert dist.get_backend() == 'gloo'\n"
    assert migrated(source) == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('dist.get_backend() == "nccl"', 'dist.get_backend() not in ("gloo", "mpi")'),
        ('dist.get_backend() != "nccl"', 'dist.get_backend() in ("gloo", "mpi")'),
        ('"nccl" == dist.get_backend(group)', 'dist.get_backend(group) not in ("gloo", "mpi")'),
        ("dist.get_backend() == dist.Backend.NCCL", 'dist.get_backend() not in ("gloo", "mpi")'),
        ('str(dist.get_backend()).upper() == "NCCL"', 'str(dist.get_backend()).upper() not in ("GLOO", "MPI")'),
        ('dist.get_backend() in {"nccl"}', 'dist.get_backend() not in ("gloo", "mpi")'),
        ('not (dist.get_backend() == "nccl")', 'dist.get_backend() in ("gloo", "mpi")'),
    ],
)  # fmt: skip
def test_a_group_of_the_hosts_answers_as_on_cuda(before: str, after: str) -> None:
    """A group of gloo's on a CUDA machine sends tensors of the host, as it did."""
    assert f"if {after}:" in migrated(f"{HEAD}    if {before}:\n        x = x.cpu()\n")


def test_the_name_of_the_backend_is_asked() -> None:
    source = f"{HEAD}    b = dist.get_backend()\n    return x if b == 'nccl' else x.cpu()\n"
    assert 'return x if b not in ("gloo", "mpi") else x.cpu()' in migrated(source)
