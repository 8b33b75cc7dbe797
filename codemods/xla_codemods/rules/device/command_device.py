"""A command's option may be given "cuda", whatever its default is.

Typer and fire make the options of a command from the parameters of a function. Where one is a device, and CUDA is its
default, the function takes what CUDA scripts are given for the accelerator, and "cpu" for what it is:

```diff
 import torch
 import typer
+from xla_migrate import runtime as xla

 app = typer.Typer()

 @app.command()
-def train(epochs: int, device: str = "cuda"):
+def train(epochs: int, device: str = xla.device_type()):
     '''Train a model.'''
+    device = xla.device_type(device)
     model = torch.nn.Linear(2, 2).to(device)
```

```diff
 import fire
 import torch
+from xla_migrate import runtime as xla

-def train(epochs=3, device="cuda"):
+def train(epochs=3, device=xla.device_type()):
+    device = xla.device_type(device)
     model = torch.nn.Linear(2, 2).to(device)
     model(torch.ones(2, device=device)).sum().backward()

 fire.Fire(train)
```

Functions that are no commands are called by the script itself, and need none of it:

```python
import torch
from xla_migrate import runtime as xla

def train(epochs=3, device=xla.device_type()):
    model = torch.nn.Linear(2, 2).to(device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.late_defaults import defaults, first_statement
from ...analysis.devices.specs import is_device_name
from ...analysis.inference.library_types import RUNTIME
from ...analysis.scopes import FunctionNode
from ...edits import InsertBefore
from ...finding import WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA117", "command-device", severity=WARNING)

_RUNNERS = frozenset({"fire.Fire", "typer.run", "tyro.cli", "defopt.run"})
_MAKERS = ("typer.Option", "typer.Argument")


@RULE.file
def command_device(script: Script) -> Iterator[Finding]:
    if not script.source.mentions("typer", "fire", "tyro", "defopt"):
        return
    for function in _commands(script):
        for parameter, default in defaults(function):
            if not is_device_name(parameter.arg) or not _names_the_accelerator(script, default):
                continue
            text = f"{parameter.arg} = {script.xla}.device_type({parameter.arg})"
            if not any(ast.unparse(statement) == text for statement in function.body):
                message = "a device that is given on the command line as CUDA fails on XLA: convert it with `xla.xla_device`"
                yield RULE.finding(
                    script, parameter, message, InsertBefore(first_statement(function), text)
                )


def _commands(script: Script) -> Iterator[FunctionNode]:
    """The functions that typer and fire make commands of."""
    for function, scope in script.index.of(ast.FunctionDef):
        for decorator in function.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(func, ast.Attribute) and func.attr in {"command", "callback"}:
                if script.dotted(func, scope) is None and "typer" in script.source.text:
                    yield function
    for call, scope in script.index.of(ast.Call):
        if script.dotted(call.func, scope) in _RUNNERS and call.args:
            given = call.args[0]
            for one in given.values if isinstance(given, ast.Dict) else [given]:
                definition = script.value(one, scope).definition
                if isinstance(definition, ast.FunctionDef):
                    yield definition


def _names_the_accelerator(script: Script, default: ast.expr) -> bool:
    """`"cuda"`, `typer.Option("cuda")`, and what they become."""
    if isinstance(default, ast.Call):
        dotted = script.dotted(default.func)
        if dotted == f"{RUNTIME}.device_type":
            return True
        if dotted in _MAKERS and default.args:
            return _names_the_accelerator(script, default.args[0])
    return script.device_literals.spec(default) is not None
