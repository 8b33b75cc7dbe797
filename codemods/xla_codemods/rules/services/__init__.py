"""XLA121 to XLA139: what CUDA offers beside computing: seeds, timers, memory figures, streams."""

from __future__ import annotations

from ...symptoms import POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "initial weights": POSSIBLE,
    "device": POSSIBLE,
    "loss": REMOTE,
    "parameters": REMOTE,
}
