"""Loops that marks of XLA502 cut: evaluations, sampling, acting, gradients in loops."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
from ...helpers import findings, migrated
from .test_step_mark import loops


@pytest.mark.parametrize(
    "source",
    [
        # states and parameters, one by one
        "class EMA:\n"
        "    @torch.no_grad()\n"
        "    def update(self, model):\n"
        "        for a, model_v in zip(self.ema.state_dict().values(), model.state_dict().values()):\n"
        "            a.copy_(self.mix(a, model_v))\n",
        # what a module computes in pieces
        "class Audio(torch.nn.Module):\n"
        "    @torch.no_grad()\n"
        "    def features(self, values):\n"
        "        out = []\n"
        "        for chunk in torch.split(values, 4, dim=-1):\n"
        "            out.append(self.encoder(chunk))\n"
        "        return out\n",
        # builtins and accessors run no model
        "@torch.no_grad()\n"
        "def init(model):\n"
        "    for name in model.kinds:\n"
        "        value = getattr(model, name)\n"
        "        torch.nn.init.zeros_(value)\n",
        "class Flat:\n"
        "    @torch.no_grad()\n"
        "    def use(self, model, parameters):\n"
        "        for name, p in parameters:\n"
        "            self._setattr_param(model, name, p)\n"
        "            update_ema(model, p)\n",
        # a model that is unwrapped, once per epoch, does not run
        "def unwrap(accelerator, model, epochs):\n"
        "    model.eval()\n"
        "    for epoch in range(epochs):\n"
        "        with torch.no_grad():\n"
        "            print(count(accelerator.unwrap_model(model), load_model('a.pt')))\n",
        # in the middle of backward
        "def fuse(model, optimizers):\n"
        "    def hook(p):\n"
        "        optimizers[p].step()\n"
        "    for p in model.parameters():\n"
        "        p.register_post_accumulate_grad_hook(hook)\n",
        # Fabric and accelerate drive the devices themselves
        "import lightning as L\n"
        "fabric = L.Fabric()\n"
        "def train(model, optimizer, batches):\n"
        "    for x in batches:\n"
        "        fabric.backward(model(x))\n"
        "        optimizer.step()\n",
        "from accelerate.accelerator import Accelerator\n"
        "accelerator = Accelerator()\n"
        "def train(model, optimizer, batches):\n"
        "    for x in batches:\n"
        "        accelerator.backward(model(x))\n"
        "        optimizer.step()\n",
    ],
)  # fmt: skip
def test_what_is_not_cut(source: str) -> None:
    assert loops(source) == []


def test_generation_in_a_module_is_cut() -> None:
    source = (
        "class LM(torch.nn.Module):\n"
        "    @torch.no_grad()\n"
        "    def generate(self, x, n):\n"
        "        for _ in range(n):\n"
        "            x = self(x).argmax(-1)\n"
        "        return x\n"
    )
    assert loops(source) == [5]


STEP = """
import torch
from torch.func import grad

def fit(weight, x, loss_of):
    for k in range(10):
        {gradient}
        weight = weight - 0.1 * g
    return weight.cuda()
"""


@pytest.mark.parametrize(
    "gradient",
    [
        "g, = torch.autograd.grad(loss_of(weight, x), [weight])",
        "g = torch.autograd.grad(loss_of(weight, x), weight, create_graph=False)[0]",
        "g = grad(loss_of)(weight, x)",
        "step = grad(loss_of); g = step(weight, x)",
        "g = torch.vmap(grad(loss_of), in_dims=(None, 0))(weight, x).mean(0)",
        "step = torch.func.vmap(torch.func.grad_and_value(loss_of)); g, _ = step(weight, x)",
    ],
)
def test_loops_of_gradients_are_cut(gradient: str) -> None:
    after = migrated(STEP.format(gradient=gradient))
    assert "        weight = weight - 0.1 * g\n        xla.mark_step()\n    return" in after


@pytest.mark.parametrize(
    "source",
    [
        STEP.format(gradient="g, = torch.autograd.grad(loss_of(weight, x), weight, create_graph=True)"),
        STEP.format(gradient="g, = torch.autograd.grad(loss_of(weight, x), weight, create_graph=k < 9)"),
        # an attack on the batch of a training step
        STEP.format(gradient="g, = torch.autograd.grad(loss_of(weight, x), weight)")
        + "def train(model, optimizer, batches):\n    for x in batches:\n"
        "        model(fit(x, x, model)).sum().backward()\n        optimizer.step()\n",
        *(
            STEP.format(gradient="g = grad(loss_of)(weight, x)") + transform
            for transform in (
                "losses = torch.vmap(fit, in_dims=(None, 0, None))(weight, x, loss_of)\n",
                "meta = grad(lambda w: loss_of(fit(w, x, loss_of), x))(weight)\n",
                "meta = torch.func.vmap(functools.partial(fit, loss_of=loss_of))(weight, x)\n",
                "task = functools.partial(fit, loss_of=loss_of)\nmeta = torch.vmap(task)(weight, x)\n",
                "def task(w, x):\n    return fit(w, x, loss_of).sum()\nmeta = torch.func.jacrev(task)(weight, x)\n",
                "class Meta:\n    def task(self, w, x):\n        return fit(w, x, self.loss)\n"
                "    def step(self, w, x):\n        return torch.vmap(self.task)(w, x)\n",
            )
        ),
    ],
)  # fmt: skip
def test_gradients_within_a_step_are_not(source: str) -> None:
    assert "0.1 * g\n    return" in migrated(source)


ACTS = """
import torch

