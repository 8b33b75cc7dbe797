"""A library that knows only CUDA receives a device, or a flag, that is XLA's after the migration.

## What it reports

Variables for torch's device, and results of tests for an accelerator, that libraries receive too
that manage their devices without torch, such as FAISS and XGBoost.

## Why it matters on XLA

The migration turns the variable into that of the XLA device. These libraries do not know XLA: they
fail, or look for a GPU. Other libraries are only reported, since they may use torch.

## What to do

Fix: safe, or none.

Let the library use CUDA only if there is CUDA, and the CPU otherwise.

## Example

```diff
 import faiss
 import torch
 import xgboost
+from xla_migrate import runtime as xla

-use_gpu = torch.cuda.is_available()
-device = "cuda" if use_gpu else "cpu"
+use_gpu = xla.is_available()
+device = xla.device_type() if use_gpu else "cpu"
 model = torch.nn.Linear(8, 8).to(device)
-clusters = faiss.Kmeans(8, 4, gpu=use_gpu)
-method = xgboost.XGBClassifier(tree_method="gpu_hist" if use_gpu else "hist")
-trees = xgboost.XGBClassifier(device=device)
+clusters = faiss.Kmeans(8, 4, gpu=use_gpu and torch.cuda.is_available())
+method = xgboost.XGBClassifier(tree_method="gpu_hist" if use_gpu and torch.cuda.is_available() else "hist")
+trees = xgboost.XGBClassifier(device=device if torch.cuda.is_available() else "cpu")
```

A flag that torch needs too, and a library that may use torch receives, is only reported:

```diff
 import torch
 from simulator import Gym
+from xla_migrate import runtime as xla

 class Env:
-    use_gpu_pipeline = torch.cuda.is_available()
+    use_gpu_pipeline = xla.is_available()

     def __init__(self):
         self.gym = Gym(use_gpu=self.use_gpu_pipeline)  # XLA134
         if self.use_gpu_pipeline:
-            torch.cuda.set_device(0)
+            xla.set_device(0)
```

A variable of which torch learns nothing keeps its meaning, and is not reported:

```python
import torch
import xgboost

device = "cuda" if torch.cuda.is_available() else "cpu"
trees = xgboost.XGBClassifier(device=device)
```
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.devices.cuda_only.flags_of_libraries import is_without_torch
from ...analysis.devices.cuda_only.shared_with_libraries import shared_with_libraries
from ...analysis.script import Script
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA134", "shared-device", of_what_runs=True)


@RULE.file
def shared_device(script: Script) -> Iterator[Finding]:
    for read, library, is_flag in shared_with_libraries(script):
        written = script.segment(read)
        available = f"{script.spell('torch.cuda.is_available', script.index.scope(read))}()"
        meaning = f"`{written}` is {'True' if is_flag else 'the XLA device'} on an XLA host"
        if not is_without_torch(library):
            message = f"{meaning}, and `{library}` may support only CUDA: if it does, use `{written} and {available}`"
            yield RULE.finding(script, read, message, severity=WARNING)
            continue
        text = f"{{0}} and {available}" if is_flag else f'{{0}} if {available} else "cpu"'
        message = f"{meaning}, and `{library}` supports only CUDA: use `{text.format(written)}`"
        yield RULE.finding(script, read, message, Replace(read, text, (read,)))
