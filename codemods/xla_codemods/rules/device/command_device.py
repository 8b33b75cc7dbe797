"""A command-line option that selects the device may receive "cuda".

## What it reports

Commands of Typer and fire that have a device as a parameter with CUDA as its default. Both
libraries make options from the parameters of a function.

## Why it matters on XLA

Users and job files still pass `--device cuda`, which fails on an XLA host even if the default is
correct.

## What to do

Fix: safe.

Convert the option with `xla.device_type`. It accepts what CUDA scripts pass for the accelerator,
and it keeps "cpu".

## Example

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

A script that executes a file of settings takes its devices from that file or from the command
line:

```diff
 import torch
+from xla_migrate import runtime as xla

-device = "cuda"
+device = xla.device_type()
 exec(open("configurator.py").read())
+device = xla.device_type(device)
 model = torch.nn.Linear(2, 2).to(device)
```

Functions that are not commands are called by the script itself. They do not change:

```python
import torch
from xla_migrate import runtime as xla

def train(epochs=3, device=xla.device_type()):
    model = torch.nn.Linear(2, 2).to(device)
```

## See also

XLA111 (devices from other options and from settings)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.late_defaults import first_statement
from ...analysis.devices.specs import is_device_name
from ...analysis.inference.library_types import RUNTIME
from ...analysis.scopes import FunctionNode
from ...analysis.script import Script
from ...analysis.syntax import defaults
from ...edits import InsertAfter, InsertBefore
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule(
    "XLA117", "command-device", severity=WARNING, words=("typer", "fire", "tyro", "defopt", "exec")
)

_RUNNERS = frozenset({"fire.Fire", "typer.run", "tyro.cli", "defopt.run"})
_MAKERS = ("typer.Option", "typer.Argument")


@RULE.file
def command_device(script: Script) -> Iterator[Finding]:
    if not script.source.mentions("typer", "fire", "tyro", "defopt"):
        return
    for function in _commands(script):
        for parameter, default in defaults(function.args):
            if not is_device_name(parameter.arg) or not _names_the_accelerator(script, default):
                continue
            text = f"{parameter.arg} = {script.xla}.device_type({parameter.arg})"
            if not any(ast.unparse(statement) == text for statement in function.body):
                message = "an option `--device cuda` fails on an XLA host: convert the option with `xla.device_type`"
                yield RULE.finding(
                    script, parameter, message, InsertBefore(first_statement(function), text)
                )


@RULE.file
def overridden(script: Script) -> Iterator[Finding]:
    """Convert the devices of the module after `exec(open("configurator.py").read())`, which may assign them again."""
    for call, _ in script.index.calls_of("exec"):
        statement = script.statement(call)
        body = script.tree.body
        if not (
            isinstance(call.func, ast.Name) and script.is_statement(call) and statement in body
        ):
            continue
        at = body.index(statement)
        following = {ast.unparse(later) for later in body[at + 1 :]}
        for name in _devices_named(script, body[:at]):
            text = f"{name} = {script.xla}.device_type({name})"
            if len(call.args) == 1 and text not in following:
                message = f"`exec` may assign a CUDA device to `{name}`, which fails on XLA: convert it with `xla.device_type`"
                yield RULE.finding(script, call, message, InsertAfter(statement, text))


def _devices_named(script: Script, statements: list[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if is_device_name(name) and _names_the_accelerator(script, value):
                yield name


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
