"""deepspeed.ops."""

from . import adam, lamb

__all__ = ["adam", "lamb"]
