"""NVIDIA DALI decodes and augments on CUDA devices.

Read and augment in the workers of a `DataLoader` (torchvision's transforms, webdataset, ffcv), and let
`xla.MpDeviceLoader` move the batches ahead of use.

```python
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIClassificationIterator

def loader(pipeline: Pipeline):
    return DALIClassificationIterator(pipeline, reader_name="Reader")
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

RULE = Rule("XLA907", "dali", effort=HIGH)


@RULE.rest
def dali(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)
