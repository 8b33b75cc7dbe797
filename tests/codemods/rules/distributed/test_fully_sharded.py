"""Which uses of torch's FSDP are rewritten, and why others are not."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ...analysis.projects.test_project import after, left

SCRIPT = """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

def main():
    dist.init_process_group("nccl")
    model = FSDP(torch.nn.Linear(2, 1), device_id=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss = torch.nn.functional.mse_loss(model(torch.ones(1, 2).cuda()), torch.ones(1, 1).cuda())
    loss.backward()
    total = loss.detach()
    dist.all_reduce(total)
    print(total / dist.get_world_size(), isinstance(model, FSDP))
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")

if __name__ == "__main__":
    main()
"""


def test_a_standard_script_is_rewritten_and_told_to_drive_all_devices() -> None:
    result = migrate(SCRIPT.encode())
    text = result.data.decode()
    assert "model = xla.FullyShardedDataParallel(torch.nn.Linear(2, 1), device_id=0)" in text
    assert "isinstance(model, xla.FullyShardedDataParallel)" in text
    assert text.endswith(
        'if __name__ == "__main__":\n    xla.use_spmd(batch_per_device=True)\n    main()\n'
    )
    assert not result.left
    assert migrate(result.data).data == result.data


CALL = "FSDP(torch.nn.Linear(2, 1), device_id=0)"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (CALL, "FSDP(m, cpu_offload=CPUOffload(offload_params=True))", "`cpu_offload`"),
        (CALL, "FSDP(m, **options)", "options that cannot be seen"),
        (CALL, "FSDP(m, group)", "positional options"),
        (CALL, "FSDP(m, ignored_modules=[m])", "`ignored_modules`"),
        (CALL, "FSDP(m, sharding_strategy=strategy)", "a strategy that cannot be seen"),
        (CALL, "FSDP(m, sharding_strategy=ShardingStrategy.HYBRID_SHARD)", "a hybrid strategy"),
        (
            "torch.ones(1, 1).cuda())",
            'torch.ones(1, 1).cuda(), reduction="sum")',
            "a loss that is a sum",
        ),
        ("lr=0.1", "lr=0.1, power=power * dist.get_world_size()", "which counts processes"),
        ("lr=0.1", "lr=0.1, power=power / world_size", "which counts processes"),
        ("loss.backward()", "(loss * world_size).backward()", "which counts processes"),
        ("model.state_dict()", "load_sharded_optimizer_state_dict(model)", "torch's shards"),
        ("model.state_dict()", "model.weight.full_tensor()", "DTensors"),
        ("torch.nn.Linear(2, 1)", 'Net(device="meta")', "parameters on meta"),
    ],
)
def test_what_is_not_standard_is_left_with_its_reason(old: str, new: str, reason: str) -> None:
    assert old in SCRIPT
    source = SCRIPT.replace(old, new)
    messages = [f.message for f in check(source.encode()) if f.code == "XLA610" and not f.edits]
    assert messages, source
    assert all(reason in message for message in messages)
    text = migrate(source.encode()).data.decode()
    assert "use_spmd" not in text
    assert "xla.FullyShardedDataParallel" not in text


@pytest.mark.parametrize(
    "call",
    [
        "FSDP(m, cpu_offload=None)",
        "FSDP(m, cpu_offload=CPUOffload(offload_params=False))",
        "FSDP(m, auto_wrap_policy=policy, mixed_precision=bf16, use_orig_params=True)",
        "FSDP(m, backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True)",
    ],
)
def test_options_that_the_runtime_takes(call: str) -> None:
    text = migrate(SCRIPT.replace(CALL, call).encode()).data.decode()
    assert call.replace("FSDP(", "xla.FullyShardedDataParallel(") in text
    assert "xla.use_spmd(batch_per_device=True)" in text


def test_fully_shard_is_one_too() -> None:
    source = SCRIPT.replace(CALL, "torch.nn.Linear(2, 1); fully_shard(model)").replace(
        "import FullyShardedDataParallel as FSDP, ShardingStrategy", "import fully_shard"
    )
    text = migrate(source.replace(", isinstance(model, FSDP)", "").encode()).data.decode()
    assert "xla.fully_shard(model)" in text
    assert "xla.use_spmd(batch_per_device=True)" in text
    policy = source.replace("fully_shard(model)", "fully_shard(model, mp_policy=policy)")
    (found,) = [f for f in check(policy.encode()) if f.code == "XLA610" and not f.edits]
    assert "`mp_policy`" in found.message


@pytest.mark.parametrize(
    "states",
    [
        "FSDP.set_state_dict_type(model, args.kind)",
        "FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT)",
        "torch.save(FSDP.optim_state_dict(model, optimizer), path)",
        "optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, state))",
        "state = FSDP.get_state_dict_type(model)",
        "dcp.save({'model': model.state_dict()}, checkpoint_id=path)",
    ],
)
def test_state_dicts_of_every_kind_are_whole(states: str) -> None:
    source = SCRIPT.replace("    loss.backward()\n", f"    loss.backward()\n    {states}\n")
    source = f"import torch.distributed.checkpoint as dcp\n{source}"
    result = migrate(source.encode())
    assert not result.left
    assert " FSDP" not in result.data.decode()
    assert "= xla.FullyShardedDataParallel(" in result.data.decode()


SAVES = """
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, StateDictType

def save(model, optimizer, path, kind=StateDictType.SHARDED_STATE_DICT):
    with FSDP.state_dict_type(model, kind):
        states = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
    dcp.save(states, checkpoint_id=path)
    return isinstance(model, FSDP)
"""
MAIN = f"from saves import save\n{SCRIPT}".replace("torch.save(", "save(model, optimizer, ")


def test_a_module_that_only_saves_asks_the_class_that_shards() -> None:
    """Torch's own raises a KeyError where it leaves the block: it finds no modules of its own."""
    result = after({"main.py": MAIN, "saves.py": SAVES})
    assert "with xla.FullyShardedDataParallel.state_dict_type(model, kind):" in result["saves.py"]
    assert "xla.FullyShardedDataParallel.optim_state_dict(" in result["saves.py"]
    assert "isinstance(model, xla.FullyShardedDataParallel)" in result["saves.py"]
    migrated_first = after({"main.py": result["main.py"], "saves.py": SAVES})
    assert migrated_first == result


@pytest.mark.parametrize(
    "main", [MAIN.replace("device_id=0", "ignored_modules=[]"), "import saves\n"]
)
def test_it_stays_where_the_sharding_does(main: str) -> None:
    assert after({"main.py": main, "saves.py": SAVES})["saves.py"].count("FSDP") == 4


def test_shards_that_another_module_takes_apart_are_left() -> None:
    saves = SAVES.replace("model.state_dict()", "model.weight.full_tensor()")
    (found,) = [
        f for f in left({"main.py": MAIN, "saves.py": saves}, "main.py") if f.code == "XLA610"
    ]
    assert "DTensors in saves.py" in found.message
    assert "FSDP(torch.nn.Linear(2, 1)" in after({"main.py": MAIN, "saves.py": saves})["main.py"]
