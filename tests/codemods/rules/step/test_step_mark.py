"""Where graphs are cut, and where they are not."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from xla_codemods.engine import Options, check, migrate

from ....each import each
from ...helpers import findings, migrated

TRAINS = "def backward(loss):\n    loss.backward()\n"


def loops(source: str) -> list[int]:
    """Lines of what is not cut, in a file that trains."""
    return [line for line, code in findings(f"import torch\n{source}{TRAINS}") if code == "XLA502"]


def test_the_step_of_accumulated_gradients_is_no_rare_event() -> None:
    after = migrated(
        "import torch\n"
        "def train(model, loader, optimizer, device, every):\n"
        "    losses = []\n"
        "    for i, x in enumerate(loader):\n"
        "        loss = model(x.to(device))\n"
        "        loss.backward()\n"
        "        if (i + 1) % every == 0:\n"
        "            optimizer.step()\n"
        "            losses.append(loss.item())\n"
        "    print(sum(losses))\n"
    )
    assert "losses.append(xla.item(loss))" in after


def test_a_read_in_the_block_of_the_step_comes_behind_a_mark() -> None:
    after = migrated(
        "import torch\n"
        "def train(model, loader, optimizer, device):\n"
        "    for i, x in enumerate(loader):\n"
        "        loss = model(x.to(device))\n"
        "        loss.backward()\n"
        "        if i % 4 == 3:\n"
        "            optimizer.step()\n"
        "            if loss.item() < 0.1:\n"
        "                return\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    step = lines.index("xla.optimizer_step(optimizer)")
    assert lines[step + 1 : step + 3] == ["xla.mark_step()", "if loss.item() < 0.1:"]
    assert lines.count("xla.mark_step()") == 1  # the loader marks the other steps
    assert migrated(after) == after


def test_moving_results_to_the_host_is_a_read() -> None:
    after = migrated(
        "import torch\n"
        "cpu = torch.device('cpu')\n"
        "@torch.no_grad()\n"
        "def evaluate(model, n, device):\n"
        "    for k in range(n):\n"
        "        out = model(torch.ones(2, device=device))\n"
        "        out = {k: v.to(cpu) for k, v in out.items()}\n"
        "        print(out)\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    mark = lines.index("xla.mark_step()")
    assert lines[mark + 1].startswith("out = {k: v.to(cpu)")


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


def test_a_step_that_is_returned_is_marked_before() -> None:
    after = migrated(
        "import torch\n"
        "class Named:\n"
        "    def step(self, closure=None):\n"
        "        return self.optimizer.step(closure)\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    step = lines.index("result = xla.optimizer_step(self.optimizer, closure)")
    assert lines[step + 1 : step + 3] == ["xla.mark_step()", "return result"]


def test_optimizers_of_remote_parameters_are_no_local_ones() -> None:
    source = (
        "import torch\n"
        "from torch.distributed.optim import DistributedOptimizer\n"
        "optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.1)\n"
        "optimizer.step(context)\n"
    )
    assert not {"XLA501", "XLA502"} & {code for _, code in findings(source)}


UPDATES = """\
def train(model, target, ema, get_batch, optimizer):
    for step in range(9):
        loss = model(get_batch().cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        {first}
        {second}
"""


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        (
            "ema.update(model)",
            "print(loss.item())",
            "xla.later(lambda loss=loss: print(loss.item()))",
        ),
        ("soft_update(target, model)", "pass", "soft_update(target, model)"),
        (
            "target.weight.lerp_(model.weight, 0.1)",
            "print(loss)",
            "target.weight.lerp_(model.weight, 0.1)",
        ),
        ("meter.update(loss.item())", "ema.update(model)", "xla.optimizer_step(optimizer)"),
        ("if stop(): break", "ema.update(model)", "xla.optimizer_step(optimizer)"),
        ("log(step)", "pass", "xla.optimizer_step(optimizer)"),
    ],
)
def test_averages_of_weights_run_with_the_step(first: str, second: str, marked: str) -> None:
    lines = [
        line.strip() for line in migrated(UPDATES.format(first=first, second=second)).splitlines()
    ]
    assert lines[lines.index("xla.mark_step()") - 1] == marked


def test_a_mark_stands_before_what_leaves_on_the_same_line() -> None:
    source = """import torch
def step(optimizer, last):
    if last: optimizer.step(); return
    optimizer.step(); print("on")
"""
    after = migrated(source)
    assert "xla.optimizer_step(optimizer); xla.mark_step(); return" in after
    assert 'xla.optimizer_step(optimizer); xla.mark_step(); print("on")' in after


def test_what_goes_on_inside_the_block_of_the_step_is_marked_too() -> None:
    source = """import torch
def train(model, optimizer, batches, amp):
    for i in range(9):
        loss = model(batches[i])
        if amp:
            loss.backward()
            if i % 3:
                continue
            optimizer.step()
        else:
            loss.backward()
            optimizer.step()
        print(i)
"""
    after = migrated(source)
    assert "                xla.mark_step()\n                continue\n" in after
    assert after.count("mark_step()") == 2


def test_steps_that_others_mark() -> None:
    wrapper = "class Wrapped(torch.optim.Optimizer):\n    def step(self):\n        self.optimizer.step()\n"
    assert loops(wrapper) == []
    assert loops(wrapper.replace("torch.optim.Optimizer", "object")) == [4]
    assert loops("optimizer.rpc_sync().step()\n") == []


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


@pytest.mark.parametrize("between", ["; ", "\n    "])
def test_a_scaler_that_goes_does_not_take_the_mark_with_it(between: str) -> None:
    calls = between.join(["scaler.step(o)", "scaler.update()", "o.zero_grad()"])
    after = migrated(
        "import torch\nfrom torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
        "o = torch.optim.Adam(m.parameters())\n"
        f"for x in range(3):\n    scaler.scale(m(x)).backward()\n    {calls}\n"
    )
    assert after.count("xla.mark_step()") == 1


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


@pytest.mark.parametrize(
    ("behind", "marks"),
    [
        ("running += loss.item()", 0),
        ("losses.append(loss.item())", 0),
        ("print(step, loss.item())", 0),
        ('print(f"{step} {loss.item():.3f}")', 0),
        ('text = f"{step} {loss.item():.3f}"\n        losses.append(text + "%.3f" % loss.item())', 0),
        ("running += float(loss)\n        ema.update(model)", 0),
        ("if step % 10 == 0:\n            print(loss.item())", 1),
        ("if loss.item() > 10:\n            break", 1),
        ("running += loss.item()\n        if step % 10 == 0:\n            torch.save(model.state_dict(), 'x')", 1),
        ("running += own(loss)", 1),
    ],
)  # fmt: skip
def test_what_is_read_later_needs_no_mark_behind_the_step(behind: str, marks: int) -> None:
    after = migrate(
        dedent("""
            import torch
            from torch.utils.data import DataLoader

            def own(t):
                return t.item() if hasattr(t, "item") else t[0]

            def train(model, dataset, optimizer, ema):
                running, losses = 0.0, []
                for step, (x, y) in enumerate(DataLoader(dataset)):
                    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                    loss.backward()
                    optimizer.step()
                    BEHIND
                    optimizer.zero_grad()
                print(running, losses)
            """)
        .replace("BEHIND", behind)
        .encode()
    ).data.decode()
    assert after.count("mark_step()") == marks


EVALUATES = """
import torch

model = torch.nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 4).cuda(), torch.zeros(8, dtype=torch.long).cuda()

