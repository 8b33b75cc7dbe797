"""XLA101 to XLA119: where tensors and modules live."""

from __future__ import annotations

from ...symptoms import LIKELY, REMOTE, Behind

BEHIND: Behind = {
    "device": LIKELY,
    "loss": REMOTE,
    "initial weights": REMOTE,
    "parameters": REMOTE,
}
