"""Transformer Engine and float8 training need NVIDIA's tensor cores.

Use the module of torch.nn that it stands for, under `xla.autocast()` in bfloat16. float8 on Trainium is a matter of
the compiler's flags (`--auto-cast-type=fp8_e4m3`), not of the script.

```python
import transformer_engine.pytorch as te

def layer(size):
    with te.fp8_autocast(enabled=True):
        return te.Linear(size, size)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import HIGH, Finding
from ...rule import Rest, Rule
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA910", "transformer-engine", effort=HIGH)


@RULE.rest
def transformer_engine(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
