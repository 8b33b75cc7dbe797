"""A test for a CUDA device or tensor is False on XLA.

## What it reports

Tests such as `device.type == "cuda"`, `x.is_cuda`, `"cuda" in str(device)` and `device in
("cuda", "cpu")`.

## Why it matters on XLA

Nothing fails. The script takes the branch without the accelerator.

## What to do

Fix: safe or unsafe.

Use `xla.is_accelerator`, which accepts a device, its name or a tensor.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(x, device):
-    if device.type == "cuda":
+    if xla.is_accelerator(device):
         x = x.to(device)
-    if x.is_cuda and "cuda" in str(device):
+    if xla.is_accelerator(x) and xla.is_accelerator(device):
         x = x * 2
-    return x if device != torch.device("cuda") else x.clone()
+    return x if not xla.is_accelerator(device) else x.clone()
```

A test for several kinds of devices includes the other accelerators:

```diff
 import torch
+from xla_migrate import runtime as xla

 def check(device):
-    assert device in ("cuda", "cpu")
+    assert (xla.is_accelerator(device) or device == "cpu")
-    if device.startswith("cuda"):
+    if xla.is_accelerator(device):
         print("fast")
-    return torch.device(device).type in ["cuda", "xpu"]
+    return xla.is_accelerator(xla.xla_device(device))
```

Tests of several devices at once:

```diff
 import torch
+from xla_migrate import runtime as xla

 def is_fast(x, y):
-    return "cuda" in (x.device.type, y.device.type)
+    return (xla.is_accelerator(x.device) or xla.is_accelerator(y.device))

 def move(x, device):
     x = x.to(device)
-    print("cuda" not in [device])
+    print(not xla.is_accelerator(device))
     return x
```

A comparison with one of several devices compares devices. An XLA process has one device, whatever
its number is:

```diff
 import torch
+from xla_migrate import runtime as xla

 def check(x, device, rank):
-    if device != f"cuda:{rank}":
+    if xla.xla_device(device) != xla.xla_device(rank):
         raise ValueError(device)
     return x.to(device)
```

Tests that tell a device with an index from one without still do:

```diff
 import torch
+from xla_migrate import runtime as xla

 def choose(model, device: str):
-    if device == "cuda":
+    if xla.is_accelerator(device) and ":" not in device:
         print("the default device")
-    if device.startswith("cuda:"):
+    if xla.is_accelerator(device) and ":" in device:
         print("device", device.split(":")[1])
     return model.to(device)
```

Tests that choose kernels for CUDA, or only add the number of the process to a name, are kept:

```python
import torch

def prepare(x, device, rank, attend):
    if device == "cuda":
        device = f"{device}:{rank}"
    return attend(x, device, use_triton=x.is_cuda)
```

A test that only chooses float16 is kept, so XLA computes in float32 as before. With `--unsafe` it
chooses bfloat16:

```diff
 import torch
+from xla_migrate import runtime as xla

 def pick(device: torch.device):
-    return torch.float16 if device.type == "cuda" else torch.float32
+    return torch.bfloat16 if xla.is_accelerator(device) else torch.float32
```

Tests for the host, and strings that are not devices, are not reported:

```python
import torch

def choose(device, backend):
    if device.type != "cpu" and backend == "cuda":
        return torch.version.cuda
```

## See also

XLA118 (tests of a device's text that cannot be rewritten)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.availability import OTHER_ACCELERATORS
from ...analysis.devices.checks.flags import is_name_for_cuda
from ...analysis.devices.checks.indices import index_test
from ...analysis.devices.checks.origins import is_renamed
from ...analysis.devices.cuda_only.flags_of_libraries import is_without_torch, library_given
from ...analysis.devices.cuda_only.kernels import chooses_kernels, is_among_kernels
from ...analysis.devices.owners import has_own_method
from ...analysis.frameworks.lightning_modules import is_lightnings
from ...analysis.inference.library_types import RUNTIME
from ...analysis.inference.values import (
    ARGUMENTS,
    CLASS,
    DEVICE,
    GIVEN,
    INSTANCE,
    MODULE,
    STRING,
    TENSOR,
)
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, text_of, texts_of
from ...analysis.training.tensors.chosen_half import (
    bfloat16_instead,
    half_chosen_by,
    sets_half_flag,
)
from ...analysis.training.tensors.half_on_xla import chosen_for_cuda_alone
from ...edits import Replace
from ...finding import UNSAFE, WARNING, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA107", "device-test", of_what_runs=True, opens=True)

_MESSAGE = "a test for CUDA is False on XLA: use `xla.is_accelerator`"
_UNKNOWN = (
    "a test for CUDA is False on XLA, and the tested value is not known: use `xla.is_accelerator`"
)
_HALF = (
    "this test for CUDA is False on XLA, so float16 is not chosen there: for mixed precision choose"
    " bfloat16 with `xla.is_accelerator`"
)
_HALF_THEN = (
    "after the fix of XLA208 this test is False on XLA, so float16 is not chosen there: for mixed precision"
    " choose bfloat16"
)


@RULE.file
def chosen(script: Script) -> Iterator[Finding]:
    """`half = device.type != "cpu"`, which XLA208 makes a test for CUDA."""
    if script.accelerated:
        for test, edits in chosen_for_cuda_alone(script):
            if isinstance(test, ast.Compare):
                yield RULE.finding(
                    script, test, _HALF_THEN, *edits, safety=UNSAFE, severity=WARNING
                )


@RULE.node(ast.Attribute, named=("is_cuda",))
def is_cuda(script: Script, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    if not isinstance(node.ctx, ast.Load):
        return
    parent = script.parent(node)
    if (isinstance(parent, ast.Call) and parent.func is node) or script.dotted(node, scope):
        return
    if _is_its_own(script, node.value, scope) or has_own_method(script, node.value, "is_cuda"):
        return
    if chooses_kernels(script, node) or _is_beside_xla(script, node):
        return
    if library := library_given(script, node):
        yield from _for_a_library(script, node, library)
        return
    yield _finding(script, node, f"{script.xla}.is_accelerator({{0}})", (node.value,))


def _for_a_library(script: Script, node: ast.expr, library: str) -> Iterator[Finding]:
    """The test decides for another library alone, which is right if that supports only CUDA."""
    if not is_without_torch(library):
        message = f"a test for CUDA is False on XLA, and `{library}` may support only CUDA: if it does not, use `xla.is_accelerator`"
        yield RULE.finding(script, node, message, severity=WARNING)


@RULE.node(ast.Attribute, named=("on_gpu",))
def on_gpu(script: Script, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    """`self.on_gpu` of a Lightning module or trainer."""
    owner = ast.unparse(node.value)
    is_trainer = owner.rpartition(".")[2] == "trainer"
    if isinstance(node.ctx, ast.Load) and (is_trainer or is_lightnings(script, node)):
        if (is_trainer or owner == "self") and not has_own_method(script, node.value, "on_gpu"):
            device = (
                "self.device" if is_lightnings(script, node) else f"{owner}.strategy.root_device"
            )
            message = (
                f"Lightning's `on_gpu` is False on XLA: use `{script.xla}.is_accelerator({device})`"
            )
            yield RULE.finding(script, node, message, severity=WARNING)


@RULE.node(ast.Compare)
def compared(script: Script, node: ast.Compare, scope: Scope) -> Iterator[Finding]:
    if not _speaks_of_cuda(script, node):
        return
    if script.device_literals.is_inside(node) or chooses_kernels(script, node):
        return
    if _is_beside_xla(script, node):
        return
    if library := library_given(script, node):
        yield from _for_a_library(script, node, library)
        return
    if len(node.ops) != 1:
        yield from _chained(script, node)
        return
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if isinstance(op, (ast.Eq, ast.NotEq)):
        if _says_cuda(script, left):
            left, right = right, left
        if _says_cuda(script, right):
            yield from _test(script, node, [left], isinstance(op, ast.NotEq), unknown=True)
        elif _is_numbered(script, left) or _is_numbered(script, right):
            yield from _numbered(script, node, left, right)
        elif _says_another(script, right) and script.devices.is_device(left):
            yield RULE.finding(
                script,
                node,
                "a test for one of several CUDA devices is False on XLA: test for the rank, or use `xla.is_accelerator`",
                severity=WARNING,
            )
    elif isinstance(op, (ast.In, ast.NotIn)):
        negated = isinstance(op, ast.NotIn)
        if isinstance(left, ast.Constant) and left.value in {"cuda", "cuda:"}:
            if isinstance(right, (ast.List, ast.Tuple, ast.Set)):
                yield from _test(script, node, right.elts, negated)
            elif (tensor := _whose_type(script, right)) is not None:
                no = "not " if negated else ""
                yield _finding(script, node, f"{no}{script.xla}.is_accelerator({{0}})", (tensor,))
            elif not isinstance(right, ast.Dict):
                yield from _test(script, node, [right], negated)
        elif isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            yield from _among(script, node, left, right.elts, negated)


def _is_numbered(script: Script, node: ast.expr) -> bool:
    """Return True for `f"cuda:{rank}"`."""
    spec = script.devices.spec(node)
    return spec is not None and isinstance(spec.ordinal, ast.expr)


def _numbered(
    script: Script, node: ast.Compare, left: ast.expr, right: ast.expr
) -> Iterator[Finding]:
    """`device != f"cuda:{rank}"`: a comparison of devices."""
    texts: list[str] = []
    holes: list[ast.expr] = []
    for side in (left, right):
        spec = script.devices.spec(side)
        text, inner = script.devices.device(spec) if spec else ("", ())
        if not text and script.devices.is_device(side):
            text, inner = f"{script.xla}.xla_device({{0}})", (side,)
        texts.append(text.replace("{0}", f"{{{len(holes)}}}"))
        holes += inner
    if all(texts):
        op = "!=" if isinstance(node.ops[0], ast.NotEq) else "=="
        edit = Replace(node, f" {op} ".join(texts), tuple(holes))
        yield RULE.finding(script, node, _MESSAGE, edit)


@RULE.method("startswith")
def starts_with(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if len(call.args) != 1 or chooses_kernels(script, call):
        return
    match call.args[0]:
        case ast.Constant(value="cuda" | "cuda:"):
            yield from _test(script, call, [call.func.value], False)
        case ast.Constant(value="torch.cuda" | "torch.cuda."):
            tensor = _whose_type(script, call.func.value)
            if tensor is not None:
                yield _finding(script, call, f"{script.xla}.is_accelerator({{0}})", (tensor,))
        case ast.Tuple(elts=elements) if _rest(script, elements) == []:
            yield from _test(script, call, [call.func.value], False)


def _test(
    script: Script,
    node: ast.expr,
    subjects: list[ast.expr],
    negated: bool,
    unknown: bool = False,
) -> Iterator[Finding]:
    """Yield the finding at `node`, which tests whether one of `subjects` is CUDA's; `unknown`: also if none is known."""
    tested = [_asked(script, subject) for subject in subjects]
    devices = [device for device, is_sure in tested if device is not None and is_sure]
    if devices and len(devices) == len(subjects):
        tests = [f"{script.xla}.is_accelerator({{{place}}})" for place in range(len(devices))]
        text = tests[0] if len(tests) == 1 else f"({' or '.join(tests)})"
        if len(tests) == 1 and (index := index_test(script, node, devices[0])):
            is_part = negated or isinstance(script.parent(node), ast.expr)
            text = f"({text}{index})" if is_part else f"{text}{index}"
        yield _finding(script, node, f"{'not ' if negated else ''}{text}", tuple(devices))
    elif devices or (unknown and any(device is not None for device, _ in tested)):
        yield RULE.finding(script, node, _UNKNOWN, severity=WARNING)


