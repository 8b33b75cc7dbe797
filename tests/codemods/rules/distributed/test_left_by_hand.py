"""Where the sharding of a model is left to a person, so are the steps that train it; others are migrated."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Migration, Options, migrate

HEAD = """
import torch
import torch.distributed as dist
from functools import partial
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, pipeline
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

dist.init_process_group("nccl")
"""


def result_of(body: str) -> Migration:
    return migrate((HEAD + textwrap.dedent(body)).encode())


STEP = """
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
"""
LEFT = {
    "options in a dictionary": """
        def main(loader, args):
            model = nn.Linear(4, 4).cuda()
            options = {"mp_policy": MixedPrecisionPolicy()} if args.mixed else vars(args)
            fully_shard(model, **options)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "layers first": """
        def main(loader, options):
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).cuda()
            for layer in model:
                fully_shard(layer)
            fully_shard(model, **options)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "layers alone": """
        def main(loader, build, options):
            model = build().cuda()
            for k, block in enumerate(model.blocks):
                model.blocks[k] = FSDP(block, **options)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "a strategy that is looked up": """
        def main(loader, build, args):
            model = FSDP(build(), sharding_strategy=getattr(ShardingStrategy, args.strategy))
            optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        """,
    "in a function of its own": """
        def shard(net, **options):
            for layer in net.children():
                fully_shard(layer, **options)
            return fully_shard(net, **options)

        def build(options):
            net = nn.Sequential(nn.Linear(4, 4)).cuda()
            return shard(net, **options)

        def main(loader, options):
            model = build(options)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "partial": """
        def main(loader, mesh):
            shard = partial(fully_shard, mesh=mesh)
            model = nn.Linear(4, 4).cuda()
            model = shard(model)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "tensor parallel, compiled": """
        def main(loader, mesh):
            net = nn.Linear(4, 4).cuda()
            parallelize_module(net, mesh, {"a": ColwiseParallel()})
            model = torch.compile(net)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "a stage": """
        def main(loader, rank, size):
            model = nn.Linear(4, 4).cuda()
            stage = PipelineStage(model, rank, size, torch.device("cuda"))
            schedule = ScheduleGPipe(stage, 4)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """,
    "a pipe": """
        def main(loader, split):
            net = nn.Linear(4, 4).cuda()
            pipe = pipeline(net, (torch.ones(4),), split_spec=split)
            model = pipe.get_stage_module(0)
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        """,
    "two from a function": """
        def make(options):
            net = FSDP(nn.Linear(4, 4).cuda(), **options)
            return net, torch.optim.AdamW(net.parameters(), lr=1e-3)

        def main(loader, options):
            model, optimizer = make(options)
        """,
    "handed to the loop": """
        def main(build, loader, options):
            net = FSDP(build(), **options)
            train(net, torch.optim.AdamW(net.parameters(), lr=1e-3), loader)

        def train(model, optimizer, loader):
        """,
}


@pytest.mark.parametrize("spelling", LEFT)
def test_its_step_is_left_with_the_reason(spelling: str) -> None:
    body = textwrap.dedent(LEFT[spelling]).rstrip() + STEP
    result = result_of(body)
    text = result.data.decode()
    assert "        optimizer.step()\n" in text
    assert "mark_step" not in text
    assert "MpDeviceLoader" not in text
    assert "x.to(xla.xla_device())" in text  # what is right under any sharding is migrated
    (step,) = [f for f in result.left if f.code == "XLA501"]
    assert "which you need to migrate by hand" in step.message
    assert not step.edits
    assert migrate(result.data).data == result.data


SCALED = """
    def main(loader, options):
        model = nn.Linear(4, 4).cuda()
        fully_shard(model, **options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x.cuda()).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            print(loss.item())
        torch.save(model.state_dict(), "model.pt")
