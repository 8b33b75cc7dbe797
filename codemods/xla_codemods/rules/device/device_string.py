"""A variable, option or default that says "cuda" says it to everything that asks.

What was a string stays one: `xla.device_type()` is "xla", "cuda" or "cpu", so that configuration, messages and
`device.startswith(...)` go on working.

```diff
 import torch
+from xla_migrate import runtime as xla

-device = "cuda" if torch.cuda.is_available() else "cpu"
+device = xla.device_type()

-def move(x, device="cuda:0"):
+def move(x, device=xla.device_type()):
     return x.to(device)
```

```diff
 import argparse
 import os
 from dataclasses import dataclass
+from xla_migrate import runtime as xla

 parser = argparse.ArgumentParser()
-parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
+parser.add_argument("--device", default=xla.device_type(), choices=["cuda", "cpu"])

 @dataclass
 class Config:
-    device: str = "cuda"
+    device: str = xla.device_type()

-settings = {"device": os.environ.get("DEVICE", "cuda")}
+settings = {"device": os.environ.get("DEVICE", xla.device_type())}
```

One with an index is the name of that device:

```diff
 import torch
+from xla_migrate import runtime as xla

 def load(path, rank):
-    location = f"cuda:{rank}"
+    location = str(xla.xla_device(rank))
     return torch.ones(2).to(location)
```

Words that are no devices stay: members of an enumeration, keys, choices, file names, messages.

```python
from enum import Enum

class Backend(Enum):
    DEVICE = "cuda"

backend = "cuda"
sources = {"cuda": "kernel.cu"}
print(f"cuda:{backend}")
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import UNSAFE, WARNING, Finding
from ...places import KEPT, MAYBE, NAME
from ...rule import Rule

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA105", "device-string")


@RULE.whole
def device_string(script: Script) -> Iterator[Finding]:
    for placed in script.places.all:
        if placed.of_devices:
            continue
        spec = placed.spec
        edit = Replace(spec.node, *script.devices.string(spec))
        if placed.place == NAME:
            yield RULE.at(script, spec.node, "names a CUDA device", edit)
        elif placed.place == MAYBE:
            message = "hands the name of a CUDA device to a function that this file does not show"
            yield RULE.at(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)
        elif placed.place == KEPT and spec.ordinal is not None:
            message = "names a CUDA device; where it goes cannot be told"
            yield RULE.at(script, spec.node, message, edit, safety=UNSAFE, severity=WARNING)
