"""The tolerances between two correct runs, and the reasons for them.

Losses agree to the asked relative tolerance. What derives from them is less precise by nature:

- Gradients of the first step agree to the tolerance as the loss does (of eleven real scripts, ten have
  norms within 2e-6; docs/verify.md). An optimizer that steps first when another has stepped (a GAN's
  second) may differ ten times as much, and all a hundred times later, when weights differ by rounding.
- Tensor by tensor (the distance of the gradients' norms, in terms of the norm of all) clipping hides
  nothing: a U-Net under Adam was seen 1e-3 apart at its ninth step, with losses equal to 1e-6. So as
  the norm of all at the first steps, where a wrong order shows, and a thousand times later.
- Weights: an adaptive optimizer divides by the gradient's own size, so an element whose gradient is
  tiny moves by a full step in a direction that rounding decides. About 3e-4 of an Adam step's length
  is such noise; a tensor *all* of whose gradient is noise (a bias before batch norm) moves freely.
  So biases and scales are not judged one by one, weights are: by their norm, which
  a wrong weight decay moves and noise hardly does, and by a projection, within a part of the distance
  that the optimizer has moved them.
- Training may amplify rounding: everything grows then, the more the longer. No tolerance is right for
  that: such runs are compared step by step, each from the original's own weights (`compare`).
- Within one step it may be amplified as well: batch norm over few values divides by what cancels, and
  a unit of a ReLU near 0 is on in one run and off in the other. Such steps are compared in float64,
  where rounding is a billion times less, by the tolerance itself (`compare`, `exact`).
"""

from __future__ import annotations

import math

FIRST_GRADIENT_FACTOR = 1.0  # of the first step of all; in float64, of every step
SECOND_GRADIENT_FACTOR = 10.0  # of another optimizer's first step
GRADIENT_FACTOR = 100.0  # later
TENSOR_GRADIENT_FACTOR = 1000.0
PATH_SHARE = 2e-2  # of the distance moved, for a projection
NORM_PATH_SHARE = 3e-3  # of the distance moved per element, for a norm
NOISE_GRADIENT = 1e-5  # a tensor's gradient per element, of the model's: below, it is rounding
FLOOR = 1e-2  # of the largest loss: a loss near 0 has no meaningful relative error
# Of the gradient's norm: a loss below, whose terms cancel, is rounding even in float64.
CANCELLED = 1e-4
# Per element, of initial weights: layers that begin at the mean of the first batch may begin at rounding.
INITIAL_ROUNDING = 1e-6
R_LIMIT = 1.2  # |target - fp32| / |bf16 - fp32|
R_BY_CHANCE = 2.5  # above, it is no chance
METRIC = 1e-3  # evaluation metrics, as production migrations demand


def relative(reference: float, target: float, scale: float) -> float:
    """|reference - target| relative to the reference, or to FLOOR * scale if that is more.

    Both infinite alike or both not a number are equal; else inf and nan differ from everything.
    """
    if math.isfinite(reference) and math.isfinite(target):
        size = max(abs(reference), FLOOR * scale)
        return abs(reference - target) / size if size else abs(target)
    same = reference == target or (math.isnan(reference) and math.isnan(target))
    return 0.0 if same else math.inf