def fit():
    for _ in range(10):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

def own(t):
    return t.item() if hasattr(t, "item") else t[0]

@torch.no_grad()
def evaluate():
    correct, total, k = 0.0, 0.0, 0
    HEADER
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        BODY
    return correct, total
"""


@pytest.mark.parametrize("header", ["for k in range(10):", "while k < 10:\n        k += 1"])  # fmt: skip
@pytest.mark.parametrize(
    ("body", "order"),
    [
        ("correct += (out.argmax(1) == y).sum().item()", ["item", "mark"]),
        ("correct += (out.argmax(1) == y).sum().item()\n        total += loss.item()", ["item", "item", "mark"]),
        ("if loss.item() > 3:\n            break", ["mark"]),
        ("total += own(loss)\n        correct += (out.argmax(1) == y).sum().item()", ["mark", "item"]),
        ("total += loss.item()\n        if loss.item() > 3:\n            break", ["item", "mark"]),
    ],
)  # fmt: skip
def test_evaluations_without_a_device_loader_read_later_too(
    header: str, body: str, order: list[str]
) -> None:
    source = EVALUATES.replace("HEADER", header).replace("BODY", body)
    after = migrate(source.encode()).data.decode()
    function = after[after.index("def evaluate") :]
    assert re.findall(r"xla\.(mark|item)", function) == order


def test_reads_that_are_to_stay_keep_their_mark() -> None:
    source = EVALUATES.replace("HEADER", "for k in range(10):").replace(
        "BODY", "total += loss.item()"
    )
    after = migrate(source.encode(), Options(ignore=("XLA503",))).data.decode()
    assert re.findall(r"xla\.mark_step|loss\.item", after) == [
        "xla.mark_step",
        "xla.mark_step",
        "loss.item",
    ]


@pytest.mark.parametrize(
    ("behind", "order"),
    [
        ("total += loss.item()", ["step", "item", "mark"]),
        ("total += loss.item()\n        right += (out.argmax(1) == y).sum().item()", ["step", "item", "item", "mark"]),
        ("total += loss.item()\n        if k % 10 == 0:\n            print(loss.item())", ["step", "item", "mark"]),
        ("if loss.item() > 9:\n            break\n        total += loss.item()", ["step", "mark", "item"]),
    ],
)  # fmt: skip
def test_what_is_read_later_is_a_part_of_its_own_steps_graph(behind: str, order: list[str]) -> None:
    source = EVALUATES.replace(
        "HEADER\n        out = model(x)", "for k in range(10):\n        out = model(x)"
    ).replace("BODY", f"loss.backward()\n        optimizer.step()\n        {behind}")
    source = source.replace("@torch.no_grad()\n", "").replace("total, k =", "total, right =")
    function = migrate(source.encode()).data.decode().partition("def evaluate")[2]
    assert re.findall(r"xla\.(?:optimizer_)?(step|mark|item)", function) == order


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


@pytest.mark.parametrize(
    ("reading", "behind"),
    [
        ("self.board.show(loss.item() * 3)", ["xla.mark_step()", "self.update_average(loss)"]),
        ("self.last = loss.detach()", ["self.update_average(loss)", "xla.mark_step()"]),
    ],
)
def test_a_method_that_reads_comes_behind_the_mark(reading: str, behind: list[str]) -> None:
    after = migrated(
        "import torch\n"
        "class Trainer:\n"
        "    def fit(self, steps):\n"
        "        for i in range(steps):\n"
        "            loss = self.model(self.x.cuda()).mean()\n"
        "            loss.backward()\n"
        "            self.optimizer.step()\n"
        "            self.update_average(loss)\n"
        "    def update_average(self, loss):\n"
        f"        {reading}\n"
    )
    lines = [line.strip() for line in after.splitlines()]
    step = lines.index("xla.optimizer_step(self.optimizer)")
    assert lines[step + 1 : step + 3] == behind


@pytest.mark.parametrize(
    ("before", "marked"),
    [
        ("if i == 3:\n            continue\n        loss = model(x.cuda()).mean()", False),
        ("if not x:\n            print(i)\n            continue\n        loss = model(x.cuda()).mean()", False),
        ("loss = model(x.cuda()).mean()\n        if loss.dim():\n            continue", True),
        ("loss = model(x.cuda()).mean()\n        loss.backward()\n        if i % 2:\n            continue", True),
    ],
)  # fmt: skip
def test_a_turn_that_computes_nothing_is_not_marked(before: str, marked: bool) -> None:
    after = migrated(
        "import torch\n"
        "def train(model, optimizer, x):\n"
        "    for i in range(9):\n"
        f"        {before}\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    assert ("xla.mark_step()\n            continue" in after) is marked


@pytest.mark.parametrize(
    ("behind", "marked"),
    [
        (
            "self.total.add(loss.item())",
            "xla.mark_step()\n            self.total.add(loss.item())\n",
        ),
        ("self.total = loss", "self.total = loss\n            xla.mark_step()\n"),
    ],
)
def test_gradients_of_several_parts_are_cut_before_they_are_read(behind: str, marked: str) -> None:
    after = migrated(
        "import torch\n"
        "class Penalty:\n"
        "    def accumulate(self, model, x):\n"
        "        for i in range(4):\n"
        "            loss = model(x.cuda() * i).mean()\n"
        "            loss.backward()\n"
        f"            {behind}\n"
    )
    assert marked in after


MICRO_BATCHES = """
def accumulate(model, batches):
    total = 0.0
    for x in batches:
        loss = model(x)
        loss.backward()
        total += loss.item()
    return total

