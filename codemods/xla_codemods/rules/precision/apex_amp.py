"""apex.amp is available for CUDA only.

## What it reports

Calls of `apex.amp`: `initialize`, `scale_loss`, `master_params`, registered functions and the
state in checkpoints.

## Why it matters on XLA

apex fails without CUDA. Opt levels O1, O2 and O3 compute in float16, which needs loss scaling.

## What to do

Fix: safe.

Use `xla.mixed_precision(model)`. It runs the model's forward pass under `xla.autocast()` in
bfloat16 and returns float32 outputs, as O2 does. The opt level remains the switch: O0 means
float32. bfloat16 needs no loss scaling, so `scale_loss` and amp's state are removed.

## Example

```diff
 import torch
-from apex import amp
+from xla_migrate import runtime as xla

 def main(args, model, criterion, loader, device):
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-    model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, loss_scale="dynamic")
+    model = xla.mixed_precision(model, enabled=args.opt_level != "O0")
-    for x, y in loader:
+    for x, y in xla.MpDeviceLoader(loader):
         loss = criterion(model(x.to(device)), y.to(device))
         optimizer.zero_grad()
-        with amp.scale_loss(loss, optimizer) as scaled_loss:
-            scaled_loss.backward()
-        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
+        loss.backward()
+        torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
-        optimizer.step()
+        xla.optimizer_step(optimizer)
-    return {"model": model.state_dict(), "amp": amp.state_dict()}
+    return {"model": model.state_dict(), "amp": {}}
```

A choice between scaling and no scaling is no longer needed:

```diff
 import torch
+from xla_migrate import runtime as xla

 def backward(args, loss, model, optimizer):
     if args.fp16:
-        from apex import amp
-        model, optimizer = amp.initialize(model, optimizer)
+        model = xla.mixed_precision(model)
-    if args.fp16:
-        with amp.scale_loss(loss, optimizer) as scaled_loss:
-            scaled_loss.backward()
-    else:
-        loss.backward()
+    loss.backward()
```

Functions that were registered as half or float functions keep their data type through a decorator
of the runtime. `custom_fwd` of PyTorch is only for `torch.autograd.Function.forward`:

```diff
 import torch
-from apex import amp
+from xla_migrate import runtime as xla

-amp.register_float_function(torch, "sigmoid")
+torch.sigmoid = xla.cast_inputs(torch.sigmoid, torch.float32)
```

Another module named `amp` is not reported:

```python
from mylib import amp

model, optimizer = amp.initialize(model, optimizer)
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
```

## See also

XLA201, XLA204, XLA207
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.cuda_only.presence import complaints, decides, tests
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...analysis.training.scalers.branches import Changes, collapsed
from ...edits import DropItem, Edit, InsertBefore, Replace, ReplaceStatement, Unwrap, remove
from ...finding import MEDIUM, WARNING, Finding
from ...flow.containers import ANY, held
from ...rule import Rule

RULE = Rule("XLA206", "apex-amp", of_step="precision", words=("apex", "scale_loss"))

_MESSAGE = "apex.amp fails without CUDA: use `xla.autocast()`"
_STATE = (
    "apex.amp fails without CUDA, and without loss scaling there is no state to keep: remove it"
)
_SCALING = "apex.amp fails without CUDA, and bfloat16 needs no loss scaling: remove the call"


@RULE.call("apex.amp.initialize")
def initialize(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    model = call.args[0] if call.args else keyword(call, "models")
    optimizer = call.args[1] if len(call.args) > 1 else keyword(call, "optimizers")
    if model is None or any(isinstance(a, ast.Starred) for a in call.args):
        yield RULE.finding(script, call, _MESSAGE, effort=MEDIUM)
        return
    if is_literal(optimizer, None):
        optimizer = None
    text, holes = _mixed(script, call, model)
    statement = script.parent(call)
    if optimizer is None:
        edit: Edit = Replace(call, text, holes)
    elif isinstance(statement, ast.Assign) and _pair(statement) is not None:
        edit = _assigned(script, statement, text, holes, optimizer)
    else:
        edit = Replace(call, f"({text}, {{{len(holes)}}})", (*holes, optimizer))
    yield RULE.finding(script, call, _MESSAGE, edit)


def _mixed(script: Script, call: ast.Call, model: ast.expr) -> tuple[str, tuple[ast.expr, ...]]:
    """The model in mixed precision, unless opt level or `enabled` speak against it: text and holes."""
    level = call.args[3] if len(call.args) > 3 else keyword(call, "opt_level")
    enabled = call.args[2] if len(call.args) > 2 else keyword(call, "enabled")
    if (level is not None and _is(level, "O0")) or (enabled is not None and _is(enabled, False)):
        return "{0}", (model,)
    conditions = [
        *_condition(script, call, enabled, "enabled", "{0}", '{0}.get("enabled", True)'),
        *_condition(
            script, call, level, "opt_level", '{0} != "O0"', '{0}.get("opt_level") != "O0"'
        ),
    ]
    holes = (model, *(hole for hole, _ in conditions))
    texts = [text.replace("{0}", f"{{{k}}}") for k, (_, text) in enumerate(conditions, 1)]
    given = f", enabled={' and '.join(texts)}" if texts else ""
    return f"{script.xla}.mixed_precision({{0}}{given})", holes


def _condition(
    script: Script, call: ast.Call, value: ast.expr | None, name: str, text: str, of_dict: str
) -> Iterator[tuple[ast.expr, str]]:
    """Yield a hole and the condition on it for the argument `name`, also of a `**` dictionary, if it is no literal."""
    if value is not None:
        if not isinstance(value, ast.Constant):
            yield value, text
        return
    for spread in (argument.value for argument in call.keywords if argument.arg is None):
        written = held(script, spread, name)
        is_known = written or held(script, spread, ANY)
        if not is_known or not all(map(_is_on, written)):
            yield spread, of_dict


def _is_on(value: ast.expr) -> bool:
    """Return True for a literal with which apex computes in mixed precision."""
    return isinstance(value, ast.Constant) and value.value not in (False, "O0")


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _pair(statement: ast.Assign) -> tuple[ast.expr, ast.expr] | None:
    """The two targets of `model, optimizer = ...`."""
    match statement.targets:
        case [ast.Tuple(elts=[model, optimizer]) | ast.List(elts=[model, optimizer])]:
            return model, optimizer
    return None


def _assigned(
    script: Script,
    statement: ast.Assign,
    text: str,
    holes: tuple[ast.expr, ...],
    optimizer: ast.expr,
) -> Edit:
    """`model, optimizer = amp.initialize(...)` as an assignment of what changes."""
    pair = _pair(statement)
    assert pair is not None
    lines = []
    if text != "{0}" or ast.unparse(pair[0]) != ast.unparse(holes[0]):
        lines.append(f"{_escaped(script, pair[0])} = {text}")
    if ast.unparse(pair[1]) != ast.unparse(optimizer):
        lines.append(f"{_escaped(script, pair[1])} = {{{len(holes)}}}")
        holes = (*holes, optimizer)
    return ReplaceStatement(statement, "\n".join(lines), holes if lines else ())


def _escaped(script: Script, target: ast.expr) -> str:
    """`target` as text that holes are put into."""
    return script.segment(target).replace("{", "{{").replace("}", "}}")


@RULE.call("apex.amp.master_params")
def master_params(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1:
        text = '[p for group in {0}.param_groups for p in group["params"]]'
        message = "apex.amp fails without CUDA: take the parameters from the optimizer"
        yield RULE.finding(script, call, message, Replace(call, text, (call.args[0],)))


@RULE.call("apex.amp.state_dict")
def state_dict(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """From an empty state apex resumes with its first scale."""
    yield RULE.finding(script, call, _STATE, Replace(call, "{}"))


@RULE.call("apex.amp.load_state_dict", "apex.amp.register_promote_function")
def without_effect(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    statement = script.parent(call)
    edit = remove(statement) if isinstance(statement, ast.Expr) else Replace(call, "None")
    is_state = (script.dotted(call.func, scope) or "").endswith("load_state_dict")
    yield RULE.finding(script, call, _STATE if is_state else _MESSAGE, edit)


@RULE.call("apex.amp.register_half_function", "apex.amp.register_float_function")
def register(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`amp.register_float_function(torch, "sigmoid")`."""
    match call, script.parent(call):
        case ast.Call(args=[module, ast.Constant(value=str(name))]), ast.Expr() as statement:
            kind = (
                "float32"
                if (script.dotted(call.func, scope) or "").endswith("float_function")
                else "bfloat16"
            )
            dtype = script.spell(f"torch.{kind}", scope)
            text = f"{{0}}.{name} = {script.xla}.cast_inputs({{0}}.{name}, {dtype})"
            yield RULE.finding(script, call, _MESSAGE, ReplaceStatement(statement, text, (module,)))
        case _:
            yield RULE.finding(script, call, _MESSAGE, effort=MEDIUM)