@torch.no_grad()
def choose(model, x):
    return model(x).argmax()

def collect(model, env, critic):
    x = env.reset().cuda()
    for _ in range(100):
        {act}
        x = env.step(a)

def backward(loss):
    loss.backward()
"""


@pytest.mark.parametrize(
    "act",
    ["with torch.no_grad(): a = model(x)", "a = choose(model, x)", "with torch.no_grad(): a = model(x), critic(x)"],
)  # fmt: skip
def test_loops_that_act_are_cut(act: str) -> None:
    assert "env.step(a)\n        xla.mark_step()\n" in migrated(ACTS.format(act=act))


def test_a_loop_that_acts_with_gradients_is_one_graph() -> None:
    after = migrated(ACTS.format(act="a = choose(model, x); v = critic(x)"))
    assert "mark_step" not in after


def test_loops_of_an_optimizer_are_part_of_its_step() -> None:
    own = (
        "class Wrapper(torch.optim.Optimizer):\n"
        "    def set(self, g, p):\n"
        "        for i in range(3):\n"
        "            h = torch.autograd.grad(g, p, z)\n"
        "            p.hess += h[0]\n"
    )
    assert loops(own) == []
    assert loops(own.replace("torch.optim.Optimizer", "object")) == [4]


def test_what_is_sampled_between_epochs_piles_up_nothing() -> None:
    epochs = (
        "def train():\n    for x in range(9):\n        model(x).sum().backward()\n        optimizer.step()\n"
        "for epoch in range(3):\n    train()\n    with torch.no_grad():\n        image = model(noise.to(0)).cpu()\n"
    )
    assert 6 not in loops(epochs)


def test_evaluation_beside_a_training_at_the_top_is_cut() -> None:
    source = (
        "@torch.no_grad()\ndef evaluate():\n    for k in range(9):\n        losses[k] = model(batch(k)).item()\n"
        "while True:\n    evaluate()\n    model(x).sum().backward()\n    optimizer.step()\n"
    )
    assert 4 in loops(source)


@pytest.mark.parametrize(
    ("before", "behind", "is_cut"),
    [
        ("model.eval()", "", True),  # it computes gradients of nothing, though it may
        ("net.eval()", "model.train()", True),
        ("pass", "", False),
        ("table.eval('a + b')", "", False),
        ("model.eval()", "total.backward()", False),
        ("model.eval()", "optimizer.step()", False),
    ],
)
def test_an_evaluation_that_leaves_gradients_on_is_cut(
    before: str, behind: str, is_cut: bool
) -> None:
    source = (
        f"def evaluate(batches):\n    {before}\n    total = 0\n    for x in range(9):\n"
        f"        total += loss(model(batch(x))).data\n    {behind or 'pass'}\n    return total\n"
    )
    assert (5 in loops(source)) is is_cut


TURNS = """import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.a(x)
@torch.no_grad()
def evaluate(n):
    m = Net().cuda()
    out = []
    for i in range(n):
        x = torch.randn(2, 2).cuda()
        {}
    return out
