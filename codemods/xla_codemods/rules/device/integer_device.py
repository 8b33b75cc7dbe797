"""An integer as a device means a CUDA device.

## What it reports

Integers that are used as devices: `.to(0)`, `.to(rank)`, `device=gpu`.

## Why it matters on XLA

An XLA device is not a number, so `.to(0)` and `.to(rank)` fail.

## What to do

Fix: safe, or none.

Pass the number to `xla.xla_device`. It selects one of several CUDA devices, and has no effect if
a process drives one XLA device.

## Example

```diff
 import torch
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def run(model, gpu):
     rank = dist.get_rank()
-    model = model.to(rank)
+    model = model.to(xla.xla_device(rank))
-    x = torch.zeros(2, device=gpu).to(0)
+    x = torch.zeros(2, device=xla.xla_device(gpu)).to(xla.xla_device())
-    y = torch.ones(2, device=x.get_device())
+    y = torch.ones(2, device=x.device)
-    return model(x + y), torch.device(rank)
+    return model(x + y), xla.xla_device(rank)
```

A name that stands for a number or for the host:

```diff
 import torch
+from xla_migrate import runtime as xla

 def run(model, rank, gpu, args):
-    device = rank if torch.cuda.is_available() else "cpu"
+    device = str(xla.xla_device(rank))
-    dev = gpu if args.use_gpu else "cpu"
+    dev = xla.xla_device(gpu) if args.use_gpu else "cpu"
     return model.to(device), model.to(dev)
```

A function of the project that moves tensors to its parameter receives a device:

```diff
 import torch
+from xla_migrate import runtime as xla

 def accuracy(model, x, device):
     return model(x.to(device)).mean()

 def run(model, x, rank):
-    return accuracy(model, x, device=rank)
+    return accuracy(model, x, device=xla.xla_device(rank))
```

If the function also uses the number for something else, the conversion is placed where a tensor
is moved. The same applies to attributes, options, dictionaries and arguments of processes that
other modules may start:

```diff
 import torch
-import torch.multiprocessing as mp
+from xla_migrate import runtime as xla

 def work(place, size):
     print("process", place, "of", size)
-    return torch.nn.Linear(2, 2).to(place)
+    return torch.nn.Linear(2, 2).to(xla.xla_device(place))

-mp.spawn(work, args=(2,), nprocs=2)
+xla.launch(work, args=(2,), nprocs=2)
```

To pipelines of transformers, a negative number is the CPU:

```diff
 import torch
 from transformers import pipeline
+from xla_migrate import runtime as xla

-gpu = 0 if torch.cuda.is_available() else -1
-classify = pipeline("text-classification", device=gpu)
+gpu = 0 if xla.is_available() else -1
+classify = pipeline("text-classification", device=xla.xla_device(gpu) if gpu >= 0 else -1)
```

A number that is passed to another library is reported without a fix:

```python
import torch
import whisper
from xla_migrate import runtime as xla

model = whisper.load_model("base", device=0)  # XLA106
head = torch.nn.Linear(2, 2).to(xla.xla_device())
```

Data types, devices and other methods named `to` are not reported:

```python
import torch

def convert(x, dtype, device, money, rank):
    return x.to(dtype), x.to(device), money.to("EUR"), print(rank, file=rank)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from ...analysis.devices.availability import asks_availability
from ...analysis.devices.given.made_by_name import may_be_none
from ...analysis.devices.non_device_calls import NO_DEVICES
from ...analysis.devices.numbers import Numbers
from ...analysis.devices.specs import (
    Spec,
    device_argument,
    is_host,
    is_index_of_tensor,
    leaves,
    named_like_a_device,
)
from ...analysis.devices.uses import is_calculated_with, makes_tensors
from ...analysis.inference.library_types import RUNTIME
from ...analysis.inference.values import DATASET, DTYPE, MODULE, NUMBER, TENSOR
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, name_of, unparsed
from ...edits import Replace
from ...finding import WARNING, Finding
from ...flow.closure import all_ends
from ...flow.conditions import is_excluded
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA106", "integer-device", of_what_runs=True)

_MESSAGE = (
    "PyTorch treats a number as a CUDA device, which fails on an XLA host: use `xla.xla_device`"
)

_OURS = f"{RUNTIME}.xla_device"
_CURRENT = "torch.cuda.current_device"
_NAMED = (ast.Name, ast.Attribute, ast.Constant)
_COUNTED = (*_NAMED, ast.BinOp, ast.Subscript)  # `rank % count`, `args.device_ids[0]`
_OF_OTHERS = "the number of a CUDA device is passed to a function from another package, which fails on an XLA host if it uses the number as a device: pass `xla.xla_device()`"
_NUMERIC = Pattern(r"\b(?:int|Number|Integral|object)\b")
# Libraries whose devices are microphones, cameras, or their own affair.
_OTHER_DEVICES = frozenset("cuml evdev lightgbm pyaudio serial sounddevice usb xgboost".split())


@RULE.method("to", "to_empty")
def moved(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    index = device_argument(call)
    if index is None or script.device_literals.is_chosen(index) or not script.cached(_brings_torch):
        return
    found = list(_numbered(script, index)) or list(_followed(script, index))
    if found:
        owner = call.func.value
        kinds = script.value(owner, scope).kinds
        has_its_own = DATASET in kinds or script.defines(owner, call.func.attr)
        has_its_own = has_its_own or script.is_neither_tensor_nor_module(owner)
        if kinds & {MODULE, TENSOR} or not has_its_own:
            yield from found


@RULE.call("torch.device")
def torch_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) != 1 or call.keywords or _is_said_to_be_another(script, call.args[0]):
        return
    if script.devices.is_index(call.args[0]):
        text, holes = script.devices.device(_spec(call.args[0]))
        yield RULE.finding(script, call, _MESSAGE, Replace(call, text, holes))


def _is_said_to_be_another(script: Script, node: ast.expr) -> bool:
    """True if `node` stands behind `if isinstance(node, str):` or `if torch.is_tensor(node):`, and is no number there."""
    text = ast.unparse(node)

    def known(part: ast.expr) -> bool | None:
        match part:
            case ast.Call(func=func, args=[about]) if ast.unparse(about) == text:
                return False if name_of(func) == "is_tensor" else None
            case ast.Call(func=ast.Name(id="isinstance"), args=[about, types]):
                is_type = ast.unparse(about) == text and not _NUMERIC.search(ast.unparse(types))
                return False if is_type else None
        return None

    return is_excluded(script, node, known)


@RULE.node(
    ast.keyword,
    named=("device",),
)
def passed(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`device=rank`."""
    call = script.parent(argument)
    if not isinstance(call, ast.Call):
        return
    dotted = script.dotted(call.func, scope)
    value = argument.value
    if dotted == "transformers.pipeline":
        yield from _of_pipeline(script, value)
    elif makes_tensors(call, scope):
        is_none = isinstance(value, ast.Name) and may_be_none(script, value)
        found = [] if is_none else list(_numbered(script, value))
        yield from found or _followed(script, value)
    elif not (dotted or "").startswith("torch."):
        yield from _given_to_others(script, call, value, dotted)


