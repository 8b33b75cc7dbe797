"""2:4 sparse tensors need CUDA.

## What it reports

Calls that make a semi-structured (2:4) sparse tensor.

## Why it matters on XLA

PyTorch has kernels for 2:4 sparsity for NVIDIA's tensor cores only. The calls raise `RuntimeError`
for tensors on any other device.

## What to do

Fix: none.

Keep the pruned weight as a dense tensor, in which two of four elements are zero. The results are
the same, but the model is not faster. To keep the zeros while you train, multiply the weight by its
mask after each optimizer step.

## Example

```python
import torch
from torch import nn
from torch.sparse import to_sparse_semi_structured

model = nn.Linear(64, 64).half().eval()
model.weight = nn.Parameter(to_sparse_semi_structured(model.weight))  # XLA919
```

Other sparse tensors are not reported:

```python
import torch

eye = torch.eye(4).to_sparse()
print(torch.sparse.mm(eye, torch.ones(4, 2)))
```
"""

from __future__ import annotations

from ...finding import MEDIUM
from ...rule import Rule

RULE = Rule("XLA919", "semi-structured", effort=MEDIUM, leftovers=MEDIUM)
