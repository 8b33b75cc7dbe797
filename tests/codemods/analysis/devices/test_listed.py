"""Names of devices that a test for CUDA puts into lists change together with the test."""

from __future__ import annotations

import pytest

from ...helpers import migrated

TEST = "torch.cuda.is_available()"
NAME = "xla.device_type()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"if {TEST}:\n    found.append('cuda')", f"found.append({NAME})"),
        (f"if {TEST}:\n    found.add('cuda:0')", f"found.add({NAME})"),
        (f"if {TEST}:\n    runs.append((4, 'cuda', 2))", f"runs.append((4, {NAME}, 2))"),
        (f"if {TEST}:\n    runs += [('cuda', 2)]", f"runs += [({NAME}, 2)]"),
        (f"runs = ['cpu', 'cuda'] if {TEST} else ['cpu']", f"['cpu', {NAME}] if"),
        (f"runs = ['cpu'] + (['cuda'] if {TEST} else [])", f"([{NAME}] if"),
    ],
)
def test_a_name_in_a_list(before: str, after: str) -> None:
    result = migrated(f"import torch\n{before}\n")
    assert after in result
    assert "xla.is_available()" in result


@pytest.mark.parametrize(
    "before",
    [
        f"if {TEST}:\n    keys = ['cuda', 'cudnn']\n    x.cuda()",
        f"if {TEST}:\n    x.cuda()\nelse:\n    keys.append('cuda')",
        f"def f():\n    if {TEST}:\n        x.cuda()\n    keys = ['cuda']",
    ],
)
def test_other_texts_stay(before: str) -> None:
    assert "'cuda'" in migrated(f"import torch\n{before}\n")
