"""XLA6xx: several processes."""

from __future__ import annotations

from ...symptoms import POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "parameters": POSSIBLE,
    "gradient": POSSIBLE,
    "same data": POSSIBLE,
    "loss": REMOTE,
    "weights": REMOTE,
    "other state": REMOTE,
    "metric": REMOTE,
    "printed metrics": REMOTE,
    "same steps": REMOTE,
}
