"""A test of a package guards the code that runs only if the package is installed."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

SOURCE = """
import torch
import deepspeed

def gather(params):
{body}

torch.ones(2).cuda()
"""
CALL = "deepspeed.zero.GatheredParameters(params)"


@pytest.mark.parametrize(
    ("body", "is_guarded"),
    [
        (f"    return {CALL}", False),
        (f"    if is_deepspeed_available():\n        return {CALL}", True),
        (f"    if not is_deepspeed_available():\n        return None\n    return {CALL}", True),
        (f"    if not HAS_DEEPSPEED or not params:\n        return None\n    return {CALL}", True),
        (f"    if plugin.kind != 'deepspeed':\n        return None\n    return {CALL}", True),
        (f"    return {CALL} if HAS_DEEPSPEED else None", True),
        (f"    return HAS_DEEPSPEED and {CALL}", True),
        # the script fails without the package
        (f"    if not HAS_DEEPSPEED:\n        raise ImportError\n    return {CALL}", False),
        (f"    assert HAS_DEEPSPEED\n    return {CALL}", False),
        # this runs if the package is missing
        (f"    if HAS_DEEPSPEED:\n        return None\n    return {CALL}", False),
        (f"    return None if HAS_DEEPSPEED else {CALL}", False),
    ],
)
def test_a_guarded_use_is_a_note(body: str, is_guarded: bool) -> None:
    source = SOURCE.format(body=body)
    line = next(n for n, text in enumerate(source.splitlines(), 1) if CALL in text)
    severities = {f.severity for f in check(source.encode()) if f.line == line}
    assert severities == {"info" if is_guarded else "error"}
