"""What one replica does alone: before it the step is cut, so that it launches nothing that all have to launch."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ...helpers import migrated

HEAD = """
import contextlib
import functools
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def is_main_process():
    return dist.get_rank() == 0

def save_on_master(*args, **kwargs):
    if is_main_process():
        torch.save(*args, **kwargs)

def rank_zero_only(fn):
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        if int(os.environ.get("RANK", 0)) == 0:
            return fn(*args, **kwargs)
    return wrapped

@rank_zero_only
def keep(model):
    torch.save(model.state_dict(), "x.pt")

@rank_zero_only
def say(value):
    print(float(value))

def early(model):
    if dist.get_rank() != 0:
        return
    torch.save(model.state_dict(), "x.pt")

def early_without_comparing(model, rank):
    if rank:
        return None
    path = "x.pt"
    torch.save(model.state_dict(), path)

class Keeper:
    def __init__(self, model):
        self.model = model

    def keep(self):
        if dist.get_rank() == 0:
            self._write("x.pt")

    def save(self):
        self._write("x.pt")

    def _write(self, path):
        torch.save(self.model.state_dict(), path)

@contextlib.contextmanager
def main_process_first(rank):
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()

class EveryFew:
    def __init__(self, rank):
        self.file = open("x.csv", "w") if rank == 0 else None
        self.active = rank == 0

    def after_step(self, model):
        self.maybe(model)

    def maybe(self, model):
        if not self.active:
            return
        torch.save(model.state_dict(), "x.pt")

    def note(self, model):
        if self.file is None:
            return
        self.file.write(str(model.module.weight))

    def norms(self, model):
        if not self.active:
            return
        self.note(model.module.weight.grad.norm().item())

    def count(self, n):
        self.seen = n

    def tell(self, value):
        if self.active:
            print(value.item())

def train(loader, rank, local_rank, args, ngpus_per_node, writer, out, callbacks):
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(2, 1).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keeper = Keeper(model)
    saver = Keeper(model) if rank == 0 else None
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        BEFORE
        optimizer.step()
        AFTER
