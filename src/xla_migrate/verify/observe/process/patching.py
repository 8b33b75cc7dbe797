"""Replace attributes of other packages' modules and classes, and restore them.

The harness changes nothing in the user's files: it changes what `torch` means to them. Every change
goes through one `Patches`, so that a test (or a second run in the same process) can take all of it
back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """A stack of attribute replacements, undone last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`; an attribute that was inherited is removed again on undo."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._keep_scriptable(before, value)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def on_undo(self, action: Callable[[], None]) -> None:
        """Run `action` when the patches are taken back."""
        self._undo.append(action)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

    def _keep_scriptable(self, before: Any, value: Any) -> None:
        """`torch.jit.script` knows torch's own functions by identity, and would read the source of what wraps one."""
        builtins = sys.modules.get("torch.jit._builtins")
        if builtins is not None:
            table = builtins._get_builtin_table()
            if id(before) in table:
                table[id(value)] = table[id(before)]
                self._undo.append(lambda: table.pop(id(value), None))
