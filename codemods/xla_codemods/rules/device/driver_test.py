"""A test for NVIDIA's driver is False on an XLA host.

## What it reports

Tests for NVIDIA's files and tools in files that train: `shutil.which("nvidia-smi")`,
`os.path.exists("/dev/nvidia0")` and similar ones.

## Why it matters on XLA

An XLA host has neither. Nothing fails: the script takes the branch for the CPU.

## What to do

Fix: none.

If the test is for an accelerator, use `xla.is_available()`. If the test is for the tool itself,
keep it and suppress the finding.

## Example

```python
import os
import shutil
from pathlib import Path

def train(model, batch):
    has_gpu = shutil.which("nvidia-smi") is not None  # XLA119
    has_driver = os.path.exists("/dev/nvidia0") or Path("/proc/driver/nvidia/version").exists()  # XLA119
    model(batch).sum().backward()
    return has_gpu or has_driver
```

Other files and tools are not reported. `nvcc` builds CUDA kernels, so False is the right answer
on XLA:

```python
import os
import shutil
from pathlib import Path

def train(model, batch):
    if os.path.exists("/data/nvidia0") and Path("/dev/shm").exists() and shutil.which("nvcc"):
        print("run nvidia-smi to see what is used")
    model(batch).sum().backward()
```

Files that train nothing are not reported:

```python
import shutil

print(shutil.which("nvidia-smi"))
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...finding import WARNING, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA119", "driver-test", severity=WARNING)

_FILES = ("/dev/nvidia", "/proc/driver/nvidia")
_PATHS = {"pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "pathlib.PurePosixPath"}


@RULE.call("shutil.which")
def tool(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    command = call.args[0] if call.args else keyword(call, "cmd")
    if is_literal(command, "nvidia-smi"):
        yield from _found(script, call, "`nvidia-smi`")


@RULE.call("os.path.exists", "os.path.isfile", "os.path.isdir")
def file(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    path = call.args[0] if call.args else keyword(call, "path") or keyword(call, "s")
    if _is_of_the_driver(script, path):
        yield from _found(script, call, "file of NVIDIA's driver")


@RULE.method("exists", "is_file", "is_dir", "is_char_device")
def path(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if isinstance(owner, ast.Call) and _is_of_the_driver(script, owner):
        yield from _found(script, call, "file of NVIDIA's driver")


def _is_of_the_driver(script: Script, node: ast.expr | None) -> bool:
    """`"/dev/nvidia0"`, `f"/dev/nvidia{index}"`, `Path("/dev/nvidia0")`."""
    match node:
        case ast.Constant(value=str(text)):
            return text.startswith(_FILES)
        case ast.JoinedStr(values=[first, *_]):
            return _is_of_the_driver(script, first)
        case ast.Call(func=function, args=[first]):
            return script.dotted(function) in _PATHS and _is_of_the_driver(script, first)
    return False


def _found(script: Script, call: ast.Call, missing: str) -> Iterator[Finding]:
    # Not `is_trained`: helpers that test for the driver need not import torch.
    if script.trains or script.project.runs_accelerated:
        message = f"an XLA host has no {missing}, so the test is False: to test for an accelerator, use `xla.is_available()`"
        yield RULE.finding(script, call, message)