"""
SAVE = 'torch.save(model.state_dict(), "x.pt")'
GUARDS = [
    "if rank == 0:",
    "if not rank:",
    "if rank < 1:",
    "if dist.get_rank() == 0:",
    "if is_main_process():",
    "if rank == 0 and step % 10 == 0:",
    "if step % 10 == 0 and rank == 0:",
    'if int(os.environ["RANK"]) == 0:',
    'if os.environ.get("RANK", "0") == "0":',
    "if local_rank in [-1, 0]:",
    "if args.local_rank in (-1, 0):",
    "if not args.distributed or (args.distributed and args.rank % ngpus_per_node == 0):",
    "if (dist.get_rank() if dist.is_initialized() else 0) == 0:",
    "with main_process_first(rank):",
]
FORMS = [
    *(f"{guard}\n            {SAVE}" for guard in GUARDS),
    f"if step % 10 == 0:\n            if rank == 0:\n                {SAVE}",
    f"if rank != 0:\n            pass\n        else:\n            {SAVE}",
    f"if rank > 0:\n            continue\n        {SAVE}",
    f"rank == 0 and {SAVE}",
    f"{SAVE} if rank == 0 else None",
    f"match rank:\n            case 0:\n                {SAVE}",
    'save_on_master(model.state_dict(), "x.pt")',
    "keep(model)",
    "early(model)",
    "early_without_comparing(model, rank)",
    "keeper.keep()",
    "if rank == 0:\n            keeper.save()",
    "if saver is not None:\n            saver.save()",
    'if rank == 0:\n            torch.save(model.state_dict(), "tmp")\n            os.replace("tmp", "x.pt")',
    # No saves, but reads:
    'if rank == 0:\n            writer.log({"norm": norm})',
    "if writer is not None:\n            writer.add_histogram(model.module.weight)",
    "if rank == 0:\n            print(model.module.weight)",
    "if rank == 0:\n            evaluate(model.module)",
    'if rank == 0:\n            model.module.save_pretrained("x")',
    # Methods of callbacks, found by their names:
    "for callback in callbacks:\n            callback.after_step(model)",
    "[c.after_step(model) for c in callbacks]",
    "callbacks[0].note(model)",
    "few = EveryFew(rank)\n        few.maybe(model)",
    "EveryFew(rank).note(model)",
]


def lines_of(before: str = "pass", after: str = "pass") -> list[str]:
    source = HEAD.replace("BEFORE", before).replace("AFTER", after)
    result = migrate(source.encode())
    assert not [f for f in result.left if f.severity == "error"]
    assert migrate(result.data).data == result.data, "a second run changes something"
    return [line.strip() for line in result.data.decode().splitlines()]


@pytest.mark.parametrize("form", FORMS)
def test_fact_1_41_the_step_is_cut_before_what_one_replica_does(form: str) -> None:
    lines = lines_of(after=form)
    step = lines.index("xla.optimizer_step(optimizer)")
    assert lines[step + 1] == "xla.mark_step()"
    assert not any("torch.save" in line for line in lines), "it writes XLA tensors"


@pytest.mark.parametrize(
    "rest",
    [
        "scheduler.step()",
        "seen += x.size(0)",
        "norms.append(norm)",
        "loss = loss.detach() * 2",
        "if step == 10:\n            break",
        "callbacks[0].count(step)",
        "for callback in callbacks:\n            callback.another(model)",
    ],
)
def test_what_all_do_alike_needs_no_cut(rest: str) -> None:
    assert "xla.mark_step()" not in lines_of(after=rest)


@pytest.mark.parametrize(
    "read",
    [
        "if rank == 0:\n            print(norm.item())",
        'if rank == 0 and step % 10 == 0:\n            writer.add_scalar("norm", norm, step)',
        "if is_main_process():\n            print(model.module.weight.grad.abs().max())",
        "if rank == 0:\n            few.norms(model)",
        "if is_main_process():\n            callbacks[0].norms(model)",
    ],
)
def test_averages_that_one_replica_reads_before_the_step_are_launched_by_all(read: str) -> None:
    lines = lines_of(before=read)
    at = lines.index(read.splitlines()[0], lines.index("loss.backward()"))
    assert lines[at - 1] == "xla.mark_step()"


@pytest.mark.parametrize(
    "read",
    [
        "for callback in callbacks:\n            callback.norms(model)",
        "callbacks[0].norms(model)",
        "few = EveryFew(rank)\n        few.norms(model)",
        "if step % 5 == 0:\n            for c in callbacks:\n                c.norms(model)",
        "with torch.no_grad():\n            [c.norms(model) for c in callbacks]",
        # The function reads what it is given, on one replica:
        "say(norm)",
        "callbacks[0].tell(norm)",
        "few = EveryFew(rank)\n        few.tell(norm)",
        "say(model.module.weight.grad.norm())",
        'log_metrics({"norm": norm})',
        "norms = {'norm': norm}\n        say(norm)",
        # Tests around the test, and tests of what only one has:
        "if step % 10 == 0:\n            if rank == 0:\n                print(norm.item())",
        "with torch.no_grad():\n            if rank == 0:\n                print(norm.item())",
        'if writer is not None:\n            writer.add_scalar("norm", norm, step)',
        "print(norm.item()) if rank == 0 else None",
        "rank == 0 and print(norm.item())",
        "try:\n            say(norm)\n        finally:\n            pass",
    ],
)
def test_averages_that_a_callback_reads_on_one_replica_are_launched_by_all(read: str) -> None:
    lines = lines_of(before=read)
    mark = lines.index("xla.mark_step()", lines.index("loss.backward()"))
    assert mark < lines.index("xla.optimizer_step(optimizer)")


@pytest.mark.parametrize(
    "rest",
    [
        "callbacks[0].count(step)",
        "callbacks[0].note(loss)",
        "scheduler.step()",
        "norms.append(norm)",
        "say(loss)",
        "if norm_type == 2:\n            print(norm)",
        "norm = norm * 2 if args.double else norm",
    ],
)
def test_callbacks_that_read_no_averages_need_no_cut(rest: str) -> None:
    lines = lines_of(before=rest)
    assert "xla.mark_step()" not in lines[: lines.index("xla.optimizer_step(optimizer)")]


ACCUMULATED = """
        (loss / 4).backward()
        if (step + 1) % 4 == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            READ
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "read",
    [
        "if rank == 0:\n                print(norm.item())",
        "say(norm)",
        "if step % 8 == 0 and is_main_process():\n                print(norm)",
        'if writer:\n                writer.add_scalar("norm", norm.item(), step)',
    ],
)
def test_averages_of_several_batches_are_launched_by_all(read: str) -> None:
    """The backward pass stands in the block around that of the step."""
    start = HEAD.index("        loss.backward()")
    source = (HEAD[:start] + ACCUMULATED).replace("READ", read)
    lines = [line.strip() for line in migrate(source.encode()).data.decode().splitlines()]
    at = lines.index(read.splitlines()[0], lines.index("(loss / 4).backward()"))
    assert lines[at - 1] == "xla.mark_step()"
    assert lines.count("xla.mark_step()") <= 3


def test_losses_that_one_replica_reads_before_the_step_are_its_own() -> None:
    """Unless batch norms average over replicas."""
    read = "if rank == 0:\n            print(loss.item())"
    assert "xla.mark_step()" not in lines_of(before=read)
    synchronised = "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)"
    lines = lines_of(before=read, after=synchronised)
    assert (
        lines[lines.index("if rank == 0:", lines.index("loss.backward()")) - 1] == "xla.mark_step()"
    )


def test_one_replica_that_is_all_needs_no_cut() -> None:
    source = HEAD.replace("DDP(torch.nn.Linear(2, 1).cuda(), device_ids=[rank])", "build().cuda()")
    source = source.replace('    dist.init_process_group("nccl")\n', "")
    source = source.replace("BEFORE", "pass").replace(
        "AFTER", "if rank == 0:\n            evaluate(model)"
    )
    assert "mark_step" not in migrate(source.encode()).data.decode()


