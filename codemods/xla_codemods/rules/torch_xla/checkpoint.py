"""Files, seeds and random states of torch_xla.

## What it reports

`xm.save`, `torch_xla.utils.serialization`, seeds and random states, in runs with `--from
torch_xla`.

## Why it matters on XLA

These calls run with torch_xla only. The runtime's run on each backend.

## What to do

Fix: safe, unsafe or none.

Use `xla.save`. `xm.save` writes on the first process of each host, and so does `xla.save(...,
each_host=True)`, unless the script requests one file for all hosts. Files are PyTorch's, as
before.

## Example

```diff
 import torch
-import torch_xla
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def save(model, path, seed):
-    torch.manual_seed(seed)
-    torch_xla.manual_seed(seed)
-    torch_xla.manual_seed(seed + 1)
-    xm.save(model.state_dict(), path)
-    xm.save(model.state_dict(), path, global_master=True)
-    xm.save({"rng": xm.get_rng_state()}, path, master_only=False)
-    xm.set_rng_state(torch.load(path, map_location="cpu")["rng"])
+    xla.manual_seed(seed)
+    xla.manual_seed(seed + 1, device_only=True)
+    xla.save(model.state_dict(), path, each_host=True)
+    xla.save(model.state_dict(), path)
+    xla.save({"rng": xla.get_rng_state()}, path, master_only=False)
+    xla.set_rng_state(torch.load(path, map_location="cpu")["rng"])
```

`xla.get_rng_state()` is a tensor. A use of the number itself is reported without a fix.
`xla.set_rng_state` accepts both:

```python
import torch_xla.core.xla_model as xm

print(xm.get_rng_state() % 2)  # XLA017
```

`torch.manual_seed` seeds only the host if torch_xla is used. If the device has a separate seed,
it keeps it on each backend:

```diff
 import torch
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def prepare(args):
-    xm.set_rng_state(args.noise_seed)
+    xla.set_rng_state(args.noise_seed)

 def epoch(model, number):
-    torch.manual_seed(number)
+    torch.default_generator.manual_seed(number)
-    return model.to(xm.xla_device())
+    return model.to(xla.xla_device())
```

Files of `torch_xla.utils.serialization` have their own format. With `--unsafe` they become
PyTorch's, which cannot load older files:

```diff
-import torch_xla.utils.serialization as xser
+from xla_migrate import runtime as xla

 def resume(model, path):
-    model.load_state_dict(xser.load(path))
-    xser.save(model.state_dict(), path, global_master=True)
+    model.load_state_dict(xla.load(path, map_location="cpu"))
+    xla.save(model.state_dict(), path)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, XM, given, is_constant, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import AddArgument, DropArgument, Edit, RenameArgument, Replace, remove
from ...finding import SAFE, UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA017", "torch-xla-files", severity=WARNING, origin="torch_xla")

_FILES = "torch_xla.utils.serialization"
_OURS = {"data": "obj", "path": "f", "file_or_path": "f"}
_OF_HOST = ("torch.manual_seed", "torch.random.manual_seed")
_SAVE_ORDER = ("data", "path", "master_only", "global_master")


@RULE.call(f"{XM}.save", f"{_FILES}.save")
def save(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    of_torch = script.dotted(call.func, scope) == f"{XM}.save"
    order = ("data", "file_or_path", *_SAVE_ORDER[2:]) if of_torch else _SAVE_ORDER
    found = given(call, order) or {}
    known = all(is_constant(found.get(name), True, False) for name in order[2:])
    if not {"data", order[1]}.issubset(found) or not known:
        yield RULE.finding(script, call, f"it is not known which processes write: {KEPT}")
        return
    edits: list[Edit] = [renamed(script, call, "save")]
    edits += [DropArgument(call, argument) for argument in call.args[2:]]
    for argument in call.keywords:
        if argument.arg in order[2:]:
            edits.append(DropArgument(call, argument))
        else:
            edits.append(RenameArgument(call, argument, _OURS[argument.arg or ""]))
    if "master_only" in found and is_constant(found["master_only"], False):
        edits.append(AddArgument(call, "master_only=False"))
    elif "global_master" not in found or is_constant(found["global_master"], False):
        edits.append(AddArgument(call, "each_host=True"))
    yield _found(script, call, "save", *edits, safety=SAFE if of_torch else UNSAFE)


@RULE.call(f"{_FILES}.load")
def load(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1 and not call.keywords:
        edit = Replace(call, f'{script.xla}.load({{0}}, map_location="cpu")', (call.args[0],))
        yield _found(script, call, "load", edit, safety=UNSAFE)


@RULE.call("torch_xla.manual_seed")
def seed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    found = given(call, ("seed",))
    if not found:
        yield RULE.finding(script, call, f"the call seeds one of several devices: {KEPT}")
    elif (beside := _same_seed_beside(script, call, found["seed"])) is not None:
        yield _both(script, call, beside)
    else:
        edit = Replace(call, f"{script.xla}.manual_seed({{0}}, device_only=True)", (found["seed"],))
        yield _found(script, call, "manual_seed", edit)


def _both(script: Script, call: ast.Call, beside: ast.Call) -> Finding:
    edits = (remove(script.statement(call)), renamed(script, beside, "manual_seed"))
    return _found(script, call, "manual_seed", *edits)


@RULE.call(*_OF_HOST)
def of_host(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """In torch_xla it seeds the host alone, which matters if the device has a separate seed."""
    apart = [(other, seed) for other, seed in _seeds_of_device(script) if other is not call]
    merged = [_same_seed_beside(script, other, seed) for other, seed in apart]
    if call in merged or all(beside is not None for beside in merged):
        return
    if any(_is_seed_of_function(script, other, call) for other, _ in apart):
        return  # the migration leaves it there
    message = "the call seeds only the host with torch_xla, but also the device on other backends, which the script seeds itself: use `torch.default_generator`"
    edit = Replace(call.func, script.spell("torch.default_generator.manual_seed", scope))
    yield RULE.finding(script, call, message, edit)


def _seeds_of_device(script: Script) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls that seed the device alone, and their seeds; a state of a checkpoint is none."""
    for name in ("manual_seed", "set_rng_state"):
        for call, scope in script.index.calls_of(name):
            if script.dotted(call.func, scope) not in ("torch_xla.manual_seed", f"{XM}.{name}"):
                continue
            seed = (given(call, ("seed", "device")) or {}).get("seed")
            if isinstance(seed, ast.Constant) or (seed is not None and _names_a_seed(seed)):
                yield call, seed