def train(model, optimizer, get_batches):
    for _ in range(10):
        total = accumulate(model, get_batches())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(total)
"""


def marked_lines(after: str) -> list[str]:
    """Return the line before each step mark."""
    lines = [line.strip() for line in after.splitlines()]
    return [lines[k - 1] for k, line in enumerate(lines) if line == "xla.mark_step()"]


def test_gradients_are_not_launched_between_a_function_that_accumulates_and_clipping() -> None:
    before = marked_lines(migrated("import torch\n" + MICRO_BATCHES))
    assert before[0] == "for x in batches:"
    assert len(before) == 2


def test_a_function_that_accumulates_and_that_nothing_steps_after_is_marked_at_its_end() -> None:
    source = "import torch\n" + MICRO_BATCHES.replace("        optimizer.step()\n", "")
    assert marked_lines(migrated(source))[0] != "for x in batches:"


@pytest.mark.parametrize(
    "loop",
    [
        "        for loss in losses:\n            loss.backward(retain_graph=True)\n",
        "        for k, loss in enumerate(losses):\n            (loss / (k + 1)).backward()\n",
        "        for loss in losses:\n            torch.autograd.backward(loss)\n            loss.backward()\n",
        "        backward_all(losses)\n",
    ],
)
def test_the_backward_passes_of_one_forward_pass_run_with_the_step(loop: str) -> None:
    after = migrated(
        "import torch\n"
        "def backward_all(parts):\n"
        "    for part in parts:\n"
        "        part.backward(retain_graph=True)\n"
        "def train(model, optimizer, get_batch):\n"
        "    for _ in range(10):\n"
        "        losses = model(get_batch()).mean(0)\n"
        f"{loop}"
        "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "        optimizer.step()\n"
        "train(torch.nn.Linear(2, 2), torch.optim.SGD([]), len)\n"
    )
    inside = [line for line in marked_lines(after) if "step" not in line and "backward" not in line]
    if "backward_all" in loop:
        assert marked_lines(after) == ["xla.optimizer_step(optimizer)"]
    assert not inside


@pytest.mark.parametrize(
    ("helper", "call"),
    [
        ("def apply(opt):\n    opt.step()\n    opt.zero_grad()\n", "apply(opt)"),
        ("def apply(name):\n    OPTS[name].step()\n", "apply(opt)"),
        ("def apply(model, opt):\n    opt.step()\n", "apply(model, opt)"),
    ],
)
def test_a_function_that_steps_one_of_several_optimizers_is_marked_after_all(
    helper: str, call: str
) -> None:
    after = migrated(
        "import torch\n"
        "OPTS = {'a': torch.optim.SGD([], lr=1)}\n"
        f"{helper}"
        "def train(model, opts, get_batch):\n"
        "    for _ in range(10):\n"
        "        model(get_batch()).mean().backward()\n"
        "        for opt in opts:\n"
        f"            {call}\n"
    )
    assert marked_lines(after) == [call]


def test_a_helper_method_of_an_optimizer_is_part_of_its_step() -> None:
    after = migrated(
        "import torch\n"
        "class Several(torch.optim.Optimizer):\n"
        "    def step(self):\n"
        "        for opt in self.opts:\n"
        "            self._one(opt)\n"
        "    def _one(self, opt):\n"
        "        opt.step()\n"
        "def train(model, get_batch):\n"
        "    optimizer = Several([])\n"
        "    for _ in range(10):\n"
        "        model(get_batch()).mean().backward()\n"
        "        optimizer.step()\n"
    )
    assert marked_lines(after) == ["xla.optimizer_step(optimizer)"]


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
    ("line", "is_before"),
    [
        ("for k, v in model.state_dict().items(): ema[k].lerp_(v, 0.1)", True),
        ("for v in model.state_dict().values(): v.clamp_(-1, 1)", True),
        ("for k in model.state_dict(): save(k)", False),
        (
            "for k, v in model.state_dict().items(): ema[k].lerp_(v, 0.1); print(v.sum().item())",
            False,
        ),
    ],
)
def test_an_average_of_weights_is_a_part_of_the_step(line: str, is_before: bool) -> None:
    after = migrated(
        "import torch\n\ndef train(model, get_batch, optimizer, ema):\n    for _ in range(10):\n"
        "        model(get_batch().cuda()).mean().backward()\n        optimizer.step()\n"
        f"        with torch.no_grad():\n            {line}\n        later()\n"
    )
    assert (f"{line}\n        xla.mark_step()\n        later()\n" in after) is is_before
    assert ("optimizer_step(optimizer)\n        xla.mark_step()\n" in after) is not is_before


def test_a_module_that_steps_its_own_optimizer_in_its_forward_pass_is_not_cut_there() -> None:
    """Its graph is the one of the model around it, whose step is marked; the rest of the pass would be another."""
    after = migrated(
        """
        import torch

        class Codebook(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.codes = torch.nn.Parameter(torch.ones(4, 2))
                self.optimizer = torch.optim.SGD([self.codes], lr=0.1)

            def forward(self, x):
                if self.training:
                    loss = (x.detach() - self.codes).pow(2).mean()
                    loss.backward()
                    self.optimizer.step()
                return x + self.codes
        """
    )
    assert "xla.optimizer_step(self.optimizer)" in after
    assert "mark_step" not in after


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


ENGINES = """import torch
from engine import Engine, Lookup

def build(model, optimizer, device):
    def step(engine, batch):
        loss = model(batch.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(engine, batch):
        return model(batch.to(device)).argmax(1)

    {calls}
"""


@pytest.mark.parametrize(
    ("calls", "codes"),
    [
        ("return Engine(step), Engine(evaluate)", ["XLA502", "XLA503", "XLA502"]),
        ("return Engine(step), Lookup(evaluate)", ["XLA502", "XLA503"]),
        ("return Engine(step), evaluate", ["XLA502", "XLA503"]),
    ],
)
def test_functions_that_an_engine_calls_for_each_batch(calls: str, codes: list[str]) -> None:
    """The loops are elsewhere: a step reads in each of them, and an evaluation is marked at its end."""
    source = ENGINES.format(calls=calls)
    found = [code for _, code in findings(source) if code in {"XLA502", "XLA503"}]
    assert found == codes
    is_marked = "argmax(1)\n        xla.mark_step()\n        return result" in migrated(source)
    assert is_marked is (len(codes) == 3)
