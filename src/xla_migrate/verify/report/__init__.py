"""The result of a verification, for people (terminal, page) and for programs (JSON)."""

from .facts import Report

__all__ = ["Report"]
