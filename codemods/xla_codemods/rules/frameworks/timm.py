"""timm's loader moves batches to a CUDA device by default.

## What it reports

`create_loader` without `device=`, and random erasing and CutMix on the device.

## Why it matters on XLA

`create_loader` without a device fails on XLA. Random erasing and CutMix write to a different part
of each batch, and each position is a new graph (fact 3.31).

## What to do

Fix: safe, or none.

Pass `device=xla.xla_device()`. Pass `use_prefetcher=False` to run random erasing and CutMix on
the host.

## Example

```diff
 from timm.data import create_loader
+from xla_migrate import runtime as xla

 def loaders(dataset):
-    train = create_loader(dataset, input_size=224, batch_size=32, is_training=True)
+    train = create_loader(dataset, input_size=224, batch_size=32, is_training=True, device=xla.xla_device())
     plain = create_loader(dataset, input_size=224, batch_size=32, use_prefetcher=False)
     return train, plain
```

CutMix in the training loop is reported without a fix:

```python
from timm.data import Mixup

mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)  # XLA806
```

Mixing whole images is one graph. It is not reported:

```python
from timm.data import Mixup

mix = Mixup(mixup_alpha=0.8, cutmix_alpha=0.0, num_classes=10)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_off, keyword
from ...edits import AddArgument
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA806", "timm-loader")

_MOVING = "the mixup writes to a different part of each batch, which makes XLA compile every time"


@RULE.call("timm.data.create_loader", "timm.data.loader.create_loader")
def loader(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if any(k.arg is None for k in call.keywords):
        return
    prefetcher = keyword(call, "use_prefetcher")
    if is_off(prefetcher):
        return
    if keyword(call, "device") is None:
        edit = AddArgument(call, f"device={script.xla}.xla_device()")
        yield RULE.finding(
            script,
            call,
            "timm's loader moves batches to a CUDA device, which fails on an XLA host: pass an XLA device",
            edit,
        )
    erasing = keyword(call, "re_prob")
    if prefetcher is None and isinstance(erasing, ast.Constant) and erasing.value:
        message = f"{_MOVING}: pass `use_prefetcher=False`"
        yield RULE.finding(script, erasing, message, severity=WARNING, effort=MEDIUM)


@RULE.call("timm.data.PrefetchLoader", "timm.data.loader.PrefetchLoader")
def prefetcher(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if keyword(call, "device") is None and all(k.arg for k in call.keywords):
        edit = AddArgument(call, f"device={script.xla}.xla_device()")
        yield RULE.finding(
            script,
            call,
            "timm's loader moves batches to a CUDA device, which fails on an XLA host: pass an XLA device",
            edit,
        )


@RULE.call("timm.data.Mixup", "timm.data.mixup.Mixup")
def mixup(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """CutMix writes a different box into each batch."""
    alpha = keyword(call, "cutmix_alpha")
    if isinstance(alpha, ast.Constant) and alpha.value:
        message = f"{_MOVING}: mix in the loader (`FastCollateMixup`)"
        yield RULE.finding(script, alpha, message, severity=WARNING, effort=MEDIUM)
