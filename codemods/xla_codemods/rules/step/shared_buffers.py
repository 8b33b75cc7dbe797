"""A parameter that is copied from another comes to share its buffer.

`target.data.copy_(source.data)` makes both use one buffer after the next step mark; the next update of one takes it from
the other, whose next use fails (xla-facts 3.12). Multiplied by 1, exactly the same values are a tensor of their own.

```diff
 import torch
+from xla_migrate import runtime as xla

 def update(model, target):
-    model.cuda()
+    model.to(xla.xla_device())
     for p, q in zip(model.parameters(), target.parameters()):
-        q.data.copy_(p.data)
+        q.data.copy_(p.data * 1)
```

A moving average computes something new, and shares nothing.

```python
import torch
from xla_migrate import runtime as xla

def update(model, average, decay):
    model.to(xla.xla_device())
    for p, q in zip(model.parameters(), average.parameters()):
        q.data.copy_(decay * q.data + (1 - decay) * p.data)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import WARNING, Finding
from ...names import ITERATED, Scope
from ...rule import Rule
from ...values import PARAMETERS

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA511", "shared-buffers", severity=WARNING)

_SAME = frozenset({"data", "detach"})


@RULE.method("copy_")
def copied(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if len(call.args) != 1 or not script.accelerated or _is_being_made(script, call):
        return
    target, source = call.func.value, call.args[0]
    if _is_parameter(script, target, scope) and _is_parameter(script, source, scope):
        message = "the copy would share its source's buffer, and the next update break one of them"
        edit = Replace(source, "{0} * 1", (source,))
        yield RULE.at(script, call, message, edit)


def _is_being_made(script: Script, node: ast.AST) -> bool:
    """Whether `node` stands in a module's constructor: the module is on the host still."""
    function = script.function(node)
    return function is not None and function.name == "__init__"


def _is_parameter(script: Script, node: ast.expr, scope: Scope) -> bool:
    """Whether `node` is a parameter or buffer of a module as it is: `p`, `p.data`, `p.detach()`."""
    while True:
        match node:
            case ast.Attribute(value=inner, attr="data"):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[]):
                node = inner
            case _:
                break
    return isinstance(node, ast.Name) and _iterates_parameters(script, node, scope)


def _iterates_parameters(script: Script, node: ast.Name, scope: Scope) -> bool:
    """Whether a loop over `model.parameters()`, alone or zipped, gives `node` its value."""
    found = scope.find(node.id)
    if found is None:
        return False
    home, bindings = found
    return bool(bindings) and all(
        binding.how == "for"
        and binding.value is not None
        and ITERATED in binding.path
        and _gives_parameters(script, binding.value, binding.path, home)
        for binding in bindings
    )


def _gives_parameters(
    script: Script, iterable: ast.expr, path: tuple[int, ...], scope: Scope
) -> bool:
    """Whether unpacking an element of `iterable` along `path` gives a parameter."""
    match iterable:
        case ast.Call(func=ast.Name(id="zip"), args=args) if len(path) > 1:
            index = path[1]
            return 0 <= index < len(args) and _gives_parameters(
                script, args[index], (path[0], *path[2:]), scope
            )
    value = script.value(iterable, scope)
    if value.has(PARAMETERS):
        return True
    match iterable:
        case ast.Call(func=ast.Attribute(attr="parameters" | "buffers"), args=[]):
            return len(path) == 1
        case ast.Call(func=ast.Attribute(attr="named_parameters" | "named_buffers"), args=[]):
            return path[1:] == (1,)
    return False
