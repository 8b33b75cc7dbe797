"""What is fetched from the device in every step, form by form, and what only looks like it."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

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
    ],
)
def test_reads_in_what_a_module_computes(line: str) -> None:
    assert found("XLA503", forward=line) == 1


def test_reads_in_methods_that_forward_calls() -> None:
    assert found("XLA503", called="start = int(self.ptr)") == 1


@pytest.mark.parametrize(
    "line", ["if h.size(0) > 3 and self.training: h = h / 2", "if x is None: h = h / 2", "print(x)", "print(x.max().item())", "h = torch.log(h)"]
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
    ],
)
def test_sizes_by_data(line: str) -> None:
    assert found("XLA504", loop=line) == 1


def test_masks_in_what_a_module_computes() -> None:
    assert found("XLA504", forward="kept = h[h > 0]") == 1


@pytest.mark.parametrize(
    "line", ["out ** step", "torch.zeros(step, device=device)", "torch.arange(step, device=device)", "out.roll(step)"]
)  # fmt: skip
def test_numbers_in_the_graph(line: str) -> None:
    assert found("XLA510", loop=line) == 1


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


def test_an_object_that_steps_when_called() -> None:
    source = """import torch

class Compute:
    def __call__(self, x):
        loss = x.cuda().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

def run(batches, compute: Compute):
    for x in batches:
        compute(x)
"""
    assert (8, "XLA503") in findings(source)


def test_a_number_of_the_name_of_a_loss_is_no_tensor() -> None:
    source = (
        "import torch\ndevice = torch.device('cuda')\n"
        "def train(model, optimizer):\n"
        "    loss = model(torch.ones(2, device=device)).sum()\n    loss.backward()\n"
        "    optimizer.step()\n    return float(loss)\n"
        "for epoch in range(3):\n    loss = train(model, optimizer)\n    print(f'{loss:.4f}')\n"
        "for k in range(3):\n    loss = model(torch.ones(2, device=device)).sum()\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    assert [line for line, code in findings(source) if code == "XLA503"] == [7]


@pytest.mark.parametrize(
    ("read", "times"),
    [
        ('out["loss"].item()', 1),
        ('out["loss_cls"].item()', 1),
        ('out["logits"].cpu()', 1),
        ('out["steps"].item()', 1),
        ('out["sum"].item()', 1),  # gradients of it are computed
        ('history["loss"].item()', 0),
    ],
)
def test_entries_of_what_a_model_returns(read: str, times: int) -> None:
    source = (
        "import torch\ndevice = torch.device('cuda')\n"
        "def train(model, optimizer, batches, history):\n    for x in batches:\n"
        "        out = model(**x.to(device))\n        out['sum'].backward()\n"
        f"        optimizer.step()\n        print({read})\n"
    )
    assert [c for _, c in findings(source)].count("XLA503") == times


HELPERS = """import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda")

def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()

def report(loss):
    print(loss.item())

def evaluate(model, batches):
    return sum(model(x.to(device)).mean().item() for x in batches)

class Focal(nn.Module):
    def forward(self, out, y):
        kept = (y >= 0).sum().item()
        return F.cross_entropy(out, y) / kept

def train(model: nn.Module, batches, optimizer):
    criterion = Focal()
    for epoch in range(3):
        for step, (x, y) in enumerate(batches):
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
            accuracy(out, y)
            if step % 100 == 0:
                report(loss)
                evaluate(model, batches)
        report(loss)
        evaluate(model, batches)
"""


def test_functions_that_are_called_in_every_step() -> None:
    """`accuracy` and the loss are, `report` and `evaluate` are called now and then."""
    assert [line for line, code in findings(HELPERS) if code == "XLA503"] == [8, 18]


def test_a_class_that_logs_by_itself() -> None:
    """What `self.log` does is looked at, and not what it is called."""
    source = """import torch
device = torch.device("cuda")

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.kept, self.shown = model, optimizer, {}, {}

    def log(self, figures):
        self.kept.update(figures)

    def log_dict(self, figures):
        print(float(figures["loss"]))

    def fit(self, batches):
        for x in batches:
            loss = self.model(x.to(device)).mean()
            loss.backward()
            self.optimizer.step()
            self.log({"loss": loss.detach()})
            self.log_dict({"loss": loss.detach()})
