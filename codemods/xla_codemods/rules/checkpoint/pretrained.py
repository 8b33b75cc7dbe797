"""`save_pretrained` cannot write XLA tensors.

## What it reports

`save_pretrained`, `save_lora_weights` and `push_to_hub` of models on the device.

## Why it matters on XLA

They write with safetensors, which cannot read XLA tensors. The call fails at the end of the
training.

## What to do

Fix: safe.

Use `xla.save_pretrained`. It calls the model's method with tensors on the CPU and keeps tied
weights tied. transformers' Trainer needs no change. Save before you upload with `push_to_hub`.

## Example

```diff
 import torch
 from transformers import BertForSequenceClassification
+from xla_migrate import runtime as xla

-model = BertForSequenceClassification.from_pretrained(name).cuda()
+model = BertForSequenceClassification.from_pretrained(name).to(xla.xla_device())
-model.save_pretrained(folder, safe_serialization=True)
+xla.save_pretrained(model, folder, safe_serialization=True)
 tokenizer.save_pretrained(folder)
```

Wrapped models, models under other names, and pipelines of diffusers:

```diff
 import torch
 from diffusers import DiffusionPipeline
+from xla_migrate import runtime as xla

 def keep(model, unet, args):
-    model.to("cuda")
+    model.to(xla.xla_device())
     model_to_save = model.module if hasattr(model, "module") else model
-    model_to_save.save_pretrained(args.out)
+    xla.save_pretrained(model_to_save, args.out)
-    DiffusionPipeline.from_pretrained(args.name, unet=unet).save_pretrained(args.out)
+    xla.save_pretrained(DiffusionPipeline.from_pretrained(args.name, unet=unet), args.out)
```

LoRA weights of diffusers:

```diff
 from accelerate import Accelerator
 from diffusers import StableDiffusionPipeline
 from peft.utils import get_peft_model_state_dict
 from xla_migrate import runtime as xla

 xla.patch_accelerate()
 accelerator = Accelerator()

 def keep(unet, folder):
     state = get_peft_model_state_dict(accelerator.unwrap_model(unet))
-    StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=state)
+    xla.save_lora(StableDiffusionPipeline.save_lora_weights, folder, unet_lora_layers=state)
```

Models under any name, if a call shows what they are:

```diff
 from accelerate import Accelerator
 from xla_migrate import runtime as xla

 xla.patch_accelerate()
 accelerator = Accelerator()

 def keep(policy, folder, merge):
     unwrapped = accelerator.unwrap_model(policy)
-    unwrapped.save_pretrained(folder, save_function=accelerator.save)
+    xla.save_pretrained(unwrapped, folder, save_function=accelerator.save)
     final = policy.merge_and_unload() if merge else policy.get_base_model()
-    final.save_pretrained(folder)
+    xla.save_pretrained(final, folder)
     inner = policy.module if hasattr(policy, "module") else policy
-    inner.save_pretrained(folder)
+    xla.save_pretrained(inner, folder)
```

Tokenizers, processors and configurations contain no tensors. They are not reported:

```python
import torch

def keep(model, tokenizer, processor, config, device):
    model.to(device)
    for part in (tokenizer, processor, config):
        part.save_pretrained("out")
    tokenizer.save_pretrained("out")
```

A method that a class of the program defines under such a name is not reported: it may change the
dictionary that it receives.

```python
import torch

class Merger:
    def save_lora_adapter(self, state):
        return [state.pop(name) for name in list(state) if "lora_" in name]

    def merge(self, model, device):
        model.to(device)
        self.save_lora_adapter(model.state_dict())
```

States and models on the CPU are not reported:

```python
import torch

def keep(model, folder, device):
    model.to(device)
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    model.save_pretrained(folder, state_dict=state)
    model.cpu()
    model.save_pretrained(folder)
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ...analysis.devices.owners import has_own_method
from ...analysis.devices.specs import last_name
from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.values import HOST, MODULE
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, name_of
from ...edits import Replace
from ...finding import Finding
from ...flow.closure import reach
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA708", "save-pretrained")

_MODEL = Pattern(
    r"model|(?:^|_)(?:net|unet|vae|lora|adapter|controlnet|transformer|(?:text_)?encoder|decoder|pipe|pipeline)(?:_|\d|$)",
    re.IGNORECASE,
)
_MADE = frozenset(
    "from_pretrained from_config get_peft_model unwrap_model unwrap merge_and_unload unload get_base_model".split()
)
_OF_MODELS_ONLY = frozenset(
    {"get_base_model", "get_peft_model", "merge_and_unload", "unwrap_model"}
)
# Methods that give the model itself.
_SAME = frozenset({"eval", "train", "cuda", "requires_grad_", "bfloat16", "float", "half"})
_LIBRARIES = ("transformers.", "peft.", "diffusers.", "trl.")
_CLASS_OF_MODEL = Pattern(r"(?:Model|For[A-Z]\w+|Pipeline)$")


@RULE.method("save_pretrained")
def save_pretrained(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    model = call.func.value
    if not (script.accelerated or uses_accelerate(script)) or not _is_model(script, model, scope):
        return
    if _is_on_the_host(script, call, scope):
        return
    edit = _by_runtime(f"{script.xla}.save_pretrained", call, model)
    yield RULE.finding(
        script, call, "safetensors fails on XLA tensors: use `xla.save_pretrained`", edit
    )


def _by_runtime(function: str, call: ast.Call, first: ast.expr) -> Replace:
    """The call as one of `function`, with `first` before its arguments."""
    holes = [first, *(a.value if isinstance(a, ast.Starred) else a for a in call.args)]
    holes += (k.value for k in call.keywords)
    heads = ["", *("*" if isinstance(a, ast.Starred) else "" for a in call.args)]
    heads += (f"{k.arg}=" if k.arg else "**" for k in call.keywords)
    given = ", ".join(f"{head}{{{k}}}" for k, head in enumerate(heads))
    return Replace(call, f"{function}({given})", tuple(holes))


_LORA = ("save_lora_weights", "save_lora_adapter")


@RULE.node(ast.Call, named=_LORA)
def save_lora(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`Pipeline.save_lora_weights(folder, unet_lora_layers=state)`, `unet.save_lora_adapter(folder)`."""
    if not isinstance(call.func, ast.Attribute):
        return
    if not (script.accelerated or uses_accelerate(script)):
        return
    if has_own_method(script, call.func.value, call.func.attr):
        return  # which may change what it receives, and is judged where it stands
    layers = [*call.args[1:], *(k.value for k in call.keywords if _is_of_layers(k.arg))]
    tensors = [one for one in layers if not is_literal(one, None)]
    if tensors and all(_is_made_on_the_host(script, one, scope) for one in tensors):
        return
    edit = _by_runtime(f"{script.xla}.save_lora", call, call.func)
    yield RULE.finding(script, call, "safetensors fails on XLA tensors: use `xla.save_lora`", edit)


