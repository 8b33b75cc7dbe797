"""Which names stand for tensors of the device: losses, outputs, weights, parts of them; what others hand over."""

from __future__ import annotations

import pytest

from ...helpers import findings


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
        ("torch.argmax(answer.cpu(), 1).sum().item()", 1),  # `.cpu()` is the read
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


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("print(sorted(parts))", 0),
        ("print(list(parts), max(parts))", 0),
        ("if parts: print(len(parts))", 0),
        ("print([k for k in parts if k == 'a'])", 0),
        ("for k in parts: print(k if k > 'a' else 0)", 0),
        ("for k, v in parts.items(): print(k)", 0),
        ("print(names_of(parts))", 0),
        ("print(parts['a'].item())", 1),
        ("for k, v in parts.items(): print(k, v.item())", 1),
        ("best = max(parts.values())", 1),
    ],
)
def test_the_elements_of_a_dict_of_tensors_are_its_keys(line: str, times: int) -> None:
    source = (
        "import torch\n\ndef names_of(parts):\n    return sorted(parts)\n\n"
        "def train(model, optimizer, batches):\n    for x in batches:\n        out = model(x.cuda())\n"
        "        loss = out.mean()\n        parts = {k: v.detach() * loss for k, v in {'a': out.mean()}.items()}\n"
        f"        loss.backward()\n        optimizer.step()\n        {line}\n"
    )
    assert [c for _, c in findings(source)].count("XLA503") == times


TRAINER = """
from transformers import Trainer

class Mine(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.loss_fn(outputs.logits.float(), labels)
        LINE
        return RETURN
"""


@pytest.mark.parametrize(
    "returned", ["loss", "(loss, outputs) if return_outputs else loss", "{'loss': loss}"]
)
@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("self.values.append(loss.item())", 1),
        ("self.values.append((outputs.logits.argmax(-1) == labels).float().mean().item())", 1),
        ("hits = outputs.logits.argmax(-1) == labels; self.hits += hits.sum().item()", 1),
        ("if self.steps % 10 == 0: self.values.append(loss.item())", 0),
        ("self.values.append(self.scores.mean().item())", 0),
        ("n = inputs['n'].cpu(); self.values.append(n.sum().item())", 1),
        ("self.lengths.append(inputs['length'].tolist())", 1),
        ("self.lengths.append(kwargs['length'].tolist())", 0),
    ],
)
def test_reads_in_the_loss_of_a_trainer(returned: str, line: str, times: int) -> None:
    source = TRAINER.replace("LINE", line).replace("RETURN", returned)
    assert [c for _, c in findings(source)].count("XLA503") == times


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        ("step % 10 == 0", [10]),
        ("not step % 10", [10]),
        ("step % 10", [8]),
        ("step % 10 != 0", [8]),
        ("step == 3", [10]),
        ("model.training", [8, 10]),
    ],
)
def test_what_else_runs_is_in_each_step(test: str, lines: list[int]) -> None:
    source = (
        "import torch\ndevice = torch.device('cuda')\ndef train(model, optimizer, batches):\n"
        "    for step, x in enumerate(batches):\n        loss = model(x.to(device)).mean()\n"
        f"        loss.backward(); optimizer.step()\n        if {test}:\n"
        "            print(loss.item())\n        else:\n            print(loss.item() + 1)\n"
    )
    assert [line for line, code in findings(source) if code == "XLA503"] == lines


def test_the_negation_of_a_tensor_is_read() -> None:
    source = (
        "import torch\ndevice = torch.device('cuda')\ndef is_good(loss):\n"
        "    return not torch.isnan(loss).any()\n"
        "def train(model, optimizer, batches):\n"
        "    for x in batches:\n        loss = model(x.to(device)).mean()\n"
        "        loss.backward()\n        if is_good(loss):\n            optimizer.step()\n"
    )
    assert (4, "XLA503") in findings(source)


def test_settings_of_torch_are_no_tensors() -> None:
    source = (
        "import torch\ndevice = torch.device('cuda')\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x):\n        converts = not torch.is_autocast_enabled()\n"
        "        if torch.is_grad_enabled() or torch.are_deterministic_algorithms_enabled():\n"
        "            x = x * torch.get_num_threads()\n        return x.float() if converts else x\n"
        "def train(model: Net, optimizer, batches):\n    for x in batches:\n"
        "        model(x.to(device)).mean().backward()\n        optimizer.step()\n"
    )
    assert "XLA503" not in [code for _, code in findings(source)]


def test_what_an_operation_with_its_own_gradient_is_given() -> None:
    source = (
        "import torch\nclass Sign(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x.sign()\n"
        "    @staticmethod\n    def backward(ctx, grad_output):\n        x, = ctx.saved_tensors\n"
        "        grad = grad_output.clone()\n        grad[x > 1] = 0\n        return grad\n"
        "net = torch.nn.Linear(2, 2).cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for x in batches:\n    Sign.apply(net(x.cuda())).sum().backward()\n    optimizer.step()\n"
    )
    assert (11, "XLA504") in findings(source)


