"""What is fetched from the device in every step, form by form, and what only looks like it."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ....each import each
from ...helpers import findings

HEAD = """import logging, math, sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
logger = logging.getLogger()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        h = self.fc(x)
        {forward}
        return self.mixed(h)

    def mixed(self, h):
        h = h * 2
        {called}
        return h


def train(model: Net, batches: DataLoader, optimizer, scheduler, args, writer, bar):
    running, best, names, history = 0.0, 1.0, [], []
    for step, (x, y) in enumerate(batches):
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        penalty = args.weight * sum(p.pow(2).sum() for p in model.parameters())
        loss = ce + 0.1 * penalty
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        {loop}
"""


def found(code: str, *, loop: str = "pass", forward: str = "pass", called: str = "pass") -> int:
    """How often `code` is found in what is put in."""
    source = HEAD.replace("{loop}", loop).replace("{forward}", forward).replace("{called}", called)
    return [c for _, c in findings(source)].count(code)


@pytest.mark.parametrize(
    "line",
    [
        "running += loss.item()",
        "running += loss.data.item()",
        "running += loss.detach().cpu().item()",
        "running += loss.detach().cpu().numpy()",
        "running += float(loss)",
        "names.append(penalty.item())",
        "names.append(ce.item())",
        "names.append((out.argmax(1) == y).sum().item())",
        "names += out.tolist()",
        "np.mean(out.detach().cpu().numpy())",
        "print(loss)",
        "print('loss', loss.item())",
        "print(f'{loss:.3f}')",
        "print('%.3f' % loss)",
        "bar.set_description(('%10s' * 2 + '%.4g') % (step, len(names), *loss))",
        "print('%s' % step, *loss)",
        "if rank == 0: print(loss)",
        "if args.local_rank in {-1, 0}: print(loss)",
        "print('{:.3f}'.format(loss))",
        "bar.set_postfix(loss=loss.item())",
        "bar.set_postfix({'loss': loss})",
        "bar.set_description(f'loss {loss.item():.3f}')",
        "writer.add_scalar('loss', loss, step)",
        "writer.add_scalars('all', {'loss': loss}, step)",
        "writer.add_histogram('out', out, step)",
        "args.wandb.log({'loss': loss})",
        "logger.info('loss %s', loss)",
        "sys.stdout.write('loss %f' % loss)",
        "if loss > 5: pass",
        "if torch.isnan(loss).any(): continue",
        "if not math.isfinite(loss.item()): sys.exit(1)",
        "while loss < 0: break",
        "assert loss > 0",
        "best = min(best, loss)",
        "best = 1 if norm > 3 else 2",
        "if args.tracked: running += loss.item()",
        "history.append(loss.detach().to('cpu'))",
        "history.append(loss.to(torch.device('cpu')))",
        "args.wandb.log(dict(loss=loss))",
        "figures = {'loss': loss}; args.wandb.log(figures)",
        "fine = loss > 0 and loss < 5",
        "names = [n for n in names if loss > 3]",
        "word = x[:, : y.sum(1).max()]",
        "for k in range(y.sum()): pass",
        "torch.allclose(out, out)",
        "torch.multinomial(out, 4)",
        "torch.inverse(out)",
        "torch.linalg.inv(out).sum()",
        "out.inverse()",
        "torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step(loss)",
        "best += sum(p.grad.norm() for p in model.parameters()).item()",
        "for p in model.parameters(): best += p.grad.data.norm(2).item() ** 2",
        "print(torch.norm(torch.stack([p.grad.norm() for p in model.parameters()])).item())",
        "print(torch.autograd.grad(loss, x)[0].norm().item())",
    ],
)
def test_reads(line: str) -> None:
    assert found("XLA503", loop=line) >= 1


@pytest.mark.parametrize(
    "line",
    [
        "torch.multinomial(out, 1)",
        "torch.linalg.inv_ex(out)",
        "pose.inverse()",
        "torch.multinomial(out, num_samples=1)",
        "torch.multinomial(out, 8, replacement=True)",
        "print(step, len(x), x.shape, x.size(0), out.dim(), scheduler.get_last_lr()[0])",
        "print(optimizer.param_groups[0]['lr'])",
        "if step % 10 == 0: print(loss.item())",
        "if args.log_interval and step > 3: print(loss.item())",
        "if x.size(0) < 3: continue",
        "if loss is None: continue",
        "if args.environ.get('DEBUG'): print(loss)",
        "running = running + loss.detach()",
        "best = torch.minimum(norm, norm)",
        "names.append(args.price.item())",
        "for name in names: print(name)",
        "print(args.loss)",
        "assert x.size(0) == 4, f'{loss}'",
        "args.log(dict(step=step))",
        "scheduler.step(step)",
        "for p in model.parameters(): print(p.shape, p.numel())",
        "word = x[:, : y.size(1)]",
    ],
)
def test_no_reads(line: str) -> None:
    assert found("XLA503", loop=line) == 0


@pytest.mark.parametrize(
    "line",
    [
        "if h.max() > 10: h = h / 2",
        "if self.scale.item() > 2: h = h / 2",
        "start = int(self.ptr)",
        "print(h.mean())",
        "print(x.max().item())",
    ],
)
def test_reads_in_what_a_module_computes(line: str) -> None:
    assert found("XLA503", forward=line) == 1


def test_reads_in_methods_that_forward_calls() -> None:
    assert found("XLA503", called="start = int(self.ptr)") == 1


@pytest.mark.parametrize(
    "line", ["if h.size(0) > 3 and self.training: h = h / 2", "if x is None: h = h / 2", "print(x)", "h = torch.log(h)"]
)  # fmt: skip
def test_no_reads_in_what_a_module_computes(line: str) -> None:
    """`x` may be anything."""
    assert found("XLA503", forward=line) == 0


@pytest.mark.parametrize(
    "line",
    [
        "out.nonzero()",
        "out[out > 0]",
        "torch.unique(y)",
        "torch.masked_select(out, out > 0)",
        "F.one_hot(y)",
        "torch.where(out > 0)",
        "y[y == 1]",
        "torch.repeat_interleave(out, y, dim=0)",
        "out.repeat_interleave(y, dim=0)",
    ],
)
def test_sizes_by_data(line: str) -> None:
    assert found("XLA504", loop=line) == 1


def test_masks_in_what_a_module_computes() -> None:
    assert found("XLA504", forward="kept = h[h > 0]") == 1


@pytest.mark.parametrize("line", ["out ** step", "out.roll(step)"])
def test_numbers_in_the_graph(line: str) -> None:
    assert found("XLA510", loop=line) == 1


@pytest.mark.parametrize(
    "line", ["torch.zeros(step, device=device)", "torch.arange(step, device=device)"]
)
def test_a_size_that_changes_is_one_finding(line: str) -> None:
    assert (found("XLA504", loop=line), found("XLA510", loop=line)) == (1, 0)


@pytest.mark.parametrize("line", ["out * step", "out + 0.9**step", "torch.tensor(step, device=device)", "torch.arange(8, device=device)"])  # fmt: skip
def test_numbers_that_are_data(line: str) -> None:
    assert found("XLA510", loop=line) == 0


@pytest.mark.parametrize(
    "line",
    [
        "running += loss",
        "history.append(loss)",
        "running = running + loss",
        "history += [loss]",
        "history.append((step, loss))",
        "running = 0.9 * running + 0.1 * loss",
        "running = loss if step == 0 else running * 0.9 + loss * 0.1",
        "running += ce",
        "running += loss * x.size(0)",
    ],
)
def test_graphs_that_grow(line: str) -> None:
    assert found("XLA505", loop=line) == 1


@pytest.mark.parametrize(
    "line", ["history.append(loss.detach())", "running = running + 0.1 * norm", "total = ce + loss"]
)
def test_graphs_that_do_not_grow(line: str) -> None:
    assert found("XLA505", loop=line) == 0


def test_graphs_that_grow_in_objects() -> None:
    source = """import torch