def _given_to_others(
    script: Script, call: ast.Call, index: ast.expr, dotted: str | None
) -> Iterator[Finding]:
    """`whisper.load_model("base", device=0)`: a library of whose devices nothing is known."""
    if (
        not script.accelerated
        or not script.cached(_brings_torch)
        or script.value(call.func).definition
    ):
        return
    if dotted is None and not isinstance(call.func, ast.Attribute):
        return  # a function that the file is given
    if script.cached(Numbers).is_of_the_project(call):
        return
    if dotted is not None and (dotted.partition(".")[0] in NO_DEVICES | _OTHER_DEVICES):
        return
    numbers = index.elts if isinstance(index, (ast.List, ast.Tuple)) else [index]
    if any(isinstance(number, ast.UnaryOp) for number in numbers):
        return  # -1 is the host, or a choice of the library's
    if numbers and all(map(script.devices.is_index, numbers)):
        yield RULE.finding(script, index, _OF_OTHERS, severity=WARNING)


@RULE.file
def handed(script: Script) -> Iterator[Finding]:
    """`accuracy(model, x, rank)`, of a function of the project that moves to what it is given."""
    if not script.cached(_brings_torch):
        return
    for index in script.cached(Numbers).made_devices():
        text, holes = script.devices.device(_spec(index))
        yield RULE.finding(script, index, _MESSAGE, Replace(index, text, holes))


