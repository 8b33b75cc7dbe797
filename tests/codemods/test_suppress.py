"""Comments that suppress findings: where they may stand, and what they may say."""

from __future__ import annotations

import pytest

from .helpers import findings, migrated

OURS = "# xla-migrate: ignore[XLA101]"


@pytest.mark.parametrize(
    "source",
    [
        f"x = y.cuda()  {OURS}",
        "x = y.cuda()  # xla-migrate: ignore",
        "x = y.cuda()  # xla-migrate:ignore[ XLA101 ] as agreed",
        "x = y.cuda()  # type: ignore  # xla-migrate: ignore[xla101]",
        "x = y.cuda()  # noqa",
        "x = y.cuda()  # noqa: E501, XLA101",
        "x = y.cuda()  # NOQA:xla101",
        f"x = (\n    y\n    .cuda()  {OURS}\n)",
        f"x = f(\n    y.cuda(),\n    1,\n)  {OURS}",  # where a formatter puts it
        "x = f(\n    y.cuda(),\n)  # noqa: XLA101",
        f'print(f"""\n{{y.cuda()}}\n""")  {OURS}',  # no comment can stand on the line itself
        f"if y.cuda() and \\\n        z:  {OURS}\n    pass",
        f"@f(y.cuda())  {OURS}\ndef g(): pass",
        f"def g(\n    a=y.cuda(),\n):  {OURS}\n    pass",
    ],
)
def test_suppressed(source: str) -> None:
    assert findings(f"import torch\n{source}\n") == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f'x = "{OURS}"; y.cuda()', [(2, "XLA101")]),
        ('x = "# noqa"; y.cuda()', [(2, "XLA101")]),
        ("x = y.cuda()  # noqa: E501", [(2, "XLA101")]),
        (f"{OURS}\nx = y.cuda()", [(2, "XLA002"), (3, "XLA101")]),
        (f"x = f(\n    1,  {OURS}\n    y.cuda(),\n)", [(3, "XLA002"), (4, "XLA101")]),
        (f"def g():  {OURS}\n    y.cuda()", [(2, "XLA002"), (3, "XLA101")]),
        (f"@f\ndef g(a=y.cuda()): pass\n{OURS}", [(3, "XLA101"), (4, "XLA002")]),
        ("x = y.cuda()  # xla-migrate: ignore[]", [(2, "XLA002"), (2, "XLA101")]),
        ("x = y.cuda()  # xla-migrate: ignore[cuda-metho]", [(2, "XLA002"), (2, "XLA101")]),
        ("x = y.cuda()  # xla-migrate: ignore[XLA4]", [(2, "XLA002"), (2, "XLA101")]),
        ("x = y.cuda()\n# xla-migrate: ignore-file[XLA4]", [(2, "XLA101"), (3, "XLA002")]),
        ("x = 1\n# xla-migrate: ignore-file", [(3, "XLA002")]),
        ('"""# xla-migrate: ignore-file"""\nx = y.cuda()', [(3, "XLA101")]),
        ("x = y.cuda()  # noqa: XLA1", [(2, "XLA101")]),
        ("x = y.cuda()  # xla-migrate: ignore[XLA101, XLA403]", [(2, "XLA002")]),
        (f'"""\n{OURS}\n"""\ny.cuda()', [(5, "XLA101")]),
    ],
)
def test_not_suppressed(source: str, found: list[tuple[int, str]]) -> None:
    assert sorted(findings(f"import torch\n{source}\n")) == found


@pytest.mark.parametrize(
    "source",
    [
        "x = y.cuda()  # xla-migrate: ignore[XLA1]",
        "x = y.cuda()  # xla-migrate: ignore[cuda-method]",
        "x = y.cuda()  # xla-migrate: ignore[CUDA-METHOD, ]",
        "# xla-migrate: ignore-file\nx = y.cuda()\nz = y.cuda()",
        "x = y.cuda()\n\n# xla-migrate: ignore-file[cuda-method]",
        "# xla-migrate: ignore-file[XLA101]\nx = y.cuda()  # noqa",
    ],
)
def test_codes_by_beginning_and_name_and_whole_files(source: str) -> None:
    assert findings(f"import torch\n{source}\n") == []


@pytest.mark.parametrize("comment", ["xla-migrate: ignore[XLA503]", "noqa: XLA503"])
def test_a_read_that_a_comment_keeps_is_none_that_is_read_later(comment: str) -> None:
    """The step was left without a mark, as where the read waits for the next."""
    loop = """
import torch
def train(model, loader, optimizer, bar):
    model.cuda()
    total = count = 0
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {}
    return total, count
"""
    for read in ("print(loss.item())", "total += loss.item()", "bar.set_postfix(loss=loss.item())"):
        assert "mark_step" not in migrated(loop.format(read))
        after = migrated(loop.format(f"{read}  # {comment}"))
        assert f"        xla.mark_step()\n        {read}  # {comment}\n" in after
        both = migrated(
            loop.format(f"total += loss.item()  # {comment}\n        total += x.sum().item()")
        )
        assert f"total += loss.item()  # {comment}\n" in both