def _among(
    script: Script, node: ast.expr, subject: ast.expr, elements: list[ast.expr], negated: bool
) -> Iterator[Finding]:
    """`device in ("cuda", "cpu")`."""
    rest = _rest(script, elements)
    device, sure = _asked(script, subject)
    if rest == []:
        yield from _test(script, node, [subject], negated)
    elif rest is None or device is None or not sure:
        return
    elif rest == ["cpu"] and isinstance(subject, (ast.Name, ast.Attribute)):
        no = "not " if negated else ""
        text = f"{script.xla}.is_accelerator({{0}})"
        yield _finding(script, node, f'{no}({text} or {{1}} == "cpu")', (device, subject))
    else:
        yield RULE.finding(
            script, node, 'XLA is not among these devices: add "xla"', severity=WARNING
        )


def _chained(script: Script, node: ast.Compare) -> Iterator[Finding]:
    """`a.type == b.type == "cuda"`."""
    parts = [node.left, *node.comparators]
    if all(isinstance(op, ast.Eq) for op in node.ops) and any(_says_cuda(script, p) for p in parts):
        tested = [_asked(script, p) for p in parts if not _says_cuda(script, p)]
        if any(sure for _, sure in tested):
            yield RULE.finding(script, node, _MESSAGE)
        elif any(device is not None for device, _ in tested):
            yield RULE.finding(script, node, _UNKNOWN, severity=WARNING)


