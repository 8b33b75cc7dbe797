"""A state that is loaded from a model on the device shares buffers with it.

## What it reports

`target.load_state_dict(model.state_dict())`, and loading a copy that was made on the device.

## Why it matters on XLA

After the next step mark, a copied tensor and its source use one buffer. The next update of one
takes the buffer from the other, and the next use of the other fails (fact 3.12).

## What to do

Fix: safe.

Use `xla.clone_state`, which copies without sharing.

## Example

```diff
 import copy
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 def train(model, target, steps):
-    model.cuda()
+    model.to(xla.xla_device())
-    target.load_state_dict(model.state_dict())
+    target.load_state_dict(xla.clone_state(model.state_dict()))
     best = copy.deepcopy(model.state_dict())
     for step in range(steps):
         model(step).backward()
+        xla.mark_step()
-    model.load_state_dict(best)
+    model.load_state_dict(xla.clone_state(best))
     return best
```

States from a file or on the CPU are not reported. A function's own copy, which nothing reads
again, is not reported either:

```python
import copy
from xla_migrate import runtime as xla

def restore(model, path):
    model.to(xla.xla_device())
    best = {k: v.cpu() for k, v in model.state_dict().items()}
    model.load_state_dict(best)
    model.load_state_dict(xla.load(path))

def restore_the_first(model):
    model.to(xla.xla_device())
    first = copy.deepcopy(model.state_dict())
    model.reset()
    model.load_state_dict(first)
```

## See also

XLA511
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.inference.values import LOADER, OPTIMIZER, SAMPLER, SCALER, SCHEDULER
from ...analysis.nodes import LOOPS, walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword, name_of, root_of
from ...analysis.training.unmoved_modules import is_as_made
from ...edits import Replace
from ...finding import Finding
from ...flow.closure import reach
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA703", "device-state", shows_accelerator=False)

_NO_MODULE = frozenset({OPTIMIZER, SCHEDULER, SCALER, LOADER, SAMPLER})
_NO_MODULE_NAME = Pattern(r"optim|sched|scaler|sampler|loader|(?:^|_)opt(?:$|_)", re.IGNORECASE)
# Names of calls that return a new module: a class, or a function.
_MAKES = Pattern(r"^(?:load|restore|from)(?:_|$)|^create_model$|^[A-Z]\w*$|^deepcopy$")
_COPIES = frozenset({"copy.deepcopy", "copy.copy", "collections.OrderedDict"})
_DEEP = "copy.deepcopy"
_TO_HOST = frozenset({"cpu", "numpy", "tolist"})


@RULE.method("load_state_dict")
def load_state_dict(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    state = call.args[0] if call.args else keyword(call, "state_dict")
    if state is None or not script.accelerated or not _may_be_a_module(script, call.func.value):
        return
    if _is_made_here(script, call):
        return
    if _is_read_no_more(script, state, call):
        return
    if _is_on_the_device(script, state, ast.unparse(call.func.value)):
        message = "on XLA the copy shares the memory of its source, and fails after the next update: use `xla.clone_state`"
        edit = Replace(state, f"{script.xla}.clone_state({{0}})", (state,))
        yield RULE.finding(script, call, message, edit)


def _is_made_here(script: Script, call: ast.Call) -> bool:
    """True if what the state is loaded into, or a part of, is new and not on the device yet: `copy = cls(config)`."""
    return is_as_made(script, root_of(call.func), call)


def _is_read_no_more(script: Script, state: ast.expr, call: ast.Call) -> bool:
    """Return True if `state` is a local copy that is not read after `call`: `model.load_state_dict(best)`, at the end."""
    function = script.function(call)
    if not isinstance(state, ast.Name) or function is None:
        return False
    found = script.index.scope(state).find(state.id)
    if found is None or found[0].node is not function:
        return False
    values = [binding.value for binding in found[1] if binding.value is not None]
    nothing = [v for v in values if is_literal(v, None)]
    copies = [v for v in values if isinstance(v, ast.Call) and script.dotted(v.func) == _DEEP]
    if len(copies) + len(nothing) < len(found[1]) or not copies:
        return False
    for around in script.ancestors(call):
        if around is function:
            break
        if isinstance(around, LOOPS):
            return False
    others = [
        node
        for node in walk(function)
        if isinstance(node, ast.Name) and node.id == state.id and node is not state
    ]
    return all(
        isinstance(node.ctx, ast.Store) or isinstance(script.parent(node), ast.Compare)
        for node in others
    ) and all(node.lineno < call.lineno for node in others)


def _may_be_a_module(script: Script, node: ast.expr) -> bool:
    if script.value(node).kinds & _NO_MODULE:
        return False
    last = name_of(node)
    return _NO_MODULE_NAME.search(last) is None


def _is_on_the_device(script: Script, state: ast.expr, target: str) -> bool:
    """True if `state` is the state dict of a module in memory other than `target`, or a copy of one."""
    reached = reach([(state, target)], lambda each: _copied(script, *each))
    return any(_is_of_a_module(script, node, other) for node, other in reached)


def _copied(script: Script, node: ast.expr, target: str) -> list[tuple[ast.expr, str]]:
    """Return what `node` may be, or is a copy of; `target` itself can be copied."""
    match node:
        case ast.Call(func=func, args=[first, *_]):
            is_copy = script.dotted(func) in _COPIES or getattr(func, "id", "") == "dict"
            return [(first, "")] if is_copy else []
        case ast.DictComp(
            generators=[ast.comprehension(iter=ast.Call(func=ast.Attribute(attr="items") as func))]
        ):  # `{k: v.clone() for k, v in model.state_dict().items()}` stays on the device
            return [] if _goes_to_the_host(node.value) else [(func.value, "")]
        case ast.Name() | ast.Attribute():
            return [(value, target) for value in sources(script, node)]
    return []


def _goes_to_the_host(value: ast.expr) -> bool:
    return any(
        getattr(part, "attr", "") in _TO_HOST or getattr(part, "value", None) == "cpu"
        for part in walk(value)
    )


def _is_of_a_module(script: Script, call: ast.expr, target: str) -> bool:
    """Return True for `model.state_dict()` of a module that is kept, and is not `target`."""
    match call:
        case ast.Call(func=ast.Attribute(attr="state_dict", value=owner)):
            is_new = _is_new(script, owner) or is_as_made(script, owner, call)
            if is_new or _is_made_with_its_module(script, owner, call):
                return False
            return ast.unparse(owner) != target and _may_be_a_module(script, owner)
    return False


def _is_new(script: Script, owner: ast.expr) -> bool:
    """`Net().state_dict()`, `Net.load(path).state_dict()`: a module without a name is not updated, and not used again."""
    if not isinstance(owner, ast.Call):
        return False
    if _MAKES.search(
        owner.func.attr if isinstance(owner.func, ast.Attribute) else ast.unparse(owner.func)
    ):
        return True
    made = script.value(owner.func).definition
    dotted = script.dotted(owner.func) or ""
    return isinstance(made, ast.ClassDef) or dotted.startswith("torch.nn.")


def _is_made_with_its_module(script: Script, owner: ast.expr, call: ast.Call) -> bool:
    """`model = build(); self.start = deepcopy(model.state_dict())` next to the module's creation, when it is still on the CPU."""
    function = script.function(call)
    if not isinstance(owner, ast.Name) or function is None or function.name != "__init__":
        return False
    if not script.is_in_a_module(call) or any(
        f"{owner.id}.{move}(" in script.segment(function) for move in ("to", "cuda")
    ):
        return False
    found = script.index.scope(owner).find(owner.id)
    bindings = found[1] if found is not None and found[0].node is function else []
    return bool(bindings) and all(
        b.how == "assign"
        and isinstance(b.value, ast.Call)
        and "device" not in script.segment(b.value)
        for b in bindings
    )
