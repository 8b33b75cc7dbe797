"""DeepSpeed's fused and CPU optimizers are compiled for CUDA hosts.

## What it reports

`FusedAdam`, `DeepSpeedCPUAdam`, `FusedLamb`, `FusedLion` and the other optimizers of
`deepspeed.ops`.

## Why it matters on XLA

Their kernels must be compiled for CUDA or for the CPU.

## What to do

Fix: safe, or none.

Use the optimizer of PyTorch, timm or the runtime with the same algorithm. FusedAdam and
DeepSpeedCPUAdam are AdamW by default, with a weight decay of 0. Other defaults of the Lion
optimizers are written out.

## Example

```diff
 import torch
-from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
-from deepspeed.ops.lion import FusedLion
+import timm.optim

-optimizer = FusedAdam(model.parameters(), lr=1e-4)
+optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
-offloaded = DeepSpeedCPUAdam(model.parameters(), lr=1e-4, adamw_mode=False)
+offloaded = torch.optim.Adam(model.parameters(), lr=1e-4)
-lion = FusedLion(model.parameters())
+lion = timm.optim.Lion(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
```

FusedLamb bounds its trust ratio. `xla.BoundedLamb` does the same, with the numbers of DeepSpeed
0.19.6:

```diff
 import torch
-from deepspeed.ops.lamb import FusedLamb
+from xla_migrate import runtime as xla

-optimizer = FusedLamb(model.parameters(), lr=1e-3, max_coeff=5.0)
+optimizer = xla.BoundedLamb(model.parameters(), lr=1e-3, max_coeff=5.0)
```

Options without an equivalent are reported without a fix:

```python
import torch
from deepspeed.ops.lamb import FusedLamb

optimizer = FusedLamb(model.parameters(), lr=1e-3, max_grad_norm=1.0)  # XLA303
```

Optimizers of the same name from other packages are not reported:

```python
import torch
from mylib.optimizers import FusedAdam, FusedLion

optimizers = [FusedAdam(model.parameters(), lr=1e-3), FusedLion(model.parameters())]
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.guards import is_guarded
from ...analysis.inference.library_types import RUNTIME
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, unparsed
from ...analysis.training.optimizer_equivalents import (
    ADAGRAD,
    ADAM,
    LION,
    Equivalent,
    NoCounterpart,
    adam_by_mode,
    edits,
    stands_in,
)
from ...edits import Edit, Replace
from ...finding import ERROR, INFO, MEDIUM, Finding
from ...flow.calls import call_with
from ...rule import Rule

RULE = Rule("XLA303", "deepspeed-optimizer")

# Parameters and defaults: DeepSpeed 0.19.6, deepspeed/ops/*/*.py.
_ADAM_HEAD = ("params", "lr", "bias_correction", "betas", "eps")
_FUSED = Equivalent(
    "torch.optim.AdamW",
    (*_ADAM_HEAD, "adam_w_mode", "weight_decay", "amsgrad", "set_grad_none"),
    ADAM,
    explicit={"weight_decay": "0.0"},
    dropped=frozenset({"adam_w_mode", "set_grad_none"}),
    only={"bias_correction": True},
)
_CPU = _FUSED._replace(
    parameters=(
        "model_params",
        *_ADAM_HEAD[1:],
        "weight_decay",
        "amsgrad",
        "adamw_mode",
        "fp32_optimizer_states",
    ),
    dropped=frozenset({"adamw_mode", "fp32_optimizer_states"}),
    renamed={"model_params": "params"},
)
_LION = Equivalent(
    "timm.optim.Lion",
    ("params", "lr", "betas", "weight_decay", "set_grad_none"),
    LION,
    explicit={"lr": "1e-3", "betas": "(0.9, 0.999)"},
    dropped=frozenset({"set_grad_none", "fp32_optimizer_states"}),
)
_LAMB_NAMES = (
    *("params", "lr", "bias_correction", "betas", "eps", "eps_inside_sqrt", "weight_decay"),
    *("max_grad_norm", "max_coeff", "min_coeff", "amsgrad"),
)
_LAMB = Equivalent(
    f"{RUNTIME}.BoundedLamb",
    _LAMB_NAMES,
    _LAMB_NAMES,
    only={"max_grad_norm": 0.0, "amsgrad": False},
)
_EQUIVALENTS = {
    "deepspeed.ops.lamb.FusedLamb": _LAMB,
    "deepspeed.ops.lamb.fused_lamb.FusedLamb": _LAMB,
    "deepspeed.ops.adam.FusedAdam": _FUSED,
    "deepspeed.ops.adam.fused_adam.FusedAdam": _FUSED,
    "deepspeed.ops.adam.DeepSpeedCPUAdam": _CPU,
    "deepspeed.ops.adam.cpu_adam.DeepSpeedCPUAdam": _CPU,
    "deepspeed.ops.lion.FusedLion": _LION,
    "deepspeed.ops.lion.DeepSpeedCPULion": _LION._replace(
        parameters=("model_params", "lr", "betas", "weight_decay", "fp32_optimizer_states"),
        renamed={"model_params": "params"},
    ),
    "deepspeed.ops.adagrad.DeepSpeedCPUAdagrad": Equivalent(
        "torch.optim.Adagrad",
        ("model_params", "lr", "eps", "weight_decay", "amsgrad", "fp32_optimizer_states"),
        ADAGRAD,
        dropped=frozenset({"amsgrad", "fp32_optimizer_states"}),
        renamed={"model_params": "params"},
    ),
}
_WITHOUT = ("deepspeed.ops.adam.ZenFlowCPUAdam",)
_MESSAGE = "DeepSpeed's optimizers need kernels compiled for CUDA or the CPU"
_FIXED = f"{_MESSAGE}: use the equivalent in PyTorch"
_OF_RUNTIME = f"{_MESSAGE}: use the optimizer of the runtime, which computes the same"


@RULE.call(*_EQUIVALENTS)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    equivalent = _EQUIVALENTS[script.dotted(call.func, scope) or ""]
    func: Edit | None = None
    if equivalent is _LAMB:
        func = Replace(call.func, f"{script.xla}.BoundedLamb")
    elif equivalent.target == "torch.optim.AdamW":
        equivalent, func = adam_by_mode(script, call, scope, equivalent)
    try:
        made = edits(script, call, scope, equivalent, func)
    except NoCounterpart as reason:
        yield RULE.finding(
            script,
            call,
            f"{_MESSAGE}, and PyTorch has no equivalent of {reason}: use an optimizer of torch.optim without it",
            severity=_severity(script, call),
            effort=MEDIUM,
        )
    else:
        yield RULE.finding(script, call, _OF_RUNTIME if equivalent is _LAMB else _FIXED, *made)


@RULE.reference(*_EQUIVALENTS)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`optimizer_class = DeepSpeedCPUAdam if offload else FusedAdam`."""
    if not is_handed_on(node, script.parents):
        return
    equivalent = _EQUIVALENTS[script.dotted(node, scope) or ""]
    is_registered = _is_registered(script, node)
    if equivalent is _LAMB and not is_registered:  # it takes the same arguments
        yield RULE.finding(script, node, _OF_RUNTIME, Replace(node, f"{script.xla}.BoundedLamb"))
    elif not is_registered and stands_in(script, node, equivalent):
        edit = Replace(node, script.spell(equivalent.target, scope))
        yield RULE.finding(script, node, _FIXED, edit)
    else:
        message = f"{_MESSAGE}: use {equivalent.target}"
        severity = _severity(script, node)
        yield RULE.finding(script, node, message, severity=severity, effort=MEDIUM)


def _is_registered(script: Script, node: ast.expr) -> bool:
    """Return True for `OPTIMIZERS.register_module(module=FusedLamb)`: settings name the class by its own name."""
    call = call_with(script, node)
    return call is not None and "regist" in unparsed(call.func).lower()


@RULE.call(*_WITHOUT)
def without(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"{_MESSAGE}: use one of torch.optim or timm.optim"
    yield RULE.finding(script, call, message, severity=_severity(script, call), effort=MEDIUM)


def _severity(script: Script, node: ast.AST) -> str:
    """What is only reached where DeepSpeed is installed is worth knowing, no more."""
    return INFO if is_guarded(script, node, "deepspeed") else ERROR
