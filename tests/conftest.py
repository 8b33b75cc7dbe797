"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run: whether a change may land is no matter of luck. To look for new ones:
# `pytest tests/codemods/test_properties.py --hypothesis-profile explore`.
settings.register_profile("steady", derandomize=True, max_examples=150, deadline=None)
settings.register_profile("explore", max_examples=3000, deadline=None)
settings.load_profile("steady")
