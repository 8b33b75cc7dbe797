"""TPUs and Trainium support bfloat16 in hardware, but not float16.

## What it reports

Models and tensors on the accelerator that are converted to float16.

## Why it matters on XLA

float16 works on XLA, but TPUs have no float16 arithmetic. float16 also needs loss scaling, which
the migrated script does not have.

## What to do

Fix: safe or unsafe.

Use bfloat16. It has the range of float32 and fewer digits. Results change, so the fix is unsafe.

If a test for CUDA chooses float16, the safe fix keeps float16 only for CUDA. XLA computes in the
precision that the script has without CUDA.

## Example

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.Linear(4, 2).cuda().half()
+model = nn.Linear(4, 2).to(xla.xla_device()).bfloat16()
-x = torch.ones(2, 4).to("cuda", torch.float16)
+x = torch.ones(2, 4).to(xla.xla_device(), torch.bfloat16)
```

```diff
 import torch
 from transformers import AutoModel
+from xla_migrate import runtime as xla

-model = AutoModel.from_pretrained("bert-base-uncased", torch_dtype=torch.float16).cuda()
+model = AutoModel.from_pretrained("bert-base-uncased", torch_dtype=torch.bfloat16).to(xla.xla_device())
```

A flag for CUDA that chooses float16. Without `--unsafe` the choice becomes `torch.float16 if
torch.cuda.is_available() else torch.float32`:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-use_cuda = torch.cuda.is_available()
+use_cuda = xla.is_available()
-dtype = torch.float16 if use_cuda else torch.float32
+dtype = torch.bfloat16 if xla.is_available() else torch.float32
 model = nn.Linear(4, 2, dtype=dtype)
 if use_cuda:
-    model.cuda()
+    model.to(xla.xla_device())
```

Tables of data types, comparisons and tensors on the CPU are not reported:

```python
import torch
from xla_migrate import runtime as xla

TYPES = {"float32": torch.float32, "float16": torch.float16}
x = torch.ones(2, 4).half()
if x.dtype == torch.float16:
    print(xla.device_type())
```

Deliberate float16 is not reported, such as rounding a tensor through float16 and saving a copy:

```python
import torch
from torch import nn
from xla_migrate import runtime as xla

model = nn.Linear(4, 2).to(xla.xla_device())
rounded = model(torch.ones(2, 4, device=xla.xla_device())).half().float()
halves = {name: value.half() for name, value in model.state_dict().items()}
xla.save(halves, "model.pt")
```

## See also

XLA201, XLA204
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.cuda_only.kernels import is_among_kernels
from ...analysis.devices.owners import has_own_method
from ...analysis.inference.values import ACCEL, HOST
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword, name_of
from ...analysis.training.tensors.chosen_half import DECIDING, bfloat16_instead
from ...analysis.training.tensors.half_on_xla import (
    halves_on_xla,
    is_for_cuda_alone,
    is_true_on_xla,
)
from ...analysis.training.tensors.kept_half import (
    bfloat16_for,
    converted_to,
    is_half,
    keeps_half,
    may_be_on_the_device,
)
from ...edits import Replace
from ...finding import UNSAFE, WARNING, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA208", "float16", severity=WARNING)

_HALF = frozenset({"torch.float16", "torch.half"})
_MESSAGE = (
    "float16 is slow or overflows on TPUs and Trainium, which are made for bfloat16: use bfloat16"
)
_CHOSEN = "the script uses float16 on CUDA only, but the rewritten script would also use it on XLA: choose it only for CUDA"
_LOADERS = frozenset({"from_pretrained", "from_config", "pipeline", "from_single_file"})
_AUTOCAST = ("autocast", "partial", "custom_fwd")  # XLA201 and XLA203 deal with these


@RULE.method("half")
def half(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if call.args or call.keywords or not script.runs_accelerated or _is_decided(script, call):
        return
    if isinstance(script.parent(call), ast.Dict) or keeps_half(script, call):
        return  # half the size, in a checkpoint
    if may_be_on_the_device(script, owner) and not has_own_method(script, owner, "half"):
        edit = Replace(call, "{0}.bfloat16()", (owner,))
        yield RULE.finding(script, call, _MESSAGE, edit, safety=UNSAFE)


@RULE.method("to", "type")
def converted(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    types = list(converted_to(script, call, _HALF))
    if not types or not script.runs_accelerated:
        return
    if _is_decided(script, call) or keeps_half(script, call):
        return
    there = script.value(call, scope).has(ACCEL)
    if there or may_be_on_the_device(script, call.func.value):
        for node in types:
            yield _finding(script, node, scope)


@RULE.node(ast.keyword, named=("dtype", "torch_dtype"))
def created(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`torch.zeros(..., dtype=torch.float16, device=...)`, `from_pretrained(..., torch_dtype=torch.float16)`."""
    by_name = isinstance(node.value, ast.Constant) and node.value.value == "float16"
    if not by_name and not is_half(script, node.value):
        return
    call = script.parent(node)
    if not isinstance(call, ast.Call) or not script.accelerated:
        return
    last = name_of(call.func)
    if last in _AUTOCAST or last == "to":
        return
    device = keyword(call, "device")
    if device is not None and script.value(device, scope).has(HOST):
        return
    loads = node.arg == "torch_dtype" or last in _LOADERS
    if not loads and (by_name or device is None or is_among_kernels(script, call)):
        return  # what a kernel of CUDA's writes into has the type that it writes
    if not _is_decided(script, call):
        if by_name:
            edit = Replace(node.value, '"bfloat16"')
            yield RULE.finding(script, node.value, _MESSAGE, edit, safety=UNSAFE)
        else:
            yield _finding(script, node.value, scope)


@RULE.call("torch.set_default_dtype")
def default(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and call.args and is_half(script, call.args[0]):
        yield _finding(script, call.args[0], scope)


@RULE.file
def chosen(script: Script) -> Iterator[Finding]:
    """`torch.float16 if use_cuda else torch.float32`: True on XLA, too."""
    if script.accelerated and ("half" in script.source.names or script.source.mentions("16")):
        for found in script.cached(halves_on_xla):
            if found.edits:
                yield RULE.finding(script, found.values[0], _CHOSEN, *found.edits)
                continue
            for value in found.values:
                edits = bfloat16_instead(script, [value])
                yield RULE.finding(script, value, _MESSAGE, *edits, safety=UNSAFE)


def _is_decided(script: Script, node: ast.expr) -> bool:
    """Return True if a test around `node` tests for float16, a tensor's type or CUDA, or is reported by itself.

    An option for float16 only on CUDA decides nothing where its test for CUDA has become one that XLA passes.
    """
    is_reported = any(node in found.values for found in script.cached(halves_on_xla))
    return (
        is_reported
        or is_for_cuda_alone(script, node)
        or any(
            isinstance(ancestor, (ast.If, ast.IfExp))
            and DECIDING.search(script.segment(ancestor.test)) is not None
            and not is_true_on_xla(script, ancestor.test)
            for ancestor in script.ancestors(node)
        )
    )


def _finding(script: Script, node: ast.expr, scope: Scope) -> Finding:
    new = bfloat16_for(script, node, scope)
    assert new is not None
    return RULE.finding(script, node, _MESSAGE, Replace(node, new), safety=UNSAFE)
