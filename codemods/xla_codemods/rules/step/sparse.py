"""XLA has no sparse tensors.

## What it reports

`nn.Embedding(..., sparse=True)`, sparse tensors that are created on the device or moved to it,
and operations on them.

## Why it matters on XLA

Sparse tensors cannot be created on an XLA device. An embedding with `sparse=True` fails in the
backward pass.

## What to do

Fix: safe, unsafe or none.

Use dense gradients for embeddings. They train the same with SGD and Adagrad, the optimizers of
PyTorch that accept sparse gradients. Use `xla.sparse` for a sparse matrix that is moved to the
device: the runtime keeps indices and values and multiplies with them, with gradients. On CUDA
`xla.sparse` returns the tensor unchanged.

For other operations, gather and scatter dense tensors.

## Example

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-embedding = nn.Embedding(1000, 64, sparse=True).cuda()
+embedding = nn.Embedding(1000, 64).to(xla.xla_device())
```

A sparse matrix that is moved:

```diff
 import torch
+from xla_migrate import runtime as xla

 def normalized(indices, values, n):
-    adjacency = torch.sparse_coo_tensor(indices, values, (n, n)).cuda()
+    adjacency = xla.sparse(torch.sparse_coo_tensor(indices, values, (n, n))).to(xla.xla_device())
     return adjacency

 def propagate(adjacency, x):
     return torch.spmm(adjacency, x)
```

A matrix from elsewhere is recognised by its uses, or by the module of the project that creates
it:

```diff
 import torch
 from xla_migrate import runtime as xla

-adjacency = load().to(xla.xla_device())
+adjacency = xla.sparse(load()).to(xla.xla_device())
 y = torch.spmm(adjacency, x)
```

Operations that `xla.sparse` does not have:

```python
import torch
from xla_migrate import runtime as xla

adjacency = torch.sparse_coo_tensor(indices, values, (n, n)).to(xla.xla_device())  # XLA513
weights = torch.sparse.softmax(adjacency, dim=1)  # XLA513
```

Sparse tensors that stay on the host are not reported:

```python
import torch
from xla_migrate import runtime as xla

def normalized(table):
    features = torch.from_numpy(table)
    scale = torch.diag(1 / features.sum(1)).to_sparse()
    features = scale @ features
    return features.to(xla.xla_device())
```

## Limits

`xla.sparse` supports multiplication and little else. An unsupported use that the rule does not
see raises an exception when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.values import ACCEL, DTYPE, HOST, MODULE
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword, name_of
from ...analysis.training.tensors.sparse import (
    CONVERTERS,
    MAKERS,
    SPARSE,
    SparseMoves,
    SparseOrigin,
    SparseTensors,
)
from ...edits import DropArgument, Replace
from ...finding import HIGH, INFO, SAFE, UNSAFE, Finding
from ...flow.closure import reach
from ...flow.conditions import is_excluded
from ...flow.edges import sources
from ...rule import MethodCall, Rule
from ...symptoms import REMOTE

RULE = Rule("XLA513", "sparse", of_what_runs=True, behind={"no fallback": REMOTE})

_EMBEDDINGS = (
    "torch.nn.Embedding",
    "torch.nn.EmbeddingBag",
    "torch.nn.Embedding.from_pretrained",
    "torch.nn.EmbeddingBag.from_pretrained",
    "torch.nn.functional.embedding",
    "torch.nn.functional.embedding_bag",
)
# They compute with some.
_MAKERS = (
    *(m for m in MAKERS if m.startswith("torch.sparse")),
    "torch.sparse.mm",
    "torch.sparse.softmax",
    "torch.sparse.sum",
)
# Methods that sparse tensors alone have, and functions that take them first.
_METHODS = frozenset(
    "_indices _values ccol_indices coalesce col_indices crow_indices is_coalesced row_indices".split()
)
_FUNCTIONS = frozenset(
    "torch.spmm torch.smm torch.hspmm torch.dsmm torch.sspaddmm torch.sparse.mm torch.sparse.softmax torch.sparse.sum".split()
)
_MESSAGE = "XLA has no sparse tensors: use dense tensors"
_MOVED = "a sparse tensor cannot be moved to an XLA device: use `xla.sparse`, which moves its indices and values"


@RULE.call(*_EMBEDDINGS)
def embedding(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "sparse":
            continue
        values = reach([argument.value], lambda node: sources(script, node))
        if any(is_literal(value, True) for value in values) and _concerns(script, call):
            # SparseAdam takes no dense gradients
            safety = UNSAFE if "SparseAdam" in script.source.text else SAFE
            yield RULE.finding(script, call, _MESSAGE, DropArgument(call, argument), safety=safety)


@RULE.call(*_MAKERS)
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _is_settled(script, call, call.args):
        severity = INFO if _is_of_sparse_ones(script, call) else None
        yield RULE.finding(script, call, f"{_MESSAGE}", effort=HIGH, severity=severity)


@RULE.method(*CONVERTERS)
def converted(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _is_settled(script, call, [call.func.value]):
        severity = INFO if _is_of_sparse_ones(script, call) else None
        yield RULE.finding(script, call, f"{_MESSAGE}", effort=HIGH, severity=severity)


def _is_of_sparse_ones(script: Script, call: ast.Call) -> bool:
    """True if the code is reached with sparse tensors alone, which no XLA tensor is: `if x.is_sparse:`."""
    return is_excluded(script, call, lambda part: False if name_of(part) in _SPARSE_ONES else None)


@RULE.method("cuda", "to")
def moved(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`adj.cuda()`, wherever in the project it is made."""
    tensor = call.func.value
    if isinstance(tensor, ast.Call) and script.dotted(tensor.func, scope) == SPARSE:
        return
    origin = _origin(script, call, tensor)
    if origin is None and not _is_used_as_one(script, call, scope):
        return
    refused = script.cached(SparseMoves).refused
    if refused is None:
        edit = Replace(tensor, f"{script.xla}.sparse({{0}})", (tensor,))
        yield RULE.finding(script, call, _MOVED, edit)
    elif origin is None or origin.path != script.cached(SparseTensors).home.path:
        where = f" (created in {origin.path}, line {origin.line})" if origin is not None else ""
        message = f"a sparse tensor{where} cannot be moved to an XLA device, and `xla.sparse` has no `{refused}`: make it dense before you move it, or gather and scatter dense tensors"
        yield RULE.finding(script, call, message, effort=HIGH)  # otherwise reported at its creation


