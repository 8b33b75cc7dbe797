"""A parameter that is copied from another one shares its buffer on XLA.

## What it reports

`target.data.copy_(source.data)` and similar copies between parameters and state dictionaries.

## Why it matters on XLA

After the next step mark, both tensors use one buffer. The next update of one takes the buffer
from the other, and the next use of the other fails (fact 3.12).

## What to do

Fix: safe.

Copy `source * 1`. The values are the same, but they have a separate buffer.

## Example

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

Copies by name, and copies from a saved dictionary:

```diff
 import torch
+from xla_migrate import runtime as xla

 class Weights:
     def __init__(self, model):
-        model.cuda()
+        model.to(xla.xla_device())
         self.kept = {name: p.detach().clone() for name, p in model.named_parameters()}

     def restore(self, model):
         for name, p in model.named_parameters():
-            p.data.copy_(self.kept[name])
+            p.data.copy_(self.kept[name] * 1)

 def renew(model, target):
     for name, value in model.state_dict().items():
-        target.state_dict()[name].copy_(value)
+        target.state_dict()[name].copy_(value * 1)
```

State dictionaries of an object:

```diff
 import torch
+from xla_migrate import runtime as xla

 class Average:
     def __init__(self, source, target, decay):
-        self.decay, self.source, self.target = decay, source.cuda(), target.cuda()
+        self.decay, self.source, self.target = decay, source.to(xla.xla_device()), target.to(xla.xla_device())
         self.source_dict = self.source.state_dict()
         self.target_dict = self.target.state_dict()
         for key in self.source_dict:
-            self.target_dict[key].data.copy_(self.source_dict[key].data)
+            self.target_dict[key].data.copy_(self.source_dict[key].data * 1)
```

A moving average computes a new tensor. It is not reported:

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

from ...analysis.inference.values import HOST, PARAMETERS
from ...analysis.scopes import ITERATED, Scope
from ...analysis.script import Script
from ...analysis.syntax import below, unparsed
from ...analysis.training.unmoved_modules import is_as_made
from ...edits import Replace
from ...finding import WARNING, Finding
from ...flow.iterables import iterable_of
from ...rule import MethodCall, Rule

RULE = Rule("XLA511", "shared-buffers", of_what_runs=True, severity=WARNING)


@RULE.method("copy_")
def copied(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if len(call.args) != 1 or not script.accelerated or _is_being_made(script, call):
        return
    target, source = call.func.value, call.args[0]
    source_of = _without_clone(source)
    known = _is_parameter(script, target, scope) or _is_fetched(target)
    if _is_parameter(script, source_of, scope):
        shares = known or _is_an_entry(script, target, scope)
    else:
        shares = known and _is_kept(script, source_of)
    if shares:
        message = "on XLA the copy shares the memory of its source, and fails after the next update: copy `source * 1`"
        edit = Replace(source, "{0} * 1", (source,))
        yield RULE.finding(script, call, message, edit)


def _is_an_entry(script: Script, node: ast.expr, scope: Scope) -> bool:
    """`shadow[name]`, a whole entry of a collection that is no module's state: of tensors beside the parameters."""
    match below(node):
        case ast.Subscript(value=collection, slice=index):
            part_of_it = isinstance(index, (ast.Slice, ast.Tuple))
            of_state = _owner_of_state(script, collection, scope) is not None
            return not part_of_it and not of_state and not script.value(node, scope).has(HOST)
    return False


def _is_being_made(script: Script, node: ast.AST) -> bool:
    """True if `node` stands in the constructor of a module, or in what that alone calls: the module is on the host still.

    An agent's constructor may have moved its networks.
    """
    function = script.function(node)
    if function is None or function.name == "__init__":
        return function is not None and script.is_in_a_module(function)
    calls = [call for call, _ in script.index.calls_of(function.name)]
    if not calls or script.source.text.count(f"{function.name}(") > len(calls) + 1:
        return False  # what is called on lines that are not indexed is not seen
    around = [script.function(call) for call in calls]
    return all(f is not None and f.name == "__init__" and script.is_in_a_module(f) for f in around)


def _is_kept(script: Script, node: ast.expr) -> bool:
    """`self.kept[name]`: an entry of a collection that the file fills with copies on the device."""
    node = below(node)
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, (ast.Slice, ast.Tuple)):
        return False
    text = ast.unparse(node.value)
    for assign, _ in script.index.of(ast.Assign):
        for target in assign.targets:
            filled = target.value if isinstance(target, ast.Subscript) else target
            if ast.unparse(filled) == text and _copies(script.segment(assign.value)):
                return True
    return False


def _copies(text: str) -> bool:
    return ".clone()" in text and ".cpu()" not in text


def _without_clone(node: ast.expr) -> ast.expr:
    """`p` of `p.clone()`, which is another name for its buffer."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="clone"), args=[]):
            return inner
    return node


def _is_parameter(script: Script, node: ast.expr, scope: Scope) -> bool:
    """True if `node` is a parameter or buffer of a module as it is: `p`, `p.data`, `state[name]`."""
    match below(node):
        case ast.Name() as name:
            return _iterates_parameters(script, name, scope)
        case ast.Subscript(value=state, slice=index):
            owner = _owner_of_state(script, state, scope)
            part_of_it = isinstance(index, (ast.Slice, ast.Tuple))
            return owner is not None and not part_of_it and not is_as_made(script, owner, node)
        case ast.Call(func=ast.Attribute(attr="get_parameter" | "get_buffer"), args=[_]):
            return True
    return False


def _is_fetched(node: ast.expr) -> bool:
    """`getattr(module, name)`, which is a buffer if it is copied to from one."""
    match below(node):
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _]):
            return True
    return False


def _owner_of_state(script: Script, node: ast.expr, scope: Scope) -> ast.expr | None:
    """The `x` of `x.state_dict()` and `dict(x.named_parameters())`, also by a name for that: a module's own tensors by name."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[]):
            return owner
        case ast.Call(
            func=ast.Name(id="dict"),
            args=[
                ast.Call(func=ast.Attribute(value=owner, attr="named_parameters" | "named_buffers"))
            ],
        ):
            return owner
        case ast.Name(id=name):
            home, bindings = scope.find(name) or (scope, [])
            values = [b.whole for b in bindings]
        case ast.Attribute():
            home = scope
            values = [s.value for s, _ in script.index.assignments(unparsed(node))]
        case _:
            return None
    owners = [_owner_of_state(script, v, home) for v in values if isinstance(v, ast.Call)]
    return owners[-1] if owners and len(owners) == len(values) and all(owners) else None


def _iterates_parameters(script: Script, node: ast.Name, scope: Scope) -> bool:
    """True if a loop over `model.parameters()`, alone or zipped, gives `node` its value."""
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
    """True if unpacking an element of `iterable` along `path` gives a parameter."""
    iterable, path = iterable_of(iterable, path[1:])
    value = script.value(iterable, scope)
    if value.has(PARAMETERS):
        return True
    match iterable:
        case ast.Call(func=ast.Attribute(attr="parameters" | "buffers"), args=[]):
            return not path
        case ast.Call(func=ast.Attribute(attr="named_parameters" | "named_buffers"), args=[]):
            return path == (1,)
        case ast.Call(func=ast.Attribute(value=owner, attr="items"), args=[]):
            return path == (1,) and _owner_of_state(script, owner, scope) is not None
        case ast.Call(func=ast.Attribute(value=owner, attr="values"), args=[]):
            return not path and _owner_of_state(script, owner, scope) is not None
    return False
