"""Which uses of torch's FSDP are rewritten, and why others are not."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ...analysis.projects.test_project import after, left
from ...helpers import findings, migrated

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
        (CALL, "FSDP(m, **options)", "unknown options"),
        (CALL, "FSDP(m, group)", "positional options"),
        (CALL, "FSDP(m, ignored_modules=[m])", "`ignored_modules`"),
        (CALL, "FSDP(m, sharding_strategy=strategy)", "an unknown strategy"),
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


@pytest.mark.parametrize(
    "call",
    [
        "get_model_state_dict(model, options=options)",
        "get_optimizer_state_dict(model, optimizer)",
        "get_state_dict(model, [optimizer])",
        "set_model_state_dict(model, states, options=options)",
        "set_optimizer_state_dict(model, optimizer, states)",
        "set_state_dict(model, optimizer, model_state_dict=a, optim_state_dict=b)",
    ],
)
def test_state_dicts_by_torch_s_functions(call: str) -> None:
    name = call.partition("(")[0]
    home = "torch.distributed.checkpoint.state_dict"
    for before, spelled in (
        (f"from {home} import {name}", call),
        (f"from {home} import {name} as function", call.replace(name, "function", 1)),
        ("import torch.distributed.checkpoint.state_dict as sd", f"sd.{call}"),
        (f"import {home}", f"{home}.{call}"),
    ):
        source = SCRIPT.replace(
            "    loss.backward()\n", f"    loss.backward()\n    x = {spelled}\n"
        )
        result = migrate(f"{before}\n{source}".encode())
        assert not result.left
        assert f"x = xla.{call}" in result.data.decode()
    given = source.replace(spelled, f"functools.partial({home}.{name}, model)")
    text = migrate(f"import functools, {home}\n{given}".encode()).data.decode()
    assert f"functools.partial(xla.{name}, model)" in text
    left = given.replace(CALL, "FSDP(m, **options)")
    assert "xla.FullySh" not in migrate(f"import functools, {home}\n{left}".encode()).data.decode()
    assert f"xla.{name}" not in migrate(f"import functools, {home}\n{left}".encode()).data.decode()


def test_a_module_that_gathers_what_another_shards() -> None:
    saves = """
from torch.distributed.checkpoint.state_dict import get_model_state_dict

def save(model, optimizer, path):
    return get_model_state_dict(model)
"""
    found = after({"saves.py": saves, "main.py": MAIN})["saves.py"]
    assert "return xla.get_model_state_dict(model)" in found


IN_PARTS = """
import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

def main(args, build, policy, loader):
    {made}
    for block in model.blocks:
        fully_shard(block{options})
    fully_shard([model.norm, model.head])
    fully_shard(model)
    assert isinstance(model, FSDPModule)
    {then}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for x, y in loader:
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    main(args)
"""


def in_parts(made: str = "", options: str = "", then: str = "") -> str:
    return IN_PARTS.format(
        made=f"model = build(); {made}".rstrip("; "), options=options, then=then or "pass"
    )


def reasons(source: str) -> list[str]:
    return [f.message for f in check(source.encode()) if f.code == "XLA610" and not f.edits]


@pytest.mark.parametrize(
    "source",
    [
        in_parts(options=", mp_policy=policy, reshard_after_forward=False"),
        in_parts(options=", shard_placement_fn=lambda p: None"),
        in_parts("options = {'mp_policy': policy}", ", **options"),
        in_parts(
            "options = {}\n    if args.bf16:\n        options['mp_policy'] = policy", ", **options"
        ),
        in_parts("options = dict(mp_policy=policy)", ", **options, reshard_after_forward=True"),
        in_parts("options = {}; options.update(mp_policy=policy)", ", **options"),
        in_parts("options = {}; options.update({'mp_policy': policy})", ", **options"),
        in_parts("options = {}; options.setdefault('mp_policy', policy)", ", **options"),
        in_parts("options = {'mp_policy': policy} if args.bf16 else {}", ", **options"),
        in_parts(options=", **{'mp_policy': policy}"),
        in_parts("options = {}", ", **options"),
        in_parts("options = {'mp_policy': policy}; print('mp_policy' in options)", ", **options"),
        in_parts(then="model.to_empty(device='cuda'); model.init_weights()").replace(
            "model = build()", "with torch.device('meta'):\n        model = build()"
        ),
        in_parts(then="model.to_empty(device='cuda')").replace("build()", "build(device='meta')"),
        in_parts(then="model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])"),
        in_parts(then="model.unshard(); model.set_requires_gradient_sync(False)"),
    ],
)
def test_parts_with_options_that_can_be_seen(source: str) -> None:
    assert not reasons(source)
    text = migrate(source.encode()).data.decode()
    assert text.count("xla.fully_shard(") == 3
    assert "xla.use_spmd(batch_per_device=True)" in text
    assert migrate(text.encode()).data.decode() == text


def test_a_module_that_does_not_train_and_another_variable_of_the_name() -> None:
    source = """
from torch.distributed.fsdp import fully_shard

def log(options):
    print(options)

