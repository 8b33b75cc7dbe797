"""Messages of findings: one line that says what happens on XLA, and then what to do."""

from __future__ import annotations

import re

from xla_codemods import catalog
from xla_codemods.engine import Options, check
from xla_codemods.fallback import message
from xla_codemods.manual import manual
from xla_codemods.rule import Rule
from xla_codemods.rules import every_rule

from ..each import each

# Words of this project's own, which say nothing to who reads a finding.
PRIVATE = re.compile(r"is not cut|stands for it|one more graph|none of CUDA's|a new graph|replica")


@each("rule", every_rule(), ids=lambda rule: rule.code)
def test_messages_say_what_happens_and_what_to_do(rule: Rule) -> None:
    found = {
        finding.message
        for example in manual(rule).examples
        for finding in check(example.before.encode(), Options(unsafe=True, origin=rule.origin))
    }
    for text in found:
        assert "\n" not in text
        assert re.fullmatch(r".+[^:;][:;] \S.+[^.]", text), text
        assert not PRIVATE.search(text), text


def test_the_catalogs_messages_are_as_the_rules() -> None:
    for name, row in catalog.table().items():
        if row.rule and "(" not in name:
            text = message(name, row)
            assert re.search(r"[:;] \S", text), text
            assert not PRIVATE.search(text), text