class Agent:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.losses, self.total = model, optimizer, [], 0.0

    def learn(self, x):
        loss = self.model(x.cuda()).mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss)
        self.total += loss

def run(agent, batches):
    for x in batches:
        agent.learn(x)
"""
    assert [line for line, code in findings(source) if code == "XLA505"] == [11, 12]


def test_what_backward_is_called_on_is_no_growing_graph() -> None:
    source = """import torch

class Agent:
    def __init__(self, optimizer):
        self.optimizer, self.losses = optimizer, []

    def learn(self, x):
        loss = (x.cuda() ** 2).mean()
        loss.backward(inputs=[])
        self.losses.append(loss)
        torch.stack(self.losses).sum().backward()

def run(agent, batches):
    for x in batches:
        agent.learn(x)
"""
    assert "XLA505" not in [code for _, code in findings(source)]


ASKED = "check it every n-th step, or decide on the device: `torch.where(condition, new, old)`"
SIZES = "pad to one size and mask the rest, or keep the number on the host next to the tensor"
REDUCED = "remove `.cpu()`, so that `.sum()` is computed on the device and can be read later"
COMPUTED = "compute with the tensor itself if both are on the device, or read every n-th step"
LARGER = "compute it on the device: `torch.maximum`, or `torch.clamp` with a number"
NUMPYS = "compute it with PyTorch on the device instead of numpy"


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        ("y = h[:, : h.argmax()]", SIZES),
        ("n = int(h.max().item()) + 1\n        y = torch.zeros(n)", SIZES),
        ("for _ in range(h.argmax().item()):\n            pass", SIZES),
        ("n = h.argmax().item()\n        y = h[:n]", SIZES),
        ("y = h.view(round(h.sum().item()), -1)", SIZES),
        ("y = h.topk(int(h.sum()))", SIZES),
        ("n = int(h.sum())\n        k = min(8, int(n * 3))\n        y = torch.topk(h, k)", SIZES),
        ("y = h * 2 if h.sum().item() == 0 else h", ASKED),
        ("if h.sum() > 0:\n            h = h * 2", ASKED),
        ("n = h.sum().item()\n        print(n)", "read every n-th step, or after the loop"),
        ("h = h * max(h.sum(), 2)", LARGER),
        ("right = h.eq(x).cpu().sum()\n        self.n.append(right.item())", REDUCED),
        (
            "right = h.eq(x).cpu()\n        self.n.append(right.size(0))",
            "read every n-th step, or after the loop",
        ),
        ("h.grad.mul_(1 / h.sum().item())", COMPUTED),
        ("scale = min(1.0, 2 / h.norm().item())\n        h.data.mul_(scale)", COMPUTED),
        ("self.n = h.sum().item() + 1", "read every n-th step, or after the loop"),
        ("z = h.detach().cpu().numpy()\n        h = h * np.abs(z).max()", NUMPYS),
        ("z = h.detach().cpu().numpy().copy()\n        h = h * float(z.sum())", NUMPYS),
        ("self.z = np.sign(h.detach().cpu().numpy())", NUMPYS),
        ("a, z = 1, h.data.cpu().numpy()\n        h = h * z", NUMPYS),
        ("z = h.data.cpu()\n        h = h * z", "read every n-th step, or after the loop"),
    ],
)
def test_a_size_is_needed_in_every_step(read: str, advice: str) -> None:
    source = HEAD.replace("{forward}", read).replace("{called}", "pass") + (
        "        loss = model(x.to(device)).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    said = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert said
    assert said[0].endswith(f": {advice}")


def test_the_array_of_a_loss_is_one_number() -> None:
    source = """
