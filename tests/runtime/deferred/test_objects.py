"""Calls that tell an object something: in order with all else that is asked of it."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla


class Log:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __len__(self) -> int:
        return len(self.told)

    def __str__(self) -> str:
        return str(self.told)

    def add(self, value: Any) -> None:
        self.told.append(value)

    def all(self) -> list[Any]:
        return list(self.told)

    @property
    def last(self) -> Any:
        return self.told[-1]


class Slotted(Log):
    __slots__ = ()


def _tell(log: Any, device: torch.device) -> None:
    for k in range(3):
        value = torch.ones((), device=device) * k
        xla.later(lambda value=value: log.add(value.item()), to=log)
        xla.mark_step()


@pytest.mark.parametrize("kind", [Log, Slotted])
def test_whatever_is_asked_comes_behind_what_it_was_told(
    kind: type[Log], device: torch.device
) -> None:
    for ask, answer in (
        (lambda log: log.all(), [0.0, 1.0, 2.0]),
        (lambda log: log.last, 2.0),
        (len, 3),
        (str, "[0.0, 1.0, 2.0]"),
    ):
        log = kind()
        _tell(log, device)
        assert ask(log) == answer
        log.add("now")
        assert log.told == [0.0, 1.0, 2.0, "now"]


def test_calls_keep_their_order_with_those_that_need_no_value(device: torch.device) -> None:
    log = Log()
    value = torch.ones((), device=device)
    xla.later(lambda value=value: log.add(value.item()), to=log)
    xla.later(lambda: log.add("a"), to=log)
    log.add("b")
    assert log.told == [1.0, "a", "b"]


def test_the_object_stays_what_it_was(device: torch.device) -> None:
    log = Log()
    _tell(log, device)
    assert len(log) == 3
    assert vars(log) == {"told": [0.0, 1.0, 2.0]}
    assert copy.deepcopy(log).told == pickle.loads(pickle.dumps(log)).told == log.told


def test_functions_of_a_module(device: torch.device) -> None:
    module, told = types.ModuleType("tracker"), []
    exec("def log(value): told.append(value)", {"told": told}, vars(module))
    log = module.log = types.FunctionType(module.log.__code__, {"told": told})
    value = torch.ones((), device=device)
    xla.later(lambda value=value: module.log(value.item()), to=module)
    module.log("now")
    assert told == [1.0, "now"]
    module.log = log  # set anew
    xla.later(lambda value=value: module.log(value.item()), to=module)
    module.log("again")
    assert told == [1.0, "now", 1.0, "again"]


def test_a_method_that_the_package_names_as_a_function(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wandb.log` is `run.log`, from before anything waited."""
    package = types.ModuleType("tracking")
    monkeypatch.setitem(sys.modules, "tracking", package)
    kind = type("Run", (), {"__module__": "tracking.runs", **{k: v for k, v in vars(Fresh).items() if k in ("log", "__init__")}})  # fmt: skip
    run = kind()
    package.log = run.log  # type: ignore[attr-defined]
    value = torch.ones((), device=device)
    xla.later(lambda value=value: run.log(value.item()), to=run)
    package.log("now")
    assert run.told == [1.0, "now"]


class Fresh:
    """Not watched before."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def log(self, value: Any) -> None:
        self.told.append(value)


def test_what_cannot_be_watched_is_told_at_once(device: torch.device) -> None:
    told: list[Any] = []
    value = torch.ones((), device=device)
    xla.later(lambda value=value: told.append(value.item()), to=told)
    assert told == [1.0]


def test_a_module_of_torch_is_not_watched_as_such(device: torch.device) -> None:
    class Model(torch.nn.Module):
        def tell(self, value: Any) -> None:
            self.told = value

    model, call = Model(), torch.nn.Module.__call__
    value = torch.ones((), device=device)
    xla.later(lambda value=value: model.tell(value.item()), to=model)
    assert torch.nn.Module.__call__ is call
    xla.flush()
    assert model.told == 1.0


def test_loguru(device: torch.device) -> None:
    loguru = pytest.importorskip("loguru")
    lines: list[str] = []
    loguru.logger.remove()
    loguru.logger.add(lines.append, format="{function} {message}")
    value = torch.ones((), device=device)
    xla.later(lambda value=value: loguru.logger.info(f"{value.item()}"), to=loguru.logger)
    loguru.logger.info("now")
    name = "test_loguru"
    assert lines == [f"{name} 1.0\n", f"{name} now\n"]


def test_a_sink_of_loguru_that_is_removed_has_what_was_logged(device: torch.device) -> None:
    loguru = pytest.importorskip("loguru")
    lines: list[str] = []
    loguru.logger.remove()
    sink = loguru.logger.add(lines.append, format="{message}")
    value = torch.ones((), device=device)
    xla.later(lambda value=value: loguru.logger.info(f"{value.item()}"), to=loguru.logger)
    loguru.logger.remove(sink)
    assert lines == ["1.0\n"]
