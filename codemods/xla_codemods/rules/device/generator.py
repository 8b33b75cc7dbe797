"""`torch.Generator(device="cuda")` fails on an XLA host.

## What it reports

Generators that are created for a CUDA device, or for a device that may be CUDA.

## Why it matters on XLA

XLA has no generator objects. A random function with an XLA tensor or with `device=` accepts a CPU
generator: the numbers are drawn on the CPU and uploaded (fact 1.33).

## What to do

Fix: safe.

Use `xla.generator()`. It returns a CUDA generator on CUDA and a CPU generator elsewhere.

## Example

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def make(dataset):
-    generator = torch.Generator(device="cuda")
+    generator = xla.generator()
     return DataLoader(dataset, shuffle=True, generator=generator)
```

```diff
 import torch
+from xla_migrate import runtime as xla

 def noise(n, seed):
-    generator = torch.Generator("cuda").manual_seed(seed)
+    generator = xla.generator().manual_seed(seed)
-    return torch.randn(n, generator=generator, device="cuda")
+    return torch.randn(n, generator=generator, device=xla.xla_device())
```

A generator that is made only if there is a seed:

```diff
 import torch
 from diffusers import DDPMPipeline
+from xla_migrate import runtime as xla

 def sample(unet, scheduler, accelerator, seed):
     pipeline = DDPMPipeline(unet=unet, scheduler=scheduler).to(accelerator.device)
-    generator = torch.Generator(device=accelerator.device).manual_seed(seed) if seed else None
+    generator = xla.generator(accelerator.device).manual_seed(seed) if seed else None
     return pipeline(generator=generator, batch_size=4).images
```

A device that is chosen by an option:

```diff
 import torch
+from xla_migrate import runtime as xla

 def make(dataset, args):
-    generator = torch.Generator("cuda" if args.cuda else "cpu").manual_seed(0)
+    generator = xla.generator(xla.device_type() if args.cuda else "cpu").manual_seed(0)
     return torch.randperm(len(dataset), generator=generator)
```

CPU generators are not reported. Neither are generators that are on the CPU if there is no CUDA:

```python
import torch

generator = torch.Generator().manual_seed(0)
host = torch.Generator(device="cpu")
chosen = torch.Generator(device="cuda" if torch.cuda.is_available() else "cpu")
x = torch.randn(2, generator=chosen)
```

## Limits

`exponential_`, `geometric_`, `cauchy_` and `log_normal_` of XLA tensors take no generator.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.specs import device_argument
from ...analysis.inference.values import ACCEL, DEVICE, HOST
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import ERROR, SAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA112", "generator", of_what_runs=True)


@RULE.call("torch.Generator")
def generator(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = device_argument(call)
    if device is None:
        return
    value = script.value(device, scope)
    if script.device_literals.spec(device) is None and value.has(DEVICE) and value.has(HOST):
        return
    if isinstance(device, ast.Constant) and script.devices.spec(device) is None:
        return
    message = "`torch.Generator` fails for XLA devices: use a CPU generator, `xla.generator()`"
    spec = script.device_literals.spec(device)
    if spec is not None or (value.has(DEVICE) and value.has(ACCEL)):
        if isinstance(device, ast.IfExp):
            return  # `"cuda" if torch.cuda.is_available() else "cpu"` is the CPU on XLA
        text, holes = script.devices.given(device) if spec is None else script.devices.index(spec)
        edit = Replace(call, f"{script.xla}.generator({text})", holes)
        yield RULE.finding(script, call, message, edit, safety=SAFE)
        return
    chosen = _chosen(script, device)
    if chosen or script.devices.is_device(device):
        edit = Replace(call, f"{script.xla}.generator({{0}})", (device,))
        severity = ERROR if chosen else WARNING
        yield RULE.finding(script, call, message, edit, *chosen, safety=SAFE, severity=severity)


def _chosen(script: Script, device: ast.expr) -> list[Edit]:
    """Return the edits of the devices in `"cuda" if args.cuda else "cpu"`."""
    branches = [device.body, device.orelse] if isinstance(device, ast.IfExp) else []
    specs = [branch for branch in branches if script.devices.spec(branch) is not None]
    return [Replace(branch, f"{script.xla}.device_type()") for branch in specs]
