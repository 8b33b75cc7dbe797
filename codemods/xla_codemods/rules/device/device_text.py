"""Code that searches the text of a device for "cuda" does not find it on XLA.

## What it reports

Tests and lookups that depend on the text of a device: regular expressions, `partition`,
dictionary keys and names built from `device.type`.

## Why it matters on XLA

The text of an XLA device is "xla:0". Tests are False without an error, and lookups fail.

## What to do

Fix: safe, or none.

Use `xla.is_accelerator` of the device, or add an entry for XLA. XLA107 rewrites direct tests. The
rule reports the others, because their meaning depends on the code around them.

## Example

```python
import re
import torch

SUMS = {"cuda": torch.sum, "cpu": torch.cumsum}

def step(x, device):
    x = x.to(device)
    if re.match("cuda", str(device)):  # XLA118
        x = x * 2
    kind, _, index = str(x.device).partition(":")
    if kind == "cuda":  # XLA118
        x = x * int(index)
    if any(device.type == kind for kind in ("cuda", "mps")):  # XLA118
        x = x.clone()
    return SUMS[str(device)](x)  # XLA118
```

Tables and attributes whose names contain the type of a device:

```python
import torch

KERNELS = {}

def register(kind):
    return lambda function: KERNELS.setdefault(kind, function)

@register("cuda")
def fast(x):
    return x + 1

class Trainer:
    def step_cuda(self, x):
        return x + 1

    def step(self, x, device):
        x = KERNELS[device.type](x.to(device))  # XLA118
        return getattr(self, f"step_{device.type}")(x)  # XLA118
```

`getattr` with a constant name is rewritten like the attribute:

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(x):
-    if getattr(x, "is_cuda"):
+    if xla.is_accelerator(x):
         x = x.float()
-    return x if getattr(x, "is_cuda", False) else None
+    return x if (hasattr(x, "is_cuda") and xla.is_accelerator(x)) else None
```

Strings that are compared with other values are not reported:

```python
import torch

def choose(name, device):
    kinds = {"cuda": 1, "cpu": 2}
    return kinds[name] if name.find("cuda") >= 0 else torch.zeros(2).to(device)
```

## See also

XLA107
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.cuda_names import Covered
from ...analysis.devices.availability import chooses_tests
from ...analysis.devices.checks.device_texts import checks
from ...analysis.devices.cuda_only.flags_of_libraries import library_given
from ...analysis.devices.cuda_only.kernels import chooses_kernels, is_among_kernels
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA118", "device-text")

_TEST = "the text of an XLA device does not contain `cuda`: use `xla.is_accelerator` of the device"
_MODULE = "`torch.cuda` finds no device on an XLA host: call `xla.is_available()` or `xla.device_type()` first"
_TABLE = "the table of device types has no entry for XLA: add an entry for `xla`"
_NAME = "the name contains the type of the device, and no such name exists for XLA: add one, or choose with `xla.is_accelerator`"
_MESSAGES = {"text": _TEST, "table": _TABLE, "module": _MODULE, "name": _NAME}
_ATTRIBUTE = "`is_cuda` is False on XLA: use `xla.is_accelerator`"


@RULE.fallback
def asked(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    """What XLA107 and all others leave."""
    if not script.source.mentions("cuda", "device.type"):
        return
    covered = Covered(script, unhandled.found)
    seen: set[ast.AST] = set()
    for found in checks(script):
        node = found.node
        if node in seen or covered(node) or _is_answered(script, node):
            continue
        seen.add(node)
        yield RULE.finding(script, node, _MESSAGES[found.of], severity=WARNING)


@RULE.call("operator.attrgetter")
def getter(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`attrgetter("is_cuda")`."""
    match call.args:
        case [ast.Constant(value="is_cuda")]:
            edit = Replace(call, f"{script.xla}.is_accelerator")
            yield RULE.finding(script, call, _ATTRIBUTE, edit)


@RULE.node(ast.Call, named=("getattr",))
def attribute(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`getattr(x, "is_cuda")`."""
    match call.args:
        case [owner, ast.Constant(value="is_cuda")]:
            text = f"{script.xla}.is_accelerator({{0}})"
        case [
            ast.Name() | ast.Attribute() as owner,
            ast.Constant(value="is_cuda"),
            ast.Constant(value=False),
        ]:
            text = f'(hasattr({{0}}, "is_cuda") and {script.xla}.is_accelerator({{0}}))'
        case [_, ast.Constant(value="is_cuda"), *_]:
            yield RULE.finding(script, call, _ATTRIBUTE, severity=WARNING)
            return
        case _:
            return
    if not chooses_kernels(script, call):
        edits = () if is_among_kernels(script, call) else (Replace(call, text, (owner,)),)
        yield RULE.finding(script, call, _ATTRIBUTE, *edits)


def _is_answered(script: Script, node: ast.expr | ast.pattern) -> bool:
    """Return True if the test guards CUDA-only code, is for another library, or XLA is tested next to it."""
    if isinstance(node, ast.expr) and (
        chooses_kernels(script, node) or chooses_tests(script, node) or library_given(script, node)
    ):
        return True
    around: ast.AST | None = node
    while isinstance(around, (ast.expr, ast.pattern, ast.match_case)):
        if any(is_literal(p, "xla") for p in walk(around)):
            return True
        around = script.parent(around)
    return False
