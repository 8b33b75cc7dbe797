"""apex.optimizers: the fused optimizers' formulas and defaults (csrc/multi_tensor_*.cu)."""

from .adam import FusedAdam
from .lamb import FusedLAMB
from .novograd import FusedNovoGrad
from .sgd import FusedAdagrad, FusedSGD

__all__ = ["FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedNovoGrad", "FusedSGD"]
