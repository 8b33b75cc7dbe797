"""A test for NCCL does not describe XLA devices.

## What it reports

`dist.is_nccl_available()`, `dist.is_backend_available("nccl")` and comparisons of
`dist.get_backend()`.

## Why it matters on XLA

A PyTorch build for CUDA reports NCCL as available on hosts without CUDA. The process group of XLA
devices has a backend of a different name. Such tests therefore take the wrong branch.

## What to do

Fix: safe, or none.

Use `xla.is_available()`, or test that the group's backend is neither gloo nor MPI.

## Example

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def pick(x):
-    backend = "nccl" if dist.is_nccl_available() else "gloo"
+    backend = "nccl" if xla.is_available() else "gloo"
-    if dist.get_backend() == "nccl" and dist.is_backend_available("nccl"):
+    if dist.get_backend() not in ("gloo", "mpi") and xla.is_available():
         x = x.contiguous()
     return backend, x, dist.get_rank()
```

An assertion that the backend has the name that the user chose is removed:

```diff
 import torch.distributed as dist

 def setup(args):
-    assert dist.get_backend() == args.backend, "wrong backend"
-    if dist.get_backend() != args.backend:
-        raise RuntimeError("wrong backend")
     return dist.get_rank()
```

Other comparisons with the user's choice are reported without a fix:

```python
import torch.distributed as dist

def setup(args, x):
    return x.cpu() if dist.get_backend() == args.backend else x  # XLA608
```

The user's choice itself is not reported:

```python
def setup(args):
    return args.dist_backend == "nccl"
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_elif, is_literal, is_pure
from ...edits import Edit, Replace, remove
from ...finding import Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA608", "backend-test")

_OTHER_NAME = "the process group of XLA devices has no backend named `nccl`, so the test fails or takes the other branch: test that the backend is neither gloo nor mpi, or remove the test"
_NCCL = "the test is False on XLA devices, which have no NCCL backend, although the device sends their tensors: test whether the backend is gloo or mpi"
_ASSERTED = "the backend of the process group has a different name on XLA than the requested one, so the check raises an exception: remove it"
_OF_TESTS = Pattern(r"(?:only|skip|requires?)_?\w*nccl", re.IGNORECASE)


@RULE.call(
    "torch.distributed.is_nccl_available",
    "torch.distributed.distributed_c10d.is_nccl_available",
    "torch.distributed.is_backend_available",
)
def is_nccl_available(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`is_nccl_available()`, and `is_backend_available("nccl")`."""
    if call.args and not is_literal(call.args[0], "nccl"):
        return
    function = script.function(call)
    if function is not None and _OF_TESTS.search(function.name):
        return  # `def requires_nccl(): return skip_if(not is_nccl_available())`
    yield RULE.finding(
        script,
        call,
        "PyTorch's test for NCCL does not describe XLA devices: use `xla.is_available()`",
        Replace(call, f"{script.xla}.is_available()"),
    )


