"""`apex.fp16_utils` keeps a model in float16 by hand.

## What it reports

`FP16_Optimizer`, `network_to_half` and the other members of `apex.fp16_utils`.

## Why it matters on XLA

apex fails without CUDA. The functions cast the model, keep float32 master weights and scale the
loss. bfloat16 needs none of these.

## What to do

Fix: none.

Keep the model in float32, run its forward pass under `xla.autocast()`, and use a plain optimizer.
Remove the code that copies between master weights and model.

## Example

```python
import torch
from apex.fp16_utils import FP16_Optimizer

optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), dynamic_loss_scale=True)  # XLA207
```

Functions of the same name from other packages are not reported:

```python
from mylib.half import network_to_half

model = network_to_half(model)
```

## See also

XLA206
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import HIGH, Finding
from ...rule import Rule

RULE = Rule("XLA207", "apex-fp16-utils", effort=HIGH, words=("apex",))

_TOOLS = (
    "FP16_Optimizer FP16Model LossScaler DynamicLossScaler network_to_half prep_param_lists convert_network "
    "convert_module BN_convert_float tofp16 model_grads_to_master_grads master_params_to_model_params "
    "clip_grad_norm to_python_float"
).split()
_NAMES = (
    *(f"apex.fp16_utils.{name}" for name in _TOOLS),
    *(f"apex.fp16_utils.fp16util.{name}" for name in _TOOLS),
    "apex.fp16_utils.fp16_optimizer.FP16_Optimizer",
    "apex.optimizers.FP16_Optimizer",
    "apex.contrib.optimizers.FP16_Optimizer",
    "apex.contrib.optimizers.fp16_optimizer.FP16_Optimizer",
)


def _finding(script: Script, node: ast.AST) -> Finding:
    message = (
        f"apex's float16 utilities fail without CUDA: keep the model in float32 under {script.xla}.autocast(), "
        "with a plain optimizer"
    )
    return RULE.finding(script, node, message)


@RULE.call(*_NAMES)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _finding(script, call)


@RULE.reference(*_NAMES)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield _finding(script, node)


@RULE.node(ast.ImportFrom)
def imported(script: Script, node: ast.ImportFrom, scope: Scope) -> Iterator[Finding]:
    """`from apex.fp16_utils import *`: which names it brings is not seen."""
    if (node.module or "").startswith("apex.fp16_utils") and node.names[0].name == "*":
        yield _finding(script, node)