"""
    assert [line for line, code in findings(source) if code == "XLA503"] == [12]


def test_dicts_of_losses() -> None:
    source = """import torch
from mine import build, reduce_dict

def train(model, criterion, batches, optimizer, device):
    for x, targets in batches:
        losses = criterion(model(x.to(device)), targets)
        total = sum(losses[k] for k in losses)
        reduced = reduce_dict(losses)
        reduced_loss = sum(v for v in reduced.values())
        print(reduced_loss.item())
        print({k: v.item() for k, v in losses.items()})
        total.backward()
        optimizer.step()

train(*build(), torch.device("cuda"))
"""
    assert [line for line, code in findings(source) if code == "XLA503"] == [10, 11]


def test_a_device_of_settings_or_the_host() -> None:
    source = (
        "import torch\nfrom mine import cfg, model, batches, optimizer\n"
        "device = torch.device(cfg.device if torch.cuda.is_available() else 'cpu')\n"
        "for x in batches:\n    loss = model(x.to(device)).mean()\n    loss.backward()\n"
        "    optimizer.step()\n    print(loss.mean().item())\n"
    )
    assert (8, "XLA503") in findings(source)


def test_batches_of_a_data_set_that_is_on_the_device() -> None:
    source = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.rand(8, 4).to("cuda")
net = torch.nn.Linear(4, 1).to("cuda")
criterion = torch.nn.MSELoss()
for a, b in DataLoader(TensorDataset(x, x)):
    loss = criterion(net(a), b)
    loss.backward()
    history["loss"].append(loss.item())
"""
    assert (9, "XLA503") in findings(source)


def test_names_of_weights_are_looked_up_on_the_host() -> None:
    source = """\
import torch

class Average:
    def __init__(self, model):
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        for n, p in model.named_parameters():
            if n in self.shadow and n.endswith("weight"):
                self.shadow[n].mul_(0.9).add_(p, alpha=0.1)

def train(model, optimizer, batches):
    average = Average(model.cuda())
    for x in batches:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        average.update(model)
"""
    assert "XLA503" not in {code for _, code in findings(source)}


def test_a_loss_of_a_step_that_methods_take() -> None:
    source = """\
import torch

class Trainer:
    def forward(self, batch):
        return self.criterion(self.model(batch["x"]), batch["y"]), None

    def backward(self, loss):
        (loss / 2).backward()
        self.optimizer.step()

    def fit(self, loader, bar):
        self.model.cuda()
        for batch in loader:
            loss, _ = self.forward(batch)
            self.backward(loss)
            bar.set_postfix(loss=f"{loss.item():.4f}")
"""
    assert (16, "XLA503") in findings(source)


@pytest.mark.parametrize(
    ("read", "times"),
    [
        ("actions.sample().item()", 1),
        ("actions.log_prob(actions.sample()).mean().item()", 1),
        ("float(torch.distributions.kl_divergence(actions, actions).mean())", 1),
        ("actions.probs.tolist()", 1),
        ("torch.distributions.Normal(0.0, 1.0).sample().item()", 0),
    ],
)
def test_distributions_over_what_a_model_computes(read: str, times: int) -> None:
    source = (
        "import torch\nfrom torch.distributions import Categorical\ndevice = torch.device('cuda')\n"
        "def train(model, optimizer, batches):\n    for x in batches:\n"
        "        actions = Categorical(logits=model(x.to(device)))\n"
        "        (-actions.entropy().mean()).backward()\n        optimizer.step()\n"
        f"        print({read})\n"
    )
    assert [c for _, c in findings(source)].count("XLA503") == times


