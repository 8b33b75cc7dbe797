"""The result of a verification: terminal text, page and JSON."""

from .facts import Report
from .origin import Origin, here_and_now

__all__ = ["Origin", "Report", "here_and_now"]
