"""The last of several commands that a Dockerfile joins."""

from __future__ import annotations

import pytest

from .helpers import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("RUN echo a && pip install flash-attn\n", "RUN echo a\n"),
        ("RUN echo a && \\\n    pip install flash-attn\n", "RUN echo a\n"),
        ("RUN echo a || pip install flash-attn\n", "RUN echo a || true\n"),
        ("RUN pip install flash-attn && echo a\n", "RUN true && echo a\n"),
    ],
)
def test_a_last_command_that_is_removed_takes_its_joint_along(before: str, after: str) -> None:
    assert rewritten(before, "Dockerfile") == after