@RULE.call("torch.distributed.get_backend", "torch.distributed.distributed_c10d.get_backend")
def get_backend(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_a_host_group(call):
        return
    for name, is_sure in _names(script, call):
        for finding in _asked(script, name):
            yield finding if is_sure else finding._replace(edits=(), safety=None)


def _is_of_a_host_group(call: ast.Call) -> bool:
    """`get_backend(gloo_group)`: the runtime's groups of the host keep theirs."""
    return any("gloo" in ast.unparse(given) for given in (*call.args, *call.keywords))


def _names(script: Script, call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    """`call`, as text too (`str(dist.get_backend()).lower()`), and the uses of its name; each with whether it is that alone."""
    node: ast.expr = call
    while True:
        match parent := script.parent(node):
            case ast.Call(func=ast.Name(id="str"), args=[given]) if given is node:
                node = parent
            case ast.Attribute(attr="lower" | "upper" | "strip") if isinstance(
                around := script.parent(parent), ast.Call
            ):
                node = around
            case ast.NamedExpr(target=named):
                yield parent, False  # the name is bound there, and would be lost
                yield from _uses(script, named)
                return
            case _:
                break
    yield node, True
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        if isinstance(target := parent.targets[0], ast.Name):
            yield from _uses(script, target)


def _uses(script: Script, target: ast.Name) -> Iterator[tuple[ast.expr, bool]]:
    found = script.index.scope(target).find(target.id)
    if found is None:
        return
    for name, scope in script.index.names_of(found[0], target.id):
        if isinstance(name.ctx, ast.Load):
            if scope.find(name.id) == found:
                yield name, len(found[1]) == 1


def _asked(script: Script, backend: ast.expr) -> Iterator[Finding]:
    """Yield findings about tests of the group's backend by name."""
    parent = script.parent(backend)
    match parent:
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            yield from _compared(script, parent, op, backend, right if left is backend else left)
        case ast.Match(subject=subject, cases=cases) if subject is backend:
            if any("nccl" in ast.unparse(case.pattern).lower() for case in cases):
                yield RULE.finding(script, backend, _OTHER_NAME)
        case ast.Attribute(attr="startswith" | "endswith" | "find" | "index" | "count"):
            yield RULE.finding(script, backend, _OTHER_NAME)
        case ast.Subscript(slice=index) if index is backend:
            yield RULE.finding(script, backend, _OTHER_NAME)  # `{"nccl": ...}[dist.get_backend()]`


def _compared(
    script: Script, compare: ast.Compare, op: ast.cmpop, backend: ast.expr, other: ast.expr
) -> Iterator[Finding]:
    others = other.elts if isinstance(other, (ast.List, ast.Tuple, ast.Set)) else [other]
    known = [_backend(script, o) for o in others]
    if "nccl" not in known and None not in known:
        return  # False, as it was, unless the host's backend is meant
    within = isinstance(op, (ast.In, ast.NotIn)) and len(others) == len(known)
    if known == ["nccl"] and (within is (others != [other])):
        yield RULE.finding(script, compare, _NCCL, _of_the_host(script, compare, op, backend))
        return
    dropped = _without_assertion(script, compare, op)
    if dropped is not None:
        yield RULE.finding(script, compare, _ASSERTED, dropped)
    else:
        yield RULE.finding(script, compare, _OTHER_NAME)


def _of_the_host(script: Script, compare: ast.Compare, op: ast.cmpop, backend: ast.expr) -> Edit:
    """Return a test that is also right on CUDA, where a group may be gloo's: `dist.get_backend() not in ("gloo", "mpi")`."""
    negated = isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot))
    whole: ast.expr = compare
    match script.parent(compare):
        case ast.UnaryOp(op=ast.Not()) as opposite:
            whole, negated = opposite, not negated
    names = '("GLOO", "MPI")' if _is_in_capitals(compare) else '("gloo", "mpi")'
    return Replace(whole, f"{{0}} {'in' if negated else 'not in'} {names}", (backend,))


def _is_in_capitals(compare: ast.Compare) -> bool:
    """`dist.get_backend().upper() == "NCCL"`."""
    texts = [n.value for n in walk(compare) if isinstance(n, ast.Constant)]
    return any(isinstance(text, str) and text.isupper() for text in texts)


def _without_assertion(script: Script, compare: ast.Compare, op: ast.cmpop) -> Edit | None:
    """The edit that leaves out an assertion, or its part, that the group has the backend which was asked for."""
    parent = script.parent(compare)
    whole: ast.expr = compare
    if isinstance(parent, ast.BoolOp):
        whole, parent = parent, script.parent(parent)
    match parent:
        case ast.Assert(test=test) if test is whole and isinstance(op, (ast.Eq, ast.In, ast.Is)):
            return _without_part(script, parent, whole, compare, ast.And)
        case ast.If(test=test, body=[ast.Raise()], orelse=[]) if (
            test is whole
            and isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot))
            and not is_elif(parent, script.parents)
        ):
            return _without_part(script, parent, whole, compare, ast.Or)
    return None


def _without_part(
    script: Script,
    statement: ast.stmt,
    whole: ast.expr,
    compare: ast.expr,
    joined: type[ast.boolop],
) -> Edit | None:
    """All of `statement`, or what else its test asks by `and` (of what raises: by `or`)."""
    if not isinstance(whole, ast.BoolOp):
        return remove(statement)
    rest = [value for value in whole.values if value is not compare]
    if not isinstance(
        whole.op, joined
    ):  # `assert alone or get_backend() == backend`: holds, whatever the rest says
        return remove(statement) if all(_only_asks(script, r) for r in rest) else None
    return Replace(whole, "{0}", (rest[0],)) if len(rest) == 1 else None


def _only_asks(script: Script, test: ast.expr) -> bool:
    """True if leaving `test` out leaves nothing undone."""
    calls = [node for node in walk(test) if isinstance(node, ast.Call)]
    asking = all(
        (script.dotted(c.func) or "").startswith(
            ("torch.distributed.is_", "torch.distributed.get_")
        )
        for c in calls
    )
    return asking or is_pure(test)


def _backend(script: Script, node: ast.expr) -> str | None:
    """The backend that `node` surely is: `"nccl"`, `dist.Backend.NCCL`."""
    if isinstance(node, ast.Constant):
        return str(node.value).lower()
    dotted = script.dotted(node) or ""
    if dotted.startswith("torch.distributed.Backend."):
        script.settled.add(node)
        return dotted.rpartition(".")[2].lower()
    return None
