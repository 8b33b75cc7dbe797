"""A variable, option or default with the value "cuda" fails where it becomes a device.

## What it reports

Strings such as `"cuda"` and `"cuda:0"` in variables, parameters, settings and command-line
options that hold a device.

## Why it matters on XLA

The device does not exist on an XLA host. The failure comes later, when the string is used.

## What to do

Fix: safe, unsafe or none.

Use `xla.device_type()`, which returns "xla", "cuda" or "cpu". The value stays a string, so
settings, messages and `device.startswith(...)` keep working.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-device = "cuda" if torch.cuda.is_available() else "cpu"
+device = xla.device_type()

-def move(x, device="cuda:0"):
+def move(x, device=None):
+    if device is None:
+        device = xla.device_type()
     return x.to(device)
```

A command-line option also gets a `type=`, which accepts `--device cuda` for the accelerator:

```diff
 import argparse
 import os
 from dataclasses import dataclass
+
+from xla_migrate import runtime as xla

 parser = argparse.ArgumentParser()
-parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
+parser.add_argument("--device", default=xla.device_type(), choices=[xla.device_type(), "cpu"], type=xla.device_type)

 @dataclass
 class Config:
-    device: str = "cuda"
+    device: str = xla.device_type()

-settings = {"device": os.environ.get("DEVICE", "cuda")}
+settings = {"device": os.environ.get("DEVICE", xla.device_type())}
```

A string with an index is the name of one device:

```diff
 import torch
+from xla_migrate import runtime as xla

 def load(path, rank):
-    location = f"cuda:{rank}"
+    location = str(xla.xla_device(rank))
     return torch.ones(2).to(location)
```

An index that is added later means the same device:

```diff
 import torch
+from xla_migrate import runtime as xla

 def load(x, rank):
-    device = "cuda" if torch.cuda.is_available() else "cpu"
+    device = xla.device_type()
-    device += f":{rank}"
+    device = str(xla.xla_device(device + f":{rank}"))
     return x.to(device)
```

Programs that compute nothing with PyTorch, such as launchers and code generators, are not
reported:

```python
import argparse
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")

if __name__ == "__main__":
    subprocess.run(["python", "train.py", "--device", parser.parse_args().device])
```

Simulators and libraries that compute outside torch manage their devices, without XLA. Such
strings are reported without a fix:

```python
import gymnasium
import torch
from xla_migrate import runtime as xla

envs = gymnasium.make("Ant-v4", sim_device="cuda:0", num_envs=64)  # XLA105
model = torch.nn.Linear(2, 2).to(xla.xla_device())
```

If the rule cannot follow how a string becomes a device, the fix is unsafe:

```diff
 import os
 import torch
+from xla_migrate import runtime as xla

-where = os.environ.get("WHERE", "cuda")
+where = os.environ.get("WHERE", xla.device_type())
-kind = "cuda"
+kind = xla.device_type()
 x = torch.ones(2).to(where)
 y = torch.ones(2, device=kind.replace("_", ":"))
```

Strings that are not devices are not reported. Examples are members of an enumeration, keys, file
names and messages:

```python
from enum import Enum

class Backend(Enum):
    DEVICE = "cuda"

backend = "cuda"
sources = {"cuda": "kernel.cu"}
print(f"cuda:{backend}")
```

If a field has a fixed list of values, the XLA device is added to the list:

```diff
 import dataclasses
 from typing import Literal
 import torch
+from xla_migrate import runtime as xla

 @dataclasses.dataclass
 class Machine:
-    device: Literal["cpu", "cuda"] = "cuda"
+    device: Literal["cpu", "cuda", "xla"] = xla.device_type()

 model = torch.nn.Linear(2, 2).to(Machine().device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.cuda_names import Covered
from ...analysis.devices.availability import chooses_tests
from ...analysis.devices.checks.pieces import pieces
from ...analysis.devices.guards import is_listed_if_available
from ...analysis.devices.late_defaults import late_default
from ...analysis.devices.literal_context import ENGINE, KEPT, MAYBE, NAME, is_for_an_engine
from ...analysis.devices.made_of import reaching
from ...analysis.devices.non_device_calls import is_of_an_engine
from ...analysis.host_programs import is_program_without_torch
from ...analysis.inference.values import DEVICE, HOST
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import AddArgument, Edit, Replace, ReplaceStatement
from ...finding import UNSAFE, WARNING, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA105", "device-string", of_what_runs=True)

_REACHED = "the name of a CUDA device fails on an XLA host, and how it becomes a device could not be followed: use `xla.device_type()`"

_NUMBERED = (
    "an XLA process has one device, so a device with the number of the process does not exist: use"
    " `xla.xla_device`, which ignores the number on XLA"
)
_ENGINE = (
    "the library manages its devices itself and does not support XLA: pass a device of the host such as `cpu`, and move "
    "the results to `xla.xla_device()`"
)


@RULE.file
def device_string(script: Script) -> Iterator[Finding]:
    if script.device_literals.all and is_program_without_torch(script):
        return  # what it says is read by others
    for placed in script.device_literals.all:
        if placed.of_devices or chooses_tests(script, placed.spec.node):
            continue
        spec = placed.spec
        option = _choosing_option(script, spec.node)
        if option is not None:
            yield from _of_choice(script, spec.node, option)
            continue
        if placed.place == ENGINE:
            choice = script.parent(spec.node)
            if not (isinstance(choice, ast.IfExp) and is_for_an_engine(script, choice.test)):
                yield _of_an_engine(script, spec.node)
            continue
        text, holes = script.devices.string(spec)
        edit = Replace(spec.node, text, holes)
        if placed.place == NAME or is_listed_if_available(script, spec.node):
            late = () if holes else late_default(script, spec.node, text)
            edits = late or (edit, *_of_option(script, spec.node), *_of_field(script, spec.node))
            yield RULE.finding(
                script,
                spec.node,
                "the name of a CUDA device fails on an XLA host: use `xla.device_type()`",
                *edits,
            )
        elif placed.place == MAYBE:
            message = "the name of a CUDA device is passed to a function from another package, which may fail on an XLA host: use `xla.device_type()`"
            yield RULE.finding(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)
        elif placed.place == KEPT and spec.ordinal is not None:
            message = "the name of a CUDA device fails on an XLA host as soon as it is used as a device: use `xla.device_type()`"
            yield RULE.finding(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)


@RULE.fallback
def reached(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    """`torch.zeros(2, device=":".join(["cuda", rank]))`: what all other checks leave and torch takes."""
    nodes = reaching(script)
    if not nodes or is_program_without_torch(script):
        return
    covered = Covered(script, unhandled.found)
    for node in nodes:
        spec = script.device_literals.spec(node)
        if spec is not None and not covered(node) and not chooses_tests(script, node):
            edit = Replace(node, *script.devices.string(spec))
            yield RULE.finding(script, node, _REACHED, edit, safety=UNSAFE)


@RULE.node(ast.AugAssign)
def numbered(script: Script, node: ast.AugAssign, scope: Scope) -> Iterator[Finding]:
    """`device += f":{rank}"`."""
    if not isinstance(node.op, ast.Add) or not str(pieces(node.value)[0]).startswith(":"):
        return
    if script.devices.is_device(node.target):
        text = f"{{0}} = str({script.xla}.xla_device({{0}} + {{1}}))"
        edit = ReplaceStatement(node, text, (node.target, node.value))
        yield RULE.finding(script, node.target, _NUMBERED, edit)


@RULE.node(ast.keyword, named=("device", "rl_device", "sim_device"))
def handed_on(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`gym.make("Ant", sim_device=device)`: a name for torch's device."""
    call = script.parent(argument)
    if not isinstance(call, ast.Call) or not isinstance(argument.value, (ast.Name, ast.Attribute)):
        return
    dotted = script.dotted(call.func, scope)
    if not is_of_an_engine(dotted) or script.project.has(dotted or ""):
        return
    value = script.value(argument.value, scope)
    if value.has(DEVICE) and not value.has(HOST):
        yield _of_an_engine(script, argument.value)