import torch
def train(model, optimizer, loader):
    total = 0
    for x in loader:
        loss = model(x.cuda()).mean()
        value = loss.detach().cpu().numpy()
        loss.backward()
        optimizer.step()
        total += value * len(x)
        print(total)
"""
    (said,) = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert said.endswith(": use `.item()`, whose read is deferred")
    assert "XLA503" in [
        f.code for f in check(source.replace("cpu().numpy()", "item()").encode()) if f.edits
    ]


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("n = h.detach().numpy()", False),
        ("n = h.detach().numpy().sum()", False),
        ("n = h.data.numpy().item()", False),
        ("self.n += h.mean().detach().numpy()", False),
        ("n = np.mean(h.detach().numpy())", False),
        ("n = h.detach().cpu().numpy()", True),
        ("n = h.detach().to('cpu').numpy()", True),
    ],
)
def test_what_becomes_an_array_by_itself_is_on_the_host(read: str, found: bool) -> None:
    """A tensor of CUDA's raises there, as one of XLA's does."""
    source = HEAD.replace("{forward}", read).replace("{called}", "pass") + (
        "        loss = model(x.to(device)).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    line = next(k for k, text in enumerate(source.splitlines(), 1) if read in text)
    assert ((line, "XLA503") in findings(source)) is found


@each(
    "read",
    [
        "loss = loss.item() if loss is not None else None",
        "loss = None if loss is None else loss.item()",
        "loss = loss.detach().mean().item()",
        "loss = float(loss)",
        "loss = loss.tolist()",
    ],
)
def test_a_loss_that_has_become_a_number_is_read_once(read: str) -> None:
    source = f"""import torch
