"""XLA7xx: saving and loading."""

from __future__ import annotations

from ...symptoms import LIKELY, POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "other state": LIKELY,
    "initial weights": POSSIBLE,
    "parameters": POSSIBLE,
    "metric": REMOTE,
}
