"""Settings in JSON: of DeepSpeed's engine, else as they are in YAML."""

from __future__ import annotations

from collections.abc import Iterator

from xla_codemods.analysis.frameworks.configurations import parsed, strict
from xla_codemods.analysis.frameworks.deepspeed import is_configuration

from . import deepspeed_settings, training_settings
from .found import Found, Wanted

_SAME_IN_JSON = frozenset({"false", "true"})


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Yield findings in the text of a JSON file. A rewrite for YAML is written only if it is also valid JSON."""
    table = parsed(text)
    if is_configuration(table):
        yield from deepspeed_settings.check(text, wanted)
    elif table is not None:
        for one in training_settings.check(strict(text).replace("\t", " "), wanted):
            is_json = all(edit.text in _SAME_IN_JSON for edit in one.edits)
            yield one if is_json else one._replace(edits=())
