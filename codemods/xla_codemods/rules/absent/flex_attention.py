"""`flex_attention` raises an exception on XLA devices.

## What it reports

`torch.nn.attention.flex_attention`, and models of transformers that select it.

## Why it matters on XLA

The function supports only CUDA, CPU and HPU.

## What to do

Fix: safe, or none.

Use "sdpa" in transformers, which computes the same. For a call with functions for scores and
masks, write the mask as a tensor, and pass it to `scaled_dot_product_attention`.

## Example

```diff
 from transformers import AutoModelForCausalLM

 def build(name):
-    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="flex_attention")
+    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
```

A call is reported without a fix:

```python
from torch.nn.attention.flex_attention import flex_attention

def attend(q, k, v, mask):
    return flex_attention(q, k, v, block_mask=mask)  # XLA916
```

A file that makes masks for flex_attention keeps it, since other functions do not accept them:

```python
from torch.nn.attention.flex_attention import create_block_mask

def prepare(model, mask_mod, length):
    model.config._attn_implementation = "flex_attention"  # XLA916
    return create_block_mask(mask_mod, None, None, length, length)
```

PyTorch's `scaled_dot_product_attention`, and other functions of that name, are not reported:

```python
import torch.nn.functional as F
from mylib import flex_attention

def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v), flex_attention(q, k, v)
```

## See also

XLA904
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.attention import chosen_attention
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace
from ...finding import HIGH, Finding
from ...rule import Rule

RULE = Rule("XLA916", "flex-attention", words=("flex_attention",))

_NAME = "flex_attention"
_OWN_MASKS = ("create_block_mask", "BlockMask")


@RULE.call(f"torch.nn.attention.flex_attention.{_NAME}")
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`flex_attention` raises an exception on XLA: use `scaled_dot_product_attention` with a mask"
    yield RULE.finding(script, call, message, effort=HIGH)


@RULE.file
def implementation(script: Script) -> Iterator[Finding]:
    """`attn_implementation="flex_attention"`, wherever it is written."""
    message = 'transformers\' flex_attention raises on XLA: use "sdpa"'
    makes_masks = script.source.mentions(*_OWN_MASKS)
    for node in chosen_attention(script, lambda name: name.rpartition("|")[2] == _NAME):
        quote = script.segment(node)[:1]
        if makes_masks:
            advice = ", and pass masks as tensors, because only flex_attention takes a `BlockMask`"
            yield RULE.finding(script, node, message + advice, effort=HIGH)
            continue
        yield RULE.finding(script, node, message, Replace(node, f"{quote}sdpa{quote}"))
