"""XLA8xx: transformers, accelerate, Lightning, DeepSpeed, Horovod, timm, apex's layers."""

from __future__ import annotations

from ...symptoms import POSSIBLE, REMOTE, Behind

BEHIND: Behind = {
    "option": POSSIBLE,
    "loss": REMOTE,
    "gradient": REMOTE,
    "other state": REMOTE,
}
