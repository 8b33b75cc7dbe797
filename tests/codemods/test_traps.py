"""Files that look like CUDA: they stay as they are, and only what they name is found."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from xla_codemods.engine import Options, check, migrate

TRAPS = sorted((Path(__file__).parents[2] / "fixtures" / "traps").glob("*.py"))
_FINDS = re.compile(r"# finds: (?P<codes>XLA\d{3}(?:, XLA\d{3})*)")


def expected(source: str) -> Counter[tuple[int, str]]:
    """Line and code of every finding that the comments name."""
    return Counter(
        (number, code)
        for number, line in enumerate(source.splitlines(), 1)
        for match in _FINDS.finditer(line)
        for code in match["codes"].split(", ")
    )


@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_what_is_found(path: Path) -> None:
    source = path.read_bytes()
    found = Counter((f.line, f.code) for f in check(source))
    assert found == expected(source.decode())


@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_nothing_is_changed(path: Path) -> None:
    source = path.read_bytes()
    assert migrate(source).data.decode() == source.decode()


@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_nothing_more_is_found_in_a_script_that_trains(path: Path) -> None:
    """A file that trains is looked at whole."""
    source = path.read_bytes() + b"\n\ndef backward(loss):\n    loss.backward()\n"
    found = Counter((f.line, f.code) for f in check(source))
    assert found == expected(source.decode())
    assert migrate(source, Options()).data == source
