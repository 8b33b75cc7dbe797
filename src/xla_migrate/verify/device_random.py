"""One stream of "device" random numbers, drawn on the CPU, the same in both runs.

CUDA's, XLA's and the CPU's generators give different numbers for one seed (xla-facts 1.30, 1.33), and
a script's noise or dropout would make the two runs differ for no fault of the migration. So whatever
a script draws on its device is drawn here instead, by one CPU generator, and moved: in the redirected
reference, on a real GPU and on XLA alike. It is a generator of its own, because drawing on a GPU does
not advance the CPU's.
"""

from __future__ import annotations

import torch

generator = torch.Generator()


def seed(value: int) -> None:
    """What `torch.manual_seed` does to the device."""
    generator.manual_seed(int(value))
