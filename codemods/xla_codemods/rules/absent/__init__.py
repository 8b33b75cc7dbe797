"""XLA9xx: CUDA-only, with no equivalent on XLA."""

from __future__ import annotations

from ...symptoms import POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "loss": POSSIBLE,
    "rounding": POSSIBLE,
    "bf16": POSSIBLE,
    "gradient": REMOTE,
}