def apply(model, args, policy):
    options = {}
    if args.bf16:
        options["mp_policy"] = policy
    fully_shard(model, **options)
"""
    assert not reasons(source)
    assert reasons(source.replace('"mp_policy"', '"mesh"'))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (in_parts(options=", **args.options"), "unknown options"),
        (in_parts("options = settings()", ", **options"), "unknown options"),
        (in_parts("options = {**args.fsdp}", ", **options"), "unknown options"),
        (in_parts("options = {args.key: 1}", ", **options"), "unknown options"),
        (in_parts("options = {}; fill(options)", ", **options"), "unknown options"),
        (in_parts("options = {}; other = options", ", **options"), "unknown options"),
        (in_parts("options = {}; options.update(args.fsdp)", ", **options"), "unknown"),
        (in_parts("options = {}; options |= args.fsdp", ", **options"), "unknown"),
        (in_parts("options = {}; options[args.key] = 1", ", **options"), "unknown"),
        (in_parts("options = {'mesh': args.mesh}", ", **options"), "a mesh"),
        (
            in_parts("options = {}; options['ignored_params'] = {p}", ", **options"),
            "`ignored_params`",
        ),
        (in_parts(options=", mesh=mesh"), "a mesh"),
        (in_parts(then="model.set_gradient_divide_factor(2.0)"), "hooks of reductions"),
        (in_parts(then="model.blocks[0].set_all_reduce_hook(hook)"), "hooks of reductions"),
        (in_parts().replace("build()", "build(device='meta')"), "parameters on meta"),
        (in_parts(then="with init_empty_weights(): pass"), "parameters on meta"),
    ],
)
def test_parts_that_are_left(source: str, reason: str) -> None:
    messages = reasons(source)
    assert any(reason in message for message in messages), messages
    assert "xla.fully_shard" not in migrate(source.encode()).data.decode()


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


@pytest.mark.parametrize(
    "chosen",
    [
        "wrapper = FSDP if args.fsdp else DDP\n    return wrapper(model)",
        "return (FSDP if args.fsdp else DDP)(model)",
        "return {'fsdp': FSDP, 'ddp': DDP}[args.kind](model)",
        "return functools.partial(FSDP, use_orig_params=True)(model)",
        "def wrap(model, wrapper=FSDP):\n        return wrapper(model)\n    return wrap(model)",
        "if args.fsdp:\n        wrapper = FSDP\n    else:\n        wrapper = DDP\n    return wrapper(model)",
    ],
)
def test_a_wrapper_that_is_chosen_when_the_script_runs(chosen: str) -> None:
    head = "import functools\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    head += "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    source = f"{head}def build(model, args):\n    {chosen}\n"
    assert [code for _, code in findings(migrated(source))] == ["XLA610"]


@pytest.mark.parametrize(
    "asked",
    ["isinstance(model, (FSDP, DDP))", "type(model) is FSDP", "isinstance(model, FSDP) and args"],
)
def test_types_are_asked_as_before(asked: str) -> None:
    head = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    head += "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    assert "XLA610" not in {
        code for _, code in findings(f"{head}def ask(model, args):\n    return {asked}\n")
    }


@pytest.mark.parametrize(
    ("strategy", "is_known"),
    [
        ("ShardingStrategy.SHARD_GRAD_OP", True),
        ('{"full": ShardingStrategy.FULL_SHARD, "no": ShardingStrategy.NO_SHARD}[name]', True),
        ("ShardingStrategy.FULL_SHARD if name else ShardingStrategy.NO_SHARD", True),
        ("KINDS[name]", True),
        ("KINDS.get(name)", True),
        ("config.sharding_strategy", True),
        ("name", False),
        ("getattr(ShardingStrategy, name)", False),
    ],
)
def test_a_strategy_that_is_chosen_of_known_ones_is_known(strategy: str, is_known: bool) -> None:
    source = f"""
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

KINDS = {{"full": ShardingStrategy.FULL_SHARD, "grad": ShardingStrategy.SHARD_GRAD_OP}}

def build(model, name, config):
    return FSDP(model, sharding_strategy={strategy})
"""
    (found,) = [f for f in check(source.encode()) if f.code == "XLA610"]
    assert bool(found.edits) == is_known


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("if world_size > 1:\n        model = shard(model)", "if xla.data_parallel_size() > 1:"),
        ("if name and 1 < world_size:\n        model = shard(model)",
         "if name and 1 < xla.data_parallel_size():"),
        ("if world_size == 1:\n        return model\n    model = shard(model)",
         "if xla.data_parallel_size() == 1:"),
        ("if world_size > 1:\n        print(name)\n    model = shard(model)", "if world_size > 1:"),
    ],
)  # fmt: skip
def test_a_test_without_which_nothing_is_sharded_counts_devices(body: str, after: str) -> None:
    source = f"""
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

def shard(model):
    return FSDP(model)

def build(model, name):
    world_size = dist.get_world_size()
    {body}
    return model
"""
    assert f"    {after}\n" in migrate(source.encode()).data.decode()