class Learner:
    def fit(self, batches):
        for batch in batches:
            loss = self.losses(batch.cuda())
            loss.backward()
            self.optimizer.step()
            {read}
            if loss is not None:
                self.metrics.log("loss", loss)
"""
    assert [line for line, code in findings(source) if code == "XLA503"] == [8]


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("names.append(model.fc.weight.grad.norm().cpu().numpy())", 1),
        ("names.append(model.fc.weight.data.mean().cpu().numpy())", 1),
        ("names.append(model.fc.bias.detach().cpu().numpy())", 1),
        ("names.append(nn.Linear(2, 2).to(device).weight.tolist())", 1),
        ("names.append(args.weight.tolist())", 0),
        ("names.append(scheduler.grad.tolist())", 0),
    ],
)  # fmt: skip
def test_weights_and_gradients_of_a_model(line: str, times: int) -> None:
    assert found("XLA503", loop=line) == times


@pytest.mark.parametrize(
    ("test", "where"),
    [
        ("if torch.isnan(loss) or torch.isinf(loss):", "~torch.isnan(loss) & ~torch.isinf(loss)"),
        ("if math.isnan(loss.item()):", "~torch.isnan(loss)"),
        ("if not math.isfinite(float(loss)):", "torch.isfinite(loss)"),
        ("if not torch.isfinite(model.weight).all():", "torch.isfinite(model.weight).all()"),
        ("if loss.isnan().any():", "~torch.isnan(loss).any()"),
        (
            "if any([p.grad.isinf().any().item() for p in model.parameters()]):",
            "~torch.stack([torch.isinf(p.grad).any() for p in model.parameters()]).any()",
        ),
    ],
)
def test_the_advice_names_the_tensor_that_the_script_tests(test: str, where: str) -> None:
    script = (
        "import math\nimport torch\nfrom xla_migrate import runtime as xla\n"
        "model = torch.nn.Linear(2, 2).to(xla.xla_device())\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for step in range(9):\n"
        "    loss = model(torch.ones(2, 2).to(xla.xla_device())).mean()\n"
        f"    {test}\n        continue\n"
        "    loss.backward()\n    xla.optimizer_step(optimizer)\n    xla.mark_step()\n"
    )
    (found,) = [f for f in check(script.encode()) if f.code == "XLA503"]
    assert f"`xla.optimizer_step(optimizer, where={where})`" in found.message


def test_only_a_condition_that_decides_on_the_step_is_advised_to_become_a_part_of_it() -> None:
    script = (
        "import torch\nfrom xla_migrate import runtime as xla\n"
        "model = torch.nn.Linear(2, 2).to(xla.xla_device())\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for step in range(9):\n"
        "    loss = model(torch.ones(2, 2).to(xla.xla_device())).mean()\n"
        "    if torch.isnan(loss):\n        BRANCH\n"
        "    loss.backward()\n    xla.optimizer_step(optimizer)\n    xla.mark_step()\n"
    )
    for branch, is_advised in (("continue", True), ("registry.bad(step)", False)):
        source = script.replace("BRANCH", branch).encode()
        (message,) = [f.message for f in check(source) if f.code == "XLA503"]
        assert ("xla.optimizer_step(optimizer, where=" in message) == is_advised


IN_EACH_STEP = """
import math, sys, time
import torch
from torch.utils.tensorboard import SummaryWriter
from xla_migrate import runtime as xla
model = torch.nn.Linear(2, 2).to(xla.xla_device())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
writer, start = SummaryWriter(), 0.0
for step in range(9):
    loss = model(torch.ones(2, 2).to(xla.xla_device())).mean()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
