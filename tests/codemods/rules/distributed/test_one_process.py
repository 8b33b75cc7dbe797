"""What means something else in one SPMD process, in scripts for DDP and for FSDP."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

SPMD = Options(parallel="spmd")
SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def main(args, dataset, val_dataset, world_size, local_rank, ngpus_per_node):
    dist.init_process_group("nccl")
    model = DDP(nn.Linear(2, 1).cuda())
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    BEFORE
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        AFTER

if __name__ == "__main__":
    main()
"""


def written(before: str = "pass", after: str = "pass", loss: str = "") -> str:
    text = SCRIPT.replace("BEFORE", before).replace("AFTER", after)
    return (
        text.replace("        loss = F.mse_loss(model(x), y)", f"        {loss}") if loss else text
    )


def judged(source: str, options: Options = SPMD) -> tuple[str, list[str]]:
    """The migrated text, and the severities of what XLA613 leaves."""
    result = migrate(source.encode(), options)
    again = migrate(result.data, options)
    assert again.data == result.data, "a second run changes something"
    return result.data.decode(), [f.severity for f in result.left if f.code == "XLA613"]


DEVICES = "xla.data_parallel_size()"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lr = args.lr * world_size", f"lr = args.lr * {DEVICES}"),
        ("args.lr *= dist.get_world_size()", f"args.lr *= {DEVICES}"),
        ("lr = 0.1 * args.world_size", f"lr = 0.1 * {DEVICES}"),
        (
            "lr = args.base_lr * args.batch_size * dist.get_world_size() / 256",
            f"lr = args.base_lr * args.batch_size * {DEVICES} / 256",
        ),
        ("bs = args.batch_size // world_size", f"bs = args.batch_size // {DEVICES}"),
        (
            "bs = int(args.batch_size / ngpus_per_node)",
            f"bs = int(args.batch_size / {DEVICES})",
        ),
        (
            'bs = args.global_batch_size // int(os.environ["WORLD_SIZE"])',
            f"bs = args.global_batch_size // {DEVICES}",
        ),
        ("accumulation_steps //= world_size", f"accumulation_steps //= {DEVICES}"),
        (
            "steps = len(dataset) // (args.batch_size * world_size)",
            f"steps = len(dataset) // (args.batch_size * {DEVICES})",
        ),
        (
            "tokens_per_iter = accum * world_size * args.batch_size * 1024",
            f"tokens_per_iter = accum * {DEVICES} * args.batch_size * 1024",
        ),
        (
            "n = float(dist.get_world_size()); bsz = int(16 / n)",
            f"n = float(dist.get_world_size()); bsz = int(16 / {DEVICES})",
        ),
        ("warmup = args.warmup_steps // world_size", f"warmup = args.warmup_steps // {DEVICES}"),
        (
            "schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, steps_per_epoch=len(loader))",
            "schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, "
            "steps_per_epoch=len(xla.MpDeviceLoader(loader)))",
        ),
    ],
)
def test_what_is_chosen_counts_devices(line: str, expected: str) -> None:
    text, left = judged(written(before=line))
    assert expected in text
    assert not left
    plain = migrate(written(before=line).encode()).data.decode()
    assert "data_parallel_size" not in plain, "several processes are what the script means"
    assert "len(xla." not in plain


@pytest.mark.parametrize(
    "line",
    [
        "loss = loss.detach(); dist.all_reduce(loss); loss /= world_size; print(loss)",
        "total = loss.item() * world_size",
        "mean = reduced / dist.get_world_size()",
        "seen += x.size(0) * world_size",
        "seen += len(x) * world_size",
        "acc1 = correct * 100 / world_size",
        "size = 1.0 / world_size",
        "workers = args.workers // ngpus_per_node",
        "rank = args.node_rank * ngpus_per_node + local_rank",
        "world_size = ngpus_per_node * args.world_size",
        "print(world_size > 1, world_size - 1)",
        "grad /= world_size",
        "print(len(sampler))",
        "rest = range(len(sampler) * args.world_size, len(dataset))",
        "objects = [None] * dist.get_world_size()",
        "parts = [torch.zeros_like(x) for _ in range(2)] * world_size",
    ],
)
def test_what_was_summed_up_is_divided_by_one(line: str) -> None:
    text, left = judged(written(after=line))
    assert "data_parallel_size" not in text
    assert not left


