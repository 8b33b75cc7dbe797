"""Sparse tensors that are moved to the device, and what is done with them there.

On XLA, `xla.sparse` replaces them. It can multiply, and little else: if one visible use is not supported, the
move needs a manual change. A use that is not visible raises at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from ... import flow
from ...devices.callees import View
from ...inference import library_types
from ...scopes import Scope, resolve
from .sparse import SparseTensors

if TYPE_CHECKING:
    from ...script import Script

# The runtime's function that takes them to the device.
SPARSE = f"{library_types.RUNTIME}.sparse"
# What the runtime's object has, and torch's functions that take it.
_ATTRIBUTES = frozenset(
    (
        "T _indices _nnz _values bfloat16 coalesce cpu cuda detach device dim double dtype float half indices is_coalesced "
        "is_sparse is_sparse_csr layout matmul mm mv ndim numel requires_grad shape size spmm t to to_dense transpose values"
    ).split()
)
_FUNCTIONS = frozenset(
    "torch.mm torch.spmm torch.dsmm torch.matmul torch.mv torch.addmm torch.t torch.transpose torch.sparse.mm "
    "torch.sparse.addmm torch.is_tensor".split()
)
_MOVES = ("cuda", "to")


class SparseMoves(SparseTensors):
    """The sparse tensors that are on the device: `origin` gives the location of the move."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._on_the_host = SparseTensors(script)
        self._script = script

    def made(self, node: ast.Call, scope: Scope, view: View) -> bool:
        """`X.cuda()`, `X.to(device)`, `xla.sparse(X).to(device)`, where X is made as a sparse tensor."""
        if resolve(node.func, scope) == SPARSE:
            return True
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVES:
            return False
        if node.args and _is_no_device(node.args[0], scope):
            return False
        return self._on_the_host.origin_in(view, node.func.value) is not None

    @cached_property
    def lines(self) -> frozenset[int]:
        """The lines of this file where sparse tensors are made that it moves."""
        found = (
            self._on_the_host.origin(owner) for owner in (*self._moved_here(), *self._wrapped())
        )
        return frozenset(o.line for o in found if o is not None and o.path == self.home.path)

    def _moved_here(self) -> Iterator[ast.expr]:
        for name in _MOVES:
            for call, _ in self.home.indexed.calls_of(name):
                if isinstance(call.func, ast.Attribute):
                    yield call.func.value

    def _wrapped(self) -> Iterator[ast.expr]:
        for call, scope in self.home.indexed.calls_of("sparse"):
            if resolve(call.func, scope) == SPARSE:
                yield from call.args

    @cached_property
    def refused(self) -> str | None:
        """Return an unsupported use of a sparse tensor on the device, as it is written; None if none is seen."""
        project = self._script.project
        paths = project.program_paths if project is not None else []
        views = (self.home, *(v for v in map(self.callees.view, paths) if v is not None))
        return next((use for view in views for use in self._refused_in(view)), None)

    def _refused_in(self, view: View) -> Iterator[str]:
        for kind in (ast.Name, ast.Attribute, ast.Call):
            for node, scope in view.indexed.of(kind):
                around = view.indexed.parents.get(node)
                if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or around is None:
                    continue
                if not _takes(node, around, scope) and self._is_one(node, scope, view):
                    yield ast.unparse(around).partition("\n")[0]

    def _is_one(self, node: ast.expr, scope: Scope, view: View) -> bool:
        """Also a parameter called as one that is moved here: models are called through more hands than are followed."""
        if isinstance(node, ast.Name) and node.id in self._names:
            found = scope.find(node.id)
            if found is not None:
                home, bindings = found
                reaching = flow.reaching(bindings, node, home, view.indexed.parents)
                if any(b.how == "parameter" for b in reaching):
                    return True
        return self.origin_in(view, node) is not None

    @cached_property
    def _names(self) -> frozenset[str]:
        """What sparse tensors are called that this file moves."""
        owners = (*self._moved_here(), *self._wrapped())
        named = (n for n in owners if isinstance(n, (ast.Name, ast.Attribute)))
        return frozenset(
            n.id if isinstance(n, ast.Name) else n.attr
            for n in named
            if self._on_the_host.origin(n) is not None
        )


def _is_no_device(target: ast.expr, scope: Scope) -> bool:
    """A dtype, or the CPU."""
    if isinstance(target, ast.Call):
        return bool(target.args) and _is_no_device(target.args[0], scope)
    if isinstance(target, ast.Constant):
        return target.value == "cpu"
    return (resolve(target, scope) or "").startswith("torch.")


def _takes(node: ast.expr, around: ast.AST, scope: Scope) -> bool:
    """True if `around` does with `node` what the runtime's object can do, or only hands it on."""
    match around:
        case ast.Attribute(attr=attr):
            return attr in _ATTRIBUTES
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            other = right if node is left else left
            return isinstance(other, ast.Constant)
        case ast.UnaryOp(op=ast.USub()):
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Call(func=func):
            dotted = resolve(func, scope) or ""
            return func is node or not dotted.startswith("torch.") or dotted in _FUNCTIONS
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Subscript() | ast.AugAssign():
            return isinstance(around, ast.Subscript) and around.slice is node
        case ast.For() | ast.comprehension() | ast.If() | ast.While() | ast.IfExp():
            return isinstance(around, ast.IfExp) and around.test is not node
    return True
