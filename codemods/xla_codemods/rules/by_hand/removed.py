"""torch_xla 2.9, the last one, has names no more that scripts for it were written with.

Importing or calling them fails. The finding names what does the same in 2.9, and `--from torch_xla` rewrites most of them
to the runtime.

```python
import torch_xla.core.xla_model as xm
import torch_xla.experimental.xla_sharding as xs  # XLA010
from torch_xla.amp import GradScaler, autocast  # XLA010

def rank():
    return xm.get_ordinal()  # XLA010

def others():
    return xm.get_local_ordinal()
```

With others in a `try`, the whole is taken for missing, and the script silently goes on without XLA:

```python
try:
    import torch_xla.core.xla_model as xm
    from torch_xla.amp import GradScaler  # XLA010
except ImportError:
    xm = None
```

What a script asks for by itself before it uses it stays unreported:

```python
import torch_xla.core.xla_model as xm

world_size = xm.xrt_world_size if hasattr(xm, "xrt_world_size") else None

try:
    from torch_xla.experimental import pjrt
except ImportError:
    pjrt = None
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...catalog.torch_xla import REMOVED, removed
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA010", "torch-xla-removed")


@RULE.call(*REMOVED)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _finding(script, call.func, script.dotted(call.func, scope))


@RULE.reference(*REMOVED)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield from _finding(script, node, script.dotted(node, scope))


@RULE.node(ast.Import, mentions=("torch_xla",))
def imported(script: Script, statement: ast.Import, scope: Scope) -> Iterator[Finding]:
    for alias in statement.names:
        if alias.name.startswith("torch_xla."):
            yield from _finding(script, statement, alias.name)


@RULE.node(ast.ImportFrom, mentions=("torch_xla",))
def imported_from(script: Script, statement: ast.ImportFrom, scope: Scope) -> Iterator[Finding]:
    if statement.level or not (statement.module or "").startswith("torch_xla"):
        return
    for alias in statement.names:
        yield from _finding(script, statement, f"{statement.module}.{alias.name}")


def _finding(script: Script, node: ast.expr | ast.stmt, dotted: str | None) -> Iterator[Finding]:
    found = removed(dotted or "")
    if found is None or _is_asked_for(script, node, found[0]):
        return
    name, version, instead = found
    yield RULE.finding(
        script, node, f"`{name}` fails: torch_xla {version} and later have no such name: {instead}"
    )


def _is_asked_for(script: Script, node: ast.expr | ast.stmt, name: str) -> bool:
    """True if the script does without it: `try:` with nothing else in it, `if hasattr(xm, "get_ordinal")`."""
    last = name.rpartition(".")[2]
    for around in script.ancestors(node):
        if isinstance(around, ast.Try) and around.handlers and len(around.body) == 1:
            return True
        if isinstance(around, (ast.If, ast.IfExp)):
            asked = ast.unparse(around.test)
            if "hasattr" in asked and last in asked:
                return True
    return False
