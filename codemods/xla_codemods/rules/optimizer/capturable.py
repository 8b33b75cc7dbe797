"""`capturable=True` is for CUDA graphs.

## What it reports

`capturable=` of optimizers, also in dictionaries of options and in parameter groups.

## Why it matters on XLA

Such optimizers keep their step count on the device. With `foreach=True` they fail on XLA. With a
learning rate on the device, they read it in each step (fact 3.26).

## What to do

Fix: safe, or none.

Remove the argument. The optimizer computes the same, except for rounding.

## Example

```diff
 import torch

-optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
+optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
```

So is an argument that a test for CUDA decides:

```diff
 import torch

-optimizer = torch.optim.NAdam(parameters, capturable=torch.cuda.is_available())
+optimizer = torch.optim.NAdam(parameters)
```

A dictionary that is only used as options of optimizers:

```diff
 import torch

-options = {"lr": 1e-3, "capturable": True}
+options = {"lr": 1e-3, "capturable": False}
 optimizer = torch.optim.AdamW(model.parameters(), **options)
```

If a variable decides it, or if other code may read the dictionary, you need to change it by hand:

```python
import torch

def make(model, args):
    options = {"lr": 1e-3, "capturable": True}  # XLA305
    print(options)
    plain = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=False)
    other = torch.optim.Adam(model.parameters(), capturable=args.capturable)  # XLA305
    plain.param_groups[0]["capturable"] = True  # XLA305
    return torch.optim.AdamW(model.parameters(), **options), plain, other
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.flags import is_question
from ...analysis.inference.values import OPTIMIZER
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, is_off, keyword
from ...edits import DropArgument, Replace
from ...finding import ERROR, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA305", "capturable", severity=WARNING, words=("capturable",))


_MESSAGE = "`capturable=True` is for CUDA graphs and fails or is slow on XLA: remove it"
_MAYBE = "`capturable` is for CUDA graphs and fails or is slow on XLA: do not set it there"


@RULE.node(ast.keyword, named=("capturable",))
def capturable(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    call = script.parent(node)
    if not isinstance(call, ast.Call) or is_off(node.value):
        return
    dotted = script.dotted(call.func, scope) or ""
    if isinstance(call.func, ast.Name) and call.func.id == "dict":
        if _has_optimizers(script) and not _is_the_defaults(script, node.value, call):
            yield _of_options(script, node.value, node.value, call)
    elif dotted.startswith("torch.optim.") and script.value(call, scope).has(OPTIMIZER):
        if not is_literal(node.value, True) and not is_question(script, node.value):
            yield RULE.finding(script, node.value, _MAYBE)
            return
        fails = is_literal(keyword(call, "foreach"), True)
        severity = ERROR if fails else WARNING
        edit = DropArgument(call, node)
        yield RULE.finding(script, node.value, _MESSAGE, edit, severity=severity)


@RULE.file
def in_dictionaries(script: Script) -> Iterator[Finding]:
    """`{"capturable": True}`, `group["capturable"] = True`."""
    if _has_optimizers(script):
        for node, _ in script.index.of(ast.Constant):
            if node.value == "capturable":
                yield from _in_a_dictionary(script, node)


def _in_a_dictionary(script: Script, node: ast.Constant) -> Iterator[Finding]:
    holder = script.parent(node)
    match holder:
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
    if value is not None and not is_off(value):
        yield _of_options(script, node, value, holder)


def _of_options(script: Script, node: ast.expr, value: ast.expr, holder: ast.AST) -> Finding:
    """The finding at `node` for `value` in the dictionary `holder`, with a fix if only optimizers get the dictionary."""
    if (
        is_literal(value, True)
        and isinstance(holder, ast.expr)
        and _is_for_optimizers(script, holder)
    ):
        return RULE.finding(script, node, _MESSAGE, Replace(value, "False"))
    return RULE.finding(script, node, _MAYBE)


def _is_for_optimizers(script: Script, options: ast.expr) -> bool:
    """Return True if `options` is passed as `**options` to optimizers of torch.optim, and nowhere else."""
    parent = script.parent(options)
    if isinstance(parent, ast.keyword) and parent.arg is None:
        call = script.parent(parent)
        return isinstance(call, ast.Call) and script.value(call).has(OPTIMIZER)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = script.index.scope(parent)
        case _:
            return False
    found = scope.find(name)
    if found is None or len(found[1]) != 1 or script.is_imported_elsewhere(name):
        return False
    reads = script.index.reads_of(found[0], name)
    return bool(reads) and all(
        isinstance(keyword_ := script.parent(read), ast.keyword)
        and keyword_.arg is None
        and isinstance(call := script.parent(keyword_), ast.Call)
        and script.value(call).has(OPTIMIZER)
        for read in reads
    )


def _is_the_defaults(script: Script, value: ast.expr, around: ast.expr) -> bool:
    """Return True if an optimizer's class passes on its argument, which no code in the class sets: `defaults = dict(...)`."""
    function = script.function(around)
    if function is None or function.name != "__init__" or not isinstance(value, ast.Name):
        return False
    args = function.args
    named = [*zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults))]
    named += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None]
    return any(a.arg == value.id and is_off(default) for a, default in named)


def _has_optimizers(script: Script) -> bool:
    return script.source.mentions("optim", "optimizer")
