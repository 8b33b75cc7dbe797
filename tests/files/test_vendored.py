"""The copy of the runtime beside scripts of `--style native`."""

from __future__ import annotations

from xla_migrate.files import vendored
from xla_migrate.runtime import patches


def test_the_copy_has_every_patch() -> None:
    copied = vendored.files(["mark_step"])
    applied = [name for names in patches.MODULES.values() for name in names]
    assert [n for n in applied if f"patches/{n.replace('.', '/')}.py" not in copied] == []