@pytest.mark.parametrize(
    ("read", "times"),
    [
        ("(torch.max(answer, 1)[1].view(batch.label.size()) == batch.label).sum().item()", 1),
        ("torch.argmax(answer, 1).tolist()", 1),
        ("torch.argmax(answer.cpu(), 1).sum().item()", 0),  # on the host by then
        ("torch.max(torch.ones(3)).item()", 0),
        ("torch.bincount(batch.sizes).sum().item()", 0),
    ],
)
def test_what_torch_computes_of_a_model_that_another_file_makes(read: str, times: int) -> None:
    source = (
        "import torch\nfrom model import Classifier\nfrom data import batches\n"
        "device = torch.device('cuda')\nmodel = Classifier()\nmodel.to(device)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for batch in batches:\n    answer = model(batch)\n    torch.nn.functional.nll_loss(answer, batch.label).backward()\n"
        f"    optimizer.step()\n    print({read})\n"
    )
    assert [c for _, c in findings(source)].count("XLA503") == times


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
    ("loop", "test", "times"),
    [
        ("for k in range(9):", "k == self.start", 0),
        ("for k, layer in enumerate(self.layers):", "self.start == k", 0),
        ("for k in range(9):", "k > self.start", 1),
        ("for k in range(9):", "mode == self.start", 1),
    ],
)
def test_what_is_joined_in_one_turn_does_not_grow(loop: str, test: str, times: int) -> None:
    source = (
        f"import torch\n\ndef sample(model, mode, self):\n    ids = torch.ones(2, 2, device='cuda')\n    {loop}\n"
        f"        out = model(ids)\n        if {test}:\n            ids = torch.cat((ids, out), dim=1)\n"
        "    out.sum().backward()\n"
    )
    assert [c for _, c in findings(source)].count("XLA504") == times


PROPERTIES = """import torch
from functools import cached_property

class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(3, 3).to("cuda")
        self.log_alpha = torch.zeros(1, requires_grad=True, device="cuda")
        self.optimizer = torch.optim.Adam(self.net.parameters())

    {decorator}
    def alpha(self):
        return self.log_alpha.exp().item()

    def update(self, x):
        loss = self.net(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {used}

agent = Agent()
for x in batches:
    agent.update(x)
"""


@pytest.mark.parametrize(
    ("decorator", "used", "found"),
    [
        ("@property", "self.entropy = self.alpha * 2", True),
        ("@property", "return {'alpha': self.alpha}", True),
        ("@property", "shown.append(self.alpha + 1)", True),
        ("@property", "self.steps += 1", False),
        ("@property", "self.alpha = 3", False),
        ("@property", "other.alpha += 1", False),
        ("@cached_property", "self.entropy = self.alpha * 2", False),
    ],
)
def test_properties_that_are_asked_for_in_each_step(decorator: str, used: str, found: bool) -> None:
    source = PROPERTIES.format(decorator=decorator, used=used)
    assert [line for line, code in findings(source) if code == "XLA503"] == [12] * found


CHOSEN = """import torch

class Trainer:
    cpu = torch.device("cpu")

    @property
    def device(self):
        return torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")

    def fit(self, model, loader, optimizer):
        dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
        for batch in loader:
            batch = [b.to(self.device) for b in batch]
            out = model(batch[0])
            out.mean().backward()
            optimizer.step()
            {line}
"""


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("pass", 0),
        ("shown = out.to(self.device)", 0),
        ("shown = out.to(dev)", 0),
        ("shown = out.to(device=self.device, dtype=torch.float32)", 0),
        ("shown = out.to('cpu')", 1),
        ("shown = out.to(torch.device('cpu'))", 1),
        ("shown = out.to(self.cpu)", 1),
    ],
)
def test_a_device_that_may_be_the_host_is_not_the_host(line: str, times: int) -> None:
    source = CHOSEN.format(line=line)
    assert [code for _, code in findings(source)].count("XLA503") == times


CHECKED = """import math, torch
class Brain:
    def fit(self, loader):
        for batch in loader:
            self.fit_batch(batch)
    def fit_batch(self, batch):
        loss = self.compute(batch.cuda())
        {inline}
        self.check(loss)
        loss.backward()
        self.optimizer.step()
    def check(self, loss):
        {handed}
"""


