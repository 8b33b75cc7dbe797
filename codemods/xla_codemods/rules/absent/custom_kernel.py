"""A kernel written in CUDA cannot run on XLA.

`torch.utils.cpp_extension` builds it, `ctypes` loads what it needs. Write what it computes with torch's operations:
XLA fuses them. Where that is too slow, write the kernel for the device: Pallas on TPU, NKI on Trainium.

```python
from torch.utils.cpp_extension import CUDAExtension, load

kernels = load(name="kernels", sources=["kernels.cpp", "kernels.cu"])
extension = CUDAExtension("fused", ["fused.cu"])
```

Extensions in C++ alone compute on the host, and stay no finding:

```python
from torch.utils.cpp_extension import BuildExtension, CppExtension, load

tokenizer = load(name="tokenizer", sources=["tokenizer.cpp"])
extension = CppExtension("parser", ["parser.cpp"])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import HIGH, INFO, LOW, WARNING, Finding
from ...nodes import walk
from ...patterns import Pattern
from ...rule import Rest, Rule
from ...syntax import keyword
from .leftovers import leftovers

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA902", "custom-kernel", effort=HIGH)

_MESSAGE = (
    "CUDA code cannot run on XLA: write it with torch's operations, or as a Pallas or NKI kernel"
)
_LIBRARY = Pattern(r"lib(?:cuda|cudart|nccl|cublas|cudnn|nvrtc|cufft|curand|cusparse)\b")


@RULE.call("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")
def built(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    cuda = keyword(call, "cuda_sources") or keyword(call, "extra_cuda_cflags")
    with_cuda = keyword(call, "with_cuda")
    sources = keyword(call, "sources") or (call.args[1] if len(call.args) > 1 else None)
    texts = [n.value for n in walk(sources) if isinstance(n, ast.Constant)] if sources else []
    if (
        _is_given(cuda)
        or _is_true(with_cuda)
        or any(str(t).endswith((".cu", ".cuh")) for t in texts)
    ):
        yield RULE.at(script, call, _MESSAGE)
    elif call.func and _name(call) == "load" and not texts:
        yield RULE.at(script, call, f"if it builds CUDA code: {_MESSAGE}", severity=WARNING)


@RULE.call("torch.utils.cpp_extension.CUDAExtension")
def extension(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.at(script, call, _MESSAGE)


@RULE.reference("torch.utils.cpp_extension.CUDA_HOME", "torch.utils.cpp_extension.CUDNN_HOME")
def toolkit(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.at(
        script, node, "an XLA host has no CUDA toolkit: this is None", severity=INFO, effort=LOW
    )


@RULE.reference("torch.utils.cpp_extension.CUDAExtension")
def extension_chosen(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`Extension = CUDAExtension`, mostly where CUDA was found."""
    yield RULE.at(script, node, _MESSAGE, severity=WARNING)


@RULE.call("ctypes.CDLL", "ctypes.cdll.LoadLibrary")
def library(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), *_] if _LIBRARY.search(name):
            yield RULE.at(script, call, f"`{name}` is part of CUDA, which an XLA host lacks")


@RULE.rest
def custom_kernel(script: Script, rest: Rest) -> Iterator[Finding]:
    yield from leftovers(RULE, script, rest, HIGH)


def _name(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _is_given(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and not node.value)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
