"""Where a rule's manual is found."""

from __future__ import annotations

# In the project's repository and in its site alike; the same text is what `xla-migrate explain CODE` prints.
_PAGES = "docs/rules"


def page(code: str) -> str:
    """The page of the rule with this code, relative to the project."""
    return f"{_PAGES}/{code}.md"
