"""The queries on the page about value flow do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "value-flow.md"


def test_the_queries_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    exec("\n".join(blocks), {})
