"""`save_pretrained` writes with safetensors, which cannot read XLA tensors.

It fails when the training is over. `xla.save_pretrained` calls the model's own method, and hands it tensors on the CPU;
tied weights stay tied. transformers' Trainer does that by itself.

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

Wrapped models, those under other names, and pipelines of diffusers:

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

`push_to_hub` writes the same way, and a person decides. Tokenizers, processors and settings have no tensors:

```python
import torch

def keep(model, tokenizer, processor, config, device):
    model.to(device)
    for part in (tokenizer, processor, config):
        part.save_pretrained("out")
    tokenizer.save_pretrained("out")
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...devices import last_name
from ...edits import Replace
from ...findings import Finding
from ...patterns import Pattern
from ...rule import Rule
from ...values import HOST, MODULE

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA708", "save-pretrained")

_MODEL = Pattern(
    r"model|(?:^|_)(?:net|unet|vae|lora|adapter|controlnet|transformer|(?:text_)?encoder|decoder|pipe|pipeline)(?:_|\d|$)",
    re.IGNORECASE,
)
_MADE = frozenset({"from_pretrained", "from_config", "get_peft_model", "unwrap_model", "unwrap"})


@RULE.method("save_pretrained")
def save_pretrained(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    model = call.func.value
    if not (script.accelerated or script.uses_accelerate) or not _is_model(script, model, scope):
        return
    holes = [model, *(a.value if isinstance(a, ast.Starred) else a for a in call.args)]
    holes += (k.value for k in call.keywords)
    heads = ["", *("*" if isinstance(a, ast.Starred) else "" for a in call.args)]
    heads += (f"{k.arg}=" if k.arg else "**" for k in call.keywords)
    given = ", ".join(f"{head}{{{k}}}" for k, head in enumerate(heads))
    edit = Replace(call, f"{script.xla}.save_pretrained({given})", tuple(holes))
    yield RULE.at(script, call, "safetensors cannot read XLA tensors", edit)


@RULE.method("push_to_hub")
def push_to_hub(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if not (script.accelerated or script.uses_accelerate):
        return
    if _is_model(script, call.func.value, scope):
        advice = (
            f"`{script.xla}.save_pretrained` it, then upload the folder (`HfApi().upload_folder`)"
        )
        yield RULE.at(script, call, f"safetensors cannot read XLA tensors: {advice}")


def _is_model(script: Script, node: ast.expr, scope: Scope) -> bool:
    value = script.value(node, scope)
    if value.has(MODULE):
        return not value.has(HOST)
    if isinstance(node, ast.Call):
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if name in {"cpu", "to"} and isinstance(func, ast.Attribute):
            return name == "to" and _is_model(script, func.value, scope)
        owner = last_name(func.value) if isinstance(func, ast.Attribute) else None
        return name in _MADE and not _has_no_tensors(owner or "")
    name = last_name(node)
    if name == "module" and isinstance(node, ast.Attribute):
        return True
    return name is not None and _MODEL.search(name) is not None and not _has_no_tensors(name)


def _has_no_tensors(name: str) -> bool:
    return any(
        word in name.lower() for word in ("token", "process", "config", "extractor", "sched")
    )
