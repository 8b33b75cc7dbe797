"""XLA606: replicas that cut their graphs at other places than the others."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

STEP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train(model, loader, optimizer, rank, args):
    dist.init_process_group("nccl")
    model = DistributedDataParallel(model)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for x in loader:
        loss = model(x).mean()
        {first}
        loss.backward()
        {second}
        optimizer.step()
        {third}
"""
IDLE = "pass"


def step(first: str = IDLE, second: str = IDLE, third: str = IDLE) -> str:
    return STEP.format(first=first, second=second, third=third)


@pytest.mark.parametrize(
    "guarded",
    [
        "if rank == 0: start.record()",
        "if dist.get_rank() == 0: end.record()",
        "if not rank: torch.cuda.synchronize()",
        "if args.local_rank == 0: start_event.record(torch.cuda.current_stream())",
        "if rank == 0 and args.time: end.record()",
    ],
)
@pytest.mark.parametrize("place", ["first", "second"])
def test_an_event_of_one_replica_within_a_step(guarded: str, place: str) -> None:
    """All are cut where one is: behind that its event has nothing to launch."""
    lines = [line.strip() for line in migrated(step(**{place: guarded})).splitlines()]
    at = next(k for k, line in enumerate(lines) if line.startswith("if "))
    assert lines[at - 1] == "xla.mark_step()"


@pytest.mark.parametrize(
    "source",
    [
        step(third="if rank == 0: end.record()"),
        step(second="end.record()"),
        step(second="if args.time: end.record()"),
        step(second="if rank == 0: log.record(1)"),
    ],
)
def test_what_all_do_or_nothing_waits_for_stays(source: str) -> None:
    assert "XLA606" not in [code for _, code in findings(source)]


def test_one_process_alone_has_nobody_to_wait_for() -> None:
    source = step(second="if rank == 0: end.record()")
    source = source.replace("dist.init_process_group", "print").replace(
        "DistributedDataParallel(model)", "model"
    )
    assert "XLA606" not in [code for _, code in findings(source)]


@pytest.mark.parametrize(
    "test",
    [
        "args.export and rank == 0",
        "rank == 0 and args.export",
        "args.eval_only and rank != 0",
        "mode == 'test' and dist.get_rank() == 0",
        "args.download and not rank",
    ],
)
def test_an_early_return_of_another_mode(test: str) -> None:
    """In the modes that reach the collective, all replicas do."""
    source = f"""
        import torch.distributed as dist

        def main(args, rank, mode, x):
            if {test}:
                prepare()
                return
            dist.all_reduce(x)
        """
    assert "XLA606" not in [code for _, code in findings(source)]


@pytest.mark.parametrize("test", ["rank != 0", "dist.get_rank() > 0", "rank"])
def test_an_early_return_of_some_replicas(test: str) -> None:
    source = f"""
        import torch.distributed as dist

        def main(args, rank, x):
            if {test}:
                return
            dist.all_reduce(x)
        """
    assert (7, "XLA606") in findings(source)


CALLBACK = """
import time
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from xla_migrate import runtime as xla

class Keep({base}):
    def {method}(self, args, state, control, model=None, **others):
        {body}

def train(model, data):
    xla.patch_accelerate()
    Trainer(model, TrainingArguments("out", optim="sgd"), train_dataset=data, callbacks=[Keep()]).train()
"""


@pytest.mark.parametrize(
    ("base", "method", "body", "marked"),
    [
        ("TrainerCallback", "on_step_end", "if state.is_world_process_zero:\n            xla.save(model, 'x')", True),
        ("TrainerCallback", "on_step_end", "if not state.is_local_process_zero:\n            return\n        xla.save(model, 'x')", True),
        ("TrainerCallback", "on_step_end", "if args.local_rank in (-1, 0):\n            print(model.head.weight.norm().item())", True),
        ("TrainerCallback", "on_step_end", "if state.is_world_process_zero:\n            self.steps += 1", False),
        ("TrainerCallback", "on_step_end", "if state.is_world_process_zero:\n            self.steps += 1\n        print(3)", False),
        ("TrainerCallback", "on_step_end", "torch.cuda.synchronize()\n        self.end = time.time()\n        if state.is_world_process_zero:\n            print(3)", False),
        ("TrainerCallback", "on_step_end", "if state.global_step > 3:\n            control.should_save = True", False),
        ("TrainerCallback", "on_train_end", "if state.is_world_process_zero:\n            xla.save(model, 'x')", False),
        ("object", "on_step_end", "if state.is_world_process_zero:\n            xla.save(model, 'x')", False),
    ],
)  # fmt: skip
def test_what_a_trainers_callback_does_on_one_process(
    base: str, method: str, body: str, marked: bool
) -> None:
    lines = migrated(CALLBACK.format(base=base, method=method, body=body)).splitlines()
    assert ("        xla.mark_step()" in lines) is marked
    if marked:
        assert lines[lines.index("        xla.mark_step()") + 1].strip() == body.splitlines()[0]


GROUPED = """
import torch.distributed as dist
from xla_migrate import runtime as xla

def work(x, rank, local_rank, group, leaders):
    {statement}
"""


def hangs(statement: str) -> bool:
    return "XLA606" in [code for _, code in findings(GROUPED.format(statement=statement))]


@pytest.mark.parametrize(
    "statement",
    [
        "if local_rank == 0: xla.all_reduce(x, group=leaders)",
        "if rank % 8 == 0: xla.broadcast(x, 0, leaders)",
        "if rank != 0: xla.all_reduce(x, group=group)",
        "if rank in (0, 1): xla.all_gather(parts, x, group)",
        "if rank > 0: dist.barrier(group)",
        "if is_leader: xla.all_reduce(x, group=leaders)",
        "if self.is_node_master: xla.all_reduce(x, group=leaders)",
    ],
)
def test_a_collective_of_a_group_is_for_its_members(statement: str) -> None:
    assert not hangs(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "if local_rank == 0: xla.all_reduce(x)",
        "if rank == 0: xla.all_reduce(x, group=group)",
        "if rank != 0: xla.all_reduce(x, group=dist.group.WORLD)",
        "if rank % 8 == 0: xla.broadcast(x, 0, None)",
        "if rank != 0: xla.barrier(group=None)",
        "if is_leader: xla.all_reduce(x)",
        "if is_main_process(): xla.all_reduce(x, group=group)",
    ],
)
def test_one_process_alone_is_no_group(statement: str) -> None:
    assert hangs(statement)


def test_the_others_may_meet_it_in_a_function() -> None:
    source = """
import torch.distributed as dist
from xla_migrate import runtime as xla

def act(x):
    return hand_in(x)

def hand_in(x):
    {}

def work(x, rank):
    if rank == 0:
        xla.gather(x, parts)
    else:
        act(x)
"""
    assert "XLA606" not in [code for _, code in findings(source.format("xla.gather(x)"))]
    assert "XLA606" in [code for _, code in findings(source.format("print(x)"))]


@pytest.mark.parametrize(
    ("test", "marks"), [("args.fp16_run", 1), ("dry_run", 1), ("run", 2), ("neptune_run", 2)]
)
def test_a_run_of_a_tracker_is_made_by_one_replica_and_other_flags_by_all(
    test: str, marks: int
) -> None:
    guarded = f"if {test}: norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert migrated(step(second=guarded)).count("xla.mark_step()") == marks
