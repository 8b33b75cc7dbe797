"""XLA has no sparse tensors.

An embedding with `sparse=True` fails in backward, and sparse tensors cannot be made on the device.
Dense gradients of an embedding train the same with SGD and Adagrad, which are the torch optimizers that take sparse ones.

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-embedding = nn.Embedding(1000, 64, sparse=True).cuda()
+embedding = nn.Embedding(1000, 64).to(xla.xla_device())
```

Sparse tensors are for a person: gather and scatter, or index_add, over dense ones.

```python
import torch
from xla_migrate import runtime as xla

adjacency = torch.sparse_coo_tensor(indices, values, (n, n)).to(xla.xla_device())  # XLA513
```

One that comes from elsewhere is known by what is done with it.

```python
import torch
from xla_migrate import runtime as xla

adjacency = load().to(xla.xla_device())  # XLA513
print(adjacency.coalesce())
```

One that another module of the project makes is found where it is moved (`adj, x, y = utils.load_data()`; `adj = adj.cuda()`).

One that is made and used up on the host is no finding:

```python
import torch
from xla_migrate import runtime as xla

def normalized(table):
    features = torch.from_numpy(table)
    scale = torch.diag(1 / features.sum(1)).to_sparse()
    features = scale @ features
    return features.to(xla.xla_device())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.inference.values import ACCEL, DTYPE, HOST, MODULE
from ...analysis.nodes import walk
from ...analysis.syntax import keyword
from ...analysis.training.tensors.sparse import CONVERTERS, MAKERS, SparseTensors
from ...edits import DropArgument
from ...finding import HIGH, INFO, SAFE, UNSAFE, Finding
from ...rule import Rule
from ...symptoms import REMOTE

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA513", "sparse", behind={"no fallback": REMOTE})

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
_MOVED = "a sparse tensor, as its use shows, and XLA has none: make it dense before it is moved"
_MESSAGE = "XLA has no sparse tensors: use dense ones"


@RULE.call(*_EMBEDDINGS)
def embedding(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "sparse" or not isinstance(argument.value, ast.Constant):
            continue
        if argument.value.value is True and _concerns(script, call):
            # SparseAdam takes no dense gradients
            safety = UNSAFE if "SparseAdam" in script.source.text else SAFE
            yield RULE.finding(script, call, _MESSAGE, DropArgument(call, argument), safety=safety)


@RULE.call(*_MAKERS, mentions=("sparse",))
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _stays_on_the_host(script, call, call.args):
        severity = INFO if _is_of_sparse_ones(script, call) else None
        yield RULE.finding(script, call, f"{_MESSAGE}", effort=HIGH, severity=severity)


@RULE.method(*CONVERTERS)
def converted(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if script.accelerated and not _stays_on_the_host(script, call, [call.func.value]):
        severity = INFO if _is_of_sparse_ones(script, call) else None
        yield RULE.finding(script, call, f"{_MESSAGE}", effort=HIGH, severity=severity)


def _is_of_sparse_ones(script: Script, call: ast.Call) -> bool:
    """True if the code is reached with sparse tensors alone, which no XLA tensor is: `if x.is_sparse:`."""
    child: ast.AST = call
    for ancestor in script.ancestors(call):
        if isinstance(ancestor, ast.If) and child in ancestor.body:
            test = ancestor.test
            parts = test.values if isinstance(test, ast.BoolOp) else [test]
            asked = [isinstance(p, ast.Attribute) and p.attr in _SPARSE_ONES for p in parts]
            every = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
            if all(asked) if every else any(asked):
                return True
        child = ancestor
    return False


@RULE.method("cuda", "to", mentions=("sparse",))
def moved(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`adj.cuda()` of what another module of the project has made."""
    assert isinstance(call.func, ast.Attribute)
    found = list(_made_elsewhere(script, call, call.func.value))
    yield from found or _used_as_one(script, call, scope)


@RULE.method("register_buffer")
def kept(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`self.register_buffer("adj", adj)`: it is moved with its module."""
    if len(call.args) > 1:
        yield from _made_elsewhere(script, call, call.args[1])


def _made_elsewhere(script: Script, call: ast.Call, tensor: ast.expr) -> Iterator[Finding]:
    """Where this file makes it, that is the finding."""
    if not script.runs_accelerated or script.value(tensor).has(MODULE):
        return
    sparse = script.cached(SparseTensors)
    origin = sparse.origin(tensor)
    if origin is None or origin.path == sparse.home.path or _goes_to_the_host(script, call):
        return
    message = (
        f"this tensor is sparse (made in {origin.path}, line {origin.line}), and fails where it is moved to an XLA "
        "device: make it dense before (`.to_dense()`), or gather and scatter over dense ones"
    )
    yield RULE.finding(script, call, message, effort=HIGH)


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    target = call.args[0] if call.args else keyword(call, "device")
    if target is None:
        return False
    kinds = script.value(target).kinds
    return DTYPE in kinds or (HOST in kinds and ACCEL not in kinds)  # not `cuda if ... else cpu`


_SPARSE_ONES = frozenset({"is_sparse", "is_sparse_csr"})


def _used_as_one(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`adj = load().cuda()`, where `adj.coalesce()` or `torch.spmm(adj, x)` shows what it is."""
    if not script.source.mentions("sparse", "spmm", "coalesce", "_indices"):
        return
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "to" and not (call.args and script.is_device(call.args[0])):
        return
    statement = script.statement(call)
    name = call.func.value
    match statement:
        case ast.Assign(targets=[ast.Name() as target], value=value) if value is call:
            name = target
    if not isinstance(name, ast.Name) or (found := scope.find(name.id)) is None:
        return
    uses = (n for n, s in script.index.of(ast.Name) if n.id == name.id and s.find(n.id) == found)
    if any(_is_sparse_there(script, use) for use in uses if use.lineno >= call.lineno):
        yield RULE.finding(script, call, _MOVED, effort=HIGH)


def _is_sparse_there(script: Script, use: ast.Name) -> bool:
    match script.parent(use):
        case ast.Attribute(attr=attr) as asked if attr in _METHODS:
            around = script.parent(asked)
            return isinstance(around, ast.Call) and around.func is asked
        case ast.Call(args=[first, *_]) as taking if first is use:
            return script.dotted(taking.func) in _FUNCTIONS
    return False


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
    """The uses of `name` in the block behind `statement`, up to where it is bound again."""
    block = script.block(statement)
    for later in block[block.index(statement) + 1 :]:
        named = [n for n in walk(later) if isinstance(n, ast.Name) and n.id == name]
        yield from (n for n in named if isinstance(n.ctx, ast.Load))
        if any(isinstance(n.ctx, ast.Store) for n in named):
            return


def _concerns(script: Script, node: ast.AST) -> bool:
    return script.accelerated or script.trains or script.is_in_a_module(node)
