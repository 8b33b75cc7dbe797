"""A value fetched from the device in every training step makes the host wait for it.

XLA runs the steps behind the script's back; `.item()`, `print(loss)`, `if loss > x` and their like wait until the
device has come that far (xla-facts 3.22). Read now and then, behind `if step % 100 == 0`, or behind the loop; keep sums
on the device until they are read. That is done for sums, when asked for, since a sum in float32 is rounded otherwise
than one in Python's floats:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     running = 0.0
-    for step, (x, y) in enumerate(DataLoader(dataset)):
+    for step, (x, y) in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
         x, y = x.to(device), y.to(device)
         loss = torch.nn.functional.cross_entropy(model(x), y)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
-        running += loss.item()
+        running += loss.detach()
         if step % 100 == 99:
-            print(step, running / 100)
+            print(step, torch.as_tensor(running).item() / 100)
             running = 0.0
```

What is read now and then is no finding, nor what is no tensor of the device:

```python
import torch
from xla_migrate import runtime as xla

def train(model, batches, optimizer, schedule):
    for step, x in enumerate(xla.MpDeviceLoader(batches)):
        loss = model(x).sum()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        schedule.step()
        print(step, len(x), schedule.get_last_lr()[0])
        if step % 100 == 0:
            print(loss.item())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...devices import device_argument
from ...edits import Edit
from ...findings import MEDIUM, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from ...values import ACCEL, DEVICE, HOST, SCHEDULER, TENSOR, UNKNOWN
from .device_tensors import is_device_tensor, may_be_read
from .running_sums import edits_of_sums
from .turns import in_each_turn

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA503", "host-sync", severity=WARNING, effort=MEDIUM)

# Methods that tensors alone have, and that fetch.
_METHODS = frozenset({"item", "tolist", "numpy", "cpu"})
# Builtins that look at the value of a tensor.
_BUILTINS = frozenset("bool float format int print range repr round str".split())
_EXTREMES = frozenset({"max", "min"})  # of several values: each is compared
_LOGGING = frozenset(
    "add_histogram add_image add_images add_scalar add_scalars critical debug error info log log_dict log_metric log_metrics log_scalar set_postfix warning".split()
)
_FETCHING = frozenset(
    {"torch.equal", "torch.allclose", "torch.multinomial", "torch.histc"}
    | {
        f"math.{name}"
        for name in ("ceil", "exp", "floor", "isfinite", "isinf", "isnan", "log", "sqrt")
    }
)


@RULE.whole
def host_sync(script: Script) -> Iterator[Finding]:
    if not (script.is_trained and (script.runs_accelerated or script.uses_accelerate)):
        return
    always = dict(in_each_turn(script))
    reads = [(node, said) for node in always for said in _reads(script, node)]
    sums = edits_of_sums(script, [node for node, _ in reads], always)
    for node, said in reads:
        edits: tuple[Edit, ...] = sums.get(node, ())
        yield RULE.at(script, node, f"{said}: the host waits in every step", *edits, safety=UNSAFE)


def _reads(script: Script, node: ast.AST) -> Iterator[str]:
    """What `node` fetches from the device, as the finding says it."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]) if (
            name in _METHODS
        ):
            if may_be_read(script, owner):
                yield f"`.{name}()` fetches from the device"
        case ast.Call(func=ast.Attribute(attr="to", value=owner)) if _goes_to_the_host(
            script, node
        ):
            if may_be_read(script, owner):
                yield "`.to` of the host fetches from the device"
        case ast.Slice(lower=lower, upper=upper):
            if any(edge and is_device_tensor(script, edge) for edge in (lower, upper)):
                yield "a bound that is a tensor is fetched from the device"
        case ast.comprehension(ifs=tests):
            if any(_asks(script, test) for test in tests):
                yield "a condition on a tensor fetches it from the device"
        case ast.BoolOp(values=values) if not _is_asked(script, node):
            if any(_asks(script, value) for value in values[:-1]):
                yield "`and` and `or` of a tensor fetch it from the device"
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            if is_device_tensor(script, left) or is_device_tensor(script, right):
                yield "`in` compares a tensor on the host"
        case ast.Call():
            yield from _of_call(script, node)
        case ast.FormattedValue(value=value) if is_device_tensor(script, value):
            yield "formatting a tensor fetches it from the device"
        case ast.BinOp(left=left, op=ast.Mod(), right=right) if _is_text(left):
            shown = right.elts if isinstance(right, ast.Tuple) else [right]
            if any(is_device_tensor(script, value) for value in _each(shown)):
                yield "formatting a tensor fetches it from the device"
        case (
            ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test)
        ):
            if _asks(script, test):
                yield "a condition on a tensor fetches it from the device"


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    """`x.to("cpu")`, `x.to(torch.device("cpu"))`."""
    device = device_argument(call)
    value = script.value(device) if device is not None else UNKNOWN
    return value.has(DEVICE) and value.has(HOST)


