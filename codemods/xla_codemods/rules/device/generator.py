"""`torch.Generator(device="cuda")` fails on an XLA host.

## What it reports

Generators that are created for a CUDA device, or for a device that may be CUDA.

## Why it matters on XLA

XLA has no generator objects. A random function with an XLA tensor or with `device=` accepts a CPU
generator but draws from the device's own generator, which `xla.manual_seed` seeds (fact 1.33).

## What to do

Fix: safe or unsafe.

Use `xla.generator()`. It returns a CUDA generator on CUDA and a CPU generator elsewhere. A CPU
generator is right for loaders, samplers and `randperm`. If the generator may reach a random
function that draws on the device, the fix is unsafe.

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

Pipelines and schedulers of diffusers draw on the host if they receive a CPU generator:

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
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.specs import device_argument, last_name
from ...analysis.inference.values import ACCEL, DEVICE, HOST, LOADER, SAMPLER
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import ERROR, MEDIUM, SAFE, UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA112", "generator", of_what_runs=True)

# Takers of a generator that draw on the host.
_ON_HOST = frozenset({"torch.utils.data.random_split", "torch.randperm"})


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
    if spec is None and not (value.has(DEVICE) and value.has(ACCEL)):
        chosen = _chosen(script, device)
        if chosen or script.devices.is_device(device):
            edit = Replace(call, f"{script.xla}.generator({{0}})", (device,))
            safety = SAFE if _draws_on_host(script, call) else UNSAFE
            severity = ERROR if chosen else WARNING
            yield RULE.finding(
                script, call, message, edit, *chosen, safety=safety, severity=severity
            )
        return
    if isinstance(device, ast.IfExp) and not _draws_on_host(script, call):
        return  # `"cuda" if torch.cuda.is_available() else "cpu"` is the CPU on XLA
    text, holes = script.devices.given(device) if spec is None else script.devices.index(spec)
    edit = Replace(call, f"{script.xla}.generator({text})", holes)
    if _draws_on_host(script, call):
        yield RULE.finding(script, call, message, edit, safety=SAFE)
    else:
        yield RULE.finding(script, call, message, edit, safety=UNSAFE, effort=MEDIUM)


def _chosen(script: Script, device: ast.expr) -> list[Edit]:
    """Return the edits of the devices in `"cuda" if args.cuda else "cpu"`."""
    branches = [device.body, device.orelse] if isinstance(device, ast.IfExp) else []
    specs = [branch for branch in branches if script.devices.spec(branch) is not None]
    return [Replace(branch, f"{script.xla}.device_type()") for branch in specs]


def _draws_on_host(script: Script, call: ast.Call) -> bool:
    """True if every use of the generator in the file is a loader, a sampler, or another taker that draws on the host."""
    node: ast.AST = call
    parent = script.parent(call)
    while isinstance(parent, (ast.Attribute, ast.IfExp, ast.ListComp, ast.List)):
        # `.manual_seed(0)` returns the generator
        node = script.parents[parent] if isinstance(parent, ast.Attribute) else parent
        parent = script.parent(node)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            uses = [node for node, _ in script.index.names(name) if isinstance(node.ctx, ast.Load)]
            return bool(uses) and all(_is_host_use(script, use) for use in uses)
        case ast.keyword():
            return _takes_on_host(script, parent)
    return False


def _is_host_use(script: Script, use: ast.Name) -> bool:
    parent = script.parent(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr in {"manual_seed", "seed", "initial_seed", "get_state", "set_state"}
    return isinstance(parent, ast.keyword) and _takes_on_host(script, parent)


def _takes_on_host(script: Script, argument: ast.keyword) -> bool:
    taker = script.parent(argument)
    if argument.arg != "generator" or not isinstance(taker, ast.Call):
        return False
    if script.dotted(taker.func) in _ON_HOST:
        return not any(k.arg == "device" for k in taker.keywords)
    if script.source.mentions("diffusers") and _is_of_diffusers(taker.func):
        return True
    return bool(script.value(taker).kinds & {LOADER, SAMPLER})


def _is_of_diffusers(func: ast.expr) -> bool:
    """`pipeline(...)`, `self.pipe(...)`, `scheduler.step(...)`, `latent_dist.sample(...)`, `randn_tensor(...)`."""
    name = last_name(func) or ""
    owner = last_name(func.value) or "" if isinstance(func, ast.Attribute) else ""
    return (
        "pipe" in name.lower()
        or name == "randn_tensor"
        or (name == "step" and "sched" in owner.lower())
        or (name == "sample" and owner == "latent_dist")
    )
