"""Which calls of a file may run a function."""

from __future__ import annotations

import ast

from xla_codemods.analysis.script import Script
from xla_codemods.flow.calls import calls_by_name, named, run_by
from xla_codemods.source import Source

TEXT = """
class Loss:
    def __call__(self, x):
        return x

losses = []
losses.append(Loss())
loss = Loss()
loss(1)
Loss()(2)
"""


def test_a_call_that_receives_an_instance_does_not_call_it() -> None:
    file = Script(Source(TEXT.encode()))
    (function,) = (node for node in ast.walk(file.tree) if isinstance(node, ast.FunctionDef))
    calls = [ast.unparse(call) for call in calls_by_name(file, function)]
    assert calls == ["loss(1)", "Loss()(2)"]


def test_super_of_a_base_in_another_module_does_not_call_the_class_itself() -> None:
    file = Script(
        Source(
            b"""
from elsewhere import Base

class Evaluator(Base):
    def __init__(self, model, reporter):
        super(Evaluator, self).__init__(reporter)
        self.model = model

Evaluator(net, log)
"""
        )
    )
    (function,) = (node for node, _ in file.index.of(ast.FunctionDef))
    assert [ast.unparse(call) for call in calls_by_name(file, function)] == ["Evaluator(net, log)"]


def test_only_singledispatch_registers_implementations() -> None:
    file = Script(
        Source(
            b"""
import functools
from elsewhere import build

@functools.singledispatch
def size(x):
    return 0

@size.register
def _(x: int):
    return 1

@build.register
def _(x: str):
    return 2

@functools.cache
def width(x):
    return 3

width.register(int, size)
size(1), width(1)
"""
        )
    )
    calls = {ast.unparse(call): call.func for call, _ in file.index.of(ast.Call)}
    found = {name: [f.lineno for f in run_by(file, func)] for name, func in calls.items()}
    assert found["size(1)"] == [6, 10]
    assert found["width(1)"] == [18]
    assert named(file, calls["size(1)"]) is run_by(file, calls["size(1)"])[0]
