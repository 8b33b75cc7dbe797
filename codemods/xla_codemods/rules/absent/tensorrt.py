"""TensorRT runs trained models on NVIDIA devices.

## What it reports

Calls of `torch_tensorrt` and `tensorrt`.

## Why it matters on XLA

TensorRT needs CUDA. It is not part of training.

## What to do

Fix: none.

Run the model without TensorRT on XLA. For Inferentia, compile it with `torch_neuronx.trace`.

## Example

```python
import torch_tensorrt

def deploy(model, sample):
    return torch_tensorrt.compile(model, inputs=[sample])  # XLA908
```

`torch.jit.trace` is not reported by this rule:

```python
import torch

def deploy(model, sample):
    return torch.jit.trace(model, sample)
```

## See also

XLA705
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.script import Script
from ...fallback import leftovers
from ...finding import HIGH, INFO, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA908", "tensorrt", effort=HIGH, words=("tensorrt",))


@RULE.fallback
def tensorrt(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    for finding in leftovers(RULE, script, unhandled, HIGH):
        optional = _is_imported_where_asked_for(script, finding.node)
        yield finding._replace(severity=INFO) if optional else finding


def _is_imported_where_asked_for(script: Script, node: ast.AST) -> bool:
    """`elif engine: import tensorrt as trt`: one of several ways to run a trained model, which training does not take."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    imports = [b.node for b in script.bindings(node) if b.how == "import"]
    return bool(imports) and all(
        script.function(statement) is not None
        and any(isinstance(around, ast.If) for around in script.ancestors(statement))
        for statement in imports
    )
