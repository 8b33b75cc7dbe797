"""Lightning looks for a TPU alone: on other XLA devices it trains on the CPU, without a word.

Its accelerator "auto" asks for a TPU's chips. On Trainium, and on XLA:CPU where a migration is rehearsed, there are
none, and training goes on without torch_xla. `precision="bf16-mixed"` raises where it does take XLA.
`xla.patch_lightning()` mends both, and does nothing on CUDA.

```diff
 import lightning as L
+from xla_migrate import runtime as xla

 def main(model, loader):
+    xla.patch_lightning()
     trainer = L.Trainer(max_epochs=3, precision="bf16-mixed")
     trainer.fit(model, loader)
```

One call is enough for all of a module, and Lightning's command line makes its Trainer itself:

```diff
 from lightning.pytorch.cli import LightningCLI
 from project import Data, Model
+from xla_migrate import runtime as xla

 if __name__ == "__main__":
+    xla.patch_lightning()
     LightningCLI(Model, Data)
```

A Trainer that is told to take the CPU or a TPU is left, and others of that name are not Lightning's:

```python
import lightning as L
from mylib import Trainer

L.Trainer(accelerator="cpu")
L.Trainer(accelerator="tpu")
Trainer(max_epochs=3)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.framework_patches import patched_before
from ...analysis.frameworks.lightning import is_patched_for
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA815", "lightning-devices")

_TRAINERS = (
    *(
        f"{home}.Trainer"
        for home in (
            "lightning",
            "lightning.pytorch",
            "lightning.pytorch.trainer",
            "pytorch_lightning",
            "pytorch_lightning.trainer",
        )
    ),
    *(f"{home}.Fabric" for home in ("lightning", "lightning.fabric", "lightning_fabric")),
    *(f"{home}.cli.LightningCLI" for home in ("lightning.pytorch", "pytorch_lightning")),
)
_MESSAGE = (
    "on XLA devices other than TPUs Lightning trains on the CPU: call `xla.patch_lightning()` first"
)


@RULE.call(*_TRAINERS)
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not is_patched_for(call):
        return
    edit = patched_before(
        script, call, "patch_lightning", _TRAINERS, lambda c: not is_patched_for(c)
    )
    if edit is not None:
        yield RULE.finding(script, call, _MESSAGE, edit)
