"""torch_xla 2.9 no longer has some names that older scripts use.

## What it reports

Names, arguments, numbers of processes and environment variables that torch_xla 2.9 does not
accept, and variables that switched torch_xla to bfloat16.

## Why it matters on XLA

Importing or calling them fails.

## What to do

Fix: none.

Use the replacement that the finding names. `--from torch_xla` rewrites most of them to the
runtime.

## Example

```python
import torch_xla.core.xla_model as xm
import torch_xla.experimental.xla_sharding as xs  # XLA010
from torch_xla.amp import GradScaler, autocast  # XLA010

def rank():
    return xm.get_ordinal()  # XLA010

def others():
    return xm.get_local_ordinal()
```

Arguments, numbers of processes and environment variables:

```python
import os
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_multiprocessing as xmp

os.environ["XRT_TPU_CONFIG"] = "tpu_worker;0;10.0.0.2:8470"  # XLA010
os.environ["XLA_USE_BF16"] = "1"  # XLA010
devices = xm.get_xla_supported_devices("TPU")  # XLA010

def _mp_fn(index):
    print(index)

if __name__ == "__main__":
    xmp.spawn(_mp_fn, nprocs=8)  # XLA010
```

In a `try`, the failing import hides the others, and the script silently runs without XLA:

```python
try:
    import torch_xla.core.xla_model as xm
    from torch_xla.amp import GradScaler  # XLA010
except ImportError:
    xm = None
```

Names that the script tests before it uses them are not reported:

```python
import torch_xla.core.xla_model as xm

world_size = xm.xrt_world_size if hasattr(xm, "xrt_world_size") else None

try:
    from torch_xla.experimental import pjrt
except ImportError:
    pjrt = None
```

## See also

XLA011
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import text_of
from ...catalog.torch_xla import REMOVED, REMOVED_ARGUMENTS, removed, unread
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA010", "torch-xla-removed", words=("xla", "xrt_", "gpu_num_devices"))

_SPAWN = "torch_xla.distributed.xla_multiprocessing.spawn"


@RULE.call(*REMOVED)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _finding(script, call.func, script.dotted(call.func, scope))


@RULE.reference(*REMOVED)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield from _finding(script, node, script.dotted(node, scope))


@RULE.node(ast.Import)
def imported(script: Script, statement: ast.Import, scope: Scope) -> Iterator[Finding]:
    for alias in statement.names:
        if alias.name.startswith("torch_xla."):
            yield from _finding(script, statement, alias.name)


@RULE.node(ast.ImportFrom)
def imported_from(script: Script, statement: ast.ImportFrom, scope: Scope) -> Iterator[Finding]:
    if statement.level or not (statement.module or "").startswith("torch_xla"):
        return
    for alias in statement.names:
        yield from _finding(script, statement, f"{statement.module}.{alias.name}")


@RULE.call(*REMOVED_ARGUMENTS)
def argument(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    dotted = script.dotted(call.func, scope) or ""
    for given in call.keywords:
        if instead := REMOVED_ARGUMENTS[dotted].get(given.arg or ""):
            yield _refused(script, given, f"`{dotted}({given.arg}=...)`", instead)
    for first in call.args[:1]:
        of_kinds = "devkind" in REMOVED_ARGUMENTS[dotted]
        if of_kinds and (text := text_of(first)) is not None:
            yield _refused(
                script, first, f"`{dotted}({text!r})`", REMOVED_ARGUMENTS[dotted]["devkind"]
            )


@RULE.call(_SPAWN)
def processes(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Once it was a number of cores; now it is all devices, or one."""
    given = [k.value for k in call.keywords if k.arg == "nprocs"] or call.args[2:3]
    for count in given:
        if isinstance(count, ast.Constant) and count.value not in (None, 1):
            instead = "omit it to start one process per device, and limit the devices with TPU_VISIBLE_CHIPS or CPU_NUM_DEVICES"
            yield _refused(script, count, f"`xmp.spawn(nprocs={ast.unparse(count)})`", instead)


@RULE.node(ast.Subscript)
def variable(script: Script, place: ast.Subscript, scope: Scope) -> Iterator[Finding]:
    if isinstance(place.ctx, ast.Store) and script.dotted(place.value, scope) == "os.environ":
        yield from _variable(
            script, place, place.slice, getattr(script.parent(place), "value", None)
        )


@RULE.call("os.environ.setdefault", "os.putenv")
def variable_by_call(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 2:
        yield from _variable(script, call, *call.args)


@RULE.call("os.environ.update")
def variables(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg:
            yield from _variable(script, argument.value, ast.Constant(argument.arg), argument.value)
    for given in call.args:
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values):
                yield from _variable(script, value, key, value)


def _variable(
    script: Script, place: ast.expr, name: ast.expr | None, value: ast.expr | None
) -> Iterator[Finding]:
    if isinstance(name, ast.Constant):
        value_text = str(value.value) if isinstance(value, ast.Constant) else "unknown"
        if message := unread(str(name.value), value_text):
            yield RULE.finding(script, place, message, severity=WARNING)


def _refused(script: Script, node: ast.expr | ast.keyword, what: str, instead: str) -> Finding:
    return RULE.finding(script, node, f"{what} fails: torch_xla 2.9 does not take it: {instead}")


def _finding(script: Script, node: ast.expr | ast.stmt, dotted: str | None) -> Iterator[Finding]:
    found = removed(dotted or "")
    if found is None or _is_asked_for(script, node, found[0]):
        return
    name, version, instead = found
    yield RULE.finding(
        script, node, f"`{name}` fails: torch_xla {version} and later have no such name: {instead}"
    )


def _is_asked_for(script: Script, node: ast.expr | ast.stmt, name: str) -> bool:
    """True if the script does without it: `try:` with nothing else in it, `if hasattr(xm, "get_ordinal")`."""
    last = name.rpartition(".")[2]
    for around in script.ancestors(node):
        if isinstance(around, ast.Try) and around.handlers and len(around.body) == 1:
            return True
        if isinstance(around, (ast.If, ast.IfExp)):
            test = ast.unparse(around.test)
            if "hasattr" in test and last in test:
                return True
    return False
