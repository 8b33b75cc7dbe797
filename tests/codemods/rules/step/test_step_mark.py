"""Where graphs are cut, and where they are not."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("between", ["; ", "\n    "])
def test_a_scaler_that_goes_does_not_take_the_mark_with_it(between: str) -> None:
    calls = between.join(["scaler.step(o)", "scaler.update()", "o.zero_grad()"])
    after = migrated(
        "import torch\nfrom torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
        "o = torch.optim.Adam(m.parameters())\n"
        f"for x in range(3):\n    scaler.scale(m(x)).backward()\n    {calls}\n"
    )
    assert after.count("xla.mark_step()") == 1


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
