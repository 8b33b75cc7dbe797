"""NVIDIA's driver does not exist on an XLA host.

## What it reports

`pynvml`, and commands that run `nvidia-smi`.

## Why it matters on XLA

Both describe NVIDIA devices only, and fail on an XLA host.

## What to do

Fix: none.

Use `xla.device_name()` and `xla.memory_info()`. For load, temperature and power, use the vendor's
monitor (`neuron-monitor`, `tpu-info`).

## Example

```python
import subprocess
import pynvml

pynvml.nvmlInit()  # XLA905
handle = pynvml.nvmlDeviceGetHandleByIndex(0)  # XLA905
print(pynvml.nvmlDeviceGetMemoryInfo(handle).used)  # XLA905
print(subprocess.check_output(["nvidia-smi", "--query-gpu=memory.used", "--format=csv"]))  # XLA905
```

A text that mentions the tool is not reported:

```python
print("run nvidia-smi to see what is used")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA905", "nvml", effort=MEDIUM, leftovers=MEDIUM)

_RUNNERS = (
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "subprocess.Popen",
    "os.system",
    "os.popen",
)


@RULE.call(*_RUNNERS)
def command(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and _runs_nvidia_smi(call.args[0]):
        message = "an XLA host has no `nvidia-smi`: use `xla.memory_info()`, or the vendor's tool"
        yield RULE.finding(script, call, message)


def _runs_nvidia_smi(node: ast.expr) -> bool:
    """`"nvidia-smi ..."`, `["nvidia-smi", ...]`, `f"nvidia-smi {x}"`."""
    match node:
        case ast.Constant(value=str(text)):
            return "nvidia-smi" in text
        case (
            ast.List(elts=[first, *_])
            | ast.Tuple(elts=[first, *_])
            | ast.JoinedStr(values=[first, *_])
        ):
            return _runs_nvidia_smi(first)
        case ast.Call(func=ast.Attribute(value=text, attr="split")):
            return _runs_nvidia_smi(text)
    return False
