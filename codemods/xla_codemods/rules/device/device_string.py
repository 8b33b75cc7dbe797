"""A variable, option or default that says "cuda" says it to everything that asks.

What was a string stays one: `xla.device_type()` is "xla", "cuda" or "cpu", so that configuration, messages and
`device.startswith(...)` go on working.

```diff
 import torch
+from xla_migrate import runtime as xla

-device = "cuda" if torch.cuda.is_available() else "cpu"
+device = xla.device_type()

-def move(x, device="cuda:0"):
+def move(x, device=xla.device_type()):
     return x.to(device)
```

```diff
 import argparse
 import os
 from dataclasses import dataclass
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

An option takes what its users are used to type (`--device cuda`) for the accelerator: hence its `type=`.

One with an index is the name of that device:

```diff
 import torch
+from xla_migrate import runtime as xla

 def load(path, rank):
-    location = f"cuda:{rank}"
+    location = str(xla.xla_device(rank))
     return torch.ones(2).to(location)
```

Words that are no devices stay: members of an enumeration, keys, choices, file names, messages.

```python
from enum import Enum

class Backend(Enum):
    DEVICE = "cuda"

backend = "cuda"
sources = {"cuda": "kernel.cu"}
print(f"cuda:{backend}")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...availability import chooses_tests
from ...edits import AddArgument, Edit, Replace
from ...findings import UNSAFE, WARNING, Finding
from ...place import KEPT, MAYBE, NAME
from ...rule import Rule
from ...syntax import keyword

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA105", "device-string")


@RULE.whole
def device_string(script: Script) -> Iterator[Finding]:
    for placed in script.places.all:
        if placed.of_devices or chooses_tests(script, placed.spec.node):
            continue
        spec = placed.spec
        option = _choosing_option(script, spec.node)
        if option is not None:
            yield from _of_choice(script, spec.node, option)
            continue
        edit = Replace(spec.node, *script.devices.string(spec))
        if placed.place == NAME:
            edits = (edit, *_of_option(script, spec.node))
            yield RULE.at(script, spec.node, "names a CUDA device", *edits)
        elif placed.place == MAYBE:
            message = "hands the name of a CUDA device to a function that this file does not show"
            yield RULE.at(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)
        elif placed.place == KEPT and spec.ordinal is not None:
            message = "names a CUDA device; where it goes cannot be told"
            yield RULE.at(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)


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
        yield RULE.at(script, default, "names a CUDA device", AddArgument(option, text))


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
