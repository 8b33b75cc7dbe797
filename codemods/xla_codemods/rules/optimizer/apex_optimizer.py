"""apex's fused optimizers are CUDA kernels.

## What it reports

`FusedAdam`, `FusedSGD`, `FusedLAMB`, `FusedNovoGrad` and the other optimizers of apex.

## Why it matters on XLA

apex fails without CUDA.

## What to do

Fix: safe, or none.

Use the optimizer of PyTorch, timm or the runtime with the same algorithm. Different defaults are
written out: FusedAdam is AdamW unless `adam_w_mode=False`, and its weight decay is 0 by default,
but 0.01 in `torch.optim.AdamW`.

## Example

```diff
 import torch
-from apex.optimizers import FusedAdam, FusedSGD

-optimizer = FusedAdam(model.parameters(), lr=1e-3)
+optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
-discriminator = FusedAdam(model.parameters(), 1e-3, True, (0.5, 0.999), adam_w_mode=False, set_grad_none=True)
+discriminator = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.5, 0.999))
-backbone = FusedSGD(model.parameters(), 0.1, momentum=0.9, materialize_master_grads=False)
+backbone = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
```

FusedLAMB becomes `timm.optim.Lamb`. FusedNovoGrad becomes `xla.NovoGrad`:

```diff
 import torch
-from apex.optimizers import FusedLAMB, FusedNovoGrad
+import timm.optim
+from xla_migrate import runtime as xla

-optimizer = FusedLAMB(groups, lr=4e-3, weight_decay=0.01, use_nvlamb=True)
+optimizer = timm.optim.Lamb(groups, lr=4e-3, weight_decay=0.01, always_adapt=True)
-novograd = FusedNovoGrad(groups, lr=1e-2, betas=(0.95, 0.98))
+novograd = xla.NovoGrad(groups, lr=1e-2, betas=(0.95, 0.98))
```

Options that no optimizer of PyTorch has are reported without a fix, as are the optimizers of
apex.contrib:

```python
import torch
from apex.optimizers import FusedSGD

optimizer = FusedSGD(model.parameters(), lr=0.1, momentum=0.9, wd_after_momentum=True)  # XLA301
```

Optimizers of the same name from other packages are not reported:

```python
import torch
from mylib.optimizers import FusedAdam

optimizer = FusedAdam(model.parameters(), lr=1e-3)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.library_types import RUNTIME
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...analysis.training.optimizer_equivalents import (
    ADAGRAD,
    ADAM,
    LAMB,
    SGD,
    Equivalent,
    NoCounterpart,
    adam_by_mode,
    edits,
    stands_in,
    told_of_import,
)
from ...edits import Edit, Replace
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA301", "apex-optimizer")

# Parameters and defaults: NVIDIA/apex 6424da3 (2026-07), apex/optimizers/*.py.
_ADAM = (
    "params",
    "lr",
    "bias_correction",
    "betas",
    "eps",
    "adam_w_mode",
    "weight_decay",
    "amsgrad",
    "set_grad_none",
    "capturable",
    "master_weights",
)
_LAMB = (
    "params",
    "lr",
    "bias_correction",
    "betas",
    "eps",
    "weight_decay",
    "amsgrad",
    "adam_w_mode",
    "grad_averaging",
    "set_grad_none",
    "max_grad_norm",
    "use_nvlamb",
)
_MIXED_LAMB = (
    "params",
    "lr",
    "step",
    *_LAMB[2:9],
    "max_grad_norm",
    "use_nvlamb",
    "reduced_precision_dtype",
)
_NOVOGRAD = (
    "params",
    "lr",
    "bias_correction",
    "betas",
    "eps",
    "weight_decay",
    "amsgrad",
    "reg_inside_moment",
    "grad_averaging",
    "norm_type",
    "init_zero",
    "set_grad_none",
)
_PLAIN = {"bias_correction": True, "capturable": False, "master_weights": False}

ADAMW_EQUIVALENT = Equivalent(
    "torch.optim.AdamW",
    _ADAM,
    ADAM,
    explicit={"weight_decay": "0.0"},
    dropped=frozenset({"set_grad_none", "adam_w_mode"}),
    only=_PLAIN,
)
LAMB_EQUIVALENT = Equivalent(
    "timm.optim.Lamb",
    _LAMB,
    LAMB,
    dropped=frozenset({"set_grad_none"}),
    only={"amsgrad": False, "adam_w_mode": True},
    renamed={"use_nvlamb": "always_adapt"},
)
EQUIVALENTS = {
    "apex.optimizers.FusedSGD": Equivalent(
        "torch.optim.SGD",
        (*SGD, "wd_after_momentum", "materialize_master_grads", "set_grad_none"),
        SGD,
        dropped=frozenset({"materialize_master_grads", "set_grad_none"}),
        only={"wd_after_momentum": False},
    ),
    "apex.optimizers.FusedLAMB": LAMB_EQUIVALENT,
    "apex.optimizers.FusedMixedPrecisionLamb": LAMB_EQUIVALENT._replace(
        parameters=_MIXED_LAMB,
        only={**LAMB_EQUIVALENT.only, "step": 0, "reduced_precision_dtype": None},
    ),
    "apex.optimizers.FusedAdagrad": Equivalent(
        "torch.optim.Adagrad",
        ("params", "lr", "eps", "weight_decay", "set_grad_none", "adagrad_w_mode"),
        ADAGRAD,
        dropped=frozenset({"set_grad_none"}),
        only={"adagrad_w_mode": False},
    ),
    "apex.optimizers.FusedNovoGrad": Equivalent(
        f"{RUNTIME}.NovoGrad",
        _NOVOGRAD,
        tuple(name for name in _NOVOGRAD if name not in {"amsgrad", "set_grad_none"}),
        dropped=frozenset({"set_grad_none"}),
        only={"amsgrad": False},
    ),
}
_ADAM_NAMES = ("apex.optimizers.FusedAdam", "apex.optimizers.fused_adam.FusedAdam")
_WITHOUT = tuple(
    f"apex.contrib.optimizers.{home}{name}"
    for home, names in {
        "": ("FusedAdam", "FusedLAMB", "FusedSGD"),
        "distributed_fused_adam.": ("DistributedFusedAdam",),
        "distributed_fused_lamb.": ("DistributedFusedLAMB",),
        "fused_adam.": ("FusedAdam",),
        "fused_lamb.": ("FusedLAMB",),
        "fused_sgd.": ("FusedSGD",),
    }.items()
    for name in names
)


def _message(node_name: str, why: str = "") -> str:
    needs = f"apex's {node_name} fails without CUDA"
    return (
        f"{needs}, and PyTorch has no equivalent of {why}: use an optimizer of PyTorch without it"
        if why
        else f"{needs}: use the equivalent in PyTorch"
    )


@RULE.call(*_ADAM_NAMES)
def fused_adam(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """AdamW, or Adam, or one of them when the script runs."""
    equivalent, func = adam_by_mode(script, call, scope, ADAMW_EQUIVALENT)
    yield _translated(script, call, scope, equivalent, func)


@RULE.call(*EQUIVALENTS)
def others(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    equivalent = EQUIVALENTS[script.dotted(call.func, scope) or ""]
    yield _translated(script, call, scope, equivalent, None)


def _translated(
    script: Script, call: ast.Call, scope: Scope, equivalent: Equivalent, func: Edit | None
) -> Finding:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    if equivalent.target.startswith(RUNTIME):
        func = Replace(call.func, f"{script.xla}.{equivalent.target.rpartition('.')[2]}")
    try:
        made = edits(script, call, scope, equivalent, func)
    except NoCounterpart as reason:
        return RULE.finding(script, call, _message(name, str(reason)), effort=MEDIUM)
    return RULE.finding(script, call, told_of_import(_message(name), equivalent), *made)


@RULE.reference(*_ADAM_NAMES, *EQUIVALENTS)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`optimizer_class = FusedAdam`."""
    if not is_handed_on(node, script.parents):
        return
    dotted = script.dotted(node, scope) or ""
    name = dotted.rpartition(".")[2]
    equivalent = ADAMW_EQUIVALENT if dotted in _ADAM_NAMES else EQUIVALENTS[dotted]
    if not equivalent.target.startswith(RUNTIME) and stands_in(script, node, equivalent):
        edit = Replace(node, script.spell(equivalent.target, scope))
        yield RULE.finding(script, node, told_of_import(_message(name), equivalent), edit)
    else:
        message = f"apex's {name} fails without CUDA: use {equivalent.target.replace(RUNTIME, script.xla)}"
        yield RULE.finding(script, node, message, effort=MEDIUM)


@RULE.call(*_WITHOUT)
def without(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script,
        call,
        "apex.contrib's optimizers fail without CUDA: use one of torch.optim",
        effort=MEDIUM,
    )
