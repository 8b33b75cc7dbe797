"""Arrays and kernels of cupy, numba.cuda and RAPIDS live on CUDA devices.

Compute with torch's operations, on the accelerator, or with numpy, pandas and scikit-learn, on the host.

```python
import cupy
from numba import cuda

@cuda.jit
def double(values):
    values[cuda.grid(1)] *= 2

def norm(x):
    return cupy.linalg.norm(cupy.asarray(x))
```

numba for the host stays no finding:

```python
import numba

@numba.njit
def double(values):
    return values * 2
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

RULE = Rule("XLA909", "cupy", effort=HIGH)


@RULE.rest
def cupy(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
