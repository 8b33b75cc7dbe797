"""The address of a rule's manual."""

from __future__ import annotations

# In the project's repository; the same text is what `xla-migrate explain CODE` prints.
_PAGES = "docs/rules"


def page(code: str, site: str = "") -> str:
    """The page of the rule with this code: in the `site` that the settings name as `docs-url`, where docs/ is
    published; else its path in the project.
    """
    return f"{site.rstrip('/')}/rules/{code}/" if site else f"{_PAGES}/{code}.md"