def _is_of_layers(name: str | None) -> bool:
    return name is None or name.endswith("_layers")


@RULE.method("push_to_hub")
def push_to_hub(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if not (script.accelerated or uses_accelerate(script)):
        return
    if _saves_by_itself(script, call.func.value, scope):
        return  # by that method, which is judged where it stands
    if _is_model(script, call.func.value, scope):
        advice = f"`{script.xla}.save_pretrained` first, then upload the folder (`HfApi().upload_folder`)"
        yield RULE.finding(script, call, f"safetensors fails on XLA tensors: {advice}")


def _saves_by_itself(script: Script, model: ast.expr, scope: Scope) -> bool:
    """Return True if the class of `model` is the program's and defines `save_pretrained`, which `push_to_hub` calls."""
    made = script.value(model, scope).definition
    if not isinstance(made, ast.ClassDef):
        return False
    methods = ("save_pretrained", "_save_pretrained", "push_to_hub")
    return any(script.inference.method(made, name) is not None for name in methods)


def _is_on_the_host(script: Script, call: MethodCall, scope: Scope) -> bool:
    """True if the tensors that are written are on the CPU: the state that is given, or the model, moved right before."""
    state = next((k.value for k in call.keywords if k.arg == "state_dict"), None)
    if state is not None:
        return _is_made_on_the_host(script, state, scope)
    statement = script.statement(call)
    block = script.block(statement)
    model = ast.unparse(call.func.value)
    before = block[: block.index(statement)]
    return any(ast.unparse(s) in _moves_of(model) for s in before[-_NEAR:])


_NEAR = 3  # statements
_MOVES = ("{0}.cpu()", "{0}.to('cpu')", "{0} = {0}.cpu()", "{0} = {0}.to('cpu')")


def _moves_of(model: str) -> set[str]:
    return {move.format(model) for move in _MOVES}


def _is_made_on_the_host(script: Script, node: ast.expr, scope: Scope) -> bool:
    """`{k: v.cpu() for k, v in ...}`, or a name that stands for nothing else."""
    if isinstance(node, ast.DictComp):
        return _is_brought_to_the_host(node.value)
    if not isinstance(node, ast.Name):
        return False
    bindings = script.bindings(node)
    if len(bindings) == 1 and isinstance(bindings[0].value, ast.Dict) and not bindings[0].path:
        return not bindings[0].value.keys and _is_filled_on_the_host(script, node.id, scope)
    return bool(bindings) and all(
        isinstance(b.whole, ast.DictComp) and _is_made_on_the_host(script, b.whole, scope)
        for b in bindings
    )


def _is_filled_on_the_host(script: Script, name: str, scope: Scope) -> bool:
    """True if all that is stored in the empty dict `name`, a local one, is `value.cpu()`."""
    stored = [
        assign.value
        for assign, home in script.index.of(ast.Assign)
        for target in assign.targets
        if home is scope and isinstance(target, ast.Subscript)
        if isinstance(target.value, ast.Name) and target.value.id == name
    ]
    return bool(stored) and all(_is_brought_to_the_host(value) for value in stored)


def _is_brought_to_the_host(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value="cpu"), *_]):
            return True
    return False


