"""XLA7xx: saving and loading."""

from __future__ import annotations

from ...rule import Rule
from . import assign, device_state, downloaded, export, load, pretrained, safetensors_file, save

RULES: tuple[Rule, ...] = (
    save.RULE,
    load.RULE,
    device_state.RULE,
    assign.RULE,
    export.RULE,
    downloaded.RULE,
    safetensors_file.RULE,
    pretrained.RULE,
)
