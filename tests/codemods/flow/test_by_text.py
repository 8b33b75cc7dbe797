"""Methods that are called by their name as text."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.flow.by_text import calls_by_text, methods_by_text
from xla_codemods.source import Source

LOOKED_UP = "for hook in self.hooks: getattr(hook, name)(self)"


def _found(source: str, method: str) -> list[int]:
    """Return the lines of the calls that run `method`, counted from the last line."""
    file = Script(Source(source.encode()))
    calls = [call.node for call in calls_by_text(file, method)]
    assert all(method in methods_by_text(file, call) for call in calls)
    return sorted({call.lineno - source.count("\n") for call in calls})


def _trainer(run: str, call: str, name: str = "call") -> str:
    return f"""class Hook:
    def __call__(self, event, *args):
        getattr(self, event, print)(*args)

class Trainer:
    def {name}(self, name, *args):
        {run}
    def ready(self, event):
        self.call("on_" + event)
    def fit(self):
        {call}
"""


@pytest.mark.parametrize(
    "run",
    [
        LOOKED_UP,
        "for hook in self.hooks: hook(name)",
        "for hook in sorted(self.hooks, key=lambda h: h.order): hook(name, self)",
        "[hook(name) for hook in self.hooks]",
        "return any([getattr(hook, name, None)(self) for hook in self.hooks])",
        "for hook in self.hooks:\n            f = getattr(hook, name, None)\n            if f: f(self)",
        "for hook in self.hooks:\n            if f := getattr(hook, name, None): f(self)",
        "for hook in self.hooks: getattr(hook, name)(*args)",
    ],
)
def test_spellings_of_runners(run: str) -> None:
    assert _found(_trainer(run, "self.call('after_step')"), "after_step") == [0]
    assert _found(_trainer(run, "self.call(name='after_step')"), "after_step") == [0]
    assert _found(_trainer(run, "self('after_step')", "__call__"), "after_step") == [0]
    assert _found(_trainer(run, "self.call('after_step')"), "before_step") == []


@pytest.mark.parametrize(
    ("run", "call", "method"),
    [
        (LOOKED_UP, "self.ready('step')", "on_step"),
        (LOOKED_UP.replace("name)", "f'on_{name}')"), "self.call('step')", "on_step"),
        (LOOKED_UP.replace("name)", "name + '_step')"), "self.call('after')", "after_step"),
        (
            f"full = f'on_{{name}}'\n        {LOOKED_UP.replace('name)', 'full)')}",
            "self.call('a')",
            "on_a",
        ),
    ],
)
def test_names_with_constant_parts(run: str, call: str, method: str) -> None:
    assert _found(_trainer(run, call), method) == [0]


@pytest.mark.parametrize(
    ("run", "call"),
    [
        ("self.hooks[0](name)", "self.call('after_step')"),
        ("print(getattr(self, name))", "self.call('after_step')"),
        (LOOKED_UP, "self.other('after_step')"),
        (LOOKED_UP, "self.call(1, 'after_step')"),
        ("for hook in self.hooks: getattr(hook, 'on_step')(name)", "self.call('after_step')"),
    ],
)
def test_calls_that_run_no_method_by_its_name(run: str, call: str) -> None:
    assert _found(_trainer(run, call), "after_step") == []


def test_a_runner_that_calls_itself() -> None:
    source = _trainer(f"self.call(name)\n        {LOOKED_UP}", "self.call('after_step')")
    assert _found(source, "after_step") == [0]


def test_arguments_that_the_methods_receive() -> None:
    run = "for hook in self.hooks: hook(name, *args)"
    file = Script(Source(_trainer(run, "self.call('after_step', loss)").encode()))
    passes = {tuple(a.id for a in c.passes.args) for c in calls_by_text(file, "after_step")}  # type: ignore[attr-defined]
    assert passes == {("loss",)}
