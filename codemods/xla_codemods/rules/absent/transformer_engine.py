"""Transformer Engine and float8 training need NVIDIA's tensor cores.

Use the module of torch.nn that it stands for, under `xla.autocast()` in bfloat16. float8 on Trainium is a matter of
the compiler's flags (`--auto-cast-type=fp8_e4m3`), not of the script.

```python
import transformer_engine.pytorch as te

def layer(size):
    with te.fp8_autocast(enabled=True):  # XLA910
        return te.Linear(size, size)  # XLA910
```

Layers of torch stay.

```python
import torch

def layer(size):
    return torch.nn.Linear(size, size)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...fallback import leftovers
from ...finding import HIGH, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA910", "transformer-engine", effort=HIGH)


@RULE.fallback
def transformer_engine(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled, HIGH)
