"""What the tests of every kind of launch file ask."""

from __future__ import annotations

from xla_migrate.results import FileVerdict
from xla_migrate.target.launch_files.judge import judge

NEURON: dict[str, object] = {"for": "trn1", "devices": 32, "image": "team/train:1"}


def verdict(
    text: str | bytes, name: str, target: dict[str, object] | None = None, rewriting: bool = True
) -> FileVerdict:
    data = text.encode() if isinstance(text, str) else text
    return judge(data, f"/x/{name}", target or {}, lambda code: True, False, rewriting)


def rewritten(text: str, name: str, target: dict[str, object] | None = None) -> str:
    """The new text; a second run must change nothing, and its findings are those that the first left."""
    done = verdict(text, name, target)
    new = text.encode() if done.data is None else done.data
    again = verdict(new, name, target)
    assert again.data is None
    assert again.left == done.left
    assert not any(row.safety == "safe" for row in done.left)
    return new.decode()


def codes(text: str, name: str, target: dict[str, object] | None = None) -> list[str]:
    """The codes that a check tells of, notes in small letters."""
    rows = verdict(text, name, target, rewriting=False).left
    return [row.code if row.fails else row.code.lower() for row in rows]
