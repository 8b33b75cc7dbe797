"""The dotted names that rules listen to: each registration adds its own."""

from __future__ import annotations

LISTENED: set[str] = set()