def test_a_count_that_begins_at_zero_is_a_tensor_where_item_is_called() -> None:
    source = (
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, boxes):\n"
        "        count = 0\n        for box in boxes:\n            count += (torch.sum(box, 1) > 0).sum()\n"
        "        return torch.sum(boxes[0]) / max(count.item(), 1)\n"
        "net = Net().cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for boxes in batches:\n    net(boxes).backward()\n    optimizer.step()\n"
    )
    assert (7, "XLA503") in findings(source)


@pytest.mark.parametrize(
    ("end", "is_in_each_step"),
    [
        ("return float(x.mean())", True),  # one of the values that calls return
        ("raise ValueError(float(x.mean()))", False),
        ("print(float(x.mean())); return", False),
    ],
)
def test_a_branch_that_returns_a_value_runs_in_each_step(end: str, is_in_each_step: bool) -> None:
    source = (
        "import torch\ndef solve(x, method):\n    if method == 'adaptive':\n"
        f"        {end}\n    return x.sum()\n"
        "net = torch.nn.Linear(2, 2).cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for x in batches:\n    y = net(x.cuda())\n    y.mean().backward()\n"
        "    optimizer.step()\n    solve(y, method)\n"
    )
    assert ((4, "XLA503") in findings(source)) is is_in_each_step


@pytest.mark.parametrize(("default", "times"), [("1", 1), ("20", 0)])
def test_what_is_done_every_n_steps_by_default(default: str, times: int) -> None:
    source = (
        "import torch\nclass Trainer:\n"
        f"    def __init__(self, model, period={default}):\n"
        "        self.model, self.optimizer = model.cuda(), torch.optim.SGD(model.parameters(), 0.1)\n"
        "        self.period = period\n"
        "    def train(self, batches):\n        for step, x in enumerate(batches):\n"
        "            loss = self.model(x.cuda()).mean()\n            loss.backward()\n"
        "            self.optimizer.step()\n            if (step + 1) % self.period == 0:\n"
        "                self.kept = float(loss)\n"
    )
    assert [code for _, code in findings(source)].count("XLA503") == times


def test_losses_that_a_models_own_step_reads() -> None:
    source = (
        "import torch\nclass Detector(torch.nn.Module):\n    def parse(self, losses):\n"
        "        values = {k: v.mean() for k, v in losses.items()}\n"
        "        for name, loss_value in values.items():\n"
        "            values[name] = loss_value.item()\n        return sum(losses.values()), values\n"
        "    def train_step(self, data):\n        return self.parse(self(**data))\n"
        "net = Detector().cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for data in batches:\n    loss, values = net.train_step(data)\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    assert (6, "XLA503") in findings(source)


def test_the_norm_that_a_hook_may_not_have() -> None:
    source = (
        "import torch\nfrom torch.nn.utils import clip_grad\nclass Hook:\n"
        "    def clip(self, params):\n        if params:\n"
        "            return clip_grad.clip_grad_norm_(params, 1.0)\n"
        "    def after(self, runner):\n        runner.loss.backward()\n"
        "        norm = self.clip([*runner.model.parameters()])\n        if norm is not None:\n"
        "            runner.log({'norm': float(norm)})\n        runner.optimizer.step()\n"
        "net = torch.nn.Linear(2, 2).cuda()\n"
    )
    assert (11, "XLA503") in findings(source)


@pytest.mark.parametrize(
    "labels",
    [
        "y.type(torch.cuda.LongTensor)",
        'y.type("torch.cuda.LongTensor")',
        "torch.arange(5).type(torch.cuda.LongTensor)",
        "y.cuda()",
    ],
)
@pytest.mark.parametrize("home", ["torch.func", "torch.nn.utils.stateless"])
def test_what_functional_call_computes(labels: str, home: str) -> None:
    source = f"""import torch
from {home} import functional_call

def train(net, loader, optimizer):
    net = torch.nn.Linear(4, 5).cuda()
    for x, y in loader:
        fast = dict(net.named_parameters())
        scores = functional_call(net, fast, (x.cuda(),))
        y = {labels}
        right = torch.eq(scores.argmax(1), y).sum()
        if right.item() > 3:
            break
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimizer.step()
"""
    assert (11, "XLA503") in findings(source)


@pytest.mark.parametrize(
    ("size", "times"),
    [
        ("torch.zeros(n)", 1),
        ("torch.ones((4, 2 * n), device='cuda')", 1),
        ("torch.arange(n, device=x.device)", 1),
        ("x.expand(n, 3)", 1),
        ("x.narrow(0, 0, n)", 1),
        ("x.topk(n)", 1),
        ("torch.full((4,), n)", 0),
        ("x.view(*n.shape)", 0),
        ("x.masked_fill(x > 0, n)", 0),
        ("grid.view(n)", 0),  # an object of the script
    ],
)
def test_sizes_that_are_tensors(size: str, times: int) -> None:
    source = (
        "import torch\ndef train(model, optimizer, batches, grid):\n    for x in batches:\n"
        "        x = x.cuda()\n        n = (x > 0).sum()\n"
        f"        y = {size}\n        model(x).mean().backward()\n        optimizer.step()\n"
    )
    assert [c for _, c in findings(source)].count("XLA503") == times
