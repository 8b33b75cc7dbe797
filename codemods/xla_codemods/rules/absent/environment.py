"""Environment variables of CUDA and NCCL have no effect on XLA.

## What it reports

Code that sets or reads variables such as `CUDA_VISIBLE_DEVICES`, and numbers of GPUs from
SageMaker and SLURM.

## Why it matters on XLA

Setting a variable does nothing. Reading one fails or gives a wrong number of devices. SageMaker's
number of GPUs is 0 on Trainium, and a script that reads it trains on the CPU.

## What to do

Fix: none.

Choose devices with `NEURON_RT_VISIBLE_CORES` (Trainium) or `TPU_VISIBLE_CHIPS` (TPU). Use
`xla.device_count()` for numbers of devices.

## Example

```python
import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # XLA912
devices = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))  # XLA912
use_gpu = int(os.environ.get("SM_NUM_GPUS", 0)) > 0  # XLA912
worker = dict(os.environ, CUDA_VISIBLE_DEVICES="1")  # XLA912
```

Other variables and dictionaries are not reported:

```python
import os

settings = {"CUDA_VISIBLE_DEVICES": ""}
print(os.environ["HOME"], settings["CUDA_VISIBLE_DEVICES"])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import INFO, LOW, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA912", "cuda-environment", severity=WARNING)

_BEGIN = (
    "CUDA",
    "NCCL_",
    "TORCH_NCCL_",
    "NVIDIA_",
    "PYTORCH_CUDA",
    "CUBLAS",
    "CUDNN",
    "PYTORCH_NO_CUDA",
)
_OTHERS = frozenset(
    [
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_USE_CUDA_DSA",
        "TORCH_CUDNN_V8_API_ENABLED",
        "TORCH_CUDNN_V8_API_DISABLED",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "FORCE_CUDA",
        "BNB_CUDA_VERSION",
        "FLASH_ATTENTION_FORCE_BUILD",
        "XFORMERS_FORCE_DISABLE_TRITON",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    ]
)
# How many GPUs there are, and what tells it of Trainium.
_COUNTS = {
    "SM_NUM_GPUS": ", or SM_NUM_NEURONS of SageMaker on Trainium",
    "SLURM_GPUS": "",
    "SLURM_GPUS_ON_NODE": "",
    "SLURM_GPUS_PER_NODE": "",
    "SLURM_GPUS_PER_TASK": "",
    "SLURM_JOB_GPUS": "",
    "SLURM_STEP_GPUS": "",
}


@RULE.reference("os.environ")
def variable(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`os.environ["X"]`, set or read."""
    match script.parent(node):
        case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=context) as place if _is_cuda(
            name
        ):
            if isinstance(context, ast.Load):
                yield _read(script, place, name, raises=True)
            elif isinstance(context, ast.Store):
                yield _set(script, place, name)
        case ast.Dict() as copied:  # `{**os.environ, "X": ...}`
            yield from _put(script, copied)
        case ast.Call(func=ast.Name(id="dict")) as copied:  # `dict(os.environ, X=...)`
            yield from _put(script, copied)
            yield from _put_later(script, copied, scope)


@RULE.call("os.environ.copy", "os.environ.update")
def variables(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`os.environ.update(X=...)`; `env = os.environ.copy()`, which is what a process is given."""
    for given in (call, *call.args):
        yield from _put(script, given)
    yield from _put_later(script, call, scope)


def _put(script: Script, node: ast.expr) -> Iterator[Finding]:
    """Variables that a dict is given: by entries, or by arguments."""
    named: list[tuple[object, ast.expr | None]] = []
    if isinstance(node, ast.Dict):
        named = [(getattr(key, "value", None), key) for key in node.keys]
    elif isinstance(node, ast.Call):
        named = [(keyword.arg, keyword.value) for keyword in node.keywords]
    for name, place in named:
        if isinstance(name, str) and place is not None and _is_cuda(name):
            yield _set(script, place, name)


def _put_later(script: Script, copied: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`env["X"] = ...`, `env.update(X=...)` of the name that a copy is bound to."""
    match script.parent(copied):
        case ast.Assign(targets=[ast.Name(id=env)]):
            pass
        case _:
            return
    for place, inside in script.index.of(ast.Subscript):
        match place:
            case ast.Subscript(
                value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Store()
            ) if name == env and inside is scope and _is_cuda(key):
                yield _set(script, place, key)
    for call, inside in script.index.calls_of("update"):
        match call.func:
            case ast.Attribute(value=ast.Name(id=name)) if name == env and inside is scope:
                for given in (call, *call.args):
                    yield from _put(script, given)


@RULE.call(
    "os.getenv",
    "os.environ.get",
    "os.environ.pop",
    "os.environ.setdefault",
    "os.putenv",
    "os.unsetenv",
)
def variable_by_call(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), *rest] if _is_cuda(name):
            dotted = script.dotted(call.func, scope) or ""
            if dotted.endswith((".get", "getenv")):
                yield _read(script, call, name, raises=False)
            elif dotted.endswith(".pop") and not rest:
                yield _read(script, call, name, raises=True)
            else:
                yield _set(script, call, name)


def _read(script: Script, node: ast.expr, name: str, *, raises: bool) -> Finding:
    if name in _COUNTS:
        return RULE.finding(
            script,
            node,
            f"`{name}` counts GPUs and is 0 or not set on an XLA host: use `xla.device_count()`{_COUNTS[name]}",
        )
    message = f"`{name}` is not set on an XLA host: do not depend on it"
    return RULE.finding(script, node, message, severity=WARNING if raises else INFO)


def _set(script: Script, node: ast.expr, name: str) -> Finding:
    message = "has no effect on XLA: remove it"
    if name.endswith("VISIBLE_DEVICES"):
        message = "has no effect on XLA: use NEURON_RT_VISIBLE_CORES or TPU_VISIBLE_CHIPS"
        if _hides_all(script, node):
            message = "hides no XLA device: to compute on the CPU set PJRT_DEVICE=CPU"
    return RULE.finding(script, node, f"`{name}` {message}", severity=INFO, effort=LOW)


def _hides_all(script: Script, node: ast.expr) -> bool:
    """True if the variable that `node` sets becomes "-1" or empty."""
    around = script.parent(node)
    given: ast.AST | None = getattr(around, "value", None)  # of an assignment, of a keyword
    if isinstance(node, ast.Call):
        given = node.args[1] if len(node.args) > 1 else None
    elif isinstance(around, ast.Dict) and node in around.keys:
        given = around.values[around.keys.index(node)]
    return isinstance(given, ast.Constant) and given.value in {"", "-1"}


def _is_cuda(name: str) -> bool:
    return name.startswith(_BEGIN) or name in _OTHERS or name in _COUNTS
