"""The README shows what the tool does, and its commands can be found by whoever runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xla_codemods.engine import migrate

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_is_what_the_tool_makes_of_it() -> None:
    found = re.search(r"```diff\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    lines = found.group(1).splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    assert migrate(before.encode()).data.decode() == after


@pytest.mark.parametrize("name", ["run", "test"])
def test_commands_stand_alone_in_their_blocks(name: str) -> None:
    mark = f"<!-- command: {name} -->\n"
    assert TEXT.count(mark) == 1
    assert TEXT.split(mark)[1].startswith("```sh\n")


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\((docs/[^)#]+)", TEXT))))
def test_pages_are_there(page: str) -> None:
    assert (ROOT / page).is_file()
