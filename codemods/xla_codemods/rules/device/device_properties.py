"""An XLA device has no CUDA properties.

## What it reports

`torch.cuda.get_device_properties`, `torch.cuda.get_device_capability` and the properties that
they return.

## Why it matters on XLA

The functions fail without CUDA. Compute capability, multiprocessors and architectures have no
counterpart on XLA.

## What to do

Fix: safe, or none.

Use `xla.device_properties()` for the name and the memory. A test for compute capability 8 that
chooses bfloat16 becomes `xla.is_bf16_supported()`.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-properties = torch.cuda.get_device_properties(0)
+properties = xla.device_properties()
 print(properties.name, properties.total_memory / 2**30)
-dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float32
+dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32
```

Properties that are only displayed read "n/a" on XLA; where the format asks for an integer, -1:

```diff
 import torch
+from xla_migrate import runtime as xla

-properties = torch.cuda.get_device_properties(0)
+properties = xla.device_properties()
 print("%d multiprocessors" % properties.multi_processor_count)
 print(f"{properties.name}: {properties.multi_processor_count} multiprocessors, {properties.major}.{properties.minor}")
```

A test of a capability that is assigned to a name first:

```diff
 import torch
+from xla_migrate import runtime as xla

-major, _ = torch.cuda.get_device_capability()
-if major < 8:
+if not xla.is_bf16_supported():
     raise RuntimeError("bf16 needs compute capability 8")
```

A text of the numbers is reported without a fix if code computes with the text, because "n/a" is no
number. An assertion and a `match` end the run on XLA, which could continue:

```python
import torch

properties = torch.cuda.get_device_properties(0)  # XLA113
blocks = int(str(properties.multi_processor_count)) * 2

def architecture():
    major, minor = torch.cuda.get_device_capability()  # XLA113
    return f"{major}{minor}"

flag = int(architecture()) + 1
assert torch.cuda.get_device_capability()[0] >= 7  # XLA113
match torch.cuda.get_device_capability():  # XLA113
    case (8, _):
        print("Ampere")
facts = {"capability": torch.cuda.get_device_capability()}  # XLA113
print(facts["capability"][0] * 10)
```

Properties of other objects are not reported:

```python
def describe(device):
    return device.get_device_properties().name
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.devices.checks.on_xla import is_guarded
from ...analysis.devices.displayed import is_display, is_known_fact, is_only_displayed
from ...analysis.devices.specs import device_argument
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace, remove
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...flow.edges import uses as uses_of
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA113", "device-properties")

# Functions of torch.cuda that measure a device.
_READINGS = ("clock_rate", "memory_usage", "power_draw", "temperature", "utilization")


@RULE.call("torch.cuda.get_device_properties")
def properties(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    edits = _of_properties(script, call)
    message = "`get_device_properties` fails on an XLA host: use `xla.device_properties()`"
    if edits:
        yield RULE.finding(script, call, message, *edits)
    else:
        yield _manual(script, call, f"{message}, and don't compute with facts that only a GPU has")


def _of_properties(script: Script, call: ast.Call) -> list[Edit]:
    """The edits if all facts are known to the runtime, only displayed, or tests for bfloat16."""
    uses = _uses(script, call) or _uses_of_attribute(script, call)
    tests = {use: _test_of_major(script, use) for use in uses}
    is_known = bool(uses) and all(tests[use] or _is_known(script, use) for use in uses)
    if is_guarded(script, call) or not (is_known or is_only_displayed(script, call)):
        return []
    edits = [edit for edit in tests.values() if edit]
    if len(edits) < len(uses) or not edits:
        return [*edits, _with_device(script, call, "device_properties({})")]
    parent = script.parent(call)
    return [*edits, remove(parent)] if isinstance(parent, ast.Assign) else [*edits]


def _test_of_major(script: Script, properties: ast.expr) -> Edit | None:
    """The edit of `properties.major >= 8` where it chooses bfloat16."""
    match script.parent(properties):
        case ast.Attribute(attr="major") as major:
            return _test_of(script, major, is_major=True)
    return None


def _with_device(script: Script, call: ast.Call, text: str) -> Replace:
    """Return the edit that calls the runtime's function with the device of `call`."""
    argument, holes = script.devices.given(device_argument(call))
    return Replace(call, f"{script.xla}.{text.format(argument)}", holes)


