"""How much two correct runs may differ, and why that much.

Losses agree to the asked relative tolerance. What derives from them is less precise by nature:

- A gradient norm sums rounding errors of the whole backward pass: ten times the tolerance at the
  first step, and a hundred times later, when the weights too differ by rounding.
- Tensor by tensor (the distance of the gradients' norms, in terms of the norm of all) clipping hides
  nothing: a U-Net under Adam was seen 1e-3 apart at its ninth step, with losses equal to 1e-6. So ten
  times the tolerance at the first step, where a wrong order shows, and a thousand times later.
- Weights: an adaptive optimizer divides by the gradient's own size, so an element whose gradient is
  tiny moves by a full step in a direction that rounding decides. About 3e-4 of an Adam step's length
  is such noise; a tensor *all* of whose gradient is noise (a bias before batch norm) moves freely
  (xla-facts 4.8). So biases and scales are not judged one by one, weights are: by their norm, which
  a wrong weight decay moves and noise hardly does, and by a projection, within a part of the distance
  that the optimizer has moved them.
- Everything grows as training amplifies rounding. `noise` measures that: a second reference run
  whose weights were shaken by a few units in the last place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NOISE_FACTOR = 10.0  # times the measured amplification
GRADIENT_FACTOR = {True: 10.0, False: 100.0}  # at the first step, later
TENSOR_GRADIENT_FACTOR = {True: 10.0, False: 1000.0}
PATH_SHARE = 2e-2  # of the distance moved, for a projection
NORM_PATH_SHARE = 3e-3  # of the distance moved per element, for a norm
NOISE_GRADIENT = 1e-5  # a tensor's gradient per element, of the model's: below, it is rounding
FLOOR = 1e-2  # of the largest loss: a loss near 0 has no meaningful relative error
R_LIMIT = 1.2  # |target - fp32| / |bf16 - fp32|
METRIC = 1e-3  # evaluation metrics, as production migrations demand


@dataclass(frozen=True)
class Tolerance:
    """The allowed relative difference, step by step.

    Attributes:
        relative: of losses, before any amplification.
        noise: how far the shaken reference was from the reference, per step.
    """

    relative: float
    noise: list[float] = field(default_factory=list)

    def at(self, step: int) -> float:
        """The relative tolerance of losses at a step: it never shrinks again."""
        seen = self.noise[: step + 1]
        return max(self.relative, NOISE_FACTOR * max(seen, default=0.0))

    @property
    def amplified(self) -> bool:
        """Whether the measured noise widened it."""
        return max(self.noise, default=0.0) * NOISE_FACTOR > self.relative


def relative(reference: float, target: float, scale: float) -> float:
    """|reference - target| relative to the reference, or to FLOOR * scale if that is more.

    Both infinite alike or both not a number are equal; else inf and nan differ from everything.
    """
    if math.isfinite(reference) and math.isfinite(target):
        size = max(abs(reference), FLOOR * scale)
        return abs(reference - target) / size if size else abs(target)
    same = reference == target or (math.isnan(reference) and math.isnan(target))
    return 0.0 if same else math.inf
