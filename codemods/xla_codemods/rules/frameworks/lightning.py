"""Lightning supports XLA, unless the script selects CUDA.

## What it reports

Arguments of `Trainer` and `Fabric` that select CUDA, float16 or a strategy for CUDA, and CUDA
devices in a LightningModule.

## Why it matters on XLA

`accelerator="gpu"` and `gpus=` fail on an XLA host. float16 needs a GradScaler and fails on XLA.

## What to do

Fix: safe, or none.

Use `accelerator="auto"`, with which Lightning takes the available device. `xla.patch_lightning()`
(XLA815) adds all XLA devices. `strategy="ddp"` and `DDPStrategy` stay: the patch treats them as
data parallelism on XLA, with the order of samples of CUDA, even if they come from a variable or
the command line. Use bfloat16 for mixed precision.

## Example

```diff
 import lightning as L
 from xla_migrate import runtime as xla

 xla.patch_lightning()
-trainer = L.Trainer(accelerator="gpu", devices=1, strategy="ddp", max_epochs=3)
+trainer = L.Trainer(accelerator="auto", devices=1, strategy="ddp", max_epochs=3)
```

A number of devices is reported. On Trainium and XLA:CPU Lightning trains on one device whatever the number is:

```python
import lightning as L
from xla_migrate import runtime as xla

xla.patch_lightning()
trainer = L.Trainer(devices=4, strategy="ddp")  # XLA803
```

```diff
 from pytorch_lightning import Trainer
 from xla_migrate import runtime as xla

 xla.patch_lightning()
-trainer = Trainer(gpus=1, max_epochs=3)
+trainer = Trainer(devices=1, max_epochs=3, accelerator="auto")
```

Lightning moves a module, steps its optimizers and marks its steps. A CUDA device in the module
becomes the module's device:

```diff
 import lightning as L
 import torch

 class Net(L.LightningModule):
     def training_step(self, batch, index):
         optimizer = self.optimizers()
-        noise = torch.randn(4, device="cuda")
+        noise = torch.randn(4, device=self.device)
-        loss = self(batch + noise + torch.ones(4).cuda()).mean()
+        loss = self(batch + noise + torch.ones(4).to(self.device)).mean()
         optimizer.zero_grad()
         self.manual_backward(loss)
         optimizer.step()
```

Mixed precision:

```diff
 import lightning as L
 from xla_migrate import runtime as xla

 xla.patch_lightning()
-trainer = L.Trainer(precision="16-mixed")
+trainer = L.Trainer(precision="16-mixed" if xla.device_type() == "cuda" else "bf16-mixed")
```

Weights in float16, and the strategies of DeepSpeed and FSDP, are reported without a fix.
`"xla_fsdp"` is Lightning's strategy for XLA:

```python
import lightning as L
from xla_migrate import runtime as xla

xla.patch_lightning()
trainer = L.Trainer(accelerator="auto", precision="16-true")  # XLA803
```

With manual optimization, Lightning clips scaled gradients on CUDA. The clipping is reported:

```diff
 import lightning as L
 from xla_migrate import runtime as xla

 class Net(L.LightningModule):
     automatic_optimization = False

     def training_step(self, batch, index):
         optimizer = self.optimizers()
         self.manual_backward(self(batch).mean())
         self.clip_gradients(optimizer, gradient_clip_val=0.5)
         optimizer.step()

 xla.patch_lightning()
-trainer = L.Trainer(precision="16-mixed")
+trainer = L.Trainer(precision="16-mixed" if xla.device_type() == "cuda" else "bf16-mixed")
```

Other classes named `Trainer` are not reported:

```python
from mylib import Trainer

trainer = Trainer(accelerator="gpu", gpus=4, strategy="ddp")
```

## See also

XLA812, XLA815
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import (
    calls_of_any,
    keyword_argument,
    makings,
    only_on_cuda,
)
from ...analysis.frameworks.lightning import (
    HALVES,
    PLAIN_STRATEGIES,
    fault_of_accelerator,
    fault_of_devices,
    fault_of_plugins,
    fault_of_strategy,
    is_patched_for,
    is_taken,
)
from ...analysis.frameworks.lightning_modules import is_its_module
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_off, keyword, text_of, unparsed
from ...edits import AddArgument, RenameArgument, Replace
from ...finding import HIGH, INFO, MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA803", "lightning")

_HOMES = (
    "lightning",
    "lightning.pytorch",
    "pytorch_lightning",
    "lightning.pytorch.trainer",
    "pytorch_lightning.trainer",
)
_FABRICS = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")
_MADE = (*(f"{home}.Trainer" for home in _HOMES), *_FABRICS)
_OLD = ("amp_backend", "amp_level", "distributed_backend", "auto_select_gpus")
_MIXED = frozenset(HALVES)
_HALF: frozenset[object] = frozenset({"16-true"})


@RULE.call(*_MADE)
def trainer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    accelerator = keyword(call, "accelerator")
    if accelerator is not None and (message := fault_of_accelerator(script, accelerator)):
        yield RULE.finding(script, accelerator, message, Replace(accelerator, '"auto"'))
    yield from _gpus(script, call, accelerator)
    devices = keyword(call, "devices")
    if isinstance(devices, ast.Constant) and is_patched_for(call):
        if message := fault_of_devices(devices.value):
            yield RULE.finding(script, devices, message, severity=INFO)
    strategy = keyword(call, "strategy")
    if strategy is not None and (message := fault_of_strategy(script, strategy)):
        edits = [Replace(strategy, '"auto"')] if text_of(strategy) in PLAIN_STRATEGIES else []
        effort = HIGH if "xla_fsdp" in message else MEDIUM
        if not (is_patched_for(call) and is_taken(script, "strategy", strategy)):
            yield RULE.finding(script, strategy, message, *edits, effort=effort)
    plugins = keyword(call, "plugins")
    if plugins is not None and (message := fault_of_plugins(script, plugins)):
        yield RULE.finding(script, plugins, message, effort=MEDIUM)
    for name in _OLD:
        argument = keyword_argument(call, name)
        if argument is not None and not is_off(argument.value):
            message = f"`{name}` is for CUDA and does not exist in Lightning 2: use `accelerator` and `devices`"
            yield RULE.finding(script, argument.value, message, effort=MEDIUM)
    precision = keyword(call, "precision")
    if precision is not None and _is_in(precision, _MIXED):
        message = 'float16 needs a GradScaler and fails on XLA: use "bf16-mixed"'
        edit = only_on_cuda(script, precision, '"bf16-mixed"')
        yield RULE.finding(script, precision, message, edit)
    elif precision is not None and _is_in(precision, _HALF):
        message = 'weights in float16 overflow on XLA, which has no scaler: use "bf16-true" or "bf16-mixed"'
        yield RULE.finding(script, precision, message, effort=MEDIUM)


@RULE.subclass(*_MADE)
def derived(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """`class MyTrainer(L.Trainer)`, whose objects and `super().__init__` are given the same."""
    for call in makings(script, node):
        yield from trainer(script, call, scope)


_SCALED = "on CUDA the clipping applies to scaled gradients, because with manual optimization nothing unscales them first, and on XLA to unscaled ones: check the limit"


# Hooks that Lightning calls after it has unscaled the gradients.
_AFTER_UNSCALING = frozenset({"on_before_optimizer_step", "configure_gradient_clipping"})


@RULE.node(ast.Call, named=("clip_gradients", "clip_grad_norm_", "clip_grad_value_"))
def clipped_while_scaled(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`self.clip_gradients(optimizer, ...)` in a step that the module does itself, in float16."""
    if not script.source.mentions("automatic_optimization"):
        return
    precisions = (keyword(made, "precision") for made in calls_of_any(script, _MADE))
    if not any(p is not None and _is_in(p, _MIXED) for p in precisions):
        return
    if _is_manual(script, call) and not _is_unscaled(script, call):
        yield RULE.finding(script, call, _SCALED, severity=WARNING)._replace(outlasts=True)


