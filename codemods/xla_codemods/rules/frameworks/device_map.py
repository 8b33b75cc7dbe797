"""`device_map` places a model on CUDA devices, or silently on the CPU.

## What it reports

`device_map=` of `from_pretrained` with a CUDA device, with "auto" or with similar values.

## Why it matters on XLA

"auto" finds no XLA device and leaves the model on the host, without a warning. CUDA devices do
not exist on an XLA host.

## What to do

Fix: safe or unsafe.

Pass `device_map=xla.xla_device()`.

## Example

```diff
 from transformers import AutoModelForCausalLM
+from xla_migrate import runtime as xla

 def build(name):
-    return AutoModelForCausalLM.from_pretrained(name, device_map={"": 0})
+    return AutoModelForCausalLM.from_pretrained(name, device_map=xla.xla_device())
```

"auto" may spread a model over several CUDA devices, but an XLA process has one. The fix is
unsafe:

```diff
 from transformers import AutoModel
+from xla_migrate import runtime as xla

 def build(name):
-    return AutoModel.from_pretrained(name, device_map="auto")
+    return AutoModel.from_pretrained(name, device_map=xla.xla_device())
```

Arguments of the same name of other functions are not reported:

```python
from mylib import Model

def build(name):
    return Model.load(name, device_map="auto"), Model.from_pretrained(name, device_map="cpu")
```

## Limits

A map of several parts is reported without a fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_cuda_string, keyword
from ...edits import Replace
from ...finding import HIGH, SAFE, UNSAFE, Finding
from ...rule import Rule

RULE = Rule("XLA807", "device-map")

_AUTOMATIC = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
_LIBRARIES = ("transformers.", "diffusers.", "peft.", "trl.")


@RULE.call("transformers.pipeline")
def pipeline(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_call(script, call)


@RULE.node(ast.Call, named=("from_pretrained", "from_config"))
def from_pretrained(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`AutoModel.from_pretrained(..., device_map=...)`, of the libraries that know it."""
    func = call.func
    if isinstance(func, ast.Attribute):
        if keyword(call, "device_map") is not None:
            if (script.dotted(func, scope) or "").startswith(_LIBRARIES):
                yield from _of_call(script, call)


def _of_call(script: Script, call: ast.Call) -> Iterator[Finding]:
    given = keyword(call, "device_map")
    if given is None:
        return
    whole = f"{script.xla}.xla_device()"
    match given:
        case ast.Constant(value=str(text)) if text in _AUTOMATIC:
            if _is_quantized(call):
                message = "`device_map` finds no XLA device and leaves the model on the CPU: pass one device, `xla.xla_device()`"
                yield RULE.finding(script, given, message, effort=HIGH)
            else:
                message = "`device_map` finds no XLA device and leaves the model on the CPU: pass one device, `xla.xla_device()`"
                yield RULE.finding(script, given, message, Replace(given, whole), safety=UNSAFE)
        case ast.Constant(value=bool() | None):
            return
        case ast.Constant(value=int()):
            yield RULE.finding(
                script,
                given,
                "a CUDA device fails on an XLA host: use `xla.xla_device()`",
                Replace(given, whole),
                safety=SAFE,
            )
        case ast.Dict(keys=[ast.Constant(value="")], values=[place]):
            if _is_cuda(script, place):
                yield RULE.finding(
                    script,
                    given,
                    "a CUDA device fails on an XLA host: use `xla.xla_device()`",
                    Replace(given, whole),
                    safety=SAFE,
                )
        case ast.Dict(values=values) if any(_is_cuda(script, value) for value in values):
            message = "the map spreads the model over CUDA devices, and an XLA process has one device: put the model on one device, or use SPMD"
            yield RULE.finding(script, given, message, effort=HIGH)


def _is_cuda(script: Script, node: ast.expr) -> bool:
    """An index, a string, or the index of a process."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int()):
            return True
        case ast.Constant(value=str(text)):
            return is_cuda_string(text)
        case ast.Attribute(attr="local_process_index" | "process_index" | "local_rank"):
            return True
        case ast.Name(id=name):
            return "rank" in name
        case ast.Call(func=func):
            return script.dotted(func) == "torch.cuda.current_device"
    return False


def _is_quantized(call: ast.Call) -> bool:
    return any(
        k.arg in {"load_in_8bit", "load_in_4bit", "quantization_config"} for k in call.keywords
    )
