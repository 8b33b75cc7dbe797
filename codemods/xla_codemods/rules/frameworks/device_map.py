"""`device_map` places a model on CUDA devices, or silently on the CPU.

## What it reports

`device_map=` of `from_pretrained` with a CUDA device, with "auto" or with similar values. The same
of accelerate's `dispatch_model` and `load_checkpoint_and_dispatch`, and its
`infer_auto_device_map`.

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

accelerate's functions take a dictionary:

```diff
 from accelerate import dispatch_model
+from xla_migrate import runtime as xla

 def place(model):
-    return dispatch_model(model, device_map={"": 0})
+    return dispatch_model(model, device_map={"": xla.xla_device()})
```

Arguments of the same name of other functions are not reported:

```python
from mylib import Model

def build(name):
    return Model.load(name, device_map="auto"), Model.from_pretrained(name, device_map="cpu")
```

## Limits

A map of several parts is reported without a fix, as are `infer_auto_device_map` and maps by a name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_cuda_string, keyword
from ...edits import Replace
from ...finding import HIGH, MEDIUM, SAFE, UNSAFE, Finding
from ...rule import Rule

RULE = Rule("XLA807", "device-map")

_AUTOMATIC = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
_DISPATCHERS = ("accelerate", "accelerate.big_modeling")
_DEVICE = "xla.xla_device()"
_SPREADS = "the map spreads the model over CUDA devices, and an XLA process has one device: put the model on one device, or use SPMD"
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


@RULE.call(*(f"{home}.dispatch_model" for home in _DISPATCHERS))
def dispatched(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_map(script, _map(call, 1))


@RULE.call(*(f"{home}.load_checkpoint_and_dispatch" for home in _DISPATCHERS))
def loaded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_map(script, _map(call, 2))


@RULE.call(
    *(f"accelerate.{home}infer_auto_device_map" for home in ("", "utils.", "utils.modeling."))
)
def inferred(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f'`infer_auto_device_map` finds no XLA device and leaves the model on the CPU: use `{{"": {_DEVICE}}}`'
    yield RULE.finding(script, call, message, effort=MEDIUM)


def _map(call: ast.Call, place: int) -> ast.expr | None:
    return keyword(call, "device_map") or (call.args[place] if len(call.args) > place else None)


def _of_map(script: Script, given: ast.expr | None) -> Iterator[Finding]:
    """The map of accelerate's functions, which is a dictionary or chosen automatically."""
    written = given if given is None else script.only_value(given) or given
    device = f"{script.xla}.xla_device()"
    message = f'a CUDA device fails on an XLA host: use `{{"": {_DEVICE}}}`'
    match written:
        case ast.Constant(value=str(text)) if text in _AUTOMATIC:
            message = f'`device_map` finds no XLA device and leaves the model on the CPU: use `{{"": {_DEVICE}}}`'
            edits = (Replace(written, f'{{"": {device}}}'),) if written is given else ()
            yield RULE.finding(script, written, message, *edits, safety=UNSAFE, effort=MEDIUM)
        case ast.Dict(keys=[ast.Constant(value="")], values=[place]) if _is_index(script, place):
            yield RULE.finding(script, written, message, Replace(place, device), safety=SAFE)
        case ast.Dict(values=[_, _, *_] as values) if any(_is_cuda(script, v) for v in values):
            yield RULE.finding(script, written, _SPREADS, effort=HIGH)


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
            yield RULE.finding(script, given, _SPREADS, effort=HIGH)


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


def _is_index(script: Script, node: ast.expr) -> bool:
    """Return True for what other rules do not rewrite: they do so with `"cuda:0"` and `current_device()`."""
    return _is_cuda(script, node) and not (
        isinstance(node, ast.Call)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def _is_quantized(call: ast.Call) -> bool:
    return any(
        k.arg in {"load_in_8bit", "load_in_4bit", "quantization_config"} for k in call.keywords
    )