def _of_an_engine(script: Script, node: ast.expr) -> Finding:
    return RULE.finding(script, node, _ENGINE, severity=WARNING)


def _choosing_option(script: Script, default: ast.expr) -> ast.Call | None:
    """`click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda")`, of which `default` is that."""
    argument = script.parent(default)
    call = script.parent(argument) if isinstance(argument, ast.keyword) else None
    if not isinstance(call, ast.Call) or script.dotted(call.func) != "click.option":
        return None
    kind = keyword(call, "type")
    chooses = isinstance(kind, ast.Call) and script.dotted(kind.func) == "click.Choice"
    return call if chooses and isinstance(default, ast.Constant) else None


def _of_choice(script: Script, default: ast.expr, option: ast.Call) -> Iterator[Finding]:
    """Click itself refuses what is no choice; so the user goes on choosing "cuda", which means the accelerator."""
    if keyword(option, "callback") is None:
        text = f"callback=lambda context, option, chosen: {script.xla}.device_type(chosen)"
        yield RULE.finding(
            script,
            default,
            "the name of a CUDA device fails on an XLA host: use `xla.device_type()`",
            AddArgument(option, text),
        )


def _of_field(script: Script, default: ast.expr) -> Iterator[Edit]:
    """`device: Literal["cpu", "cuda"] = "cuda"`: what fills the field from outside accepts these texts only."""
    match script.parent(default):
        case ast.AnnAssign(annotation=ast.Subscript(value=kind, slice=texts) as annotation) if (
            script.dotted(kind) in {"typing.Literal", "typing_extensions.Literal"}
            and '"xla"' not in script.segment(texts)
        ):
            yield Replace(annotation, f'{script.segment(kind)}[{script.segment(texts)}, "xla"]')


