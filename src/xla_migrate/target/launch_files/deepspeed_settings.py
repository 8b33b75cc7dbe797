"""Configurations of DeepSpeed's, in JSON: what of them the runtime's engine has no counterpart of."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from xla_codemods.analysis.frameworks.configurations import parsed, strict
from xla_codemods.analysis.frameworks.deepspeed import asked, is_configuration

from ...results import ERROR, INFO
from .codes import TRAINING_SETTINGS
from .found import Found, Wanted


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a JSON file; of one with "auto", which a trainer fills in, the scripts tell."""
    table = parsed(text)
    if not is_configuration(table) or '"auto"' in text:
        return
    # YAML's reader knows the places; JSON is YAML, except for tabs and comments.
    try:
        root = yaml.compose(strict(text).replace("\t", " "), yaml.SafeLoader)
    except yaml.YAMLError:
        return
    assert root is not None
    for one in asked(table):
        key, value = _place(root, one.keys)
        start, end = key.start_mark.index, value.end_mark.index
        severity = ERROR if one.is_refused else INFO
        yield Found(TRAINING_SETTINGS, start, end, one.message, severity=severity, effort="medium")


def _place(node: yaml.Node, keys: tuple[str, ...]) -> tuple[yaml.Node, yaml.Node]:
    """The key and the value at the end of `keys`."""
    key = node
    for wanted in keys:
        key, node = next((k, v) for k, v in node.value if k.value == wanted)
    return key, node
