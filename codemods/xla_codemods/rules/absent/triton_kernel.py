"""A Triton kernel is compiled for CUDA.

## What it reports

Each kernel of Triton and Helion, at its definition.

## Why it matters on XLA

XLA cannot run the kernel.

## What to do

Fix: none.

Write the computation with PyTorch's operations, which XLA fuses. If that is too slow, write a
kernel for the device: Pallas on TPU (`torch_xla.experimental.custom_kernel`), NKI on Trainium.

## Example

```python
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):  # XLA903
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)
```

A kernel with a decorator of the program is recognised by the functions that it calls:

```python
import triton.language as tl
from .compiling import jit

@jit
def double(x, n):  # XLA903
    i = tl.program_id(0)
    tl.store(x + i, 2 * tl.load(x + i))
```

Helion compiles its kernels with Triton:

```python
import helion
import helion.language as hl

@helion.kernel(static_shapes=True)
def double(x, out):  # XLA903
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * 2
```

A kernel that only a test for CUDA lets run is a note:

```python
import triton
import triton.language as tl

@triton.jit
def double(x, n):  # XLA903
    i = tl.program_id(0)
    tl.store(x + i, 2 * tl.load(x + i))

def doubled(x):
    double[(x.numel(),)](x, x.numel())
    return x

def scale(x):
    return doubled(x) if x.is_cuda else 2 * x
```

Other decorators of that name are not reported:

```python
import torch

@torch.jit.script
def add(x, y):
    return x + y
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.on_xla import is_guarded as is_left_out
from ...analysis.devices.cuda_only.extensions import uses_of
from ...analysis.devices.guards import is_guarded
from ...analysis.parsed_file import ParsedFile
from ...analysis.scopes import FunctionNode, Scope
from ...analysis.script import Script
from ...fallback import leftovers
from ...finding import HIGH, INFO, LOW, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA903", "triton-kernel", effort=HIGH, words=("triton",))

_JIT = "triton.jit"


@RULE.reference(_JIT, "triton.runtime.jit.jit", "helion.kernel")
def kernel(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    parent = script.parent(node)
    if isinstance(parent, ast.FunctionDef) and node in parent.decorator_list:
        by = node.func if isinstance(node, ast.Call) else node
        yield from _kernel(script, parent, by)


@RULE.call(_JIT, "triton.runtime.jit.jit", "helion.kernel")
def kernel_with_options(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from kernel(script, call, scope)


def _kernel(script: Script, function: FunctionNode, by: ast.AST) -> Iterator[Finding]:
    """The finding at a kernel, which `by`, a use of triton, shows to be one."""
    message = f"the kernel `{function.name}` does not run on XLA: write it with PyTorch's operations, or as a Pallas or NKI kernel"
    if is_guarded(script, by, _JIT) or not _may_run(script, function):
        yield RULE.finding(script, function, message, severity=INFO, effort=LOW)
    else:
        yield RULE.finding(script, function, message)


def _may_run(script: Script, kernel: FunctionNode) -> bool:
    """Return True unless tests for CUDA decide about each use of the kernel, or of the functions that use it."""
    places = _uses(script, kernel)
    return not places or any(_is_reached(file, node) for file, node in places)


def _is_reached(file: ParsedFile, node: ast.expr) -> bool:
    function = file.function(node)
    if is_left_out(file, node):
        return False
    places = _uses(file, function) if function is not None else []
    return not places or not all(is_left_out(other, use) for other, use in places)


def _uses(file: ParsedFile, function: FunctionNode) -> list[tuple[ParsedFile, ast.expr]]:
    """Return the uses of a function; of a method, those of its class."""
    owner = file.parent(function)
    named = owner if isinstance(owner, ast.ClassDef) else function
    return uses_of(file, named) if not isinstance(named, ast.AsyncFunctionDef) else []


@RULE.fallback
def other_kernels(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    """Kernels under decorators of the program's own, and in files without a kernel what else is used of triton."""
    if any(finding.code == RULE.code for finding in unhandled.found):
        return
    kernels: dict[FunctionNode, ast.AST] = {}
    for use in unhandled.uses:
        function = script.function(use.node)
        if function and use.called and use.dotted.startswith("triton.language."):
            kernels.setdefault(function, use.node)
    for function, node in kernels.items():
        yield from _kernel(script, function, node)
    others = [use for use in unhandled.uses if script.function(use.node) not in kernels]
    yield from leftovers(RULE, script, unhandled._replace(uses=others), HIGH)