def _is_model(script: Script, node: ast.expr, scope: Scope) -> bool:
    value = script.value(node, scope)
    if value.has(MODULE):
        return not value.has(HOST)
    if isinstance(node, ast.Call):
        func = node.func
        called = name_of(func)
        if called in {"cpu", "to"} and isinstance(func, ast.Attribute):
            return called == "to" and _is_model(script, func.value, scope)
        if called in _SAME and isinstance(func, ast.Attribute):
            return _is_model(script, func.value, scope)
        if _CLASS_OF_MODEL.search(called) and not _has_no_tensors(called):
            return (script.dotted(func, scope) or "").startswith(_LIBRARIES)
        owner = last_name(func.value) if isinstance(func, ast.Attribute) else None
        return called in _MADE and not _has_no_tensors(owner or "")
    name = last_name(node)
    if name == "module" and isinstance(node, ast.Attribute):
        return True
    if name is None or _has_no_tensors(name):
        return False
    return _MODEL.search(name) is not None or _is_made_by_a_library(script, node, scope)


def _is_made_by_a_library(script: Script, node: ast.expr, scope: Scope) -> bool:
    """`policy = accelerator.unwrap_model(net)`, `net.module if hasattr(net, "module") else net`."""

    def before(each: ast.expr) -> Sequence[ast.expr]:
        return () if isinstance(each, ast.Call) else sources(script, each)

    def is_one(each: ast.expr) -> bool:
        return (
            _makes_a_model(script, each, scope)
            if isinstance(each, ast.Call)
            else last_name(each) == "module"
        )

    return any(map(is_one, reach(before(node), before)))


def _makes_a_model(script: Script, call: ast.Call, scope: Scope) -> bool:
    """True for calls whose library is known, or that only models have."""
    func = call.func
    if isinstance(func, ast.Attribute) and (func.attr in _SAME or func.attr == "to"):
        return isinstance(func.value, ast.Call) and _makes_a_model(script, func.value, scope)
    if name_of(func) in _OF_MODELS_ONLY:
        return True
    is_known = (script.dotted(func, scope) or "").startswith(_LIBRARIES)
    return is_known and _is_model(script, call, scope)


def _has_no_tensors(name: str) -> bool:
    return any(
        word in name.lower()
        for word in ("token", "process", "config", "extractor", "sched", "repo", "card", "dataset")
    )
