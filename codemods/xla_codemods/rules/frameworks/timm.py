"""timm's loader moves and normalises batches on a device, which is CUDA unless it is told.

`create_loader` without a device fails on XLA. With one it works: its batches arrive on that device.

```diff
 from timm.data import create_loader
+from xla_migrate import runtime as xla

 def loaders(dataset):
-    train = create_loader(dataset, input_size=224, batch_size=32, is_training=True)
+    train = create_loader(dataset, input_size=224, batch_size=32, is_training=True, device=xla.xla_device())
     plain = create_loader(dataset, input_size=224, batch_size=32, use_prefetcher=False)
     return train, plain
```

Random erasing, and CutMix by `Mixup`, write into a part of the batch that is another one each time: on XLA every new
place is a new graph (fact 3.31). Give `use_prefetcher=False`, so that both happen on the host, in the workers.

```python
from timm.data import Mixup

mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)  # XLA806
```

Mixing whole images is one graph:

```python
from timm.data import Mixup

mix = Mixup(mixup_alpha=0.8, cutmix_alpha=0.0, num_classes=10)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.syntax import keyword
from ...edits import AddArgument
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA806", "timm-loader")

_MOVING = "this writes to another part of each batch, which makes XLA compile every time"


@RULE.call("timm.data.create_loader", "timm.data.loader.create_loader")
def loader(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if any(k.arg is None for k in call.keywords):
        return
    prefetcher = keyword(call, "use_prefetcher")
    if isinstance(prefetcher, ast.Constant) and not prefetcher.value:
        return
    if keyword(call, "device") is None:
        edit = AddArgument(call, f"device={script.xla}.xla_device()")
        yield RULE.finding(
            script,
            call,
            "timm's loader moves batches to a CUDA device, which fails on an XLA host: give it an XLA device",
            edit,
        )
    erasing = keyword(call, "re_prob")
    if prefetcher is None and isinstance(erasing, ast.Constant) and erasing.value:
        message = f"{_MOVING}: give `use_prefetcher=False`"
        yield RULE.finding(script, erasing, message, severity=WARNING, effort=MEDIUM)


@RULE.call("timm.data.PrefetchLoader", "timm.data.loader.PrefetchLoader")
def prefetcher(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if keyword(call, "device") is None and all(k.arg for k in call.keywords):
        edit = AddArgument(call, f"device={script.xla}.xla_device()")
        yield RULE.finding(
            script,
            call,
            "timm's loader moves batches to a CUDA device, which fails on an XLA host: give it an XLA device",
            edit,
        )


@RULE.call("timm.data.Mixup", "timm.data.mixup.Mixup")
def mixup(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """CutMix writes a box of its own into each batch."""
    alpha = keyword(call, "cutmix_alpha")
    if isinstance(alpha, ast.Constant) and alpha.value:
        message = f"{_MOVING}: mix in the loader (`FastCollateMixup`)"
        yield RULE.finding(script, alpha, message, severity=WARNING, effort=MEDIUM)
