"""`torch.cuda.is_available()` is False on an XLA host.

## What it reports

Queries for a CUDA device: `is_available`, `device_count`, `current_device`, `get_device_name` and
`torch.version.cuda`.

## Why it matters on XLA

Nothing fails. The script chooses the CPU, counts no devices or prefers float16.
`torch.accelerator` gives the same answers (fact 1.4).

## What to do

Fix: safe or unsafe.

Use the runtime's functions, which describe the accelerator of the host.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-use_cuda = torch.cuda.is_available()
+use_cuda = xla.is_available()
-if torch.cuda.device_count() > 1:
+if xla.device_count() > 1:
-    print("Let's use", torch.cuda.device_count(), torch.cuda.get_device_name(0))
+    print("Let's use", xla.device_count(), xla.device_name())
```

A count that is only compared with zero is a test for an accelerator. If the code needs a number,
the index of the device is used:

```diff
 import torch
+from xla_migrate import runtime as xla

 def place(x):
-    if torch.cuda.device_count() == 0:
+    if not xla.is_available():
         return x
-    print(f"device {torch.cuda.current_device()}")
+    print(f"device {xla.xla_device().index or 0}")
-    return x.to(torch.cuda.current_device())
+    return x.to(xla.xla_device())
```

Lightning's Trainer chooses the number of XLA devices itself:

```diff
 import lightning as L
 import torch
 from xla_migrate import runtime as xla

 xla.patch_lightning()
-trainer = L.Trainer(devices=torch.cuda.device_count(), strategy="ddp")
+trainer = L.Trainer(devices="auto", strategy="ddp")
```

A query that chooses between code for CUDA kernels and other code stays. False is the right answer
on XLA:

```python
import torch

if torch.cuda.is_available():
    from flash_attn import flash_attn_func as attention
else:
    from torch.nn.functional import scaled_dot_product_attention as attention
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.devices.availability import (
    COMPARED,
    asks_availability,
    asks_whether_built,
    chooses_tests,
    is_one_of_many,
)
from ...analysis.devices.checks.on_xla import is_guarded
from ...analysis.devices.cuda_only.flags_of_libraries import is_without_torch, library_given
from ...analysis.devices.cuda_only.kernels import chooses_kernels
from ...analysis.devices.late_defaults import late_default
from ...analysis.devices.literal_context import is_for_an_engine
from ...analysis.devices.specs import INDEX_OF_CURRENT, device_argument, last_name
from ...analysis.frameworks.lightning import counts_for_a_trainer
from ...analysis.nodes import walk
from ...analysis.projects.passed_arguments import is_default_of_an_option
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import unparsed
from ...analysis.training.ranks.guards import guard, mentions_rank, rank_names
from ...analysis.training.tensors.chosen_half import (
    bfloat16_instead,
    half_chosen_by,
    sets_half_flag,
)
from ...analysis.training.tensors.half_on_xla import chosen_for_cuda_alone
from ...edits import Replace, remove
from ...finding import UNSAFE, WARNING, Finding
from ...flow.closure import reach
from ...flow.conditions import whole
from ...flow.edges import uses
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA102", "device-query", of_what_runs=True, opens=True)

_AVAILABLE = (
    "torch.cuda.is_available",
    "torch.cuda.is_initialized",
    "torch.cuda._is_compiled",
    "torch.backends.cuda.is_built",
    "torch.accelerator.is_available",
    "transformers.is_torch_cuda_available",
    "transformers.utils.is_torch_cuda_available",
    "transformers.utils.import_utils.is_torch_cuda_available",
    "accelerate.utils.is_cuda_available",
    "accelerate.utils.imports.is_cuda_available",
)
_FLAGS = ("torch.has_cuda", "torch.cuda._initialized")
_INITIALIZED = frozenset({"torch.cuda.is_initialized", "torch.cuda._initialized"})
_COUNTS = (
    "torch.cuda.device_count",
    "torch._C._cuda_getDeviceCount",
    "torch.accelerator.device_count",
)
_INDICES = (
    "torch.cuda.current_device",
    "torch.accelerator.current_device_index",
    "torch.accelerator.current_device_idx",
)
_BUILT = "`torch.version.cuda` describes the build of PyTorch and may be None on an XLA host: to test for an accelerator, use `xla.is_available()`"
_HALF = (
    "is False on an XLA host, so float16 is not chosen there: for mixed precision choose bfloat16 with"
    " `xla.is_available()`"
)
_HALF_THEN = "after the fix of XLA208 float16 is not chosen on XLA: for mixed precision choose bfloat16 there"


@RULE.file
def chosen(script: Script) -> Iterator[Finding]:
    """`if use_cuda: model.half()`, which XLA208 makes a test for CUDA."""
    if script.accelerated:
        for test, edits in chosen_for_cuda_alone(script):
            if not isinstance(test, ast.Compare):
                yield RULE.finding(
                    script, test, _HALF_THEN, *edits, safety=UNSAFE, severity=WARNING
                )


@RULE.call(*_AVAILABLE)
def is_available(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if is_for_an_engine(script, call) or _is_for_a_generator(script, call):
        script.settled.add(
            call.func
        )  # which knows CUDA's devices, and on an XLA host takes the other
        return
    if library := library_given(script, call):
        script.settled.add(call.func)
        if not is_without_torch(library):
            message = (
                f"`{_written(call.func)}()` is False on an XLA host, and `{library}` may support only CUDA: check"
                " whether its tensors need to move to `xla.xla_device()`"
            )
            yield RULE.finding(script, call, message, severity=WARNING)
        return
    if script.device_literals.is_inside(call):
        return
    if chooses_kernels(script, call) or chooses_tests(script, call):
        script.settled.add(call.func)
        return
    message = f"`{_written(call.func)}()` {_false(_function(script, call.func))}"
    if is_one_of_many(script, call):
        yield RULE.finding(script, call, message, severity=WARNING)
        return
    edit = Replace(call, f"{script.xla}.{_function(script, call.func)}()")
    if half := half_chosen_by(script, call):
        edits = bfloat16_instead(script, half)
        message = f"`{_written(call.func)}()` {_HALF}"
        yield RULE.finding(script, call, message, edit, *edits, safety=UNSAFE, severity=WARNING)
    elif sets_half_flag(script, call):
        message = f"`{_written(call.func)}()` {_HALF}"
        yield RULE.finding(script, call, message, severity=WARNING)
    else:
        yield RULE.finding(script, call, message, edit)


def _is_for_a_generator(script: Script, call: ast.Call) -> bool:
    """Return True for `torch.Generator("cuda" if torch.cuda.is_available() else "cpu")`."""
    around = (node for node in script.ancestors(call) if isinstance(node, ast.Call))
    return any(script.dotted(node.func) == "torch.Generator" for node in around)


@RULE.reference(*_AVAILABLE, *_FLAGS)
def is_available_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """The function passed on, or (as a flag) tested without being called."""
    if chooses_kernels(script, node) or not isinstance(getattr(node, "ctx", None), ast.Load):
        script.settled.add(node)
        return
    called = "()" if script.dotted(node, scope) in _FLAGS else ""
    edit = Replace(node, f"{script.xla}.{_function(script, node)}{called}")
    yield RULE.finding(script, node, f"`{_written(node)}` {_false(_function(script, node))}", edit)


def _function(script: Script, node: ast.expr) -> str:
    """Return the name of the runtime's function in place of `node`."""
    return "is_initialized" if script.dotted(node) in _INITIALIZED else "is_available"