def _is_beside_xla(script: Script, node: ast.expr) -> bool:
    """Return True if the test also tests for XLA: `x.is_cuda or x.device.type in ("xla", "cpu")`."""
    around = script.parent(node)
    return (
        isinstance(around, ast.BoolOp)
        and isinstance(around.op, ast.Or)
        and any(is_literal(part, "xla") for part in walk(around))
    )


def _finding(script: Script, node: ast.expr, text: str, holes: tuple[ast.expr, ...]) -> Finding:
    """Return the finding at `node`, which becomes `text`; among kernels without a fix, since it may choose CUDA kernels."""
    if is_among_kernels(script, node):
        return RULE.finding(
            script,
            node,
            f"{_MESSAGE}, unless the branch is for CUDA kernels only",
            severity=WARNING,
        )
    if half := half_chosen_by(script, node):
        edits = bfloat16_instead(script, half)
        return RULE.finding(
            script, node, _HALF, Replace(node, text, holes), *edits, safety=UNSAFE, severity=WARNING
        )
    if sets_half_flag(script, node):
        return RULE.finding(script, node, _HALF, severity=WARNING)
    return RULE.finding(script, node, _MESSAGE, Replace(node, text, holes))


def _rest(script: Script, elements: list[ast.expr]) -> list[str] | None:
    """What is in a list of kinds beside accelerators; None where CUDA is not, or XLA is."""
    texts = [text for e in elements if (text := _said(script, e)) is not None]
    if len(texts) != len(elements) or "xla" in texts:
        return None
    kinds = [text.partition(":")[0] for text in texts]
    if "cuda" not in kinds:
        return None
    return [k for k in kinds if k != "cuda" and k not in OTHER_ACCELERATORS]


