"""Weights from a model zoo are loaded with torch's own `map_location`.

It names no XLA device (fact 1.44). On the CPU the state dict does as well: `load_state_dict` copies it to the
parameters' device.

```diff
 import torch

 def pretrained(model, url, device):
-    model.load_state_dict(torch.hub.load_state_dict_from_url(url, map_location=device))
+    model.load_state_dict(torch.hub.load_state_dict_from_url(url, map_location="cpu"))
     return model.to(device)
```

A scripted module is moved behind loading:

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
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.map_locations import is_cpu, names_cuda
from ...analysis.syntax import keyword
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA706", "downloaded")

_MESSAGE = '`map_location` cannot name an XLA device: use "cpu"'


@RULE.call("torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")
def state_dict(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    location = keyword(call, "map_location")
    if location is not None and not is_cpu(location) and script.accelerated:
        yield RULE.finding(script, call, _MESSAGE, Replace(location, '"cpu"'))


@RULE.call("torch.jit.load")
def scripted(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    location = call.args[1] if len(call.args) > 1 else keyword(call, "map_location")
    if location is not None and names_cuda(script, location):
        moved = Replace(call, f"{{0}}.to({script.xla}.xla_device())", (call,))
        yield RULE.finding(script, call, _MESSAGE, Replace(location, '"cpu"'), moved)
