"""Gradient scalers that something else needs: entries, attributes, other classes and other modules."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import findings, migrated
from .test_grad_scaler import body

BESIDE = """\
from accelerate import Accelerator
import torch
from functools import partial
from xla_migrate import runtime as xla
xla.patch_accelerate()
accelerator = Accelerator()
{made}
"""


@pytest.mark.parametrize(
    ("made", "times"),
    [
        ("scaler = torch.cuda.amp.GradScaler()\nscaler.update()", 1),
        ("accelerator.scaler = torch.cuda.amp.GradScaler(enabled=fp16)", 1),
        ("scalers = [torch.amp.GradScaler('cuda') for _ in range(2)]", 1),
        ("from torch.cuda.amp import GradScaler as S\nsetattr(trainer, name, S(init_scale=2))", 1),
        ("make = partial(torch.cuda.amp.GradScaler, enabled=True)", 1),
        ("scaler = torch.cuda.amp.GradScaler(enabled=False)", 0),
        ("scaler = torch.amp.GradScaler('cpu')", 0),
        ("def f(scaler: torch.cuda.amp.GradScaler) -> None: ...", 0),
    ],
)
def test_one_beside_accelerate_is_named_and_left(made: str, times: int) -> None:
    source = BESIDE.format(made=made)
    assert migrated(source) == source
    assert [f.code for f in check(source.encode())].count("XLA204") == times


OFF = "xla.GradScaler()"

STEP = """\
{scaler}.scale(loss).backward()
{scaler}.step(optimizer)
{scaler}.update()
"""

STEPPED = "loss.backward()\nxla.optimizer_step(optimizer)\nxla.mark_step()\n"


@pytest.mark.parametrize(
    ("made", "scaler"),
    [
        ('state = {"scaler": torch.cuda.amp.GradScaler()}', 'state["scaler"]'),
        ('state = {"amp": torch.cuda.amp.GradScaler()}', 'state["amp"]'),
        ("state = dict(scaler=torch.cuda.amp.GradScaler())", 'state["scaler"]'),
        ('state["scaler"] = torch.cuda.amp.GradScaler()', 'state["scaler"]'),
        ("state = SimpleNamespace(scaler=torch.cuda.amp.GradScaler())", "state.scaler"),
    ],
)
def test_scalers_that_are_kept_as_entries(made: str, scaler: str) -> None:
    """Whoever else gets the collection finds one that does nothing."""
    source = f"import torch\n{made}\n{STEP.format(scaler=scaler)}"
    expected = f"{made.replace('torch.cuda.amp.GradScaler()', OFF)}\n{STEPPED}"
    assert migrated(source).endswith(expected)


def test_a_scaler_for_a_class_that_is_not_seen_does_nothing() -> None:
    source = "import torch\ntrainer = Trainer(model, scaler=torch.cuda.amp.GradScaler())\n"
    assert migrated(source).endswith(f"trainer = Trainer(model, scaler={OFF})\n")


KEPT = """\
import torch
from torch.cuda.amp import GradScaler

class Callback:
    def before_fit(self):
        {made}

    def after_backward(self):
        self.learn.scaler.step(self.opt)

    def after_step(self):
        {read}
"""


@pytest.mark.parametrize(
    "made",
    [
        "self.learn.scaler = GradScaler()",
        "self.learn.loss, self.learn.scaler = None, GradScaler()",
        "self.learn.scaler = self.learn.amp = GradScaler()",
        'setattr(self.learn, "scaler", GradScaler())',
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        "self.scaler.update()",
        'getattr(self.learn, "scaler").update()',
        "print(self.trainer.scaler)",
        "self.scales.append(self.scaler.get_scale())",
    ],
)
def test_a_scaler_that_is_read_from_elsewhere_stays_as_one_that_does_nothing(
    made: str, read: str
) -> None:
    after = migrated(KEPT.format(made=made, read=read))
    assert made.replace("GradScaler()", OFF) in after
    assert read in after


def test_an_attribute_of_its_name_that_is_known_to_be_another_thing_is_none() -> None:
    source = """\
import torch
from torch.cuda.amp import GradScaler

class Net:
    def __init__(self):
        self.scaler = torch.ones(2)
    def forward(self, x):
        return x * self.scaler

