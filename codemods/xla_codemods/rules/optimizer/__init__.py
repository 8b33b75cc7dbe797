"""XLA3xx: optimizers that exist for CUDA only, and arguments that do."""

from __future__ import annotations

from ...symptoms import LIKELY, POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "parameters": LIKELY,
    "weights": LIKELY,
    "option": LIKELY,
    "gradient": POSSIBLE,
    "other state": POSSIBLE,
    "bf16": REMOTE,
}
