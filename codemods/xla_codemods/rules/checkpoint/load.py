"""`map_location` of `torch.load` cannot name an XLA device.

## What it reports

`torch.load` in files that use an accelerator, and `load_from_checkpoint` of Lightning.

## Why it matters on XLA

`torch.load(path, map_location=device)` fails on XLA. A CUDA checkpoint fails without
`map_location` (fact 1.44).

## What to do

Fix: safe.

Use `xla.load`. It accepts each form of `map_location`, and files that were saved on CUDA, XLA and
the CPU. Checkpoints load as CPU tensors, which `load_state_dict` copies to the parameters'
device.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def resume(model, path, rank):
-    state = torch.load(path)
+    state = xla.load(path)
-    state = torch.load(path, map_location="cuda", weights_only=True)
+    state = xla.load(path, map_location=xla.xla_device(), weights_only=True)
-    state = torch.load(path, map_location=f"cuda:{rank}")
+    state = xla.load(path, map_location=xla.xla_device(rank))
-    state = torch.load(path, map_location={"cuda:0": "cuda:%d" % rank})
+    state = xla.load(path, map_location=xla.xla_device(rank))
-    device = f"cuda:{rank}"
+    device = str(xla.xla_device(rank))
-    state = torch.load(path, map_location={"cuda:0": device})
+    state = xla.load(path, map_location=device)
-    state = torch.load(path, map_location=lambda storage, loc: storage)
+    state = xla.load(path, map_location="cpu")
-    model.load_state_dict(torch.load(path, map_location="cuda" if torch.cuda.is_available() else "cpu"))
+    model.load_state_dict(xla.load(path, map_location=xla.xla_device()))
     return state
```

Loads to the CPU, files that compute nothing, and samples of a dataset are not reported:

```python
import torch
from torch.utils.data import Dataset

class Samples(Dataset):
    def __getitem__(self, index):
        return torch.load(f"{index}.pt")

def train(model, path):
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model(torch.ones(2)).sum().backward()
```

Lightning modules are loaded to the CPU and moved:

```diff
 import lightning as L
+from xla_migrate import runtime as xla

 class Net(L.LightningModule):
     def training_step(self, batch, index):
         return self(batch).mean()

-best = Net.load_from_checkpoint("best.ckpt", map_location="cuda")
+best = Net.load_from_checkpoint("best.ckpt", map_location="cpu").to(xla.xla_device())
```

## See also

XLA701
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.map_locations import located, names_cuda
from ...analysis.frameworks.lightning_modules import is_imported_module, is_its_module
from ...analysis.inference.values import ACCEL, DATASET, HOST
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, is_literal, keyword
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import ERROR, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA702", "load", shows_accelerator=False)

_NAMES = ("torch.load", "torch.serialization.load")
_MESSAGE = "`torch.load` fails on an XLA host with an XLA `map_location` and for CUDA checkpoints: use `xla.load`"
_KNOWN = frozenset(
    {
        *_NAMES,
        "torch.jit.load",
        "torch.hub.load_state_dict_from_url",
        "torch.utils.model_zoo.load_url",
    }
)


@RULE.call(*_NAMES)
def load(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    location = call.args[1] if len(call.args) > 1 else keyword(call, "map_location")
    if is_literal(location, "cpu") or not (script.trains or script.runs_accelerated):
        return
    if _is_surely_cpu(script, location, scope):
        return
    if (location is None or is_literal(location, None)) and _loads_samples(script, call):
        return
    if location is None and _was_just_saved(script, call):
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.load")]
    if location is not None:
        edits += located(script, location)
    if len(call.args) > 2:
        edits += [
            DropArgument(call, call.args[2]),
            AddArgument(call, "pickle_module={0}", (call.args[2],)),
        ]
    given = location is not None and not is_literal(location, None)
    severity = ERROR if given else WARNING  # without one it depends on where the file comes from
    yield RULE.finding(script, call, _MESSAGE, *edits, severity=severity)


def _is_surely_cpu(script: Script, location: ast.expr | None, scope: Scope) -> bool:
    """`torch.device("cpu")`, or a name for it; not what is the CPU in one case, as in `device if cuda else "cpu"`.

    A parameter whose default is the CPU may be another device when it is passed.
    """
    if location is None or not script.value(location, scope).has(HOST):
        return False
    if isinstance(location, ast.Call):
        names = [n for argument in location.args for n in walk(argument)]
        return all(_is_given_here(n, scope) for n in names if isinstance(n, ast.Name))
    return isinstance(location, ast.Name) and _is_given_here(location, scope)


def _is_given_here(name: ast.Name, scope: Scope) -> bool:
    """True if `name` is bound to constants and calls alone, and is no parameter."""
    found = scope.find(name.id)
    return found is not None and all(
        isinstance(binding.value, (ast.Constant, ast.Call))
        and not binding.path
        and binding.how != "parameter"
        for binding in found[1]
    )


def _was_just_saved(script: Script, call: ast.Call) -> bool:
    """True if the same function has written the buffer that it reads: `torch.save(x, b); b.seek(0); torch.load(b)`."""
    match call.args:
        case [ast.Name(id=name), *_]:
            home = script.function(call)
            return any(
                script.function(seek) is home
                and isinstance(seek.func, ast.Attribute)
                and isinstance(seek.func.value, ast.Name)
                and seek.func.value.id == name
                for seek, _ in script.index.calls_of("seek")
            ) and any(
                script.function(save) is home
                and len(save.args) > 1
                and isinstance(save.args[1], ast.Name)
                and save.args[1].id == name
                for save, _ in script.index.calls_of("save")
            )
    return False


@RULE.reference(*_NAMES)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`partial(torch.load, map_location=device)`, `load=torch.load`."""
    parent = script.parent(node)
    if isinstance(parent, ast.Call) and is_handed_on(node, script.parents):
        location = keyword(parent, "map_location")
        if is_literal(location, "cpu") or not script.accelerated:
            return
        edits = list(located(script, location)) if location is not None else []
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.load"), *edits)