def _followed(script: Script, given: ast.expr) -> Iterator[Finding]:
    """A device that is a number somewhere: it becomes a device where something is moved to it."""
    if not isinstance(given, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        return
    value = script.value(given)
    if value.kinds & {DTYPE, TENSOR} or not script.cached(_brings_torch):
        return
    if isinstance(given, ast.Call) and script.dotted(given.func) is not None:
        return
    numbers = script.cached(Numbers)
    if numbers.is_number(given) and not _is_said_to_be_another(script, given):
        text = f"{script.xla}.xla_device({{0}})"
        if isinstance(given, ast.Name) and may_be_none(script, given):
            text = f"None if {given.id} is None else {text}"
        yield RULE.finding(script, given, _MESSAGE, Replace(given, text, (given,)))


@RULE.node(ast.Assign)
def mixed(script: Script, assign: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`device = rank` in one branch, `device = "cpu"` in the other."""
    (target, *more) = assign.targets
    if more or not named_like_a_device(target) or script.device_literals.is_chosen(assign.value):
        return
    if is_calculated_with(script.index, target):
        return  # `if device < 0:` fails for a device; it becomes one where something is moved
    parts = leaves(assign.value)
    indices = [
        p
        for p in parts
        if (isinstance(p, _COUNTED) and script.devices.is_index(p))
        or _is_of_tensor(script, p, scope)
    ]
    others = [part for value in _given(script, target, scope) for part in leaves(value)]
    on_host = any(map(is_host, others))
    if any(is_literal(part, None) for part in others):
        on_host = on_host or all(_is_of_tensor(script, index, scope) for index in indices)
    if indices and on_host:  # without a device, for a tensor of the CPU, is the host, too
        for index in indices:
            if _is_of_tensor(script, index, scope):
                yield _of_tensor(script, index)
                continue
            text, holes = script.devices.device(_spec(index))
            yield RULE.finding(script, index, _MESSAGE, Replace(index, text, holes))


def _given(script: Script, target: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    """What `target` is assigned anywhere."""
    home = None if isinstance(target, ast.Attribute) else scope
    for assign, _ in script.index.assignments(unparsed(target), home):
        yield assign.value


def _always_names_a_device(script: Script, index: ast.expr) -> bool:
    """Return True if `index` is `0` or `"cpu"` and the like, and never transformers' `-1`."""

    def names_one(node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and (
            isinstance(node.value, str) or (type(node.value) is int and node.value >= 0)
        )

    return all_ends([index], partial(sources, script), names_one)


def _of_pipeline(script: Script, index: ast.expr) -> Iterator[Finding]:
    """What `pipeline(device=...)` is given: to transformers, -1 is the CPU."""
    match index:
        case ast.IfExp(test=test, body=ast.Constant(value=int(number)), orelse=otherwise) if (
            asks_availability(script, test) and ast.unparse(otherwise) == "-1"
        ):
            text, holes = script.devices.device(Spec(index, number))
            yield RULE.finding(script, index, _MESSAGE, Replace(index, text, holes))
        case ast.Constant():
            yield from _numbered(script, index)
        case ast.IfExp(body=ast.Call(func=func)) if script.dotted(func) == _OURS:
            pass  # written by the next case
        case ast.Name() | ast.Attribute() if _always_names_a_device(script, index):
            edit = Replace(index, f"{script.xla}.xla_device({{0}})", (index,))
            yield RULE.finding(script, index, _MESSAGE, edit)
        case ast.Name() | ast.Attribute() if script.value(index).kinds == {NUMBER}:
            text = f"{script.xla}.xla_device({{0}}) if {unparsed(index)} >= 0 else -1"
            yield RULE.finding(script, index, _MESSAGE, Replace(index, text, (index,)))
        case _ if script.devices.is_index(index):
            message = f"{_MESSAGE} for a number that is not negative"
            yield RULE.finding(script, index, message, severity=WARNING)


def _numbered(script: Script, index: ast.expr) -> Iterator[Finding]:
    is_current = isinstance(index, ast.Call) and script.dotted(index.func) == _CURRENT
    if is_current or _is_said_to_be_another(script, index):
        return  # XLA102 makes a device of the current one
    if _is_of_tensor(script, index, script.index.scope(index)):
        yield _of_tensor(script, index)
    elif script.devices.is_index(index) and not script.cached(Numbers).is_given_as_device(index):
        text, holes = script.devices.device(_spec(index))
        yield RULE.finding(script, index, _MESSAGE, Replace(index, text, holes))


def _is_of_tensor(script: Script, index: ast.expr, scope: Scope) -> bool:
    """Return True if `index` is the number of a tensor's device, and not the result of a user's method of that name."""
    match index:
        case ast.Call(func=ast.Attribute(value=owner, attr="get_device"), args=[], keywords=[]):
            if script.value(owner, scope).has(TENSOR):
                return True
            if not script.is_method_of_a_tensor(owner, "get_device"):
                return False
    return is_index_of_tensor(index, scope)


def _of_tensor(script: Script, index: ast.expr) -> Finding:
    """`x.get_device()`, `x.device.index`."""
    owner = index.func if isinstance(index, ast.Call) else index
    assert isinstance(owner, ast.Attribute)
    text = "{0}.device" if isinstance(index, ast.Call) else "{0}"
    edit = Replace(index, text, (owner.value,))
    return RULE.finding(script, index, _MESSAGE, edit)


def _spec(index: ast.expr) -> Spec:
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        return Spec(index, index.value)
    return Spec(index, index)


def _brings_torch(script: Script) -> bool:
    """True if the file imports torch, so that `.to(0)` can be a tensor's."""
    return any(
        (script.module.dotted(name) or "").partition(".")[0] in {"torch", "transformers", "timm"}
        for name in script.module.bindings
    )