def _is_known(script: Script, use: ast.expr) -> bool:
    """Return True for `.name` and `.total_memory`, and for what is only printed or logged."""
    parent = script.parent(use)
    if isinstance(parent, ast.Attribute):
        return is_known_fact(parent.attr) or is_only_displayed(script, parent)
    return _is_shown(script, use)


@RULE.call(*(f"torch.cuda.{name}" for name in _READINGS))
def reading(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Temperature, power and the like; if they are not only displayed, the catalog's rule reports them."""
    if not is_guarded(script, call) and is_only_displayed(script, call):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        edit = _with_device(script, call, f"device_properties({{}}).{name}")
        message = f"`torch.cuda.{name}` fails without CUDA: use `xla.device_properties().{name}`, which reads n/a there"
        yield RULE.finding(script, call, message, edit)


@RULE.call("torch.cuda.get_device_capability")
def capability(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "XLA devices have no compute capability: use `xla.is_bf16_supported()` to test for bfloat16"
    )
    uses = [] if is_guarded(script, call) else _uses(script, call) or []
    if edits := _tests_of(script, call):
        yield RULE.finding(script, call, message, *edits)
    elif uses and not _is_unpacked(script, call) and all(_is_shown(script, u) for u in uses):
        text = "XLA devices have no compute capability: show the device's name, `xla.device_name()`"
        yield RULE.finding(script, call, text, _with_device(script, call, "device_name({})"))
    elif (uses and all(_is_a_displayed_part(script, use) for use in uses)) or (
        not is_guarded(script, call) and is_only_displayed(script, call)
    ):
        text = "XLA devices have no compute capability: `xla.device_capability()` reads n/a there"
        yield RULE.finding(script, call, text, _with_device(script, call, "device_capability({})"))
    else:
        function = script.function(call)
        around = script.source.text if function is None else script.segment(function)
        if ends := _ends_the_run(script, uses or [call]):
            message = f"XLA devices have no compute capability: {ends}"
        elif not _BFLOAT16.search(around):
            message = (
                "XLA devices have no compute capability: skip the code that depends on it on XLA"
            )
        yield _manual(script, call, message)


def _ends_the_run(script: Script, found: list[ast.expr]) -> str:
    """Return what to do if a test of the capability would end the run on XLA, which could continue."""
    for use in found:
        for around in script.ancestors(use):
            match around:
                case ast.Assert(test=test) if use in walk(test):
                    return "delete the assertion, or run it only on CUDA"
                case ast.Match(subject=subject) if use in walk(subject):
                    return "add a branch for XLA, and run the `match` only on CUDA"
            if isinstance(around, ast.stmt):
                break
    return ""


def _is_unpacked(script: Script, call: ast.Call) -> bool:
    """Return True for `major, minor = torch.cuda.get_device_capability()`."""
    parent = script.parent(call)
    return isinstance(parent, ast.Assign) and not isinstance(parent.targets[0], ast.Name)


def _is_a_displayed_part(script: Script, use: ast.expr) -> bool:
    """Return True if a number of a capability is only displayed, or stored in a dictionary."""
    parent = script.parent(use)
    part = parent if isinstance(parent, ast.Subscript) else use
    return is_only_displayed(script, part) or (
        isinstance(parent, ast.Dict) and isinstance(use, ast.Call) and not uses_of(script, use)
    )


def _is_shown(script: Script, node: ast.expr) -> bool:
    parent = script.parent(node)
    shows = is_display(parent) and node in getattr(parent, "args", ())
    is_shown = shows or isinstance(parent, ast.FormattedValue)
    return is_shown and is_only_displayed(script, node)


def _manual(script: Script, call: ast.Call, message: str) -> Finding:
    """No fix; where a question for CUDA guards the place, it is not reached on XLA."""
    severity = INFO if is_guarded(script, call) else None
    choice = next((a for a in script.ancestors(call) if isinstance(a, (ast.If, ast.IfExp))), None)
    if severity == INFO and choice is not None and call in walk(choice.test):
        if _BFLOAT16.search(ast.unparse(choice)):
            severity = WARNING  # reached or not, float16 is what is chosen
    return RULE.finding(script, call, message, severity=severity, effort=MEDIUM)


def _tests_of(script: Script, call: ast.Call) -> list[Edit]:
    """Return the edits if the capability is only used to test for bfloat16."""
    statement, name, is_major = script.parent(call), "", False
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name() | ast.Starred()])]):
            is_major = True
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
    uses = _uses(script, call) or []
    if any(isinstance(use, ast.Name) and use.id != name for use in uses):
        return []
    edits = [_test_of(script, use, is_major=is_major) for use in uses]
    moved: list[Edit] = [remove(statement)] if isinstance(statement, ast.Assign) else []
    return [*moved, *(e for e in edits if e)] if edits and all(edits) else []