"""


@pytest.mark.parametrize(
    ("lines", "reads"),
    [
        ("y = m(x)\n        out.append(y.cpu())", True),
        ("out += [m(x).argmax().item()]", True),
        ("with torch.autocast('cuda'):\n            y = m(x)\n        z = y.float().cpu().numpy()", True),
        ("y = m(x)\n        out.append(y)", False),
        ("y = m(x)\n        if i % 100 == 0:\n            out.append(y.item())", False),
        ("k = x.cpu()\n        out.append(m(x))", False),
    ],
)  # fmt: skip
def test_a_loop_that_reads_in_each_turn_is_not_said_to_be_one_graph(
    lines: str, reads: bool
) -> None:
    ((severity, message),) = [
        (f.severity, f.message) for f in check(TURNS.format(lines).encode()) if f.code == "XLA502"
    ]
    assert (severity, "each read in the loop" in message) == (
        ("warning", True) if reads else ("error", False)
    )


@pytest.mark.parametrize(
    ("loop", "behind", "cut"),
    [
        ("g, = torch.autograd.grad(l, [x], retain_graph=True)", "x.backward(sum(n.values()))", False),
        ("n[k] = torch.autograd.grad(l, x)[0].norm()", "(n[0] * x).sum().backward()", False),
        ("x = x + torch.autograd.grad(model(x).sum(), x)[0]", "model(x).sum().backward()", True),
        ("x = x - torch.autograd.grad(l, x)[0]", "print(x)", True),
    ],
)  # fmt: skip
def test_gradients_that_go_into_others_belong_to_one_step(
    loop: str, behind: str, cut: bool
) -> None:
    source = f"""import torch
def balance(model, losses, x, n):
    model.cuda()
    for k, l in losses.items():
        {loop}
    {behind}
"""
    assert ((4, "XLA502") in findings(source)) is cut


@pytest.mark.parametrize(
    ("base", "cut"), [("torch.autograd.Function", False), ("Function", False), ("Rebuilt", True)]
)
def test_gradients_of_an_operation_are_in_the_middle_of_a_step(base: str, cut: bool) -> None:
    source = f"""import torch
from torch.autograd import Function
class Chunked({base}):
    @staticmethod
    def backward(ctx, grad):
        for chunk, part in zip(ctx.saved_tensors, grad.cuda().chunk(4)):
            with torch.enable_grad():
                ctx.f(chunk).backward(part)
        return grad
"""
    assert ((6, "XLA502") in findings(source)) is cut


@each(
    "wait, cuts",
    [
        ("torch.cuda.synchronize()", True),
        ("torch.cuda.synchronize(x.device)", True),
        ("if x.device.type == 'cuda': torch.cuda.synchronize()", True),
        ("if torch.cuda.is_available(): torch.cuda.synchronize()", True),
        ("if x.is_cuda: torch.cuda.synchronize()", True),
        ("if k % 10 == 0: torch.cuda.synchronize()", False),
        ("if profile and x.is_cuda: torch.cuda.synchronize()", False),
        ("x.synchronize()", False),
        ("time.sleep(1)", False),
    ],
)
def test_a_wait_in_each_turn_cuts_it(wait: str, cuts: bool) -> None:
    source = f"""import time
import torch
def measure(layers, x, profile):
    x = x.cuda()
    for k, layer in enumerate(layers):
        {wait}
        started = time.time()
        layer(x).sum().backward()
        print(time.time() - started)
"""
    assert ((5, "XLA502") not in findings(source)) is cuts
    assert migrated(source).count("mark_step()") == (0 if cuts else 1)


BESIDE_ACCELERATE = """import torch

def losses(model, accelerator, loader, opt, {given}):
    total = 0.0
    for i, t in enumerate({over}):
        loss = model(t).mean()
        {backward}
        total += loss.item()
    return total
"""


@pytest.mark.parametrize(
    ("given", "over", "backward", "marked"),
    [
        ("times", "times", "accelerator.backward(loss)", True),
        ("schedule", "tqdm(schedule.timesteps)", "accelerator.backward(loss)", True),
        ("n", "range(n)", "accelerator.backward(loss)", True),
        ("x", "[x, x]", "if accelerator:\n            accelerator.backward(loss)\n        else:\n            loss.backward()", True),
        ("train_dataloader", "train_dataloader", "accelerator.backward(loss)", False),
        ("x", "loader", "accelerator.backward(loss)", False),
        ("x", "loader", "accelerator.backward(loss)\n        opt.step()", False),
    ],
)  # fmt: skip
def test_a_loop_that_no_loader_of_accelerates_feeds_is_cut_where_a_read_cut_it(
    given: str, over: str, backward: str, marked: bool
) -> None:
    after = migrated(BESIDE_ACCELERATE.format(given=given, over=over, backward=backward))
    assert "total += xla.item(loss)" in after
    assert ("        total += xla.item(loss)\n        xla.mark_step()" in after) is marked
    assert migrated(after) == after


STEPPING = """
from accelerate import Accelerator

accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
batches = iter(loader)
LOOP
    accelerator.backward(model(x).mean())
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("loop", "is_marked"),
    [
        ("for _ in range(6):", True),
        ("for k in tqdm(range(0, len(data), 8)):", True),
        ("while step < 6:", True),
        ("for x in loader:", False),
        ("for k, x in enumerate(tqdm(loader)):", False),
        ("for _ in range(6):\n    x = next(batches)", False),
        ("while True:\n    for _ in range(2):\n        x = next(batches)", False),
    ],
)
def test_a_loop_that_steps_without_a_loader_of_accelerates_is_marked(
    loop: str, is_marked: bool
) -> None:
    after = migrated(STEPPING.replace("LOOP", loop))
    assert ("optimizer.step()\n    xla.mark_step()\n" in after) is is_marked
    assert ("mark_step" in after) is is_marked


SAMPLING = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model, loader = accelerator.prepare(model, loader)

def denoise(x, t):
    return x - model(x, t)

@torch.no_grad()
def sample(x):
    for LOOP:
        STEP
    return x

@torch.no_grad()
def evaluate():
    for x, y in loader:
        print(model(x, y))
"""


@pytest.mark.parametrize(
    ("loop", "step"),
    [
        ("t in reversed(range(1000))", "x = x - model(x, torch.full((2,), t, device=x.device))"),
        ("t in scheduler.timesteps", "noise = model(x, t); x = scheduler.step(noise, t, x)"),
        (
            "t, s in zip(times, times[1:])",
            "noise, _ = model(x, t)\n        x = update(x, noise, s)",
        ),
        ("t in tqdm(pipe.times)", "x = denoise(x, t)"),
    ],
)
def test_a_loop_that_samples_is_marked_where_accelerates_loaders_mark_the_others(
    loop: str, step: str
) -> None:
    """Otherwise the thousand passes through the model are one graph."""
    after = migrated(SAMPLING.replace("LOOP", loop).replace("STEP", step))
    assert f"{step}\n        xla.mark_step()\n    return x" in after
    assert after.count("mark_step") == 1


GENERATING = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(x)

    @torch.no_grad()
    def generate(self, x, n):
        for _ in range(n):
            token = self(x)[:, -1].argmax(-1)
            self.written[:, 0] = token
            LINE
            x = token
        return x

def train(model, loader, optimizer):
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "line",
    [
        "if (token == 1).all(): break",
        "assert (token > 0).any()",
    ],
)
def test_a_sampled_token_that_is_read_is_computed_by_the_mark_before(line: str) -> None:
    after = migrated(GENERATING.replace("LINE", line))
    assert f"            xla.mark_step()\n            {line}\n            x = token\n" in after


@pytest.mark.parametrize("line", ["if n > 3: break", "assert n > 0"])
def test_a_loop_that_reads_in_no_turn_is_marked_at_its_end(line: str) -> None:
    after = migrated(GENERATING.replace("LINE", line))
    assert "x = token\n            xla.mark_step()\n" in after


@pytest.mark.parametrize(
    "body",
    [
        "for loss in losses(x):\n            loss.backward()",
        "for loss in losses(x):\n            loss.backward(retain_graph=True)",
        "for k, loss in enumerate(losses(x)):\n            (loss * k).backward()",
        "for loss in (losses(x) if flag else [losses(x)]):\n            loss.backward()",
    ],
)
def test_losses_of_one_forward_pass_are_one_graph(body: str) -> None:
    source = f"""\
import torch
class Trainer:
    def train_batch(self, x):
        {body}
        return x

    def fit(self, batches):
        self.model.cuda()
        for x in batches:
            self.train_batch(x.cuda())
"""
    assert "mark_step" not in migrated(source).partition("def fit")[0]
