"""A kernel written in CUDA does not run on XLA.

## What it reports

Extensions that build CUDA code with `torch.utils.cpp_extension`, and CUDA libraries loaded with
`ctypes`.

## Why it matters on XLA

An XLA host has no CUDA toolkit and no device for the kernel.

## What to do

Fix: none.

Write the computation with PyTorch's operations, which XLA fuses. If that is too slow, write a
kernel for the device: Pallas on TPU, NKI on Trainium.

## Example

```python
from torch.utils.cpp_extension import CUDAExtension, load

kernels = load(name="kernels", sources=["kernels.cpp", "kernels.cu"])  # XLA902
extension = CUDAExtension("fused", ["fused.cu"])  # XLA902
```

If the script continues without the extension, the finding is a note:

```python
from torch.utils.cpp_extension import load

try:
    kernels = load(name="kernels", sources=["kernels.cpp", "kernels.cu"])  # XLA902
    HAS_KERNELS = True
except Exception:
    HAS_KERNELS = False
```

Extensions in C++ compute on the host. They are not reported:

```python
from torch.utils.cpp_extension import BuildExtension, CppExtension, load

tokenizer = load(name="tokenizer", sources=["tokenizer.cpp"])
extension = CppExtension("parser", ["parser.cpp"])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.guards import is_caught, is_guarded
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, is_off, keyword, name_of
from ...finding import HIGH, INFO, LOW, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA902", "custom-kernel", effort=HIGH, leftovers=HIGH)

_MESSAGE = "CUDA code does not run on XLA: write it with PyTorch's operations, or as a Pallas or NKI kernel"
_LIBRARY = Pattern(r"lib(?:cuda|cudart|nccl|cublas|cudnn|nvrtc|cufft|curand|cusparse)\b")


@RULE.call("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")
def built(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    cuda = keyword(call, "cuda_sources") or keyword(call, "extra_cuda_cflags")
    with_cuda = keyword(call, "with_cuda")
    sources = keyword(call, "sources") or (call.args[1] if len(call.args) > 1 else None)
    texts = [n.value for n in walk(sources) if isinstance(n, ast.Constant)] if sources else []
    if (
        _is_given(cuda)
        or is_literal(with_cuda, True)
        or any(str(t).endswith((".cu", ".cuh")) for t in texts)
    ):
        if is_caught(script, call):
            yield RULE.finding(script, call, _MESSAGE, severity=INFO, effort=LOW)
        else:
            yield RULE.finding(script, call, _MESSAGE)
    elif call.func and _name(call) == "load" and not texts:
        yield RULE.finding(script, call, f"if it builds CUDA code: {_MESSAGE}", severity=WARNING)
    else:
        script.settled.add(call.func)  # C++ alone, for the host


@RULE.call("torch.utils.cpp_extension.CUDAExtension")
def extension(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE)


@RULE.reference("torch.utils.cpp_extension.CUDA_HOME", "torch.utils.cpp_extension.CUDNN_HOME")
def toolkit(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script,
        node,
        "the value is None on an XLA host, which has no CUDA toolkit: do not build CUDA code there",
        severity=INFO,
        effort=LOW,
    )


@RULE.reference("torch.utils.cpp_extension.CUDAExtension")
def extension_chosen(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`Extension = CUDAExtension`, mostly where CUDA was found."""
    yield RULE.finding(script, node, _MESSAGE, severity=WARNING)


@RULE.call("ctypes.CDLL", "ctypes.cdll.LoadLibrary")
def library(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), *_] if _LIBRARY.search(name):
            message = f"`{name}` is a library of CUDA, which an XLA host does not have: remove the code that needs it"
            if is_guarded(script, call, name):
                yield RULE.finding(script, call, message, severity=INFO, effort=LOW)
            else:
                yield RULE.finding(script, call, message)


def _name(call: ast.Call) -> str:
    return name_of(call.func)


def _is_given(node: ast.expr | None) -> bool:
    return node is not None and not is_off(node)
