"""The text of a device says "xla" on XLA: what looks for "cuda" in it, on whatever way, does not find it.

Nothing fails. XLA107 rewrites the tests that say in so many words what they ask. These are others, and a person decides.

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

So does what is kept under the name of a device, or has it in its own:

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

An attribute that is asked for by its name is what it would be:

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

Words that are compared with anything else stay:

```python
import torch

def choose(name, device):
    kinds = {"cuda": 1, "cpu": 2}
    return kinds[name] if name.find("cuda") >= 0 else torch.zeros(2).to(device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.cuda_names import Covered
from ...analysis.devices.asked.questions import questions
from ...analysis.devices.availability import chooses_tests
from ...analysis.devices.cuda_only.kernels import chooses_kernels, is_among_kernels
from ...analysis.nodes import walk
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA118", "device-text")

_TEST = "this looks for CUDA in the text of a device, which is not there on XLA: use `xla.is_accelerator` of the device"
_MODULE = "this asks `torch.cuda`, which finds no device on an XLA host: ask the runtime first (`xla.is_available()`, `xla.device_type()`)"
_TABLE = "this table by the type of a device has no entry for XLA: add one"
_NAME = "this name is made of the type of a device, and nothing has such a name for XLA: add one, or choose by `xla.is_accelerator`"
_MESSAGES = {"text": _TEST, "table": _TABLE, "module": _MODULE, "name": _NAME}
_ATTRIBUTE = "`is_cuda` is False on XLA: use `xla.is_accelerator`"


@RULE.fallback
def asked(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    """What XLA107 and all others leave."""
    if not script.source.mentions("cuda", "device.type"):
        return
    covered = Covered(script, unhandled.found)
    seen: set[ast.AST] = set()
    for question in questions(script):
        node = question.node
        if node in seen or covered(node) or _is_answered(script, node):
            continue
        seen.add(node)
        yield RULE.finding(script, node, _MESSAGES[question.of], severity=WARNING)


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
    """True if CUDA's own code hangs on it, or XLA is asked for beside it."""
    if isinstance(node, ast.expr) and (
        chooses_kernels(script, node) or chooses_tests(script, node)
    ):
        return True
    around: ast.AST | None = node
    while isinstance(around, (ast.expr, ast.pattern, ast.match_case)):
        if any(isinstance(p, ast.Constant) and p.value == "xla" for p in walk(around)):
            return True
        around = script.parent(around)
    return False
