"""`capturable` optimizers are made for CUDA graphs.

They keep their step count on the device, which XLA does not need: with `foreach=True` they fail there, and with a
learning rate on the device they read it back at each step (fact 3.26). Without CUDA graphs nothing speaks for
them; the arithmetic differs a little, so the fix is unsafe.

```diff
 import torch

-optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
+optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
```

Where a variable says it, or a dictionary, it is left to a person:

```python
import torch

def make(model, args):
    options = {"lr": 1e-3, "capturable": True}  # XLA305
    plain = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=False)
    other = torch.optim.Adam(model.parameters(), capturable=args.capturable)  # XLA305
    plain.param_groups[0]["capturable"] = True  # XLA305
    return torch.optim.AdamW(model.parameters(), **options), plain, other
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.inference.values import OPTIMIZER
from ...analysis.syntax import keyword
from ...edits import DropArgument
from ...finding import ERROR, UNSAFE, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA305", "capturable", severity=WARNING)


_MESSAGE = "`capturable=True` is for CUDA graphs and fails or is slow on XLA: leave it out"
_MAYBE = "`capturable` is for CUDA graphs and fails or is slow on XLA: do not set it there"


@RULE.node(ast.keyword, named=("capturable",))
def capturable(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    call = script.parent(node)
    if not isinstance(call, ast.Call) or _is_off(node.value):
        return
    dotted = script.dotted(call.func, scope) or ""
    if isinstance(call.func, ast.Name) and call.func.id == "dict":
        if _has_optimizers(script) and not _is_the_defaults(script, node.value, call):
            yield RULE.finding(script, node.value, _MAYBE)
    elif dotted.startswith("torch.optim.") and script.value(call, scope).has(OPTIMIZER):
        if not _is_true(node.value):
            yield RULE.finding(script, node.value, _MAYBE)
            return
        fails = _is_true(keyword(call, "foreach"))
        severity = ERROR if fails else WARNING
        edit = DropArgument(call, node)
        yield RULE.finding(script, node.value, _MESSAGE, edit, safety=UNSAFE, severity=severity)


@RULE.file(mentions=("capturable",))
def in_dictionaries(script: Script) -> Iterator[Finding]:
    """`{"capturable": True}`, `group["capturable"] = True`."""
    if script.source.mentions("capturable") and _has_optimizers(script):
        for node, _ in script.index.of(ast.Constant):
            if node.value == "capturable":
                yield from _in_a_dictionary(script, node)


def _in_a_dictionary(script: Script, node: ast.Constant) -> Iterator[Finding]:
    match script.parent(node):
        case ast.Dict(keys=keys, values=values) as around if node in keys:
            value: ast.expr | None = values[keys.index(node)]
            if value is not None and _is_the_defaults(script, value, around):
                return
        case ast.Subscript(slice=index) as entry if index is node:
            statement = script.parent(entry)
            is_set = isinstance(statement, ast.Assign) and entry in statement.targets
            value = statement.value if is_set and isinstance(statement, ast.Assign) else None
        case _:
            return
    if value is not None and not _is_off(value):
        yield RULE.finding(script, node, _MAYBE)


def _is_the_defaults(script: Script, value: ast.expr, around: ast.expr) -> bool:
    """True if an optimizer's own class hands on what it is given, which nobody has set there: `defaults = dict(...)`."""
    function = script.function(around)
    if function is None or function.name != "__init__" or not isinstance(value, ast.Name):
        return False
    args = function.args
    named = [*zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults))]
    named += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None]
    return any(a.arg == value.id and _is_off(default) for a, default in named)


def _has_optimizers(script: Script) -> bool:
    return script.source.mentions("optim", "optimizer")


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