@RULE.reference("apex.amp.half_function", "apex.amp.float_function")
def decorated(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`@amp.float_function`."""
    kind = (
        "float32" if (script.dotted(node, scope) or "").endswith("float_function") else "bfloat16"
    )
    text = f"{script.xla}.cast_inputs(dtype={script.spell(f'torch.{kind}', scope)})"
    yield RULE.finding(script, node, _MESSAGE, Replace(node, text))


@RULE.call("apex.amp.half_function", "apex.amp.float_function")
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`amp.half_function(torch.matmul)`."""
    if len(call.args) != 1 or call.keywords:
        yield RULE.finding(script, call, _MESSAGE, effort=MEDIUM)
        return
    is_float = (script.dotted(call.func, scope) or "").endswith("float_function")
    dtype = script.spell(f"torch.{'float32' if is_float else 'bfloat16'}", scope)
    text = f"{script.xla}.cast_inputs({{0}}, {dtype})"
    yield RULE.finding(script, call, _MESSAGE, Replace(call, text, (call.args[0],)))


@RULE.reference("apex.amp.promote_function")
def promoted(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script, node, "apex.amp fails without CUDA: remove the decorator", effort=MEDIUM
    )


@RULE.call("apex.amp.disable_casts")
def disable_casts(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script, call, _MESSAGE, Replace(call, f"{script.xla}.autocast(enabled=False)")
    )


@RULE.reference("apex.amp")
def asked_for(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """Other uses of the module; `missed` reports `if amp is None: raise ...`."""
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return  # what takes its place where it cannot be imported
    if node in {test.node for _, test in complaints(script.index, "apex")}:
        return
    yield RULE.finding(script, node, "apex.amp fails without CUDA: remove the call", effort=MEDIUM)


@RULE.file
def missed(script: Script) -> Iterator[Finding]:
    """`if not HAVE_APEX: raise ...`, and other tests whether there is apex."""
    if script.project.has("apex"):
        return
    refused: dict[ast.expr, ast.stmt] = {}
    for statement, test in complaints(script.index, "apex"):
        is_known = statement in refused.values()
        refused[test.node] = statement
        if is_known:
            continue
        message = "XLA hosts do not have apex, so the script raises the error: remove it"
        yield RULE.finding(script, statement.test, message, remove(statement))
    for test in tests(script.index, "apex"):
        if test.node not in refused and decides(script, test, "apex"):
            answer = "False" if test.answer else "True"
            message = (
                f"the test for apex is {answer} on XLA hosts, and the migrated code needs no apex:"
                " remove the test"
            )
            yield RULE.finding(script, test.node, message, severity=WARNING, effort=MEDIUM)


@RULE.call("apex.amp.init")
def init(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"apex.amp fails without CUDA: run the model under {script.xla}.autocast(), and remove the handle"
    yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.file
def scale_loss(script: Script) -> Iterator[Finding]:
    """`with amp.scale_loss(loss, optimizer) as scaled_loss:` and the branches around it."""
    if not script.source.mentions("scale_loss"):
        return
    changes = Changes()
    for call, scope in script.index.calls_of("scale_loss"):
        if script.dotted(call.func, scope) == "apex.amp.scale_loss":
            edits = _unscaled(script, call, changes)
            yield RULE.finding(script, call, _SCALING, *edits, effort=None if edits else MEDIUM)
    for branch, edit in collapsed(script, changes):
        yield RULE.finding(
            script, branch, "without loss scaling both branches are the same: keep one", edit
        )


def _unscaled(script: Script, call: ast.Call, changes: Changes) -> list[Edit]:
    item = script.parent(call)
    block = script.parent(item) if isinstance(item, ast.withitem) else None
    loss = call.args[0] if call.args else keyword(call, "loss")
    if not isinstance(block, ast.With) or not isinstance(item, ast.withitem) or loss is None:
        return []
    if item.optional_vars is not None and not isinstance(item.optional_vars, ast.Name):
        return []
    edits: list[Edit] = []
    if isinstance(item.optional_vars, ast.Name):
        edits += _renamed(script, block, item.optional_vars.id, loss, changes)
    changes.removed.update(s for s in script.block(block) if _imports_apex(s))
    if len(block.items) == 1:
        changes.unwrapped.add(block)
        return [*edits, Unwrap(block)]
    return [*edits, DropItem(block, item)]


def _imports_apex(statement: ast.stmt) -> bool:
    """`from apex import amp`, which goes where nothing uses it."""
    match statement:
        case ast.ImportFrom(module=str(home)):
            return home.partition(".")[0] == "apex"
        case ast.Import(names=names):
            return all(alias.name.partition(".")[0] == "apex" for alias in names)
    return False


def _renamed(
    script: Script, block: ast.With, name: str, loss: ast.expr, changes: Changes
) -> list[Edit]:
    """Return the unscaled loss in place of the scaled one; under a name if it is used again later."""
    function = script.function(block) or script.tree
    loads = [
        node
        for node in walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    inside = [node for node in loads if block in script.ancestors(node)]
    others = [node for node in loads if node not in inside and not _in_another(script, node, name)]
    if others or (len(inside) > 1 and not isinstance(loss, (ast.Name, ast.Attribute))):
        return [InsertBefore(block, f"{name} = {script.segment(loss)}")]
    for node in inside:
        changes.replaced[node] = loss
        changes.changed.add(node)
    return [Replace(node, "{0}", (loss,)) for node in inside]


def _in_another(script: Script, node: ast.Name, name: str) -> bool:
    """True if another `with ... as <name>` around `node` gives it its value."""
    return any(
        isinstance(ancestor, ast.With)
        and any(getattr(item.optional_vars, "id", None) == name for item in ancestor.items)
        for ancestor in script.ancestors(node)
    )