"""


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("print(loss.item())", "without waiting"),
        ("if loss.item() > 9: print('large')", "without waiting"),
        ("if not math.isfinite(loss.item()): raise ValueError('loss')", "show and save nothing"),
        ("assert loss.item() < 9", "show and save nothing"),
        ("if loss.item() > 9: print('large'); sys.exit(1)", "show and save nothing"),
    ],
)
def test_the_advice_says_what_deferring_the_read_changes(statement: str, advice: str) -> None:
    script = f"{IN_EACH_STEP}    {statement}\n"
    (found,) = [f for f in check(script.encode()) if f.code == "XLA503"]
    assert found.edits
    assert ": fetch the value later, without waiting" in found.message
    assert found.message.endswith(advice)


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ('add_scalar("charts/SPS", int(step / (time.time() - start)), step)', "sps"),
        ('add_scalars("rate", {"per second": int(step / (time.time() - start))}, 1)', "per_second"),
        ('add_scalar("rate", scalar_value=int(step / (time.time() - start)))', "scalar_value"),
        ('show(1, "SPS:", int(step / (time.time() - start)))', "sps"),
        ('add_scalar("%", int(step / (time.time() - start)), step)', "value"),
    ],
)
def test_what_a_deferred_line_shows_is_named_by_its_label(shown: str, name: str) -> None:
    lines = f"    writer.add_scalar('loss', loss.item(), step)\n    writer.{shown}\n"
    after = migrate(f"{IN_EACH_STEP}{lines}".encode()).data.decode()
    assert f" {name}=int(step / (time.time() - start))" in after


@pytest.mark.parametrize("argument", ["loss", "loss.data", "loss.detach()", "loss.detach().data"])
def test_a_function_that_is_handed_the_loss_without_gradients_reads_it(argument: str) -> None:
    script = f"""
import torch
def to_python_float(t):
    return t.item()
def train(model, batches, optimizer):
    total = 0.0
    for step in range(100):
        loss = model(batches[step].cuda()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += to_python_float({argument})
    print(total)
model = torch.nn.Linear(4, 4).cuda()
train(model, [torch.ones(2, 4)] * 100, torch.optim.SGD(model.parameters(), 0.1))
"""
    assert (4, "XLA503") in [(f.line, f.code) for f in check(script.encode())]


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        ("kept = linear_sum_assignment(loss[None].cpu())", "read all samples in one transfer"),
        ("c = loss[None].cpu(); kept = [linear_sum_assignment(r) for r in c]", "in one transfer"),
        ("kept = torch.multinomial(x.softmax(-1), 3)", "draw with `replacement=True`"),
    ],
)
def test_advice_for_what_the_host_computes(read: str, advice: str) -> None:
    source = f"""
import torch
from scipy.optimize import linear_sum_assignment
def train(model, optimizer, batches):
    model.cuda()
    for x in batches:
        x = x.cuda()
        loss = model(x).mean()
        {read}
        loss.backward()
        optimizer.step()
"""
    messages = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert any(advice in message for message in messages)