@RULE.method("register_buffer")
def kept(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`self.register_buffer("adj", adj)`: it is moved with its module."""
    origin = _origin(script, call, call.args[1]) if len(call.args) > 1 else None
    if origin is not None and origin.path != script.cached(SparseTensors).home.path:
        message = f"the tensor is sparse (created in {origin.path}, line {origin.line}) and cannot be moved to an XLA device: make it dense first (`.to_dense()`), or gather and scatter dense tensors"
        yield RULE.finding(script, call, message, effort=HIGH)  # otherwise reported at its creation


def _origin(script: Script, call: ast.Call, tensor: ast.expr) -> SparseOrigin | None:
    """Where the sparse tensor is made that `call` moves to the device."""
    if not script.runs_accelerated or script.value(tensor).has(MODULE):
        return None
    origin = script.cached(SparseTensors).origin(tensor)
    return None if origin is None or _goes_to_the_host(script, call) else origin


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    target = call.args[0] if call.args else keyword(call, "device")
    if target is None:
        return False
    if isinstance(target, ast.Name) and (found := script.index.scope(target).find(target.id)):
        if any(binding.how == "parameter" for binding in found[1]):
            return False  # its default is the CPU
    kinds = script.value(target).kinds
    return DTYPE in kinds or (HOST in kinds and ACCEL not in kinds)  # not `cuda if ... else cpu`


_SPARSE_ONES = frozenset({"is_sparse", "is_sparse_csr"})


def _is_used_as_one(script: Script, call: MethodCall, scope: Scope) -> bool:
    """`adj = load().cuda()`, where `adj.coalesce()` or `torch.spmm(adj, x)` shows what it is."""
    if not script.source.mentions("sparse", "spmm", "coalesce", "_indices"):
        return False
    if call.func.attr == "to" and not (call.args and script.is_device(call.args[0])):
        return False
    statement = script.statement(call)
    name = call.func.value
    match statement:
        case ast.Assign(targets=[ast.Name() as target], value=value) if value is call:
            name = target
    if not isinstance(name, ast.Name) or (found := scope.find(name.id)) is None:
        return False
    uses = (n for n, s in script.index.names_of(found[0], name.id) if s.find(n.id) == found)
    return any(_is_sparse_there(script, use) for use in uses if use.lineno >= call.lineno)


def _is_sparse_there(script: Script, use: ast.Name) -> bool:
    match script.parent(use):
        case ast.Attribute(attr=attr) as attribute if attr in _METHODS:
            around = script.parent(attribute)
            return isinstance(around, ast.Call) and around.func is attribute
        case ast.Call(args=[first, *_]) as taking if first is use:
            return script.dotted(taking.func) in _FUNCTIONS
    return False


def _is_settled(script: Script, call: ast.Call, given: list[ast.expr]) -> bool:
    """True if what is made here is used up on the host, or moved by `xla.sparse`."""
    if _stays_on_the_host(script, call, given):
        return True
    moves = script.cached(SparseMoves)
    if script.dotted(call.func) == "torch.sparse.mm" and moves.lines and moves.refused is None:
        return True  # `xla.sparse` has it
    if keyword(call, "device") or any(ACCEL in script.value(value).kinds for value in given):
        return False
    return call.lineno in moves.lines and moves.refused is None


def _stays_on_the_host(script: Script, call: ast.Call, given: list[ast.expr]) -> bool:
    """True if the sparse tensor is made of the host's, and only computed with until its name means something else."""
    kinds = [script.value(value).kinds for value in given]
    if keyword(call, "device") or any(ACCEL in kind for kind in kinds):
        return False
    if not any(HOST in kind for kind in kinds):
        return False
    match script.parent(call):
        case ast.Assign(targets=[ast.Name(id=name)]) as statement:
            uses = list(_until_bound_again(script, statement, name))
            return bool(uses) and all(isinstance(script.parent(u), ast.BinOp) for u in uses)
    return False


def _until_bound_again(script: Script, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """Yield the uses of `name` in the block after `statement`, until it is bound again."""
    block = script.block(statement)
    for later in block[block.index(statement) + 1 :]:
        named = [n for n in walk(later) if isinstance(n, ast.Name) and n.id == name]
        yield from (n for n in named if isinstance(n.ctx, ast.Load))
        if any(isinstance(n.ctx, ast.Store) for n in named):
            return


def _concerns(script: Script, node: ast.AST) -> bool:
    return script.accelerated or script.trains or script.is_in_a_module(node)
