"""Slices from further back than a growing tensor is long."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

SCRIPT = """import torch

class LM(torch.nn.Module):
    @torch.no_grad()
    def generate(self, ids, n, window):
        for _ in range(n):
            {line}
            ids = torch.cat((ids, self(ids)), dim=1)
        return ids

LM().cuda()
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = ids[:, -window:]", "x = ids[:, max(ids.size(1) - window, 0):]"),
        ("x = ids[:, -16:]", "x = ids[:, max(ids.size(1) - 16, 0):]"),
        ("x = ids[:, -self.window:-1]", "x = ids[:, max(ids.size(1) - self.window, 0):-1]"),
        ("x = ids[-4:]", "x = ids[max(ids.size(0) - 4, 0):]"),
    ],
)
def test_fixed(line: str, after: str) -> None:
    assert after in migrated(SCRIPT.replace("{line}", line))


@pytest.mark.parametrize(
    "line",
    [
        "x = ids[:, -1:]",
        "x = ids[:, :window]",
        "x = other[:, -window:]",
        "x = ids if ids.size(1) <= window else ids[:, -window:]",
        "x = ids[:, -window:] if ids.shape[1] > window else ids",
    ],
)
def test_stays(line: str) -> None:
    source = SCRIPT.replace("{line}", line)
    assert "XLA517" not in [code for _, code in findings(source)]
    assert line in migrated(source)


def test_a_dimension_behind_an_ellipsis_is_left_to_a_person() -> None:
    source = SCRIPT.replace("{line}", "x = ids[..., -window:]")
    assert "XLA517" in [code for _, code in findings(source)]
    assert "ids[..., -window:]" in migrated(source)


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("a, b = kept[:, -n:].split(sizes, dim=1)", False),
        ("a, b = kept[:, -n:].split([2, 3], 1)", False),
        ("a = kept[:, -n:].split(2, 1)", True),
        ("a = kept[:, -n:].sum()", True),
    ],
)
def test_what_is_split_by_sizes_is_long_enough(use: str, found: bool) -> None:
    source = f"""import torch
def f(model, kept, n, sizes, batches):
    for x in batches:
        {use}
        y = model(x.cuda())
        kept = torch.cat([kept, y], 1)
        y.sum().backward()
"""
    assert ((4, "XLA517") in findings(source)) is found