def _uses(script: Script, call: ast.Call) -> list[ast.expr] | None:
    """Return where the value of `call` is used, by a name or directly; None if that is not known."""
    statement = script.parent(call)
    if not isinstance(statement, ast.Assign):
        return [call]
    scope = script.index.scope(statement)
    names = [node for node in walk(statement.targets[0]) if isinstance(node, ast.Name)]
    is_kept = (
        isinstance(statement.targets[0], (ast.Name, ast.Tuple)) and len(statement.targets) == 1
    )
    found: list[ast.expr] = []
    for name in (node.id for node in names if node.id != "_"):
        home = scope.find(name)
        is_seen = scope.node is script.tree and script.is_imported_elsewhere(name)
        if not is_kept or home is None or len(home[1]) != 1 or is_seen:
            return None
        found += script.index.reads_of(home[0], name)
    return found


def _uses_of_attribute(script: Script, call: ast.Call) -> list[ast.expr]:
    """Return the reads of `self.properties`, if `call` is assigned to it and no other module reads it."""
    match script.parent(call):
        case ast.Assign(targets=[ast.Attribute(attr=name)]):
            reads = [n for n, _ in script.index.attributes(name) if isinstance(n.ctx, ast.Load)]
            return [] if script.project.uses_attribute(name) else [*reads]
    return []


def _test_of(script: Script, capability: ast.expr, *, is_major: bool) -> Edit | None:
    """`get_device_capability()[0] >= 8` and `get_device_capability() >= (8, 0)`, where it chooses bfloat16."""
    node, parent = capability, script.parent(capability)
    if not is_major and isinstance(parent, ast.Subscript):
        if not isinstance(parent.slice, ast.Constant) or parent.slice.value != 0:
            return None
        node, parent = parent, script.parent(parent)
    match parent:
        case ast.Compare(left=left, ops=[op], comparators=[other]) if left is node:
            text = {(ast.GtE, "8"): "{}", (ast.GtE, "(8, 0)"): "{}", (ast.Gt, "7"): "{}"} | {
                (ast.Lt, "8"): "not {}",
                (ast.Lt, "(8, 0)"): "not {}",
                (ast.LtE, "7"): "not {}",
            }
            found = text.get((type(op), ast.unparse(other)))
            if found and _is_of_bfloat16(script, parent, found == "{}"):
                return Replace(parent, found.format(f"{script.xla}.is_bf16_supported()"))
    return None


# Capability 8 brings bfloat16 and TF32.
_BFLOAT16 = Pattern(r"bf_?16|bfloat16|tf32|float32_matmul_precision", re.IGNORECASE)
_KERNELS = Pattern(r"flash|fp8|float8|triton|xformers")


def _is_of_bfloat16(script: Script, test: ast.expr, yes: bool) -> bool:
    """Return True if `test` decides only about bfloat16, not about kernels. The other branch does not matter."""
    for ancestor in script.ancestors(test):
        text = ""
        if isinstance(ancestor, (ast.IfExp, ast.If)):
            chosen: list[ast.AST] = []
            for block in (ancestor.body, ancestor.orelse) if not yes else (ancestor.body,):
                chosen += block if isinstance(block, list) else [block]
            text = " ".join(ast.unparse(part) for part in (ancestor.test, *chosen))
        elif isinstance(ancestor, ast.Assign):
            text = " ".join(ast.unparse(target) for target in ancestor.targets)
        elif isinstance(ancestor, ast.Return):
            function = script.function(ancestor)
            text = function.name if function is not None else ""
        elif not isinstance(ancestor, ast.stmt):
            continue
        return _BFLOAT16.search(text) is not None and _KERNELS.search(text) is None
    return False