def _is_manual(script: Script, call: ast.Call) -> bool:
    """Return True in a LightningModule that sets `self.automatic_optimization = False`."""
    around = script.function(call)
    if around is not None and around.name in _AFTER_UNSCALING:
        return False
    classes = (node for node in script.ancestors(call) if isinstance(node, ast.ClassDef))
    return any(
        is_its_module(script, owner)
        and any(
            isinstance(node, ast.Assign)
            and is_off(node.value)
            and unparsed(node.targets[0]).rpartition(".")[2] == "automatic_optimization"
            for node in walk(owner)
        )
        for owner in classes
    )


def _is_unscaled(script: Script, call: ast.Call) -> bool:
    """Return True if the same function calls `scaler.unscale_(optimizer)`."""
    around = script.function(call)
    return any(script.function(other) is around for other, _ in script.index.calls_of("unscale_"))


def _gpus(script: Script, call: ast.Call, accelerator: ast.expr | None) -> Iterator[Finding]:
    """`gpus=2`, and `gpus=-1` for all."""
    gpus = keyword_argument(call, "gpus")
    if gpus is None or is_off(gpus.value):
        return
    message = "`gpus` counts CUDA devices and does not exist in Lightning 2: use `devices`"
    if keyword(call, "devices") is not None:
        yield RULE.finding(script, gpus.value, message)
        return
    edits: list[RenameArgument | AddArgument | Replace] = [RenameArgument(call, gpus, "devices")]
    added = AddArgument(call, 'accelerator="auto"')
    if isinstance(
        gpus.value, ast.IfExp
    ):  # `gpus=0 if cpu else 2`: of any make there is at least one
        test, body, orelse = gpus.value.test, gpus.value.body, gpus.value.orelse
        edits += [Replace(part, '"auto"') for part in (body, orelse) if is_off(part)]
        kinds = ["cpu" if is_off(part) else "auto" for part in (body, orelse)]
        if "cpu" in kinds:
            text = f'accelerator="{kinds[0]}" if {{0}} else "{kinds[1]}"'
            added = AddArgument(call, text, (test,))
    if text_of(accelerator) in {"ddp", "dp", "ddp2", "ddp_spawn"}:  # once the name of the strategy
        assert accelerator is not None
        edits.append(Replace(accelerator, '"auto"'))
    elif accelerator is None:
        edits.append(added)
    yield RULE.finding(script, gpus.value, message, *edits)


def _is_in(node: ast.expr, values: frozenset[object]) -> bool:
    return isinstance(node, ast.Constant) and node.value in values
