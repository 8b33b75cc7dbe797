"""The default backend of a device, which torch does not know of XLA devices."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated
from ..lines import codes

HEAD = "import torch\nimport torch.distributed as dist\n"


def test_a_backend_that_is_printed_is_left_to_a_person() -> None:
    source = f"{HEAD}backend = dist.get_default_backend_for_device(device)\nprint(backend)\ndist.init_process_group(backend=backend)\n"
    assert (3, "XLA601") in findings(source)
    assert "get_default_backend_for_device(device)" in migrated(source)


def test_a_backend_that_is_handed_on_is_the_runtimes() -> None:
    source = f"{HEAD}dist.init_process_group(dist.get_default_backend_for_device(device))\n"
    assert migrated(source).endswith("xla.init_process_group(None)\n")


def test_a_loader_that_fabric_shards_is_no_finding() -> None:
    source = """import lightning as L
from torch.utils.data import DataLoader
fabric = L.Fabric()
fabric.launch()
loader = fabric.setup_dataloaders(DataLoader(data, batch_size=2))
"""
    assert "XLA607" not in [code for _, code in findings(source)]


def test_a_function_of_ones_own_that_is_called_launch_starts_no_replicas() -> None:
    source = "from torch.utils.data import DataLoader\ndef launch(d):\n    return DataLoader(d, batch_size=2)\nlaunch([])\n"
    assert "XLA607" not in [code for _, code in findings(source)]
    source = "from torch.utils.data import DataLoader\nfrom xla_migrate import runtime as xla\nx = DataLoader(d)\nxla.launch(f)\n"
    assert "XLA607" in [code for _, code in findings(source)]


def test_each_collective_is_told_what_it_does() -> None:
    calls = (
        "dist.barrier()\ndist.new_group([0])\ndist.all_gather_object(a, b)\ndist.all_reduce(x)\n"
    )
    told = [f.message for f in check((HEAD + calls).encode()) if f.code == "XLA602"]
    assert ["may leave XLA tensors unchanged" in text for text in told] == [
        False,
        False,
        False,
        True,
    ]
    assert [text.split("`")[1] for text in told] == [
        "barrier",
        "new_group",
        "all_gather_object",
        "all_reduce",
    ]


@pytest.mark.parametrize(
    "data",
    [
        "DataPartitioner(data).use(rank)",
        "Subset(data, range(rank, len(data), n))",
        "data[args.rank :: n]",
    ],
)
def test_data_that_the_script_deals_out_itself_is_no_finding(data: str) -> None:
    source = f"from torch.utils.data import DataLoader, Subset\nfrom xla_migrate import runtime as xla\nloader = DataLoader({data})\nxla.launch(f)\n"
    assert "XLA607" not in [code for _, code in findings(source)]


def test_a_monitored_barrier_is_a_barrier_unless_it_is_one_of_a_group() -> None:
    source = f"{HEAD}dist.monitored_barrier(timeout=t, wait_all_ranks=True)\n"
    assert migrated(source).endswith("\nxla.barrier()\n")
    source = f"{HEAD}dist.monitored_barrier(group=on_the_host)\n"
    assert "XLA602" not in [code for _, code in findings(source)]


def test_backends_of_tests_stay() -> None:
    assert findings(f'{HEAD}dist.init_process_group("fake", rank=0, world_size=2)\n') == []


def test_what_chooses_tests_for_nccl_stays() -> None:
    source = "def requires_nccl():\n    return skip_if(not dist.is_nccl_available())"
    assert "XLA608" not in codes(f"import torch.distributed as dist\n{source}")
    assert "XLA608" in codes("import torch.distributed as dist\nuse = dist.is_nccl_available()")


def test_a_process_beside_this_one_is_no_replica() -> None:
    head = "import torch.multiprocessing as mp\n"
    assert "XLA604" not in codes(f"{head}p = mp.spawn(f, (1,), nprocs=1, join=False)")
    assert "XLA604" in codes(f"{head}mp.spawn(f, (1,), nprocs=2, join=False)")
    assert "XLA604" in codes(f"{head}mp.spawn(f, (1,))")


BACKENDS = "import torch.distributed as dist\nfrom torch.distributed import Backend\ndef f(x, args, gloo):\n    {}\n"


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("return dist.get_backend() == 'nccl'", 'not in ("gloo", "mpi")'),
        ("return 'nccl' != dist.get_backend()", 'in ("gloo", "mpi")'),
        ("return dist.get_backend() == Backend.NCCL", 'not in ("gloo", "mpi")'),
        ("return dist.get_backend() is not dist.Backend.NCCL", 'in ("gloo", "mpi")'),
        ("return dist.get_backend() in ['nccl']", 'not in ("gloo", "mpi")'),
        ("b = dist.get_backend()\n    return b == 'nccl' or b not in {'nccl'}", 'not in ("gloo", "mpi")'),
        ("return str(dist.get_backend()).lower() == 'nccl'", 'not in ("gloo", "mpi")'),
        # Nothing that is sure to mean the same:
        ("return (b := dist.get_backend()) == 'nccl', b", ""),
        ("b = dist.get_backend()\n    if x: b = 'gloo'\n    return b == 'nccl'", ""),
        ("match dist.get_backend():\n        case 'nccl': return 1", ""),
        ("return dist.get_backend().startswith('nccl')", ""),
        ("return {'nccl': 1, 'gloo': 2}[dist.get_backend()]", ""),
        ("return 'nccl' in dist.get_backend()", ""),
    ],
)  # fmt: skip
def test_the_name_of_the_groups_backend(asked: str, becomes: str) -> None:
    source = BACKENDS.format(asked)
    assert "XLA608" in codes(source)
    result = migrated(source)
    if becomes:
        assert becomes in result
        assert "XLA608" not in codes(result)
    else:
        assert result == source


@pytest.mark.parametrize(
    "asked",
    [
        "return dist.get_backend() == 'gloo'",
        "return dist.get_backend(gloo) == 'nccl'",
        "print(dist.get_backend())",
        "b = dist.get_backend()\n    print(f'{b}')",
    ],
)
def test_what_means_the_same_on_xla(asked: str) -> None:
    assert "XLA608" not in codes(BACKENDS.format(asked))
