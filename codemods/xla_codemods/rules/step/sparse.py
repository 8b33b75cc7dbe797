"""XLA has no sparse tensors.

An embedding with `sparse=True` fails in backward, and sparse tensors cannot be made on the device (xla-facts section 2).
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

adjacency = torch.sparse_coo_tensor(indices, values, (n, n)).to(xla.xla_device())
```

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

from ...edits import DropArgument
from ...findings import HIGH, SAFE, UNSAFE, Finding
from ...nodes import walk
from ...rule import Rule
from ...syntax import keyword
from ...values import ACCEL, HOST

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA513", "sparse")

_EMBEDDINGS = (
    "torch.nn.Embedding",
    "torch.nn.EmbeddingBag",
    "torch.nn.Embedding.from_pretrained",
    "torch.nn.EmbeddingBag.from_pretrained",
    "torch.nn.functional.embedding",
    "torch.nn.functional.embedding_bag",
)
_MAKERS = (
    "torch.sparse_coo_tensor",
    "torch.sparse_csr_tensor",
    "torch.sparse_csc_tensor",
    "torch.sparse_bsr_tensor",
    "torch.sparse.FloatTensor",
    "torch.sparse.mm",
    "torch.sparse.softmax",
    "torch.sparse.sum",
)
_MESSAGE = "XLA has no sparse tensors"


@RULE.call(*_EMBEDDINGS)
def embedding(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "sparse" or not isinstance(argument.value, ast.Constant):
            continue
        if argument.value.value is True and _concerns(script, call):
            # SparseAdam takes no dense gradients
            safety = UNSAFE if "SparseAdam" in script.source.text else SAFE
            yield RULE.at(script, call, _MESSAGE, DropArgument(call, argument), safety=safety)


@RULE.call(*_MAKERS)
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _stays_on_the_host(script, call, call.args):
        yield RULE.at(script, call, f"{_MESSAGE}: use dense ones", effort=HIGH)


@RULE.method("to_sparse", "to_sparse_csr", "to_sparse_coo")
def converted(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if script.accelerated and not _stays_on_the_host(script, call, [call.func.value]):
        yield RULE.at(script, call, f"{_MESSAGE}: stay with dense ones", effort=HIGH)


def _stays_on_the_host(script: Script, call: ast.Call, given: list[ast.expr]) -> bool:
    """Whether the sparse tensor is made of the host's, and only computed with until its name means something else."""
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