class Trainer:
    def __init__(self):
        self.scaler = GradScaler()
    def step(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()
"""
    assert "GradScaler" not in migrated(source)


@pytest.mark.parametrize(
    "kept",
    [
        "self.scaler = given or GradScaler()",
        "self.scaler = GradScaler() if given is None else given",
        "given = given or GradScaler(); self.model, self.scaler = model, given",
        "self.scaler = (made := GradScaler())",
        "self.scaler = make()",
    ],
)
@pytest.mark.parametrize("asks", ['hasattr(t, "scaler")', "t.amp"])
def test_a_scaler_that_another_class_saves_is_not_none(kept: str, asks: str) -> None:
    source = f"""
def make():
    return GradScaler()

class Trainer:
    def __init__(self, model, optimizer, given=None):
        {kept}
        self.optimizer = optimizer

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

class Saver:
    def after_step(self):
        t = self.trainer
        if {asks}:
            torch.save(t.scaler.state_dict(), "scaler.pt")
"""
    after = body(source)
    assert "xla.GradScaler()" in after
    assert "None()" not in after
    assert " = None" not in after.replace("given=None", "")
    assert "or None" not in after


SAVERS = """
def save(path, **parts):
    torch.save({name: part.state_dict() for name, part in parts.items()}, path)

def save_all(path, *parts):
    torch.save([part.state_dict() for part in parts], path)

def save_list(path, parts):
    torch.save([part.state_dict() for part in parts], path)

def save_model(path, model, scaler):
    torch.save(model.state_dict(), path)
"""


@pytest.mark.parametrize(
    "use",
    [
        "save(path, model=model, scaler=scaler)",
        "save_all(path, model, scaler)",
        "save_list(path, [model, scaler])",
        "save_list(path, parts=(model, scaler))",
        "for part in (model, scaler): print(part.state_dict())",
        "for name, part in [('m', model), ('s', scaler)]: print(name, part.state_dict())",
        "parts = [model, scaler]; save_all(path, *parts)",
        "state['scaler'] = scaler",
        "vars(state)['scaler'] = scaler",
    ],
)
def test_a_scaler_among_other_things_is_not_none(use: str) -> None:
    after = body(f"""{SAVERS}
def train(model, loss, optimizer, path, state):
    scaler = GradScaler()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    {use}
""")
    assert "scaler = xla.GradScaler()" in after


@pytest.mark.parametrize("call", ["save_model(path, model, scaler)", "save_model(path, model, scaler=scaler)"])  # fmt: skip
def test_a_scaler_under_a_name_of_its_own_is_none(call: str) -> None:
    after = body(f"{SAVERS}\ndef train(model, path):\n    scaler = GradScaler()\n    {call}\n")
    assert "scaler = None" in after


@pytest.mark.parametrize(
    "made",
    [
        "scalers = {name: GradScaler() for name in optimizers}",
        "scalers = {name: GradScaler() if amp else None for name in optimizers}",
        "scalers = [GradScaler() for _ in optimizers]",
        "scalers = [GradScaler(), GradScaler()]",
        "scalers = tuple(GradScaler() for _ in optimizers)",
    ],
)
def test_several_scalers_are_not_none(made: str) -> None:
    after = body(f"""
def train(loss, optimizers, amp, path):
    {made}
    scalers[0].scale(loss).backward()
    scalers[0].step(optimizers[0])
    for one in scalers:
        one.update()
    torch.save([one.state_dict() for one in scalers], path)
""")
    assert "xla.GradScaler()" in after
    assert "None" not in after.replace("else None", "")


@pytest.mark.parametrize(
    "line",
    [
        "found = scaler._found_inf_per_device(optimizer)",
        "scaler._check_inf_per_device(optimizer)",
        "scaler._growth_tracker.fill_(0)",
    ],
)
def test_a_scaler_that_something_else_needs_stays_whole(line: str) -> None:
    uses = [
        "scaler = torch.cuda.amp.GradScaler()",
        "scaler.scale(loss).backward()",
        "scaler.unscale_(optimizer)",
        line,
        "scaler.step(optimizer)",
        "scaler.update()",
    ]
    source = "import torch\ndef step(loss, optimizer):\n" + "".join(f"    {u}\n" for u in uses)
    after = migrated(source)
    assert [use for use in uses if use not in after] == []
    lines = after.splitlines()
    reported = [lines[number - 1].strip() for number, code in findings(after) if code == "XLA204"]
    assert reported == [uses[0], line, "scaler.step(optimizer)"]


TRAINER = """
import functools
import torch
from steps import backward

GradScaler = functools.partial(torch.GradScaler, device="cuda")
{head}
class Trainer:
    def __init__(self, model):
        self.scaler = GradScaler()

    def step(self, loss, optimizer):
        backward(self, loss)
        self.scaler.step(optimizer)
        self.scaler.update()

Trainer(None).step(loss, optimizer)
"""

STEPS = """
def backward(trainer, loss):
    trainer.scaler.scale(loss).backward()
"""


def _of_two_modules(trainer: str) -> dict[str, str]:
    files = {"trainer.py": trainer.encode(), "steps.py": STEPS.encode()}
    modules = Modules(files)
    return {
        path: migrate(data, Options(), path, Project(modules, path)).data.decode()
        for path, data in files.items()
    }


def test_a_scaler_that_accelerate_keeps_is_kept_in_other_modules() -> None:
    """Otherwise gradients would be divided by a scale that they were never multiplied with."""
    head = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    after = _of_two_modules(TRAINER.format(head=head))
    assert "trainer.scaler.scale(loss).backward()" in after["steps.py"]
    assert "self.scaler.step(optimizer)" in after["trainer.py"]


def test_a_scaler_that_accelerate_keeps_is_found_under_another_name() -> None:
    head = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    other = TRAINER.format(head=head).replace(
        "import torch\n", "from torch import GradScaler as S\n"
    )
    after = _of_two_modules(other.replace("torch.GradScaler", "S"))
    assert "trainer.scaler.scale(loss).backward()" in after["steps.py"]


def test_a_scaler_made_by_way_of_partial_scales_nothing_in_any_module() -> None:
    after = _of_two_modules(TRAINER.format(head=""))
    assert "    loss.backward()" in after["steps.py"]
    assert "functools.partial(xla.GradScaler, device=" in after["trainer.py"]
    assert "self.scaler.step" not in after["trainer.py"]


def test_a_scaler_that_a_module_asks_for_what_only_it_has_is_kept_in_others() -> None:
    asked = TRAINER.format(head="").replace(
        "self.scaler.update()", "self.scaler.update(self.scaler._found_inf_per_device(optimizer))"
    )
    after = _of_two_modules(asked.replace("= GradScaler()", "= torch.GradScaler('cuda')"))
    assert "trainer.scaler.scale(loss).backward()" in after["steps.py"]
    assert "self.scaler.step(optimizer)" in after["trainer.py"]
