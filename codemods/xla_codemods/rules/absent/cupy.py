"""Arrays, kernels and indices of cupy, numba.cuda, RAPIDS and FAISS need CUDA devices.

## What it reports

Uses of cupy, `numba.cuda` and RAPIDS, the indices of FAISS for CUDA devices, and spaCy's
`require_gpu`.

## Why it matters on XLA

These packages and indices exist for CUDA only. `faiss-cpu` has no `StandardGpuResources`.

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

spaCy's `require_gpu` raises an exception. `prefer_gpu` is not reported:

```python
import spacy

spacy.prefer_gpu()
spacy.require_gpu()  # XLA909
```

Searches of FAISS on the host are not reported, nor is `gpu=True`, which then has no effect:

```python
import faiss
import torch

def index_of(vectors):
    index = faiss.IndexFlatL2(vectors.shape[1])
    clusters = faiss.Kmeans(vectors.shape[1], 10, gpu=True)
    resources = faiss.StandardGpuResources()  # XLA909
    return faiss.index_cpu_to_gpu(resources, 0, index), clusters  # XLA909
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
