"""XLA2xx: autocast, loss scaling, data types."""

from __future__ import annotations

from ...symptoms import LIKELY, POSSIBLE, Behind

BEHIND: Behind = {
    "rounding": LIKELY,
    "gradient": LIKELY,
    "bf16": LIKELY,
    "precision": LIKELY,
    "same steps": LIKELY,
    "loss": POSSIBLE,
    "weights": POSSIBLE,
    "metric": POSSIBLE,
    "printed metrics": POSSIBLE,
}
