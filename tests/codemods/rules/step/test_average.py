"""Whether `xla.optimizer_step` averages the gradients of several processes."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check, migrate

from ...helpers import migrated
from .test_optimizer_step import ALONE, AVERAGED, HEAD, OWN_STEP, PLAIN, after


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_what_each_process_has_of_its_own(body: str) -> None:
    result = after(body)
    assert PLAIN.format("self.opt" if "self" in body else "opt") in result
    if "other.step" in body:
        assert AVERAGED.format("other") in result
    assert "same on every process" in next(
        f.message for f in check((HEAD + textwrap.dedent(body)).encode()) if f.code == "XLA501"
    )


REPLICATED = {
    "before it is wrapped": """
        model = nn.Linear(2, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        net = DDP(model)
        net(x).sum().backward()
        opt.step()
        """,
    "a part of what is": """
        model = nn.Sequential(nn.Linear(2, 1))
        model = DDP(model, find_unused_parameters=True)
        opt = torch.optim.SGD(model.module[0].parameters(), lr=0.1)
        model(x).sum().backward()
        opt.step()
        """,
    "in a branch": """
        def main(args, x):
            model = nn.Linear(2, 1)
            if args.distributed:
                model = nn.parallel.DistributedDataParallel(model)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).sum().backward()
            opt.step()
        """,
    "handed to what wraps it": """
        def wrap(net):
            return DDP(net)

        def main(x):
            model = nn.Linear(2, 1)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            wrap(model)(x).sum().backward()
            opt.step()
        """,
    "handed to a class": """
        class Engine:
            def __init__(self, net):
                self.net = DDP(net)

        def main(x):
            model = nn.Linear(2, 1)
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            engine = Engine(model)
            engine.net(x).sum().backward()
            opt.step()
        """,
    "a parameter beside a replica": """
        def train(model, opt, x):
            model(x).sum().backward()
            opt.step()

        def main(net):
            return DDP(net)
        """,
    "sharded": """
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

        def main(x):
            model = FSDP(nn.Linear(2, 1))
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).mean().backward()
            opt.step()
        """,
}


@pytest.mark.parametrize("body", REPLICATED.values(), ids=REPLICATED)
def test_what_is_replicated(body: str) -> None:
    assert AVERAGED.format("opt") in after(body)


REDUCED_ALREADY = {
    "its own all-reduce": """
        def train(model, opt, x):
            model(x).sum().backward()
            for p in model.parameters():
                dist.all_reduce(p.grad.data)
                p.grad /= dist.get_world_size()
            opt.step()
        """,
    "all gradients in one": """
        def train(model, opt, x):
            model(x).sum().backward()
            flat = torch.cat([p.grad.view(-1) for p in model.parameters()])
            dist.all_reduce(flat)
            opt.step()
        """,
    "a hook of each gradient": """
        def average(grad):
            dist.all_reduce(grad)
            return grad / dist.get_world_size()

        def train(model, x):
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for p in model.parameters():
                p.register_hook(average)
            model(x).sum().backward()
            opt.step()
        """,
    "a hook after accumulation": """
        from functools import partial

        def total(world, p):
            t = p.grad
            dist.all_reduce(t)
            t /= world

        def train(model, opt, x):
            for p in model.parameters():
                p.register_post_accumulate_grad_hook(partial(total, dist.get_world_size()))
            model(x).sum().backward()
            opt.step()
        """,
    "a lambda": """
        def train(model, opt, x):
            for p in model.parameters():
                p.register_hook(lambda g: dist.all_reduce(g))
            model(x).sum().backward()
            opt.step()
        """,
    "a wrapper of its own": """
        class SimpleDDP(nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module
                for p in module.parameters():
                    p.register_post_accumulate_grad_hook(self.send)

            def send(self, p):
                dist.all_reduce(p.grad, async_op=True)

        def train(x):
            model = SimpleDDP(nn.Linear(2, 1))
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).sum().backward()
            opt.step()
        """,
    "beside synchronised normalization": """
        def train(x):
            model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Linear(2, 1))
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).sum().backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
            opt.step()
        """,
}


@pytest.mark.parametrize("body", REDUCED_ALREADY.values(), ids=REDUCED_ALREADY)
def test_gradients_that_the_script_reduces_are_not_averaged_again(body: str) -> None:
    assert PLAIN.format("opt") in after(body)
    assert "itself" in next(
        f.message for f in check((HEAD + textwrap.dedent(body)).encode()) if f.code == "XLA501"
    )


def test_a_wrapper_of_its_own_that_inherits_from_torch_averages_in_backward() -> None:
    body = """
        class MyDDP(nn.parallel.DistributedDataParallel):
            def total(self, loss):
                dist.all_reduce(loss)

        def train(x):
            model = MyDDP(nn.Linear(2, 1))
            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).sum().backward()
            opt.step()
        """
    assert AVERAGED.format("opt") in after(body)


def test_without_a_process_group_there_is_nothing_to_show() -> None:
    head = "import torch\nfrom torch import nn\n"
    assert AVERAGED.format("opt") in after(ALONE["nothing is wrapped"], head)


LOOP = "import torch\n\ndef train(model, opt, x):\n    model(x).sum().backward()\n    opt.step()\n"

GROUP = (
    "import torch.distributed as dist\nfrom loop import train\n\ndist.init_process_group('gloo')\n"
)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({}, AVERAGED),
        ({"main.py": GROUP}, PLAIN),
        ({"main.py": GROUP + "# no DDP here\n"}, PLAIN),
        ({"main.py": GROUP + "from torch.nn.parallel import DistributedDataParallel\n"}, AVERAGED),
        ({"main.py": GROUP + "import wraps\n", "wraps.py": "make = apex.parallel.DDP\n"}, AVERAGED),
        ({"main.py": GROUP + "dist.all_reduce(p.grad)\n"}, PLAIN),
        ({"main.py": GROUP + "xla.reduce_gradients(opt)\n"}, AVERAGED),
        (
            {
                "main.py": GROUP + "from own import DDP\nDDP(model)\n",
                "own.py": "class DDP(Module):\n    def send(self, p):\n        all_reduce(p.grad)\n",
            },
            PLAIN,
        ),
        ({"other.py": "import torch.distributed as d\nd.init_process_group('gloo')\n"}, AVERAGED),
    ],
)
def test_the_rest_of_the_program_is_asked(others: dict[str, str], expected: str) -> None:
    files = {path: text.encode() for path, text in {"loop.py": LOOP, **others}.items()}
    result = migrate(files["loop.py"], path="loop.py", project=Project(Modules(files), "loop.py"))
    assert expected.format("opt") in result.data.decode()


_BUCKETS = """
def reduce_in_buckets(params, size):
    grads = [param.grad.view(-1) for param in params if param.grad is not None]
    packed = torch.cat(grads)
    torch.distributed.all_reduce(packed)
    packed /= size
    for grad in grads:
        grad.copy_(packed.narrow(0, 0, grad.numel()))