@RULE.node(ast.keyword, named=("map_location",))
def elsewhere(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`SomeModel.load_from_checkpoint(path, map_location="cuda")`: what it does with it is not seen."""
    call = script.parent(node)
    if not isinstance(call, ast.Call):
        return
    if script.dotted(call.func, scope) in _KNOWN:
        return
    if _makes_a_lightning_module(script, call, scope):
        yield from _lightning_module(script, call, node)
        return
    first = script.dotted(call.args[0], scope) if call.args else None
    is_local = script.value(call.func, scope).definition is not None
    if first in _NAMES or is_local:
        return
    if names_cuda(script, node.value) or _is_for_lightning(script, call, node.value):
        yield RULE.finding(
            script, node.value, '`map_location` cannot name an XLA device: use "cpu"'
        )


def _is_for_lightning(script: Script, call: ast.Call, location: ast.expr) -> bool:
    """True for a name of an accelerator that `load_from_checkpoint`, of a class that is not seen, hands to `torch.load`."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "load_from_checkpoint"
        and isinstance(location, ast.Name)
        and script.is_device(location)
        and any(
            binding.value is not None
            and (names_cuda(script, binding.value) or script.value(binding.value).has(ACCEL))
            for binding in script.reaching(location)
        )
    )


def _lightning_module(script: Script, call: ast.Call, location: ast.keyword) -> Iterator[Finding]:
    """`Net.load_from_checkpoint(path, map_location=device)`, which puts its weights there."""
    value = location.value
    is_device = isinstance(value, ast.Attribute) and value.attr in ("device", "root_device")
    if not (is_device or names_cuda(script, value) or script.is_device(value)):
        return
    if is_literal(value, "cpu") or _is_surely_cpu(script, value, script.index.scope(call)):
        return
    spec = script.devices.spec(value)
    text, holes = script.devices.index(spec) if spec is not None else ("", (value,))
    to = f"{{0}}.to({script.xla}.xla_device({text}))" if spec is not None else "{0}.to({1})"
    edits: list[Edit] = [
        DropArgument(call, location),
        AddArgument(call, 'map_location="cpu"'),
        Replace(call, to, (call, *holes)),
    ]
    message = '`map_location` cannot name an XLA device: load to "cpu", and move the module'
    yield RULE.finding(script, value, message, *(edits if spec is None or not holes else []))


def _makes_a_lightning_module(script: Script, call: ast.Call, scope: Scope) -> bool:
    """`Net.load_from_checkpoint(path)` of a LightningModule, which is where its weights are put."""
    match call.func:
        case ast.Attribute(value=owner, attr="load_from_checkpoint"):
            definition = script.value(owner, scope).definition
            if isinstance(definition, ast.ClassDef):
                return is_its_module(script, definition)
            return is_imported_module(script, script.dotted(owner, scope))
    return False


def _loads_samples(script: Script, call: ast.Call) -> bool:
    """In a dataset: its worker processes must not touch the device, and a file of samples does not need the device."""
    for ancestor in script.ancestors(call):
        if isinstance(ancestor, ast.ClassDef):
            scope = script.index.scope(ancestor)
            return DATASET in script.inference.base_kind(ancestor, scope)
    return False