@pytest.mark.parametrize(
    "line",
    [
        "queue = args.queue * world_size",
        "n = args.things // world_size",
        "n = args.bs * ngpus_per_node",
        "steps = len(sampler) // args.batch_size",
    ],
)
def test_what_cannot_be_told_is_left(line: str) -> None:
    text, left = judged(written(before=line))
    assert "data_parallel_size" not in text
    assert left == ["warning"]


@pytest.mark.parametrize(
    "loss",
    [
        'loss = F.mse_loss(model(x), y, reduction="sum")',
        'loss = F.mse_loss(model(x), y, reduction="sum") / args.batch_size',
        "loss = F.mse_loss(model(x), y, size_average=False)",
        "loss = (model(x) - y).pow(2).sum()",
        "loss = torch.sum((model(x) - y) ** 2)",
        "loss = F.mse_loss(model(x), y) * world_size",
        "loss = F.mse_loss(model(x), y); loss = loss / world_size",
    ],
)
def test_losses_that_add_up_or_are_scaled_are_errors(loss: str) -> None:
    assert judged(written(loss=loss))[1] == ["error"]
    assert judged(written(loss=loss), Options())[1] == []


@pytest.mark.parametrize(
    "loss",
    [
        'loss = F.mse_loss(model(x), y, reduction="sum") / x.size(0)',
        "loss = ((model(x) - y) ** 2 * m).sum() / m.sum()",
        "loss = F.mse_loss(model(x), y); n = (y > 0).sum()",
    ],
)
def test_means_are_means(loss: str) -> None:
    assert judged(written(loss=loss))[1] == []


def test_sums_of_an_evaluation_are_figures() -> None:
    source = SCRIPT.replace("BEFORE", "pass").replace("AFTER", "pass") + textwrap.dedent("""
        def test(model, loader):
            total = 0
            for x, y in loader:
                total += F.mse_loss(model(x.cuda()), y.cuda(), reduction="sum").item()
            return total / len(loader.dataset)
    """)
    assert judged(source)[1] == []


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            "class GatherLayer(torch.autograd.Function):\n"
            "    def forward(ctx, x):\n"
            "        dist.all_gather(out, x)\n",
            ["warning"],
        ),
        ("def clip_loss(x):\n    dist.all_gather(out, x)\n", ["warning"]),
        ("@torch.no_grad()\ndef features(x):\n    dist.all_gather(out, x)\n", []),
        ("import torch.distributed.nn\ndef loss(x):\n    torch.distributed.nn.all_gather(x)\n", []),
        ("def gather_metrics(x):\n    dist.all_gather(out, x)\n", []),
    ],
)
def test_losses_over_gathered_features_take_all_gradients(
    function: str, expected: list[str]
) -> None:
    assert judged(f"{written()}\n{function}")[1] == expected


def test_batches_from_nowhere_are_an_error() -> None:
    """As nanoGPT's: nothing would put them together, and each step would take one device's."""
    source = written().replace("for x, y in loader:", "while True:\n        x, y = get_batch()")
    assert judged(source)[1] == ["error"]
    assert judged(written())[1] == []
    prefetched = source.replace("BEFORE", "pass") + "\nbatches = iter(xla.MpDeviceLoader(loader))\n"
    prefetched = "from xla_migrate import runtime as xla\n" + prefetched
    assert judged(prefetched)[1] == []


def test_a_module_of_a_program_for_several_processes_is_judged_alike() -> None:
    files = {
        "main.py": b"from lib import scaled\nfrom torch.nn.parallel import DistributedDataParallel\n"
        b"import torch\nloss.backward()\n",
        "lib.py": b"import torch\ndef scaled(args, world_size):\n"
        b"    return torch.optim.SGD([], lr=args.lr * world_size)\n",
    }
    project = Project(Modules(files), "lib.py")
    found = [f for f in check(files["lib.py"], SPMD, project=project) if f.code == "XLA613"]
    assert len(found) == 1
    assert not [f for f in check(files["lib.py"], SPMD) if f.code == "XLA613"]


def test_a_script_for_fsdp_is_rewritten_alike() -> None:
    source = (
        written(before="lr = args.lr * world_size; total = args.epochs * len(loader)")
        .replace(
            "torch.nn.parallel import DistributedDataParallel as DDP",
            "torch.distributed.fsdp import fully_shard",
        )
        .replace(
            "model = DDP(nn.Linear(2, 1).cuda())", "model = nn.Linear(2, 1)\n    fully_shard(model)"
        )
    )
    text, left = judged(source, Options())
    assert "xla.use_spmd(batch_per_device=True)" in text
    assert f"args.lr * {DEVICES}; total = args.epochs * len(xla.MpDeviceLoader(loader))" in text
    assert not left