"""

_MODE = """
def pad(x, mode="replicate"):
    \"\"\"Pad x; DDP is not needed.\"\"\"
    return torch.nn.functional.pad(x, (1, 1), mode=mode)
"""

_NORM = """
def norm(params):
    total = torch.stack([p.grad.norm() for p in params]).sum()
    torch.distributed.all_reduce(total)
    return total
"""


@pytest.mark.parametrize(
    ("helper", "reduces"), [(_BUCKETS + _MODE, True), (_BUCKETS, True), (_NORM, False)]
)
def test_gradients_that_another_module_reduces(helper: str, reduces: bool) -> None:
    files = {
        "main.py": b"import torch\nimport loop\ntorch.distributed.init_process_group('nccl')\nloop.fit(1, [], 2)\n",
        "helpers.py": f"import torch\n{helper}".encode(),
        "loop.py": b"""\
import torch
from helpers import *

def fit(model, batches, optimizer):
    for batch in batches:
        model(batch.cuda()).sum().backward()
        reduce_in_buckets(model.parameters(), 2)
        optimizer.step()
""",
    }
    found = check(files["loop.py"], path="loop.py", project=Project(Modules(files), "loop.py"))
    (message,) = [f.message for f in found if f.code == "XLA501"]
    assert ("averages the gradients of `optimizer` itself" in message) is reduces


@pytest.mark.parametrize(
    "given",
    [
        "()",
        "(closure)",
        "(closure=closure)",
        "(lambda: loss)",
        "(None)",
        "(*batch)",
        "(*batch, **lr)",
        "(**lr)",
    ],
)
def test_a_step_that_takes_a_closure_averages(given: str) -> None:
    after = migrated(OWN_STEP.format(f"optimizer.step{given}"))
    assert f"xla.optimizer_step(optimizer{', ' if given != '()' else ''}{given[1:]}\n" in after


def test_gradients_beside_a_step_of_its_own_class_are_named() -> None:
    alone = OWN_STEP.format("optimizer.step(lr)")
    beside = alone.replace("        optimizer", "        loss.backward()\n        optimizer")
    told = [f for f in check(beside.encode()) if "reduce_gradients" in f.message]
    assert [f.code for f in told] == ["XLA501"]
    assert not [f for f in check(alone.encode()) if f.code == "XLA501"]


@pytest.mark.parametrize(
    "call", ["rpc.init_rpc('a', rank=0)", "torch.distributed.rpc.init_rpc('a')"]
)
def test_what_remote_calls_train_is_no_replica(call: str) -> None:
    source = f"""
import torch
import torch.distributed.rpc as rpc

{call}
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in batches:
    model(x).sum().backward()
    optimizer.step()
"""
    assert PLAIN.format("optimizer") in migrated(source)