def _speaks_of_cuda(script: Script, node: ast.Compare) -> bool:
    if any("cuda" in text or "gpu" in text for text in texts_of(walk(node))):
        return True
    parts = [node.left, *node.comparators]
    if any(isinstance(part, ast.Constant) for part in parts):
        return False
    parts += [e for part in parts for e in getattr(part, "elts", ())]
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and is_name_for_cuda(script, part)
        for part in parts
    )


def _said(script: Script, node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return text_of(node)
    return "cuda" if _says_cuda(script, node) else None


def _says_cuda(script: Script, node: ast.expr) -> bool:
    """`"cuda"`, `"cuda:0"`, `torch.device("cuda")`, `Device.CUDA`."""
    match node:
        case ast.Call(func=func, args=[inner], keywords=[]) if (
            script.dotted(func) == "torch.device"
        ):
            node = inner
    if is_name_for_cuda(script, node):
        return not (script.devices.is_device(node) or is_renamed(script, node))
    if not isinstance(node, ast.Constant):
        return False
    spec = script.devices.spec(node)
    return spec is not None and spec.ordinal in {None, 0}


def _says_another(script: Script, node: ast.expr) -> bool:
    """`"cuda:1"`."""
    spec = script.devices.spec(node) if isinstance(node, ast.Constant) else None
    return spec is not None and spec.ordinal not in {None, 0}


def _asked(script: Script, node: ast.expr) -> tuple[ast.expr | None, bool]:
    """Return the subject of the test for CUDA, and whether it surely is a device; None: certainly something else."""
    devices = script.devices
    match node:
        case ast.Attribute(value=owner, attr="type"):
            return _asked_type(script, owner)
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[inner]):
            return (inner, True) if devices.is_device(inner) else _asked(script, inner)
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="type") as text, attr="lower" | "casefold")
        ):
            return _asked(script, text)
        case ast.Subscript(value=owner, slice=ast.Slice()) if devices.is_device(owner):
            return owner, True
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=owner, attr="split" | "partition"))
        ):
            device, sure = _asked(script, owner)
            return (device, True) if sure else (None, False)
        case ast.Call(func=func) if (script.dotted(func) or "").startswith(RUNTIME):
            return None, False  # `xla.device_type() == "cuda"` tests for CUDA itself
    is_one = devices.is_device(node) or is_renamed(script, node)
    return (node, True) if is_one else (None, False)


def _whose_type(script: Script, node: ast.expr) -> ast.expr | None:
    """The `x` of `x.type()`, which is "torch.cuda.FloatTensor" on CUDA."""
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return _whose_type(script, inner)
        case ast.Call(func=ast.Attribute(value=owner, attr="type"), args=[], keywords=[]):
            kinds = script.value(owner).kinds
            return owner if not kinds or TENSOR in kinds else None
    return None


def _asked_type(script: Script, owner: ast.expr) -> tuple[ast.expr | None, bool]:
    if script.devices.is_device(owner):
        return owner, True
    value = script.value(owner)
    if value.has(DEVICE) and not value.has(STRING):
        return owner, True
    if value.kinds or (isinstance(owner, ast.Name) and owner.id in {"self", "cls"}):
        return None, False
    return owner, False


def _is_its_own(script: Script, owner: ast.expr, scope: Scope) -> bool:
    """True if `owner.is_cuda` is something that the script itself keeps under that name."""
    value = script.value(owner, scope)
    if value.kinds & {ARGUMENTS, GIVEN, CLASS, STRING}:
        return True
    if value.has(INSTANCE) and isinstance(value.definition, ast.ClassDef):
        if "is_cuda" in script.inference.class_attributes(value.definition):
            return True
        is_named = isinstance(owner, ast.Name) and value.has(MODULE)
        return is_named or script.is_neither_tensor_nor_module(owner)
    return (
        not value.has(TENSOR)
        and isinstance(owner, ast.Name)
        and owner.id
        in {
            "self",
            "cls",
            "args",
            "opt",
            "cfg",
            "config",
        }
    )