"""


def test_scaler_autocast_reads_and_files_stay_with_it() -> None:
    result = result_of(SCALED)
    text = result.data.decode()
    for line in textwrap.dedent(SCALED).splitlines()[4:]:
        assert line.replace("x.cuda()", "x.to(xla.xla_device())") in text
    assert {f.code for f in result.left} >= {"XLA201", "XLA204", "XLA401", "XLA503", "XLA701"}
    assert all("`fully_shard`" in f.message for f in result.left if f.code != "XLA906")


def test_a_wrapper_around_it_stays() -> None:
    result = result_of(
        """
        def main(mesh, loss):
            model = parallelize_module(nn.Linear(4, 4).cuda(), mesh, {"a": ColwiseParallel()})
            model = nn.parallel.DistributedDataParallel(model)
            loss(model).backward()
        """
    )
    assert "    model = nn.parallel.DistributedDataParallel(model)\n" in result.data.decode()
    assert "XLA603" in [f.code for f in result.left]


def test_another_models_step_is_migrated() -> None:
    text = result_of(
        """
        def main(loader, options):
            big = nn.Linear(4, 4).cuda()
            fully_shard(big, **options)
            first = torch.optim.SGD(big.parameters(), lr=0.1)
            small = nn.Linear(4, 4).cuda()
            second = torch.optim.SGD(small.parameters(), lr=0.1)
            for x in loader:
                big(x.cuda()).sum().backward()
                first.step()
            for x in loader:
                small(x.cuda()).sum().backward()
                second.step()
        """
    ).data.decode()
    assert "        first.step()\n" in text
    assert "xla.optimizer_step(second, average=False)" in text
    assert text.count("MpDeviceLoader") == 1


def test_attributes_of_one_object_are_different_models() -> None:
    text = result_of(
        """
        class Trainer:
            def __init__(self, build, options):
                self.actor = build().cuda()
                for layer in self.actor.layers:
                    fully_shard(layer, **options)
                self.critic = nn.Linear(4, 4).cuda()
                self.first = torch.optim.SGD(self.actor.parameters(), lr=0.1)
                self.second = torch.optim.SGD(self.critic.parameters(), lr=0.1)

            def train_actor(self, loader):
                for x in loader:
                    self.actor(x.cuda()).sum().backward()
                    self.first.step()

            def train_critic(self, loader):
                for x in loader:
                    self.critic(x.cuda()).sum().backward()
                    self.second.step()
        """
    ).data.decode()
    assert "            self.first.step()\n" in text
    assert "xla.optimizer_step(self.second, average=False)" in text


def test_layers_of_one_size_are_different_models() -> None:
    text = result_of(
        """
        def main(loader, args, options):
            big = nn.Linear(args.size, 4).cuda()
            fully_shard(big, **options)
            small = nn.Linear(args.size, 4).cuda()
            optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
            for x in loader:
                small(x.cuda()).sum().backward()
                optimizer.step()
        """
    ).data.decode()
    assert "xla.optimizer_step(optimizer, average=False)" in text


def test_sharding_that_is_migrated_takes_its_step_along() -> None:
    text = result_of(
        """
        def main(loader):
            model = nn.Linear(4, 4).cuda()
            fully_shard(model)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        """.rstrip()
        + textwrap.indent(STEP, "    " * 2)
    ).data.decode()
    assert "xla.fully_shard(model)" in text
    assert "xla.optimizer_step(optimizer)" in text


def in_project(files: dict[str, str], path: str) -> Migration:
    modules = Modules({name: textwrap.dedent(text).encode() for name, text in files.items()})
    return migrate(modules.files[path], Options(), path, Project(modules, path))


PARALLEL = """
    from torch.distributed.fsdp import fully_shard

    def apply_fsdp(model, options):
        for layer in model.layers:
            fully_shard(layer, **options)
        fully_shard(model, **options)
"""


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from parallel import apply_fsdp", "apply_fsdp"),
        ("from parallel import apply_fsdp as shard", "shard"),
        ("import parallel", "parallel.apply_fsdp"),
    ],
)
def test_a_function_of_another_module_shards(imported: str, called: str) -> None:
    main = f"""
        import torch
        {imported}

        def main(build, loader, options):
            model = build().cuda()
            {called}(model, options)
            other = torch.nn.Linear(2, 2).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            second = torch.optim.AdamW(other.parameters())
            for x in loader:
                model(x.cuda()).sum().backward()
                optimizer.step()
            for x in loader:
                other(x.cuda()).sum().backward()
                second.step()
        """
    result = in_project({"parallel.py": PARALLEL, "main.py": main}, "main.py")
    text = result.data.decode()
    assert "        optimizer.step()\n" in text
    assert "xla.optimizer_step(second)" in text
    assert "parallel.py" in next(f.message for f in result.left if f.code == "XLA501")


def test_the_loop_of_another_module_is_left_and_so_are_its_files() -> None:
    main = """
        import torch
        from engine import train
        from parallel import apply_fsdp

        def main(build, loader, options):
            model = build().cuda()
            apply_fsdp(model, options)
            train(model, torch.optim.AdamW(model.parameters()), loader)
        """
    engine = """
        import torch

        def train(model, optimizer, loader):
            for x in loader:
                model(x.cuda()).sum().backward()
                optimizer.step()
            torch.save(model.state_dict(), "model.pt")
        """
    files = {"parallel.py": PARALLEL, "main.py": main, "engine.py": engine}
    result = in_project(files, "engine.py")
    text = result.data.decode()
    assert "        optimizer.step()\n" in text
    assert "torch.save(model" in text
    assert {f.code for f in result.left} >= {"XLA501", "XLA701", "XLA401"}


def test_layers_and_model_are_sharded_in_one_way() -> None:
    """One that could be rewritten is left beside one that cannot."""
    text = result_of(
        """
        def main(model, options, loss):
            for layer in model.layers:
                fully_shard(layer)
            fully_shard(model, **options)
            loss(model).backward()
        """
    ).data.decode()
    assert "xla.fully_shard" not in text


@pytest.mark.parametrize(("path", "saves"), [("tests/test_net.py", "xla"), ("run.py", "torch")])
def test_tests_that_shard_a_model_leave_the_program_to_be_migrated(path: str, saves: str) -> None:
    net = """
        import torch

        def save(model, path):
            model.cuda()
            torch.save(model.state_dict(), path)
        """
    main = """
        import torch
        from net import save
        from torch.distributed.fsdp import fully_shard

        def main(build, options):
            model = build().cuda()
            fully_shard(model, **options)
            save(model, "a.pt")
        """
    text = in_project({"net.py": net, path: main}, "net.py").data.decode()
    assert f"{saves}.save(model.state_dict(), path)" in text
