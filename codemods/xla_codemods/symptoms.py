"""The symptoms that `xla-migrate verify` may find in a migrated script, and how likely a finding is the cause.

A rule says so of its findings (`Rule(..., behind={"static shapes": LIKELY})`), and a topic of all its rules (`BEHIND` in
`rules/<topic>/__init__.py`). `verify` names the likeliest finding beside each verdict against the script.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# As `verify` calls them in reports: quantities that differ, then checks that fail.
Symptom = Literal[
    "initial weights",
    "parameters",
    "loss",
    "gradient",
    "weights",
    "option",
    "rounding",
    "same steps",
    "same data",
    "bf16",
    "other state",
    "precision",
    "metric",
    "printed metrics",
    "device",
    "static shapes",
    "bounded graph",
    "no fallback",
    "launches",
    "host reads",
]

# How likely a finding is the reason of a symptom.
LIKELY, POSSIBLE, REMOTE = 0, 1, 2

# Symptom -> how likely a finding is the reason of it.
Behind = Mapping[Symptom, int]
