"""Steps that the device takes or leaves: `optimizer_step(optimizer, where=condition)` trains as `if condition:` does."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import nn, optim

from xla_migrate import runtime as xla
from xla_migrate.runtime.deferred import waiting

from . import rehearsal

pytestmark = pytest.mark.e2e

Optimizer = optim.Optimizer
Make = Callable[[Any], Optimizer]
Step = Callable[[Optimizer, torch.Tensor], Any]

BAD = frozenset(
    {0, 1, 5, 6, 7, 12, 18}
)  # the first, some in a row, and one that the middle is behind
STEPS, MIDDLE = 24, 12


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of one test waits in another, and slow machines wait as long as fast ones."""
    xla.flush()
    monkeypatch.setattr(waiting, "SECONDS", 1000.0)
    yield
    xla.flush()


def as_written(optimizer: Optimizer, norm: torch.Tensor) -> None:
    if torch.isfinite(norm):
        optimizer.step()


def where(optimizer: Optimizer, norm: torch.Tensor) -> None:
    xla.optimizer_step(optimizer, where=torch.isfinite(norm))


class Training:
    """A small model whose gradients are not finite in the steps `bad`, and an optimizer."""

    def __init__(
        self, device: torch.device, make: Make, step: Step, bad: Collection[int] = BAD
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)
            self.model = nn.Sequential(*layers).to(device)
            self.first, self.last = layers[0].weight, layers[2].weight
            self.batches = torch.randn(STEPS, 6, 4), torch.randn(STEPS, 6, 3)
        self.device = device
        self.optimizer = make(self.model.parameters())
        self.step = step
        self.bad = bad
        self.steps = 0

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        error: torch.Tensor = self.model(x) - y
        return error.square().mean()

    def run(self, count: int = STEPS, *, marks: bool = True) -> Training:
        for _ in range(count):
            x, y = (batch[self.steps % STEPS] for batch in self.batches)
            if self.steps in self.bad:
                x = x * math.nan
            self.optimizer.zero_grad()
            loss = self.loss(x.to(self.device), y.to(self.device))
            loss.backward()  # type: ignore[no-untyped-call]
            norm = nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            self.step(self.optimizer, norm)
            if marks:
                xla.mark_step()
            self.steps += 1
        return self

    def parameters(self) -> list[torch.Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def weights(self) -> list[torch.Tensor]:
        return [p.detach().cpu() for p in self.parameters()]

    def state(self) -> dict[str, Any]:
        """The optimizer's, on the host."""
        state = self.optimizer.state_dict()["state"]
        return {f"{k}.{name}": _host(value) for k in state for name, value in state[k].items()}

    def counts(self) -> dict[str, float]:
        """How many steps the optimizer says that it took."""
        state = self.state()
        return {name: float(value) for name, value in state.items() if name.endswith(".step")}


def _host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def alike(one: Training, other: Training) -> None:
    """The same parameters and the same state; in graphs that are cut elsewhere XLA rounds otherwise."""
    assert one.counts() == other.counts()
    torch.testing.assert_close(one.weights(), other.weights(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(one.state(), other.state(), rtol=1e-5, atol=1e-7)
    assert all(bool(p.isfinite().all()) for p in one.weights())


def both(device: torch.device, make: Make, bad: Collection[int] = BAD) -> tuple[Training, Training]:
    """The training as it is written, and the one whose steps the device chooses."""
    return Training(device, make, as_written, bad), Training(device, make, where, bad)


def _reads() -> int:
    """Samples of TransferFromDeviceTime."""
    return xla.metrics()["host_reads"] or 0


def _compiles() -> int:
    return xla.metrics()["compiles"] or 0


OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: optim.SGD(p, 1e-2, momentum=0.9, dampening=0.1),
    "Adam": lambda p: optim.Adam(p, 1e-2),
    "AdamW": lambda p: optim.AdamW(p, 1e-2),
    "amsgrad": lambda p: optim.Adam(p, 1e-2, amsgrad=True, weight_decay=0.1),
    "NAdam": lambda p: optim.NAdam(p, 1e-2),
    "RAdam": lambda p: optim.RAdam(p, 1e-2),
    "Adamax": lambda p: optim.Adamax(p, 1e-2),
    "Adagrad": lambda p: optim.Adagrad(p, 1e-2, lr_decay=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, 1e-2),
    "RMSprop": lambda p: optim.RMSprop(p, 1e-2, momentum=0.9, centered=True),
    "Adafactor": lambda p: optim.Adafactor(p, 1e-2),
    "Muon": lambda p: optim.Muon(p, 1e-2),
    "capturable": lambda p: optim.AdamW(p, 1e-2, capturable=True),
    "foreach": lambda p: optim.AdamW(p, 1e-2, foreach=True),
    "ASGD": lambda p: optim.ASGD(p, 1e-2),
    "a rate in a tensor": lambda p: optim.AdamW(p, torch.tensor(1e-2)),
}


WAITING = {
    "NAdam",
    "foreach",
    "a rate in a tensor",
}  # more than a count, or many tensors, on the host


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_trains_as_the_condition_does(name: str, device: torch.device) -> None:
    counts, warned = [], []
    trainings = both(device, OPTIMIZERS[name])
    for training in trainings:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            middle = training.run(MIDDLE + 1).counts()
            end = training.run(STEPS - MIDDLE - 1).counts()
        counts.append((middle, end))
        warned.append([str(w.message) for w in caught if "waits for its cond" in str(w.message)])
    alike(*trainings)
    assert counts[0] == counts[1]
    taken = [sum(k not in BAD for k in range(steps)) for steps in (MIDDLE + 1, STEPS)]
    assert [set(each.values()) or {n} for each, n in zip(counts[1], taken)] == [{n} for n in taken]
    assert [len(each) for each in warned] == [0, name in WAITING]


@pytest.mark.parametrize("name", ["AdamW", "SGD", "capturable"])
def test_no_step_waits_and_none_compiles(name: str, device: torch.device) -> None:
    """Not when steps begin to be skipped, either, nor when the host is told of them."""
    warm, count = 20, 12
    training = Training(device, OPTIMIZERS[name], where, bad=range(warm + 2, warm + 8))
    training.run(warm)
    before = _reads(), _compiles()
    training.run(count)
    assert _reads() - before[0] <= 1, "one transfer of what has waited for sixteen steps"
    assert _compiles() == before[1]
    xla.flush()
    before = _reads(), _compiles()
    training.run(count)
    assert (_reads(), _compiles()) == before, "all that it was told of is known"


def test_a_step_is_one_launch(device: torch.device) -> None:
    training = Training(device, OPTIMIZERS["AdamW"], where, bad={21, 22, 24})
    training.run(20)
    before = xla.metrics()["launches"] or 0
    training.run(10)
    assert (xla.metrics()["launches"] or 0) - before == 10


def test_the_first_step_that_is_chosen_is_an_early_one(device: torch.device) -> None:
    """The state is made in the first, watched in the second."""
    training = Training(device, OPTIMIZERS["AdamW"], where, bad=()).run(3)
    before = _reads()
    training.run(9)
    assert _reads() == before


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
def test_schedules_of_rates_and_of_momentum(device: torch.device) -> None:
    trainings = both(device, OPTIMIZERS["AdamW"])
    for training in trainings:
        schedule = optim.lr_scheduler.OneCycleLR(training.optimizer, 0.1, total_steps=STEPS + 1)
        for _ in range(STEPS):
            training.run(1)
            schedule.step()
        assert training.optimizer.param_groups[0]["betas"][0] > 0.9
    alike(*trainings)


def test_parameters_that_come_later(device: torch.device) -> None:
    trainings = both(device, lambda p: optim.AdamW(list(p)[:1], 1e-2))
    for training in trainings:
        training.run(8)
        last = training.last
        training.optimizer.add_param_group({"params": [last], "lr": 3e-2})
        training.run(STEPS - 8)
        assert training.counts() == {"0.step": 17, "1.step": 14}
    alike(*trainings)


def test_a_parameter_that_has_a_gradient_now_and_then(device: torch.device) -> None:
    trainings = both(device, OPTIMIZERS["AdamW"])
    for training in trainings:
        first = training.first
        for trained, steps in ((False, 8), (True, 5), (False, 4), (True, 7)):
            first.requires_grad_(trained)
            training.run(steps)
        assert training.counts() == {"0.step": 4 + 6, "1.step": 17}
    alike(*trainings)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_a_checkpoint_in_the_middle(name: str, device: torch.device) -> None:
    """Saved and loaded right behind skipped steps."""
    trainings = both(device, OPTIMIZERS[name])
    for training in trainings:
        saved = copy.deepcopy(training.run(8).optimizer.state_dict())
        training.run(5).optimizer.load_state_dict(saved)
        assert set(training.counts().values()) <= {3}
        training.run(STEPS - 13)
        assert set(training.counts().values()) <= {3 + 10}
    alike(*trainings)


def test_a_step_behind_a_skipped_one_that_nothing_chooses(device: torch.device) -> None:
    """Whoever makes it."""
    trainings = both(device, OPTIMIZERS["AdamW"])
    for training in trainings:
        chosen = training.step

        def plain(optimizer: Optimizer, norm: torch.Tensor) -> None:
            optimizer.step()

        def unconditional(optimizer: Optimizer, norm: torch.Tensor) -> None:
            xla.optimizer_step(optimizer)

        for step, steps in ((chosen, 8), (plain, 2), (chosen, 3), (unconditional, 1), (chosen, 10)):
            training.step = step
            training.run(steps)
    alike(*trainings)


def test_what_is_saved_behind_a_skipped_step_leaves_it_out(device: torch.device) -> None:
    training = Training(device, OPTIMIZERS["AdamW"], where)
    for steps, taken in ((6, 3), (7, 3), (8, 3), (9, 4), (13, 7), (14, 8)):
        training.run(steps - training.steps)
        assert training.counts() == {"0.step": taken, "1.step": taken}


def test_two_optimizers_of_one_model(device: torch.device) -> None:
    """Each counts its own."""

    trainings = both(device, lambda p: optim.AdamW(list(p)[:1], 1e-2))
    optimizers = []
    for training in trainings:
        optimizers.append((training.optimizer, optim.AdamW([training.last], 3e-2)))
        for k in range(STEPS):
            training.optimizer = optimizers[-1][k % 3 == 1]
            training.run(1)
    for k in range(2):
        for training, pair in zip(trainings, optimizers):
            training.optimizer = pair[k]
        alike(*trainings)


@pytest.mark.parametrize("bad", [{*range(4, 44), *range(46, 80, 2)}, {5, 9}], ids=["many", "few"])
def test_more_steps_than_may_wait(
    bad: set[int], device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as the ring of numbers goes around; where few are skipped, all its places are in use."""
    expected = Training(device, OPTIMIZERS["AdamW"], as_written, bad).run(84)
    for waiting_steps in (16, 1000):
        monkeypatch.setattr(waiting, "STEPS", waiting_steps)
        training = Training(device, OPTIMIZERS["AdamW"], where, bad).run(84)
        alike(expected, training)
        assert set(training.counts().values()) == {84 - len(bad)}


def test_without_marks(device: torch.device) -> None:
    trainings = both(device, OPTIMIZERS["AdamW"])
    for training in trainings:
        training.run(9, marks=False)
        xla.mark_step()
    alike(*trainings)


class Signs(optim.Optimizer):
    """Counts on the host what it does; not one of torch's."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    steps = self.state[p]["step"] = self.state[p].get("step", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"] / steps)


class Numbered(Signs):
    """One of torch's, as far as its name says; its count is a number of Python's."""


class Rooted(Signs):
    """One of torch's, as far as its name says; C takes the root of its count."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["sum"] = torch.zeros_like(p)
                state["step"] += 1
                state["sum"].add_(p.grad)
                p.add_(state["sum"], alpha=-group["lr"] / math.sqrt(state["step"].item()))


Numbered.__module__ = Rooted.__module__ = "torch.optim.others"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: Signs(p, 1e-2), "Signs"),
        (lambda p: Numbered(p, 1e-2), "Numbered"),
        (lambda p: Rooted(p, 1e-2), "Rooted"),
        (OPTIMIZERS["foreach"], "AdamW"),
        (OPTIMIZERS["NAdam"], "NAdam"),
    ],
)
def test_an_optimizer_that_keeps_more_than_a_count_waits_and_says_so_once(
    make: Make, name: str, device: torch.device
) -> None:
    trainings = both(device, make)
    trainings[0].run()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainings[1].run(MIDDLE)
        before = _reads()
        trainings[1].run(STEPS - MIDDLE)
        assert _reads() - before >= STEPS - MIDDLE
    alike(*trainings)
    (warning,) = (w for w in caught if "waits for its condition" in str(w.message))
    assert f"each step of {name} waits" in str(warning.message)


def test_the_warning_shows_the_line_of_the_script(device: torch.device) -> None:
    training = Training(device, lambda p: Signs(p, 1e-2), where)
    with pytest.warns(UserWarning, match="waits for its condition") as caught:
        training.run(4)
    assert [w.filename for w in caught] == [__file__]


Condition = Callable[[bool, torch.device], Any]
CONDITIONS: dict[str, Condition] = {
    "a bool": lambda holds, device: holds,
    "an int": lambda holds, device: int(holds),
    "of the host": lambda holds, device: torch.tensor(holds),
    "of the host, one in a list": lambda holds, device: torch.tensor([holds]),
    "of the device": lambda holds, device: torch.tensor(holds, device=device),
    "one in a list": lambda holds, device: torch.tensor([holds], device=device),
    "a float": lambda holds, device: torch.tensor(0.5 * holds, device=device),
    "with a gradient": lambda holds, device: torch.tensor(
        2.0 * holds, device=device, requires_grad=True
    ),
    "on its way": lambda holds, device: xla.item(torch.tensor(holds, device=device)),
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions(kind: str, device: torch.device) -> None:
    parameter = nn.Parameter(torch.zeros(2, device=device))
    optimizer = optim.SGD([parameter], lr=0.5)
    for taken in range(1, 4):
        parameter.grad = torch.ones(2, device=device)
        xla.optimizer_step(optimizer, where=CONDITIONS[kind](True, device))
        assert parameter.tolist() == [-0.5 * taken] * 2
    for holds in (False, False, True, False):
        parameter.grad = torch.ones(2, device=device)
        xla.optimizer_step(optimizer, where=CONDITIONS[kind](holds, device))
        xla.mark_step()
    assert parameter.tolist() == [-2.0] * 2


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_closure_is_called_where_the_condition_holds(kind: str, device: torch.device) -> None:
    parameter = nn.Parameter(torch.ones(2, device=device))
    called = []

    def closure() -> torch.Tensor:
        called.append(1)
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for make in (lambda p: optim.SGD(p, lr=0.25), lambda p: optim.LBFGS(p, lr=0.25, max_iter=1)):
        called.clear()
        optimizer: Optimizer = make([parameter])
        before = parameter.tolist()
        condition = CONDITIONS[kind]
        assert xla.optimizer_step(optimizer, closure, where=condition(False, device)) is None
        assert (called, parameter.tolist()) == ([], before)
        loss = xla.optimizer_step(optimizer, closure, where=condition(True, device))
        assert loss.item() == pytest.approx(sum(x * x for x in before))
        assert called
        assert parameter.tolist() != before


def test_a_condition_of_several_elements_is_refused(device: torch.device) -> None:
    parameter = nn.Parameter(torch.zeros(2, device=device))
    parameter.grad = torch.ones(2, device=device)
    optimizer = optim.SGD([parameter], lr=0.5)
    with pytest.raises(RuntimeError):
        xla.optimizer_step(optimizer, where=torch.ones(2, device=device) > 0)
    assert parameter.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["AdamW", "SGD", "NAdam", "foreach"])
def test_eager_devices_do_what_is_written(name: str, eager: None) -> None:
    """The gradients are no backward's: one on the CPU is none of this process."""
    gradients = torch.randn(STEPS, 3, generator=torch.Generator().manual_seed(0))
    gradients[sorted(BAD)] = math.nan
    found = []
    for step in (as_written, where):
        parameter = nn.Parameter(torch.ones(3))
        optimizer = OPTIMIZERS[name]([parameter])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for gradient in gradients:
                parameter.grad = gradient.clone()
                step(optimizer, parameter.grad.norm())
                xla.mark_step()
        found.append((parameter.tolist(), str(optimizer.state_dict())))
    assert found[0] == found[1]
    assert found[0][0] != [1, 1, 1]


def test_eager_closures(eager: None) -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([parameter], lr=0.5)

    def closure() -> float:
        parameter.grad = torch.ones(1)
        return 3.0

    assert xla.optimizer_step(optimizer, closure, where=torch.tensor(False)) is None
    assert parameter.item() == 1
    assert xla.optimizer_step(optimizer, closure, where=torch.tensor([True])) == 3.0
    assert parameter.item() == 0.5


def test_reads_that_are_wrapped_later_are_reads(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(device, OPTIMIZERS["AdamW"], where, bad=()).run(6)
    item = torch.Tensor.item

    @functools.wraps(item)
    def watched(tensor: torch.Tensor) -> Any:
        return item(tensor)

    monkeypatch.setattr(torch.Tensor, "item", watched)
    before = _reads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.run(6)
    assert _reads() == before


def test_hooks_of_the_script_run_for_steps_that_are_taken(device: torch.device) -> None:
    trainings = both(device, OPTIMIZERS["AdamW"])
    called: list[int] = []
    counts = []
    for training in trainings:
        called.clear()
        training.optimizer.register_step_post_hook(lambda *ignored: called.append(1))
        training.run()
        counts.append(len(called))
    assert counts == [17, 17]


@given(st.lists(st.booleans(), min_size=1, max_size=36), st.integers(1, 40), st.integers(1, 40))
@example([True] * 36, 40, 40)
@example([False] * 3 + [True] * 33, 40, 40)
@example([False] * 3 + [True, False] * 16, 7, 40)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_steps_may_be_skipped(
    device: torch.device, skipped: list[bool], flushes: int, saves: int
) -> None:
    """Whenever the host is told of them."""
    trainings = both(device, OPTIMIZERS["AdamW"], bad={k for k, bad in enumerate(skipped) if bad})
    saved: list[list[dict[str, float]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "STEPS", 1000)
        for training in trainings:
            saved.append([])
            for k in range(1, len(skipped) + 1):
                training.run(1)
                if k % flushes == 0:
                    xla.flush()
                if k % saves == 0:
                    saved[-1].append(training.counts())
    assert saved[0] == saved[1]
    alike(*trainings)


REPLICAS = """
import torch
from xla_migrate import runtime as xla

xla.init_process_group()
rank, device = xla.rank(), xla.xla_device()
xla.manual_seed(0)
model = torch.nn.Linear(3, 1).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for averaged in (None, False):
    for step in range(10):
        x = torch.full((2, 3), float(step + rank)).to(device)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        taken = torch.tensor(not (step in (4, 7) and rank == 1)).to(device)
        xla.optimizer_step(optimizer, average=averaged, where=taken)
        xla.mark_step()
    report(str(averaged), [int(optimizer.state_dict()["state"][0]["step"]), model.weight.tolist()])
"""


def test_of_replicas_that_average_all_take_a_step_or_none() -> None:
    first, second = rehearsal.run(REPLICAS)
    assert first["None"] == second["None"]
    assert first["None"][0] == 8
    assert [found["False"][0] for found in (first, second)] == [18, 16]