@pytest.mark.parametrize(
    "test",
    [
        "not torch.isfinite(loss)",
        "torch.isnan(loss).any()",
        "not loss.isfinite()",
        "torch.isinf(loss) or torch.isnan(loss)",
        "loss.detach().abs().max() > 100",
        "not math.isfinite(loss)",
    ],
)
def test_what_is_asked_of_a_loss_reads_it(test: str) -> None:
    stop = f"if {test}: raise ValueError()"
    inline = findings(CHECKED.format(inline=stop, handed="pass"))
    assert [line for line, code in inline if code == "XLA503"] == [8]
    handed = findings(CHECKED.format(inline="pass", handed=stop))
    assert [line for line, code in handed if code == "XLA503"] == [13]


def test_what_others_hand_to_a_check_may_be_a_number() -> None:
    source = CHECKED.format(inline="self.check(3.0)", handed="if loss > 3: raise ValueError()")
    assert "XLA503" not in {code for _, code in findings(source)}


@pytest.mark.parametrize(
    "read", ["return loss.item()", "self.total += loss.item()", "return loss.detach().cpu()"]
)
def test_a_loss_that_the_step_returns_is_read(read: str) -> None:
    source = f"""import torch
class Critic:
    def __init__(self, model):
        self.model = model.cuda()
    def fit(self):
        for batch in self.batches:
            self.train_critic(batch)
    def train_critic(self, batch):
        loss = self.gradients(batch)
        {read}
    def gradients(self, batch):
        loss = self.model(batch)["l"]
        loss.backward()
        self.optimizer.step()
        return loss
"""
    assert (10, "XLA503") in findings(source)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("total = float(total) / 10", True),
        ("total = total.item()", True),
        ("total = round(total.item(), 3)", True),
        ("pass", True),
        ("total = model(x).sum()", False),
        ("total = {}", False),
    ],
)
def test_a_sum_that_is_read_now_and_then_holds_graphs_until_then(shown: str, found: bool) -> None:
    source = f"""import torch
def train(model, loader, optimizer):
    total = 0.0
    for i, x in enumerate(loader):
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        total += loss
        if i % 10 == 0:
            {shown}
            print(total)
            total = 0.0
"""
    assert ((8, "XLA505") in findings(source)) is found


@pytest.mark.parametrize(
    ("condition", "step", "found"),
    [
        ("if now:", "pass", False),
        ("if self.cached and now:", "pass", False),
        ("if now:", "optimizer.step()", True),
        ("with torch.enable_grad():", "pass", True),
    ],
)
def test_a_loss_that_others_may_differentiate_keeps_its_graph(
    condition: str, step: str, found: bool
) -> None:
    """Where backward is called now or by whoever gets the sum, detaching would take its gradients."""
    source = f"""import torch
class Loss(torch.nn.Module):
    def compute(self, model, parts, optimizer, now):
        losses = []
        for x in parts:
            loss = model(x.cuda()).mean()
            {condition}
                loss.backward()
                {step}
            losses.append(loss)
        return sum(losses)
"""
    assert ((10, "XLA505") in findings(source)) is found


ASKED = "ask every n-th step, or decide on the device: `torch.where(condition, new, old)`"
SIZES = (
    "pad to one size and mask what is too much, or keep the number on the host beside the tensor"
)
NUMPYS = "compute it with torch on the device, in place of numpy"


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


FABRIC = """
import torch
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cuda", devices=1)
model, optimizer = fabric.setup(model, optimizer)
for x in fabric.setup_dataloaders(loader):
    fabric.backward(model(x).mean())
    fabric.clip_gradients(model, optimizer, {})
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("max_norm=1.0", True),
        ("max_norm=limit, error_if_nonfinite=True", True),
        ("max_norm=1.0, error_if_nonfinite=False", False),
        ("clip_val=1.0", False),
    ],
)
def test_fabric_looks_at_the_norm(given: str, expected: bool) -> None:
    found = [f for f in check(FABRIC.format(given).encode()) if f.code == "XLA503"]
    assert bool(found) is expected
    assert all("error_if_nonfinite=False" in f.message for f in found)
