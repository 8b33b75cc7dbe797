"""`map_location` of downloaded weights cannot name an XLA device.

## What it reports

`map_location=` of `torch.hub.load_state_dict_from_url`, `torch.jit.load` and similar functions.

## Why it matters on XLA

PyTorch cannot load to an XLA device (fact 1.44).

## What to do

Fix: safe.

Load to the CPU. `load_state_dict` copies the values to the parameters' device.

## Example

```diff
 import torch

 def pretrained(model, url, device):
-    model.load_state_dict(torch.hub.load_state_dict_from_url(url, map_location=device))
+    model.load_state_dict(torch.hub.load_state_dict_from_url(url, map_location="cpu"))
     return model.to(device)
```

A scripted module is moved after it is loaded:

```diff
 import torch
+from xla_migrate import runtime as xla

-model = torch.jit.load("model.pt", map_location="cuda")
+model = torch.jit.load("model.pt", map_location="cpu").to(xla.xla_device())
```

```python
import torch

state = torch.hub.load_state_dict_from_url("https://example.org/model.pt", map_location="cpu")
```

## See also

XLA702
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.map_locations import names_cuda
from ...analysis.devices.specs import is_host
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA706", "downloaded")

_MESSAGE = '`map_location` cannot name an XLA device: use "cpu"'


@RULE.call("torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")
def state_dict(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    location = keyword(call, "map_location")
    if location is not None and not _is_the_host(script, location) and script.accelerated:
        yield RULE.finding(script, call, _MESSAGE, Replace(location, '"cpu"'))


def _is_the_host(script: Script, location: ast.expr) -> bool:
    """Return True for "cpu", `torch.device("cpu")`, and a name of one."""
    return is_host(script.only_value(location) or location)


@RULE.call("torch.jit.load")
def scripted(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    location = call.args[1] if len(call.args) > 1 else keyword(call, "map_location")
    if location is not None and names_cuda(script, location):
        moved = Replace(call, f"{{0}}.to({script.xla}.xla_device())", (call,))
        yield RULE.finding(script, call, _MESSAGE, Replace(location, '"cpu"'), moved)
