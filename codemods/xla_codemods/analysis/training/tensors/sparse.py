"""Sparse tensors: where they are created, followed through the project's modules, and what is moved to the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from ....flow.closure import reach
from ...index import Index
from ...inference import library_types
from ...inference.library_types import RUNTIME, VENDORED
from ...projects.passed_arguments import passed_arguments
from ...projects.project import Modules
from ...projects.sources import Place, ValueSources
from ...scopes import Scope, resolve
from ...script import Script

# Functions that make a sparse tensor, or that only sparse tensors have.
MAKERS = (
    "torch.sparse_coo_tensor",
    "torch.sparse_csr_tensor",
    "torch.sparse_csc_tensor",
    "torch.sparse_bsr_tensor",
    "torch.sparse_bsc_tensor",
    "torch.sparse_compressed_tensor",
    "torch.sparse.FloatTensor",
    "torch.sparse.DoubleTensor",
    "torch.sparse.LongTensor",
    "torch.sparse.spdiags",
    "torch.cuda.sparse.FloatTensor",
    "torch_geometric.utils.to_torch_coo_tensor",
    "torch_geometric.utils.to_torch_csr_tensor",
    "torch_geometric.utils.to_torch_sparse_tensor",
)
CONVERTERS = ("to_sparse", "to_sparse_csr", "to_sparse_coo", "to_sparse_csc", "to_sparse_bsr")
# Methods and functions of a sparse tensor that give one.
_KEEPING = frozenset(
    "clone coalesce contiguous cpu cuda detach detach_ double float half mul requires_grad_ t to transpose type type_as "
    "abs neg pow div".split()
)
_WRAPPING = frozenset(
    {"torch.autograd.Variable", "torch.transpose", "torch.nn.Parameter", "torch.t"}
)

# Where one is made or moved, one of these identifiers stands, or "sparse" with one of the others.
_IN_SPARSE = ("FloatTensor", "DoubleTensor", "LongTensor", RUNTIME.partition(".")[0], VENDORED)
_WORDS = (*CONVERTERS, *sorted({name.rpartition(".")[2] for name in MAKERS} - {*_IN_SPARSE}))


class SparseOrigin(NamedTuple):
    """Where a sparse tensor is made."""

    path: str
    line: int


class SparseTensors:
    """The sparse tensors that the script handles."""

    def __init__(self, script: Script) -> None:
        self.passed = passed_arguments(script)
        self.callees = self.passed.callees
        self._sources = ValueSources(self.passed)
        self.home = self.callees.home
        self._project = script.project
        self._here = _may_be_made(script.source.names)
        self._barren: set[Place] = set()  # no sparse tensor comes from there

    def origin(self, node: ast.expr) -> SparseOrigin | None:
        """Return where `node` is made, if it may be a sparse tensor; None if it is not, or that is unknown."""
        return self.origin_in(self.home, node)

    def origin_in(self, index: Index, node: ast.expr) -> SparseOrigin | None:
        """The same, of a node of the module `index`."""
        if not self._anywhere:
            return None
        start = Place(node, index)
        reached = reach([start] if start not in self._barren else [], self._step)
        for part, of, path in reached:
            if not path and isinstance(part, ast.Call) and self.made(part, of):
                return SparseOrigin(of.path, part.lineno)
        self._barren.update(reached)
        return None

    @cached_property
    def _anywhere(self) -> bool:
        """True if any module that belongs to the program has the words for one."""
        if self._here:
            return True
        graph = self._project.modules.graph
        return not graph.connected(self._project.path).isdisjoint(_making(self._project.modules))

    def _step(self, place: Place) -> Iterator[Place]:
        """Yield the places that the value comes from, without those that no sparse tensor comes from."""
        dotted = place.home.dotted
        match place.node:
            case ast.Attribute(value=owner, attr="T" | "data"):
                places = iter([place._replace(node=owner)])
            case ast.Call(args=[first, *_]) if dotted(place.node.func) in _WRAPPING:
                places = iter([place._replace(node=first)])
            case _:
                places = self._sources.of(place)
        yield from (p for p in places if p not in self._barren)
        match place.node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _KEEPING:
                if dotted(place.node.func) is None:
                    yield place._replace(node=owner)

    def made(self, node: ast.Call, index: Index) -> bool:
        """True if the call itself is what is looked for."""
        dotted = index.dotted(node.func)
        if dotted is not None:
            return dotted in MAKERS
        return isinstance(node.func, ast.Attribute) and node.func.attr in CONVERTERS


def _may_be_made(names: set[str]) -> bool:
    """Return True if a file with these identifiers, in small letters, may make or move one."""
    if not names.isdisjoint(word.lower() for word in _WORDS):
        return True
    return "sparse" in names and not names.isdisjoint(word.lower() for word in _IN_SPARSE)


def _making(modules: Modules) -> frozenset[str]:
    """Return the paths of the modules that may make or move one."""
    found, others = (
        frozenset().union(*map(modules.with_word, words)) for words in (_WORDS, _IN_SPARSE)
    )
    return found | (modules.with_word("sparse") & others)


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

    def made(self, node: ast.Call, index: Index) -> bool:
        """`X.cuda()`, `X.to(device)`, `xla.sparse(X).to(device)`, where X is made as a sparse tensor."""
        if index.dotted(node.func) == SPARSE:
            return True
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVES:
            return False
        if node.args and _is_no_device(node.args[0], index.scope(node)):
            return False
        return self._on_the_host.origin_in(index, node.func.value) is not None

    @cached_property
    def lines(self) -> frozenset[int]:
        """The lines of this file where sparse tensors are made that it moves."""
        found = (
            self._on_the_host.origin(owner) for owner in (*self._moved_here(), *self._wrapped())
        )
        return frozenset(o.line for o in found if o is not None and o.path == self.home.path)

    def _moved_here(self) -> Iterator[ast.expr]:
        for name in _MOVES:
            for call, _ in self.home.calls_of(name):
                if isinstance(call.func, ast.Attribute):
                    yield call.func.value

    def _wrapped(self) -> Iterator[ast.expr]:
        for call, scope in self.home.calls_of("sparse"):
            if resolve(call.func, scope) == SPARSE:
                yield from call.args

    @cached_property
    def refused(self) -> str | None:
        """Return an unsupported use of a sparse tensor on the device, as it is written; None if none is seen."""
        paths = self._script.project.program_paths
        modules = (self.home, *filter(None, map(self.callees.module, paths)))
        return next((use for module in modules for use in self._refused_in(module)), None)

    def _refused_in(self, index: Index) -> Iterator[str]:
        for kind in (ast.Name, ast.Attribute, ast.Call):
            for node, scope in index.of(kind):
                around = index.parents.get(node)
                if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or around is None:
                    continue
                if not _takes(node, around, scope) and self._is_one(node, index):
                    yield ast.unparse(around).partition("\n")[0]

    def _is_one(self, node: ast.expr, index: Index) -> bool:
        """Also a parameter called as one that is moved here: models are called through more hands than are followed."""
        if isinstance(node, ast.Name) and node.id in self._names:
            if any(b.how == "parameter" for b in index.reaching(node)):
                return True
        return self.origin_in(index, node) is not None

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
