"""What the tests of the codemods share."""

from __future__ import annotations

import textwrap

from xla_codemods.analysis.script import Script
from xla_codemods.engine import Options, check, migrate
from xla_codemods.source import Source

IMPORT = "from xla_migrate import runtime as xla\n"


def migrated(source: str, *, unsafe: bool = False) -> str:
    """`source`, dedented, as the tool rewrites it; a second run must change nothing.

    A run checks its own result, so a second one is needed only if a fix is left there.
    `test_second_run.py` and `test_manuals.py` run everything twice.
    """
    options = Options(unsafe=unsafe)
    done = migrate(textwrap.dedent(source).encode(), options)
    if any(finding.edits for finding in done.left):
        again = migrate(done.data, options).data
        assert again == done.data, "a second run changes something"
    return done.data.decode()


def findings(source: str) -> list[tuple[int, str]]:
    """Line and code of every finding in `source`, dedented."""
    return [(f.line, f.code) for f in check(textwrap.dedent(source).encode())]


def script(source: str) -> Script:
    """The model of `source`, dedented."""
    return Script(Source(textwrap.dedent(source).encode()))
