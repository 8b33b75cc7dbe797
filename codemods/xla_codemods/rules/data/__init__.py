"""XLA4xx: how batches reach the device."""

from __future__ import annotations

from ...symptoms import LIKELY, POSSIBLE, Behind

BEHIND: Behind = {
    "same data": LIKELY,
    "loss": LIKELY,
    "metric": LIKELY,
    "same steps": POSSIBLE,
    "printed metrics": POSSIBLE,
}
