"""Lightning trains on the CPU if the XLA device is not a TPU.

## What it reports

Scripts that create a `Trainer`, `Fabric` or `LightningCLI` without `xla.patch_lightning()`.

## Why it matters on XLA

The accelerator "auto" looks only for a TPU. On Trainium, and on XLA:CPU, Lightning trains without
torch_xla and without a warning. With XLA, `precision="bf16-mixed"` raises an exception.

## What to do

Fix: safe.

Call `xla.patch_lightning()` first. It does nothing on CUDA.

## Example

```diff
 import lightning as L
+from xla_migrate import runtime as xla

 def main(model, loader):
+    xla.patch_lightning()
     trainer = L.Trainer(max_epochs=3, precision="bf16-mixed")
     trainer.fit(model, loader)
```

One call covers a module. The command line of Lightning creates its Trainer itself:

```diff
 from lightning.pytorch.cli import LightningCLI
 from project import Data, Model
+from xla_migrate import runtime as xla

 if __name__ == "__main__":
+    xla.patch_lightning()
     LightningCLI(Model, Data)
```

Before a subclass, the call covers objects that other modules create:

```diff
 from lightning.pytorch.cli import LightningCLI
+from xla_migrate import runtime as xla

+xla.patch_lightning()
+
+
 class CommandLine(LightningCLI):
     def add_arguments_to_parser(self, parser):
         parser.link_arguments("data.size", "model.size")
```

A Trainer for the CPU or a TPU, and other classes of that name, are not reported:

```python
import lightning as L
from mylib import Trainer

L.Trainer(accelerator="cpu")
L.Trainer(accelerator="tpu")
Trainer(max_epochs=3)
```

## See also

XLA803
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.flow import has_run
from ...analysis.frameworks.lightning import is_patched_for
from ...analysis.frameworks.sharding import patched_before
from ...analysis.projects.callees import derives
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import Finding
from ...rule import Rule

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
    if is_patched_for(call):
        yield from _patched(script, call)


@RULE.subclass(*_TRAINERS)
def derived(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """A class that derives from one of them may be made in another module, so that it is patched before the class."""
    yield from _patched(script, node)


def _patched(script: Script, node: ast.Call | ast.ClassDef) -> Iterator[Finding]:
    earlier = (c for c, _ in script.index.of(ast.ClassDef) if c is not node)
    if any(
        has_run(c, node, script.parents) and derives(script, c, _TRAINERS.__contains__)
        for c in earlier
    ):
        return
    edit = patched_before(
        script, node, "patch_lightning", _TRAINERS, lambda c: not is_patched_for(c)
    )
    if edit is not None:
        yield RULE.finding(script, node, _MESSAGE, edit)