def _false(instead: str) -> str:
    return f"is False on an XLA host: use `xla.{instead}()`"


@RULE.node(ast.Call, named=("hasattr",))
def has_attribute(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`hasattr(torch._C, "_cuda_getDeviceCount")`."""
    if asks_whether_built(script, call) and not script.device_literals.is_inside(call):
        if not chooses_kernels(script, call):
            edit = Replace(call, f"{script.xla}.is_available()")
            yield RULE.finding(script, call, f"`{_written(call)}` {_false('is_available')}", edit)


@RULE.reference("torch.version.cuda")
def built_for_cuda(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`"cuda" if torch.version.cuda else "cpu"`: the build of torch, not the devices of the machine."""
    test, answer = node, True
    match script.parent(node):
        case (
            ast.Compare(
                left=left,
                ops=[ast.IsNot() | ast.Is() | ast.NotEq() | ast.Eq() as op],
                comparators=[ast.Constant(value=None)],
            ) as compare
        ) if left is node:
            test, answer = compare, isinstance(op, (ast.IsNot, ast.NotEq))
        case ast.Call(func=ast.Name(id="bool")) as call:
            test = call
    choice = whole(script, test)
    holder = script.parent(choice)
    if not isinstance(holder, (ast.If, ast.IfExp)) or holder.test is not choice:
        if test is not node and isinstance(holder, (ast.Assign, ast.AnnAssign, ast.Return)):
            if not chooses_kernels(script, test) and not _tells_the_build(script, holder):
                yield RULE.finding(script, node, _BUILT, severity=WARNING)
    elif _names_a_device(holder):
        message = "`torch.version.cuda` is None in a PyTorch build for XLA hosts, so the script chooses the CPU: use `xla.is_available()`"
        text = f"{'' if answer else 'not '}{script.xla}.is_available()"
        yield RULE.finding(script, node, message, Replace(test, text))


def _tells_the_build(script: Script, holder: ast.stmt) -> bool:
    """True if `holder` answers by a name that says so: `built_with_cuda = ...`, `def compiled_with_cuda(): return ...`."""
    names = [getattr(script.function(holder), "name", "") if isinstance(holder, ast.Return) else ""]
    if isinstance(holder, ast.Assign):
        names = [last_name(target) or "" for target in holder.targets]
    return all(_OF_THE_BUILD.search(name) is not None for name in names)


_OF_THE_BUILD = Pattern(r"buil[dt]|compiled|version", re.IGNORECASE)


def _names_a_device(holder: ast.If | ast.IfExp) -> bool:
    """Return True if a branch is a device of CUDA, sets one, or moves there."""
    branches = [holder.body, holder.orelse]
    parts = [part for b in branches for part in (b if isinstance(b, list) else [b])]
    values = [
        getattr(part, "value", None) if isinstance(part, ast.stmt) else part for part in parts
    ]
    nodes = [node for value in values if isinstance(value, ast.AST) for node in walk(value)]
    texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    moves = any(isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "cuda" for n in nodes)
    return moves or any(text.partition(":")[0] == "cuda" for text in texts)


@RULE.call("torch.cuda.is_availble", "torch.cuda.is_avaliable", "torch.cuda.is_avaialble")
def misspelt(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"`{_written(call.func)}` does not exist in torch: use `is_available`"
    yield RULE.finding(script, call, message)


@RULE.call(*_COUNTS)
def device_count(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.device_literals.is_inside(call):
        return
    if chooses_kernels(script, call) or is_guarded(script, call):
        script.settled.add(call.func)
        return
    message = f"`{_written(call.func)}()` is 0 on an XLA host: use `xla.device_count()`"
    test, answer = _asked_whether_any(script, call)
    if is_one_of_many(script, call):
        yield RULE.finding(script, call, message, severity=WARNING)
    elif counts_for_a_trainer(script, call):
        message = f'`{_written(call.func)}()` is 0 on an XLA host: use "auto", with which Lightning chooses the number'
        yield RULE.finding(script, call, message, Replace(call, '"auto"'))
    elif test is None:
        yield RULE.finding(script, call, message, Replace(call, f"{script.xla}.device_count()"))
    elif (edit := _without(script, test, answer)) is not None:
        yield RULE.finding(script, call, message, edit)
    else:
        text = f"{'' if answer else 'not '}{script.xla}.is_available()"
        yield RULE.finding(script, call, message, Replace(test, text))


def _without(script: Script, test: ast.expr, answer: bool) -> Replace | None:
    """Return the edit that removes `test` from a condition that also tests for CUDA: the result is the same."""
    around = script.parent(test)
    if not isinstance(around, ast.BoolOp) or isinstance(around.op, ast.And) is not answer:
        return None
    others = [value for value in around.values if value is not test]
    tests = others if answer else [v.operand for v in others if isinstance(v, ast.UnaryOp)]
    if not any(isinstance(each, ast.Call) and asks_availability(script, each) for each in tests):
        return None
    joint = " and " if answer else " or "
    text = joint.join(f"{{{place}}}" for place in range(len(others)))
    return Replace(around, text, tuple(others))


@RULE.reference(*_COUNTS)
def device_count_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    around = script.parent(node)
    if isinstance(around, ast.Call) and getattr(around.func, "id", "") in {"getattr", "hasattr"}:
        # PyTorch's function itself: `hasattr(torch.cuda.device_count, "cache_clear")`
        script.settled.add(node)
        return
    message = f"`{_written(node)}()` is 0 on an XLA host: use `xla.device_count`"
    yield RULE.finding(script, node, message, Replace(node, f"{script.xla}.device_count"))


def _compares_ranks(script: Script, test: ast.Compare, index: ast.Call) -> bool:
    """`torch.cuda.current_device() == 0`, `== rank`: the device's index stands for the process."""
    others = [node for node in (test.left, *test.comparators) if node is not index]
    ranks = rank_names(script)
    return guard(test, {index}) is not None or any(mentions_rank(node, ranks) for node in others)


@RULE.call(*_INDICES)
def current_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    parent = script.parent(call)
    if isinstance(parent, ast.Call) and _stays(script, parent):
        script.settled.add(call.func)
        return
    if isinstance(parent, ast.Compare) and _compares_ranks(script, parent, call):
        message = "the index of each process's XLA device is 0: use `xla.local_rank()` to tell processes apart"
        yield RULE.finding(script, call, message, Replace(call, f"{script.xla}.local_rank()"))
        return
    device = f"{script.xla}.xla_device()"
    is_number = _wants_number(script, call)
    counted = None if is_number else _counted_with(script, call)
    if counted is not None:
        number = unparsed(script.parents[counted])
        message = f"`{_written(call.func)}()` fails on an XLA host, and `{number}` needs a number: use `xla.xla_device()` for the device, and `xla.local_rank()` for the number"
        yield RULE.finding(script, call, message)
        return
    text = f"{device}.index or 0" if is_number else device
    if is_default_of_an_option(script, call):
        text = f"{script.xla}.device_type()"  # as what a user writes there: a text
    message = f"`{_written(call.func)}()` fails on an XLA host: use `{text}`"
    edits = late_default(script, call, text) or (Replace(call, text),)
    yield RULE.finding(script, call, message, *edits)


@RULE.reference("torch.cuda.current_device")
def current_device_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    message = "`torch.cuda.current_device` fails on an XLA host: use `xla.xla_device`"
    yield RULE.finding(script, node, message, Replace(node, f"{script.xla}.xla_device"))


@RULE.call("torch.cuda.get_device_name")
def device_name(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"{script.xla}.device_name({text})", holes)
    yield RULE.finding(
        script, call, "`get_device_name` fails on an XLA host: use `xla.device_name`", edit
    )


@RULE.reference("torch.cuda.get_device_name")
def device_name_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    edit = Replace(node, f"{script.xla}.device_name")
    yield RULE.finding(
        script, node, "`get_device_name` fails on an XLA host: use `xla.device_name`", edit
    )


@RULE.call("torch.cuda.init", "torch.cuda._lazy_init")
def init(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"`{_written(call.func)}()` fails on an XLA host, where the runtime starts the device: remove the call"
    alone = script.is_all_of_statement(call)
    edit = remove(script.statement(call)) if alone else Replace(call, "None")
    yield RULE.finding(script, call, message, edit)


def _asked_whether_any(script: Script, call: ast.Call) -> tuple[ast.expr | None, bool]:
    """Return the expression that only tests that a count is not zero, and the result that means yes."""
    parent = script.parent(call)
    condition = whole(script, call)
    match parent:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int(number))]):
            if left is call and (answer := COMPARED.get((type(op), number))) is not None:
                return parent, answer
        case ast.UnaryOp(op=ast.Not()):
            return call, True
        case ast.Call(func=ast.Name(id="bool")):
            return parent, True
        case _ if getattr(script.parent(condition), "test", None) is condition:
            return call, True
    return None, True


def _wants_number(script: Script, call: ast.Call) -> bool:
    """Return True if the index is used in arithmetic, compared or printed, so that a device cannot replace it."""
    parent = script.parent(call)
    if isinstance(parent, (ast.BinOp, ast.Compare, ast.FormattedValue)):
        return True
    if isinstance(parent, ast.Subscript):
        return parent.slice is call
    if isinstance(parent, ast.keyword):  # `add_argument("--gpu", type=int, default=...)`
        around = script.parent(parent)
        if isinstance(around, ast.Call) and script.dotted(around.func) == "torch.device":
            return parent.arg == "index"
        return parent.arg == "default" and around is not None and "type=int" in unparsed(around)
    if isinstance(parent, ast.Dict):
        return call in parent.keys
    if isinstance(parent, (ast.List, ast.Set)):
        return not _is_a_list_of_devices(script, parent)
    if isinstance(parent, ast.Assign):
        return any(INDEX_OF_CURRENT.search(last_name(target) or "") for target in parent.targets)
    if isinstance(parent, ast.Call):
        if script.dotted(parent.func) == "torch.device":
            return call in parent.args[1:]
        name = getattr(parent.func, "id", getattr(parent.func, "attr", ""))
        return name in {"print", "int", "str", "range", "format", "info", "debug", "log", "warning"}
    return False


def _counted_with(script: Script, call: ast.Call) -> ast.expr | None:
    """Return where the index is a number by another name: `memory[device]`, of `device = torch.cuda.current_device()`."""
    start: list[ast.expr] = [call]
    for use in reach(start, lambda node: uses(script, node)):
        match script.parent(use):
            case ast.Subscript(slice=index) if index is use and use is not call:
                return use
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Mod() | ast.FloorDiv()):
                return use
            case ast.Compare(left=left, comparators=[right]):
                other = right if left is use else left
                if isinstance(other, ast.Constant) and type(other.value) is int:
                    return use
    return None


def _is_a_list_of_devices(script: Script, node: ast.expr) -> bool:
    """True if what is in the list `node` is surely handed to a call for a device: `for d in devices: x.to(d)`."""
    match script.parent(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    if any(text.startswith(f"{name}[") for text in script.devices.used):
        return True
    loops: list[ast.For | ast.comprehension] = [loop for loop, _ in script.index.of(ast.For)]
    loops += [loop for loop, _ in script.index.of(ast.comprehension)]
    return any(
        isinstance(loop.iter, ast.Name)
        and loop.iter.id == name
        and ast.unparse(loop.target) in script.devices.used
        for loop in loops
    )


def _stays(script: Script, call: ast.Call) -> bool:
    """True if `call` is one of torch.cuda's that no rule replaces."""
    return (script.dotted(call.func) or "") in {
        "torch.cuda.get_device_properties",
        "torch.cuda.get_device_capability",
        "torch.cuda.utilization",
    }


def _written(node: ast.expr) -> str:
    return ast.unparse(node)