def _names_a_seed(node: ast.expr) -> bool:
    return "seed" in ast.unparse(node).lower()


def _is_seed_of_function(script: Script, other: ast.Call, call: ast.Call) -> bool:
    same = script.function(other) is script.function(call)
    return same and script.dotted(other.func) == "torch_xla.manual_seed"


def _same_seed_beside(script: Script, call: ast.Call, seed: ast.expr) -> ast.Call | None:
    """`torch.manual_seed(seed)` right before or behind: the runtime's function does both."""
    if not script.is_statement(call) or not isinstance(
        seed, (ast.Name, ast.Attribute, ast.Constant)
    ):
        return None
    statement = script.statement(call)
    block = script.block(statement)
    at = block.index(statement)
    for other in (*block[max(at - 1, 0) : at], *block[at + 1 : at + 2]):
        match other:
            case ast.Expr(value=ast.Call(args=[given], keywords=[]) as torchs):
                same = ast.unparse(given) == ast.unparse(seed)
                if same and script.dotted(torchs.func) in _OF_HOST:
                    return torchs
    return None


@RULE.call(f"{XM}.set_rng_state")
def set_state(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1 and not call.keywords:
        beside = _same_seed_beside(script, call, call.args[0])
        if beside is not None:
            yield _both(script, call, beside)
        else:
            yield _found(script, call, "set_rng_state", renamed(script, call, "set_rng_state"))
    else:
        yield RULE.finding(script, call, f"the random state of one of several devices: {KEPT}")


@RULE.call(f"{XM}.get_rng_state")
def get_state(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args or call.keywords or not _is_stored(script, call):
        message = f"`xla.get_rng_state()` is a tensor, and the code may need a number: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    yield _found(script, call, "get_rng_state", renamed(script, call, "get_rng_state"))


def _is_stored(script: Script, call: ast.Call) -> bool:
    """True if the state only goes where it comes from: an entry of a dict, objects that are gathered."""
    parent = script.parent(call)
    if isinstance(parent, ast.Dict):
        return call in parent.values
    if isinstance(parent, ast.Assign):
        return isinstance(parent.targets[0], ast.Subscript)
    return isinstance(parent, ast.Call) and (script.dotted(parent.func) or "") in {
        "torch.distributed.all_gather_object",
        f"{XM}.set_rng_state",
    }


@RULE.call(f"{XM}.fork_rng")
def fork(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args or any(k.arg != "enabled" for k in call.keywords):
        yield RULE.finding(script, call, f"the random state of one of several devices: {KEPT}")
    else:
        yield _found(script, call, "fork_rng", renamed(script, call, "fork_rng"))


def _found(script: Script, node: ast.expr, name: str, *edits: Edit, safety: str = SAFE) -> Finding:
    same = "which is the same there" if safety == SAFE else "which reads the same files"
    message = f"the call runs with torch_xla only: use `xla.{name}`, {same}"
    return RULE.finding(script, node, message, *edits, safety=safety)
