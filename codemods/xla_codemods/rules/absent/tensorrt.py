"""TensorRT runs trained models on NVIDIA devices.

It is no part of training. On XLA the model runs as it is; on Inferentia `torch_neuronx.trace` compiles it.

```python
import torch_tensorrt

def deploy(model, sample):
    return torch_tensorrt.compile(model, inputs=[sample])  # XLA908
```

torch's own compiler is another rule's.

```python
import torch

def deploy(model, sample):
    return torch.jit.trace(model, sample)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...fallback import leftovers
from ...finding import HIGH, INFO, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA908", "tensorrt", effort=HIGH)


@RULE.fallback
def tensorrt(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    for finding in leftovers(RULE, script, unhandled, HIGH):
        optional = _is_imported_where_asked_for(script, finding.node)
        yield finding._replace(severity=INFO) if optional else finding


def _is_imported_where_asked_for(script: Script, node: ast.AST) -> bool:
    """`elif engine: import tensorrt as trt`: one of several ways to run a trained model, which training does not take."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    found = script.index.scope(node).find(node.id) if isinstance(node, ast.Name) else None
    imports = [b.node for b in found[1] if b.how == "import"] if found is not None else []
    return bool(imports) and all(
        script.function(statement) is not None
        and any(isinstance(around, ast.If) for around in script.ancestors(statement))
        for statement in imports
    )
