"""`flex_attention` raises on XLA devices: it knows CUDA, CPU and HPU.

A model of transformers is told by its name which attention to use; "sdpa" computes the same on XLA:

```diff
 from transformers import AutoModelForCausalLM

 def build(name):
-    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="flex_attention")
+    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```

A call with functions of its own for scores and masks is left to a person: write the mask as a tensor, and give it to
`scaled_dot_product_attention`.

```python
from torch.nn.attention.flex_attention import flex_attention

def attend(q, k, v, mask):
    return flex_attention(q, k, v, block_mask=mask)  # XLA916
```

torch's `scaled_dot_product_attention` stays, and so do other functions of that name:

```python
import torch.nn.functional as F
from mylib import flex_attention

def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v), flex_attention(q, k, v)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.attention import chosen_attention
from ...edits import Replace
from ...finding import HIGH, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA916", "flex-attention")

_NAME = "flex_attention"


@RULE.call(f"torch.nn.attention.flex_attention.{_NAME}")
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`flex_attention` raises on XLA: use `scaled_dot_product_attention` with a mask"
    yield RULE.finding(script, call, message, effort=HIGH)


@RULE.file
def implementation(script: Script) -> Iterator[Finding]:
    """`attn_implementation="flex_attention"`, wherever it is written."""
    message = 'transformers\' flex_attention raises on XLA: use "sdpa"'
    for node in chosen_attention(script, lambda name: name.rpartition("|")[2] == _NAME):
        quote = script.segment(node)[:1]
        yield RULE.finding(script, node, message, Replace(node, f"{quote}sdpa{quote}"))
