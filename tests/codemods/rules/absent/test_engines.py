"""Libraries that end the attempt are named once per file, whatever else can be migrated."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ...helpers import findings, migrated


@pytest.mark.parametrize(
    "imported",
    [
        "import dgl",
        "import dgl.nn as dglnn",
        "from dgl.nn import GraphConv",
        "import isaacgym",
        "from isaacgym import gymapi",
        "import isaacgymenvs",
        "from omni.isaac.kit import SimulationApp",
        "from detectron2.engine import launch",
        "from detectron2.engine.launch import launch",
        "from torchtitan.distributed import ParallelDims",
        "from torchtitan.parallelisms import parallelize_llama",
        "from torch_scatter import scatter_add",
        "import MinkowskiEngine as ME",
        "import tinycudann as tcnn",
    ],
)
def test_what_ends_the_attempt_is_said_at_its_import(imported: str) -> None:
    source = f"{imported}\nimport torch\nx = torch.zeros(2).cuda()\n"
    result = migrate(source.encode())
    assert "xla.xla_device()" in result.data.decode()
    assert [(f.line, f.code, f.severity) for f in result.left] == [(1, "XLA915", "error")]


def test_it_is_said_once_per_file_and_library() -> None:
    source = """
        import dgl
        from dgl.nn import GraphConv
        import isaacgym
        def f():
            import dgl.function as fn
            from isaacgym import gymtorch
        """
    assert findings(source) == [(2, "XLA915"), (4, "XLA915")]


@pytest.mark.parametrize(
    "source",
    [
        "from detectron2.config import get_cfg",
        "from detectron2.engine import DefaultTrainer",
        "from torchtitan.datasets import build_loader",
        "from .dgl import graph",
        "import dglgo",
    ],
)
def test_their_other_parts_and_other_names_are_no_finding(source: str) -> None:
    assert findings(source) == []


@pytest.mark.parametrize(
    "call",
    [
        "mp.start_processes(f, nprocs=4)",
        "mp.start_processes(f, (1,), 4, True, False, 'spawn')",
        "mp.start_processes(f, args=(1,), nprocs=4, start_method='spawn')",
        "torch.multiprocessing.start_processes(f, nprocs=torch.cuda.device_count())",
        "context = mp.start_processes(f, nprocs=4, join=False)",
    ],
)
def test_processes_that_are_started_for_devices_are_launched(call: str) -> None:
    source = f"import torch\nimport torch.multiprocessing as mp\n{call}\n"
    assert "xla.launch(f" in migrated(source)


@pytest.mark.parametrize(
    "rest", ["start_method='fork'", "start_method=args.method", "log_prefix='x'", "**options"]
)
def test_forked_ones_and_other_options_are_left_to_a_person(rest: str) -> None:
    source = f"import torch.multiprocessing as mp\nmp.start_processes(f, nprocs=4, {rest})\n"
    assert findings(source) == [(2, "XLA604")]


@pytest.mark.parametrize(
    "call",
    [
        "nn.parallel.replicate(m, [0, 1])",
        "torch.nn.parallel.scatter(x, [0, 1])",
        "nn.parallel.parallel_apply(ms, xs)",
        "nn.parallel._functions.Scatter.apply([0, 1], None, 0, x)",
        "nn.parallel.gather(ys, 0)",
        "torch.nn.parallel.scatter_gather.scatter_kwargs(x, k, [0])",
    ],
)
def test_the_pieces_of_data_parallel_are_found(call: str) -> None:
    source = f"import torch\nimport torch.nn as nn\ny = {call}\n"
    assert findings(source) == [(3, "XLA605")]


def test_it_is_said_first() -> None:
    source = "import torch\nx = torch.ones(2).cuda()\nimport dgl\n"
    assert [f.code for f in check(source.encode())] == ["XLA915", "XLA101"]
    optional = "import torch\nx = torch.ones(2).cuda()\ntry:\n    import dgl\nexcept ImportError:\n    dgl = None\n"
    assert [f.code for f in check(optional.encode())] == ["XLA101", "XLA915"]
