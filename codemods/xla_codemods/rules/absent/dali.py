"""NVIDIA DALI decodes and augments on CUDA devices.

## What it reports

Pipelines and iterators of `nvidia.dali`.

## Why it matters on XLA

DALI runs on CUDA only.

## What to do

Fix: none.

Read and augment in the workers of a `DataLoader` (torchvision's transforms, webdataset, ffcv).
`xla.MpDeviceLoader` moves the batches ahead of use.

## Example

```python
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIClassificationIterator

def loader(pipeline: Pipeline):
    return DALIClassificationIterator(pipeline, reader_name="Reader")  # XLA907
```

Other classes of that name are not reported:

```python
from mylib.loaders import DALIClassificationIterator

def loader(pipeline):
    return DALIClassificationIterator(pipeline, reader_name="Reader")
```
"""

from __future__ import annotations

from ...finding import HIGH
from ...rule import Rule

RULE = Rule("XLA907", "dali", effort=HIGH, leftovers=HIGH)
