"""DistributedDataParallel of two rehearsing replicas beside torch's own, over gloo, in the same processes."""

from __future__ import annotations

from typing import Any

import pytest

from .. import rehearsal

pytestmark = pytest.mark.e2e

SCRIPT = r"""
import contextlib, copy, datetime, os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from xla_migrate import runtime as xla

xla.init_process_group("nccl")
rank, device = xla.rank(), xla.xla_device()
gloo = dist.new_group(backend="gloo")

def ours(module, **options):
    return xla.DistributedDataParallel(module.to(device), **options)

def torchs(module, **options):
    if any(isinstance(m, nn.SyncBatchNorm) for m in module.modules()):
        return ours(module, **options)
    return nn.parallel.DistributedDataParallel(module, process_group=gloo, **options)

def batch(step, width=4):
    return torch.randn(6, width, generator=torch.Generator().manual_seed(10 * step + rank))

def net(norm=True):
    torch.manual_seed(rank)  # others on each replica, before the wrapper
    layers = [nn.Linear(4, 5), nn.BatchNorm1d(5) if norm else nn.Tanh(), nn.Linear(5, 2)]
    return nn.Sequential(*layers)

def gradients(model):
    return [None if p.grad is None else p.grad.flatten().tolist() for p in model.parameters()]

def state(model):
    return [v.flatten().tolist() for v in model.state_dict().values()]

def plain(wrap):
    model = wrap(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = [state(model)]
    for step in range(3):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        seen.append(gradients(model))
        seen.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        if wrap is ours:
            xla.reduce_gradients(optimizer)
            xla.optimizer_step(optimizer)
            xla.mark_step()
        else:
            optimizer.step()
        seen.append(state(model))
    model.eval()
    with torch.no_grad():
        seen.append(model(batch(9)).tolist())
    return seen + [state(model), list(model.state_dict())]

def accumulated(wrap, how):
    model = wrap(net(), broadcast_buffers=False)
    seen = []
    for micro in range(4):
        last = micro % 2 == 1
        if how == "no_sync":
            with contextlib.nullcontext() if last else model.no_sync():
                model(batch(micro)).square().mean().backward()
        elif how == "attribute":
            model.require_backward_grad_sync = last
            model(batch(micro)).square().mean().backward()
        else:  # the forward pass decides
            with model.no_sync():
                loss = model(batch(micro)).square().mean()
            loss.backward()
        seen.append(gradients(model))
    return seen + [state(model)]

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.parts = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

    def forward(self, x, part):
        return self.parts[0](x) + (self.parts[part](x) if part else 0)

def unused(wrap):
    model = wrap(Branches(), find_unused_parameters=True)
    seen = []
    for part in (rank, 0, 1, 1 - rank):  # one replica's, nobody's, everybody's
        model(batch(part), part).square().mean().backward()
        seen.append(gradients(model))
    return seen

def unused_in_parts(wrap):
    model = wrap(Branches(), find_unused_parameters=True)
    seen = []
    for parts in ((1, 1), (2, 2), (2, 1), (rank, 0)):  # of a micro-batch under no_sync, and the last
        model.zero_grad()
        with model.no_sync():
            model(batch(0), parts[0]).square().mean().backward()
        model(batch(1), parts[1]).square().mean().backward()
        seen.append(gradients(model))
    return seen

def frozen(wrap):
    module = net(norm=False)
    module[0].weight.requires_grad_(False)
    model = wrap(module)
    model(batch(0)).square().mean().backward()
    return gradients(model)

def in_two_backwards(wrap):
    model = wrap(Branches())
    x = batch(0)
    def forward(x, part):
        return [p(x).square().mean() for p in model_parts]
    model_parts = model.module.parts
    model.module.forward = lambda x: [p(x).square().mean() for p in model_parts]
    first, second, third = model(x.to(device) if wrap is ours else x)
    (first + second).backward()
    third.backward()
    return gradients(model)

def adversaries(wrap):
    torch.manual_seed(3)
    G, D = wrap(nn.Linear(4, 4)), wrap(nn.Linear(4, 1))
    steps = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (G, D)]
    for step in range(2):
        x = batch(step).to(device) if wrap is ours else batch(step)
        fake = G(x)
        D.zero_grad()
        (D(fake.detach()).mean() - D(x).mean()).backward()
        (xla.optimizer_step if wrap is ours else torch.optim.Optimizer.step)(steps[1]) if wrap is ours else steps[1].step()
        G.zero_grad()
        D(fake).mean().neg().backward()
        xla.optimizer_step(steps[0]) if wrap is ours else steps[0].step()
    return [state(G), state(D), gradients(D)]

def module_alone(wrap):
    model = wrap(net(norm=False))
    x = batch(0).to(device) if wrap is ours else batch(0)
    model.module(x).square().mean().backward()
    return gradients(model)

def copied(wrap):
    model = copy.deepcopy(wrap(net(norm=False))) if wrap is ours else wrap(net(norm=False))
    model(batch(0)).square().mean().backward()
    return gradients(model)

def stepped(wrap, optimizer):
    if wrap is ours:
        xla.optimizer_step(optimizer)
        xla.mark_step()
    else:
        optimizer.step()

def beside_a_table(wrap):
    # A table of each replica's own, which both begin alike, in the optimizer of what is wrapped.
    torch.manual_seed(4)
    table = nn.Embedding(5, 4)
    top = wrap(net(norm=False))
    table = table.to(device) if wrap is ours else table
    optimizer = torch.optim.SGD([{"params": table.parameters()}, {"params": top.parameters()}], lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        index = torch.tensor([rank, 2, 3])
        top(table(index.to(device) if wrap is ours else index)).square().mean().backward()
        stepped(wrap, optimizer)
    return [state(table), state(top)]

def in_another_optimizer(wrap):
    torch.manual_seed(4)
    table = nn.Embedding(5, 4)
    top = wrap(net(norm=False))
    table = table.to(device) if wrap is ours else table
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (table, top)]
    index = torch.tensor([rank, 2, 3])
    top(table(index.to(device) if wrap is ours else index)).square().mean().backward()
    for optimizer in optimizers:
        stepped(wrap, optimizer)
    return [state(table), state(top)]

def ignored(wrap):
    # What the wrapper is told to ignore, and what is frozen while it is made.
    torch.manual_seed(4)
    module = net(norm=False)
    nn.init.constant_(module[2].weight, 0.5)  # it is not sent
    kept = {"2.weight"}
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, kept)
    module[0].bias.requires_grad_(False)
    model = wrap(module)
    module[0].bias.requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    late = torch.optim.SGD([module[0].bias], lr=0.1)
    for step in range(2):
        model.zero_grad()
        model(batch(step)).square().mean().backward()
        stepped(wrap, optimizer)
        stepped(wrap, late)
    return state(model)

def in_a_group_of_one(wrap):
    # Data parallel over one replica, where both hold parts of a model.
    alone = [xla.new_group([0]), xla.new_group([1])][rank]
    torch.manual_seed(4)
    module = nn.Linear(4, 2)
    model = ours(module, process_group=alone) if wrap is ours else module
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(batch(0)).square().mean().backward()
    stepped(wrap, optimizer)
    return state(module)

def without_the_wrapper(wrap):
    # The wrapper is gone, and each replica trains the module alone.
    torch.manual_seed(4)
    model = wrap(nn.Linear(4, 2))
    module = model.module
    del model
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    x = batch(0).to(device) if wrap is ours else batch(0)
    module(x).square().mean().backward()
    stepped(wrap, optimizer)
    return state(module)

SCENARIOS = {
    "plain": plain,
    "no_sync": lambda wrap: accumulated(wrap, "no_sync"),
    "attribute": lambda wrap: accumulated(wrap, "attribute"),
    "forward decides": lambda wrap: accumulated(wrap, "forward"),
    "unused": unused,
    "unused in parts": unused_in_parts,
    "frozen": frozen,
    "two backwards": in_two_backwards,
    "adversaries": adversaries,
    "module alone": module_alone,
    "copied": copied,
    "beside a table": beside_a_table,
    "another optimizer": in_another_optimizer,
    "ignored": ignored,
    "group of one": in_a_group_of_one,
    "wrapper gone": without_the_wrapper,
}
for name, scenario in SCENARIOS.items():
    report(name, [scenario(ours), scenario(torchs)])

# Parameters that take no part, where the script has not said so.
model = ours(Branches())
model(batch(0), 1).sum().backward()
try:
    model(batch(0), 1)
except RuntimeError as error:
    report("left out", str(error))
del model
try:
    ours(nn.Linear(4, 4 + rank))
except RuntimeError as error:
    report("other shapes", str(error))

# Statistics over both: those of one batch norm that sees everything.
module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
torch.manual_seed(0)
for p in module.parameters():
    nn.init.normal_(p)
whole = copy.deepcopy(module)
model = ours(xla.convert_sync_batchnorm(module))
x = [batch(0), batch(1)][rank][: 4 + rank]
xs = [None, None]
dist.all_gather_object(xs, x)
out = model(x)
y = whole(torch.cat(xs))
expected = y.split([4, 5])[rank]
(out.square().sum()).backward()
(y.square().sum() / 2).backward()
report("synchronised", [out.flatten().tolist(), gradients(model), state(model)])
report("whole", [expected.flatten().tolist(), gradients(whole), state(whole)])
report("its class", [type(m).__name__ for m in model.modules()])

# Launches of a step.
model = ours(net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    before = xla.metrics()
    optimizer.zero_grad()
    loss = model(batch(step)).square().mean()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
after = xla.metrics()
report("launches", after["launches"] - before["launches"])
report("compiles", after["compiles"] - before["compiles"])

# Saves: every form that people write, after gradients have been averaged.
def train():
    optimizer.zero_grad()
    model(batch(0)).square().mean().backward()
    xla.optimizer_step(optimizer)

from xla_migrate.runtime.torch_xla import replicas as xla_replicas
xla_replicas._PATIENCE = datetime.timedelta(seconds=5)
path = os.environ["FOLDER"] + "/"
def saves(name, form):
    start = time.monotonic()
    try:
        form(path + name)
        said = "saved"
    except RuntimeError as error:
        said = str(error)
    report(name, [said, time.monotonic() - start])
    if name != "guarded":
        xla.barrier()

def by_all(file):
    train()
    xla.save(model.state_dict(), file)

def guarded_behind_a_mark(file):
    train()
    xla.mark_step()
    if rank == 0:
        xla.save(model.module.state_dict(), file)

def guarded(file):
    train()
    if xla.is_master():
        xla.save(model.module.state_dict(), file)
    else:
        time.sleep(12)

def the_others_return(file):
    train()
    xla.mark_step()
    if rank != 0:
        return
    xla.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)

def plain_torch(file):
    train()
    xla.mark_step()
    if rank == 0:
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, file)

def each_its_own(file):
    train()
    xla.save({"rank": rank}, f"{file}-{rank}", master_only=False)

for form in (by_all, guarded_behind_a_mark, the_others_return, plain_torch, each_its_own):
    saves(form.__name__, form)
report("latest", str(xla.latest(os.environ["FOLDER"], "by_*")))
report("none", xla.latest(os.environ["FOLDER"] + "/none"))
with open(path + "broken.pt", "wb") as file:
    file.write(b"PK\x03\x04 and then the power went")
xla.barrier()
try:
    xla.latest(os.environ["FOLDER"])
except xla.CheckpointError as error:
    report("broken", str(error))
saves("guarded", guarded)
os._exit(0)  # the group is of no more use
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("data_parallel")
    reports = rehearsal.run(SCRIPT, FOLDER=str(folder))
    for report in reports:
        report["files"] = sorted(path.name for path in folder.iterdir())
    return reports


def close(found: Any, expected: Any) -> bool:
    """Nests of lists of numbers, None and text."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, float):
        return found == pytest.approx(expected, abs=2e-6, rel=1e-5)
    return bool(found == expected)