def _is_asked(script: Script, node: ast.AST) -> bool:
    """Whether `node` is the condition of a statement, or part of one: that is judged as a whole."""
    parent = script.parent(node)
    if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        return _is_asked(script, parent) or isinstance(parent, ast.BoolOp)
    return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node


def _is_text(node: ast.expr) -> bool:
    """`"%s"`, `"%10s" * 4 + "%8.3f"`."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _each(nodes: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """`nodes`, those below a star included."""
    for node in nodes:
        yield node.value if isinstance(node, ast.Starred) else node


def _asks(script: Script, test: ast.expr) -> bool:
    """Whether the truth of `test` is that of a tensor."""
    if isinstance(test, ast.BoolOp):
        return any(_asks(script, value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks(script, test.operand)
    if isinstance(test, ast.Compare):
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in test.ops):
            return False
        return any(is_device_tensor(script, side) for side in (test.left, *test.comparators))
    return is_device_tensor(script, test)


def _of_call(script: Script, call: ast.Call) -> Iterator[str]:
    func = call.func
    scope = script.index.scope(call)
    dotted = script.dotted(func, scope)
    if dotted == "torch.nn.utils.clip_grad_norm_":
        given = keyword(call, "error_if_nonfinite")
        if isinstance(given, ast.Constant) and given.value is True:
            yield "`error_if_nonfinite` fetches the norm from the device"
    elif dotted in _FETCHING:
        read = may_be_read if dotted.startswith("torch.") else is_device_tensor
        if any(read(script, argument) for argument in call.args):
            yield f"`{dotted}` fetches from the device"
    elif isinstance(func, ast.Name) and scope.find(func.id) is None:
        looked_at = func.id in _BUILTINS or (func.id in _EXTREMES and len(call.args) > 1)
        if looked_at and any(is_device_tensor(script, argument) for argument in _each(call.args)):
            yield f"`{func.id}` of a tensor fetches it from the device"
    elif isinstance(func, ast.Attribute):
        if func.attr == "format" and isinstance(func.value, ast.Constant):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "formatting a tensor fetches it from the device"
        elif func.attr in _LOGGING and not (dotted or "").startswith("torch."):  # torch.log
            own = script.training.local_method(func, scope) is not None
            if not own and any(_shows(script, a) for a in _given(call)):
                yield "logging a tensor fetches it from the device"
        elif func.attr == "step" and script.value(func.value, scope).has(SCHEDULER):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "a scheduler compares the figure that it is given on the host"


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments, and the values of dicts among them."""
    for argument in _each((*call.args, *(k.value for k in call.keywords))):
        if isinstance(argument, ast.Dict):
            yield from argument.values
        elif isinstance(argument, ast.Call) and getattr(argument.func, "id", "") == "dict":
            yield from (k.value for k in argument.keywords)
        else:
            yield argument


def _shows(script: Script, node: ast.expr) -> bool:
    """Whether `node` is a tensor of the device, or a dict that holds one."""
    if is_device_tensor(script, node):
        return True
    fields = script.value(node).fields if isinstance(node, ast.Name) else None
    return any(field.kinds == {TENSOR, ACCEL} for field in (fields or {}).values())