# What makes an option something else than one value.
_NOT_ONE = ("nargs", "action", "multiple", "is_flag", "callback")


def _of_option(script: Script, default: ast.expr) -> Iterator[Edit]:
    """For the default of a command-line option: the names of CUDA among its choices, and its type."""
    argument = script.parent(default)
    several = isinstance(argument, (ast.List, ast.Tuple))
    if several and argument is not None:
        if argument.elts[0] is not default:  # type: ignore[attr-defined]
            return  # once is enough
        argument = script.parent(argument)
    call = script.parent(argument) if isinstance(argument, ast.keyword) else None
    if not (isinstance(call, ast.Call) and isinstance(argument, ast.keyword)):
        return
    func = call.func
    clicks = script.dotted(func) == "click.option"
    if not (clicks or (isinstance(func, ast.Attribute) and func.attr == "add_argument")):
        return
    unlike = _NOT_ONE[1:] if several and not clicks else _NOT_ONE  # each of them has the type
    if argument.arg != "default" or any(keyword(call, name) for name in unlike):
        return
    kind = keyword(call, "type")
    if kind is not None and not (isinstance(kind, ast.Name) and kind.id == "str"):
        return
    takes = f"{script.xla}.device_type"
    choices = keyword(call, "choices")
    if choices is not None:
        named = list(_cuda_choices(choices))
        if not named:
            return
        yield from (Replace(choice, f"{takes}()") for choice in named)
    yield AddArgument(call, f"type={takes}") if kind is None else Replace(kind, takes)


def _cuda_choices(choices: ast.expr) -> Iterator[ast.expr]:
    if isinstance(choices, (ast.List, ast.Tuple, ast.Set)):
        for choice in choices.elts:
            if isinstance(choice, ast.Constant) and str(choice.value).partition(":")[0] in {
                "cuda",
                "gpu",
            }:
                yield choice
