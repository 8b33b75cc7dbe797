"""Arrays and kernels of cupy, numba.cuda and RAPIDS need CUDA devices.

## What it reports

Uses of cupy, `numba.cuda` and RAPIDS.

## Why it matters on XLA

The packages run on CUDA only.

## What to do

Fix: none.

Compute with PyTorch on the accelerator, or with numpy, pandas and scikit-learn on the host.

## Example

```python
import cupy
from numba import cuda

@cuda.jit  # XLA909
def double(values):
    values[cuda.grid(1)] *= 2  # XLA909

def norm(x):
    return cupy.linalg.norm(cupy.asarray(x))  # XLA909
```

numba for the host is not reported:

```python
import numba

@numba.njit
def double(values):
    return values * 2
```
"""

from __future__ import annotations

from ...finding import HIGH
from ...rule import Rule

RULE = Rule("XLA909", "cupy", effort=HIGH, leftovers=HIGH)