@pytest.mark.parametrize(
    ("body", "hangs"),
    [
        ("if rank == 0:\n        dist.barrier()", True),
        ("if rank != 0:\n        return\n    dist.barrier()", True),
        ("if not is_main_process():\n        return None\n    dist.all_reduce(x)", True),
        ("for x in y:\n        if rank:\n            continue\n        dist.all_reduce(x)", True),
        ("if rank != 0:\n        dist.barrier()\n        return\n    dist.barrier()", False),
        ("dist.barrier()\n    if rank != 0:\n        return\n    print(x)", False),
        ("if world_size == 1:\n        return x\n    dist.all_reduce(x)", False),
        ("if not dist.is_initialized():\n        return x\n    dist.all_reduce(x)", False),
        ("if args.local_rank == -1:\n        return x\n    dist.all_reduce(x)", False),
    ],
)
def test_collectives_that_some_replicas_never_reach_are_errors(body: str, hangs: bool) -> None:
    source = f"import torch\nimport torch.distributed as dist\nfrom xla_migrate import runtime as xla\ndef f(x, y, rank, world_size, args):\n    {body}\n"
    assert ("XLA606" in {f.code for f in check(source.encode())}) is hangs
    migrated = migrate(source.encode())
    assert ("XLA606" in {f.code for f in migrated.left}) is hangs


@pytest.mark.parametrize(("average", "hangs"), [("", True), (", average=False", False)])
def test_a_step_of_one_replica_hangs_where_it_averages(average: str, hangs: bool) -> None:
    source = (
        "from xla_migrate import runtime as xla\ndef f(loss, optimizer, rank):\n    loss.backward()\n"
        f"    if rank == 0:\n        xla.optimizer_step(optimizer{average})\n    xla.mark_step()\n"
    )
    assert ("XLA606" in {f.code for f in check(source.encode())}) is hangs


AVERAGED = """
import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

RANK = int(os.environ["RANK"])

class Averages:
    def __init__(self, model):
        self.model = model

    def update(self, model):
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.data.lerp_(b.data, 0.1)

def train(model, loader, optimizer):
    model = DDP(model.cuda())
    {made}
    for x in {batches}:
        model(x.cuda()).mean().backward()
        optimizer.step()
        {update}
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("batches", ["loader", "stream()"])
@pytest.mark.parametrize(
    ("made", "update"),
    [
        ("ema = Averages(model) if RANK in {-1, 0} else None", "if ema: ema.update(model)"),
        (
            "ema = Averages(model) if RANK == 0 else None",
            "if ema is not None: ema.update(model)",
        ),
        ("ema = Averages(model)", "if RANK == 0: ema.update(model)"),
        (
            "ema = None\n    if RANK == 0: ema = Averages(model)",
            "if ema is not None: ema.update(model)",
        ),
        ("self.ema = Averages(model) if RANK < 1 and not RANK else None", "if self.ema: self.ema.update(model)"),
    ],
)  # fmt: skip
def test_what_one_replica_averages_is_no_part_of_the_step(
    made: str, update: str, batches: str
) -> None:
    """Else its launch, with everybody's collectives in it, is another than theirs."""
    lines = migrated(AVERAGED.format(made=made, update=update, batches=batches)).splitlines()
    lines = [line.strip() for line in lines]
    at = lines.index(update)
    assert lines[at - 1] == "xla.mark_step()"
    assert (lines[at + 1] == "xla.mark_step()") is (batches == "stream()")


def test_what_all_average_is_a_part_of_the_step() -> None:
    source = AVERAGED.format(
        made="ema = Averages(model)", update="ema.update(model)", batches="stream()"
    )
    lines = [line.strip() for line in migrated(source).splitlines()]
    at = lines.index("ema.update(model)")
    assert lines[at - 1] == "xla.optimizer_step(optimizer)"
    assert lines[at + 1] == "xla.mark_step()"


DECORATED = """
import contextlib, functools, torch
from lightning.pytorch.utilities import rank_zero_only
from torch.nn.parallel import DistributedDataParallel

class Trainer:
    {decorator}
    def parameters_of(self, optimizer):
        return [p for g in optimizer.param_groups for p in g["params"]]

    def train_step(self, loss, optimizer, limit):
        self.model = DistributedDataParallel(self.model)
        loss.backward()
        if limit > 0:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters_of(optimizer), limit)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("decorator", "is_cut"),
    [
        ("@staticmethod", False),
        ("@classmethod", False),
        ("@functools.lru_cache", False),
        ("@functools.lru_cache(maxsize=2)", False),
        ("@torch.no_grad()", False),
        ("@contextlib.contextmanager", False),
        ("@rank_zero_only", True),
        ("@unknown", True),
    ],
)
def test_python_s_own_decorators_hide_nothing(decorator: str, is_cut: bool) -> None:
    text = migrated(DECORATED.format(decorator=decorator))
    assert ("loss.backward()\n        xla.mark_step()" in text) is is_cut