SCENARIOS = {
    "plain": "clipping sees averages; reducing again does nothing; buffers are rank 0's",
    "no_sync": "micro-batches add up, and are averaged once",
    "attribute": "require_backward_grad_sync, as nanoGPT sets it",
    "forward decides": "no_sync around the forward pass alone",
    "unused": "None where nobody has a gradient",
    "unused in parts": "what is used under no_sync alone is averaged, and nothing of earlier steps",
    "frozen": "parameters without gradients",
    "two backwards": "through one forward pass",
    "adversaries": "two models and two optimizers",
    "module alone": "past the wrapper nothing is averaged",
    "copied": "a deep copy averages too",
    "beside a table": "what one optimizer trains beside a wrapped model is each replica's own",
    "another optimizer": "nor is what another optimizer trains, where a model is wrapped",
    "ignored": "parameters that the wrapper does not average are not averaged by the step either",
    "group of one": "a wrapper over one replica averages nothing",
    "wrapper gone": "what was wrapped is not averaged without the wrapper",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_does_what_torchs_does(both: list[dict[str, Any]], name: str) -> None:
    for report in both:
        found, expected = report[name]
        assert close(found, expected), SCENARIOS[name]
    if name in ("plain", "adversaries"):
        assert both[0][name][0] == both[1][name][0] or name == "plain"


def test_fact_5_1_gradients_through_gloo_are_those_of_ddp(both: list[dict[str, Any]]) -> None:
    for report in both:
        (found, expected) = report["plain"]
        assert len(expected) > 6
        assert close(found[1:], expected[1:])


def test_gradients_that_nobody_averages_are_an_error(both: list[dict[str, Any]]) -> None:
    for report in both:
        assert "2 parameters took no part" in report["left out"]
        assert "find_unused_parameters=True" in report["left out"]


def test_different_models_are_an_error(both: list[dict[str, Any]]) -> None:
    for report in both:
        assert "replicas hold different parameters" in report["other shapes"]


def test_batch_norm_over_replicas_is_that_of_the_whole_batch(both: list[dict[str, Any]]) -> None:
    for report in both:
        assert close(report["synchronised"], report["whole"])
        assert "SyncBatchNorm" in report["its class"]


def test_a_step_takes_two_launches(both: list[dict[str, Any]]) -> None:
    """One up to the gradients, one from them; what a rehearsal adds does not grow with the model."""
    for report in both:
        assert report["launches"] == 2
        assert report["compiles"] == 0


SAVES = ("by_all", "guarded_behind_a_mark", "the_others_return", "plain_torch", "each_its_own")


@pytest.mark.parametrize("name", SAVES)
def test_saves_do_not_wait_for_who_does_not_come(both: list[dict[str, Any]], name: str) -> None:
    for report in both:
        assert report[name][0] == "saved"


def test_fact_1_41_a_save_that_would_hang_is_an_error(both: list[dict[str, Any]]) -> None:
    said, seconds = both[0]["guarded"]
    assert "on a device the job would hang" in said
    assert "mark_step() on every replica" in said
    assert seconds > 4
    assert "guarded" not in both[0]["files"]


def test_who_writes(both: list[dict[str, Any]]) -> None:
    written = set(both[0]["files"]) - {"broken.pt"}
    assert written == {*SAVES[:4], "each_its_own-0", "each_its_own-1"}


def test_the_newest_checkpoint_is_the_masters_answer(both: list[dict[str, Any]]) -> None:
    for report in both:
        assert report["latest"].endswith("by_all")
        assert report["none"] is None
        assert "broken.pt: truncated" in report["broken"]
