"""Tests of a device by its text: every comparison of a CUDA word with text made from a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....flow.edges import passed
from ...flow import reaching
from ...inference.values import DEVICE, STRING, TENSOR
from ...nodes import walk
from ..specs import Devices
from .made_names import made_names
from .renamed import is_renamed, is_xla_or_renamed
from .tables import lookups

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile
    from ...scopes import Scope

_DEEPEST = 6  # steps from a word, or a device, to the question
_AS_TEXT = frozenset({"str", "repr", "format", "ascii", "getattr"})
_COLLECTED = frozenset(
    {"set", "list", "tuple", "sorted", "frozenset", "next", "iter", "map", "min", "max"}
)
_TEXT_METHODS = frozenset(
    "casefold encode format lower lstrip partition replace removeprefix removesuffix rpartition rsplit rstrip split strip "
    "title upper __repr__ __str__".split()
)
_ASKING_METHODS = frozenset(
    "__contains__ __eq__ __ne__ count endswith find index rfind rindex startswith "
    "intersection isdisjoint issubset issuperset".split()
)
_CUTTING = frozenset({"replace", "split", "removeprefix", "lstrip", "strip"})
_ASKING = frozenset(
    f"{home}.{name}"
    for home, names in {
        "re": "match search fullmatch findall finditer",
        "operator": "eq ne contains countOf indexOf",
        "fnmatch": "fnmatch fnmatchcase",
    }.items()
    for name in names.split()
)
_MATCHING = frozenset({"match", "search", "fullmatch", "findall", "finditer"})  # of `re.compile`


class Question(NamedTuple):
    """A test at `node`: of a `text`, in a `table`, of a `module` of torch given as a string, or by a computed `name`."""

    node: ast.expr | ast.pattern
    of: str = "text"


def questions(script: ParsedFile) -> Iterator[Question]:
    """Every question that a string of the file with "cuda" in it takes part in; one may come several times."""
    words, types = _Words(script), _Words(script, typed=True)
    for constant, scope in script.index.of(ast.Constant):
        if isinstance(constant.value, str) and "cuda" in constant.value.lower():
            found = types if constant.value.startswith("torch.cuda") else words
            yield from found.asked(constant, scope, _DEEPEST)
    for call, scope in script.index.calls_of("dict"):
        if isinstance(call.func, ast.Name) and any(k.arg == "cuda" for k in call.keywords):
            yield from words.looked_up(call, scope, _DEEPEST)

    def tell(part: ast.expr, scope: Scope) -> bool:
        return tells(script, part, scope)

    yield from (Question(found, "table") for found in lookups(script, tell))
    yield from (Question(found, "name") for found in made_names(script, tell))
    for node, scope in script.index.of(ast.Compare):
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            continue  # of a member of an enumeration that the program keeps: it stays what it is
        parts = (node.left, *node.comparators)
        named = [e for part in parts for e in getattr(part, "elts", (part,))]
        if any(_is_called_cuda(n) for n in named) and any(tells(script, p, scope) for p in parts):
            yield Question(node)


def _is_called_cuda(node: ast.expr) -> bool:
    """`Device.CUDA`, `consts.CUDA_DEVICE`, `DeviceType.GPU.value`: of another module, where that cannot be looked up."""
    if isinstance(node, ast.Attribute) and node.attr in {"value", "name"}:
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr.isupper() and ("CUDA" in node.attr or node.attr == "GPU")
    return isinstance(node, ast.Name) and node.id.isupper() and "CUDA" in node.id


def tells(
    script: ParsedFile,
    node: ast.AST | None,
    scope: Scope,
    depth: int = _DEEPEST,
    *,
    typed: bool = False,
) -> bool:
    """True if `node` is surely a device's text or kind, is cut out of it, or a collection of such.

    `typed`: the type of what is not known to be a tensor (`x.type()`) is such, too.
    """
    if depth == 0 or node is None:
        return False

    def of(part: ast.AST | None) -> bool:
        return tells(script, part, scope, depth - 1, typed=typed)

    match node:
        case ast.Constant() | ast.Compare():
            return False
        case ast.Attribute(attr="type", value=owner):
            return _is_device(script, owner, scope)
        case ast.Call(func=ast.Attribute(attr="type", value=owner), args=[], keywords=[]):
            return typed or script.value(owner, scope).has(TENSOR)
        case ast.Attribute(attr="__module__"):
            return typed
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=name), *_]):
            return name == "device" or (name == "type" and _is_device(script, owner, scope))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _AS_TEXT | _COLLECTED:
            return any(_is_device(script, a, scope) or of(a) for a in args)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _TEXT_METHODS:
            texts = node.args if name == "format" else [owner]
            return any(_is_device(script, t, scope) or of(t) for t in texts)
        case ast.JoinedStr(values=[ast.FormattedValue(value=inner), *_]):
            return _is_device(script, inner, scope) or of(inner)
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str()), right=inner):
            return _is_device(script, inner, scope) or of(inner)
        case ast.Subscript(value=owner):
            return of(owner) or (
                isinstance(node.slice, ast.Slice) and _is_device(script, owner, scope)
            )
        case ast.IfExp(body=first, orelse=second):
            return of(first) or of(second)
        case ast.BoolOp(values=parts):
            return any(map(of, parts))
        case ast.NamedExpr(value=inner) | ast.Starred(value=inner):
            return of(inner)
        case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.GeneratorExp(elt=inner):
            inside = script.index.scope(inner)
            return tells(script, inner, inside, depth - 1, typed=typed)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return bool(parts) and any(of(p) for p in parts)
        case ast.Name(id=name):
            found = scope.find(name)
            if found is None or _is_device(script, node, scope):
                return found is not None
            home, bindings = found
            kept = reaching(bindings, node, home, script.parents) if home is scope else bindings
            return bool(kept) and all(
                _is_given(script, name, home, depth - 1, typed=typed)
                if b.how == "parameter"
                else b.how in {"assign", "for"}
                and tells(script, b.value, home, depth - 1, typed=typed)
                for b in kept
            )
    return _is_device(script, node, scope)


def _is_given(script: ParsedFile, parameter: str, home: Scope, depth: int, *, typed: bool) -> bool:
    """True if each call of the function in this file hands it such for `parameter`: `step(x, device.type)`."""
    function = home.node
    if depth <= 0:
        return False
    given = passed(script, function, parameter)
    return bool(given) and all(
        g is not None and tells(script, g, script.index.scope(g), depth, typed=typed) for g in given
    )


def _is_device(script: ParsedFile, node: ast.AST, scope: Scope) -> bool:
    if script.cached(Devices).is_device(node):
        return True
    value = script.value(node, scope)
    if value.has(DEVICE) and not value.has(STRING):
        return True
    return value.has(DEVICE) and isinstance(node, ast.expr) and is_xla_or_renamed(script, node)


class _Words:
    """Where a word of CUDA's goes, and what it is compared with there."""

    def __init__(self, script: ParsedFile, *, typed: bool = False) -> None:
        self.script = script
        self.typed = typed  # such a word is the beginning of a tensor type's name
        self.entries: set[ast.AST] = set()  # names for what a loop goes through

    def asked(self, node: ast.AST, scope: Scope, depth: int) -> Iterator[Question]:
        """The questions that `node`, such a word or a collection of them, takes part in."""
        parent = self.script.parent(node)
        if depth == 0 or parent is None:
            return
        match parent:
            case ast.Compare(left=left, comparators=others):
                if any(self._tells(p) for p in (left, *others) if p is not node):
                    if node in self.entries or not self._asks_the_runtime(parent):
                        yield Question(parent)
            case ast.BinOp(left=left, right=right) if isinstance(
                parent.op, (ast.BitAnd, ast.Sub, ast.BitXor)
            ):
                if self._tells(right if left is node else left):
                    yield Question(parent)
            case ast.Call():
                yield from self._of_call(node, parent, scope, depth)
            case ast.Attribute(attr=name) if name in _ASKING_METHODS:
                call = self.script.parent(parent)
                if isinstance(call, ast.Call) and any(self._tells(a) for a in call.args):
                    yield Question(call)
            case ast.Dict(keys=keys) if node in keys:
                yield from self.looked_up(parent, scope, depth)
            case ast.Subscript(value=owner, slice=index) if index is node:
                yield from self._counted(parent, owner)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                if not any(getattr(part, "value", None) == "xla" for part in parts):
                    yield from self.asked(parent, scope, depth)
            case ast.Starred() | ast.IfExp():
                yield from self.asked(parent, scope, depth)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                for use, inside in self._uses(name, scope):
                    yield from self.asked(use, inside, depth - 1)
            case ast.For(iter=node_) | ast.comprehension(iter=node_) if node_ is node:
                yield from self._walked(parent, depth)
            case ast.MatchValue():
                for around in self.script.ancestors(parent):
                    if isinstance(around, ast.Match):
                        if self._tells(around.subject):
                            yield Question(parent)
                        return

    def _walked(self, loop: ast.For | ast.comprehension, depth: int) -> Iterator[Question]:
        """`for kind in KINDS:`, `for kind, size in SIZES:`, and the same in a comprehension."""
        names = {n.id for n in walk(loop.target) if isinstance(n, ast.Name)}
        whole = loop if isinstance(loop, ast.For) else self.script.parent(loop)
        for use in walk(whole) if whole is not None else ():
            if isinstance(use, ast.Name) and use.id in names and isinstance(use.ctx, ast.Load):
                self.entries.add(use)
                yield from self.asked(use, self.script.index.scope(use), depth - 1)

    def _counted(self, entry: ast.Subscript, owner: ast.expr) -> Iterator[Question]:
        """`counts["cuda"]`, where `counts[x.device.type] += 1`; `table["cuda"] = f`, where `table[device.type]` is read."""
        text = ast.unparse(owner)
        among = [s for s, _ in self.script.index.of(ast.Subscript) if ast.unparse(s.value) == text]
        if any(getattr(s.slice, "value", None) == "xla" for s in among):
            return
        reads = isinstance(entry.ctx, ast.Load)
        for other in among:
            if other is not entry and self._tells(other.slice):
                if reads and not isinstance(other.ctx, ast.Load):
                    yield Question(entry, "table")
                elif not reads and isinstance(other.ctx, ast.Load):
                    yield Question(other, "table")

    def looked_up(self, table: ast.AST, scope: Scope, depth: int) -> Iterator[Question]:
        """The places where something of a device is looked up in `table`, which has an entry for CUDA and none for XLA."""
        keys = [getattr(key, "value", None) for key in getattr(table, "keys", ())]
        if "xla" in keys or any(k.arg == "xla" for k in getattr(table, "keywords", ())):
            return
        parent = self.script.parent(table)
        match parent:
            case ast.Subscript(value=owner, slice=index) if owner is table:
                counted = isinstance(self.script.parent(parent), ast.AugAssign)
                if (isinstance(parent.ctx, ast.Load) or counted) and self._tells(index):
                    yield Question(parent, "table")
            case ast.Attribute(attr="get" | "pop" | "__getitem__"):
                call = self.script.parent(parent)
                if isinstance(call, ast.Call) and call.args and self._tells(call.args[0]):
                    yield Question(call, "table")
            case ast.Attribute(attr="items" | "keys"):
                call = self.script.parent(parent)
                if isinstance(call, ast.Call) and not call.args:
                    yield from self.asked(call, scope, _DEEPEST)
            case ast.For(iter=walked) | ast.comprehension(iter=walked) if walked is table:
                yield from self._walked(parent, _DEEPEST)
            case ast.Call(func=ast.Name(id=name)) if name in _COLLECTED:
                yield from self.asked(parent, scope, _DEEPEST)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left) if left is not table:
                if self._tells(left):
                    yield Question(parent, "table")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                for use, inside in self._uses(name, scope) if depth else ():
                    yield from self._table_at(use, inside)
                if isinstance(scope.node, ast.ClassDef):
                    yield from self._of_attribute(name)
            case ast.Assign(targets=[ast.Attribute(attr=name)]):
                yield from self._of_attribute(name)

    def _of_attribute(self, name: str) -> Iterator[Question]:
        for attribute, inside in self.script.index.attributes(name):
            if isinstance(attribute.ctx, ast.Load):
                yield from self._table_at(attribute, inside)

    def _table_at(self, use: ast.expr, scope: Scope) -> Iterator[Question]:
        if isinstance(self.script.parent(use), (ast.Assign, ast.AnnAssign)) or self._grows(use):
            return
        yield from self.looked_up(use, scope, 0)

    def _grows(self, table: ast.expr) -> bool:
        """Return True if entries with unknown keys are added to `table`."""
        text = ast.unparse(table)
        return any(
            isinstance(item.ctx, ast.Store)
            and not isinstance(item.slice, ast.Constant)
            and not isinstance(self.script.parent(item), ast.AugAssign)
            and ast.unparse(item.value) == text
            for item, _ in self.script.index.of(ast.Subscript)
        )

    def _of_call(
        self, node: ast.AST, call: ast.Call, scope: Scope, depth: int
    ) -> Iterator[Question]:
        """`re.match("cuda", str(device))`, `str(device).find("cuda")`, `operator.eq(device.type, "cuda")`."""
        func = call.func
        dotted = self.script.dotted(func, scope)
        if call.args[1:2] == [node] and not isinstance(node, ast.Constant):
            if isinstance(func, ast.Name) and func.id == "getattr":
                if self.script.dotted(call.args[0], scope) in {"torch", "torch.backends"}:
                    yield Question(call, "module")
        beside = [argument for argument in call.args if argument is not node]
        if dotted in _ASKING:
            if any(self._tells(argument) for argument in beside):
                yield Question(call)
        elif dotted == "re.compile":
            yield from self._compiled(call, scope, depth)
        elif isinstance(func, ast.Name) and func.id in _COLLECTED | {"any", "enumerate"}:
            yield from self.asked(call, scope, depth - 1)
        elif ast.unparse(func) in {"dict", "dict.fromkeys"}:
            yield from self.looked_up(call, scope, depth)
        elif isinstance(func, ast.Attribute) and func.attr in _ASKING_METHODS | _CUTTING:
            if call.args[:1] == [node] and self._tells(func.value):
                yield Question(call)

    def _compiled(self, pattern: ast.AST, scope: Scope, depth: int) -> Iterator[Question]:
        """`re.compile("cuda").match(str(device))`, and by a name for the pattern."""
        parent = self.script.parent(pattern)
        match parent:
            case ast.Attribute(attr=name) if name in _MATCHING:
                call = self.script.parent(parent)
                if isinstance(call, ast.Call) and any(self._tells(a) for a in call.args):
                    yield Question(call)
            case ast.Assign(targets=[ast.Name(id=name)]) if depth:
                for use, inside in self._uses(name, scope):
                    yield from self._compiled(use, inside, 0)

    def _asks_the_runtime(self, node: ast.Compare) -> bool:
        """`kind == "cuda"` with `kind = xla.device_type()`: it tests for CUDA itself."""
        return any(
            is_xla_or_renamed(self.script, part) and not is_renamed(self.script, part)
            for part in (node.left, *node.comparators)
        )

    def _tells(self, node: ast.AST) -> bool:
        return tells(self.script, node, self.script.index.scope(node), typed=self.typed)

    def _uses(self, name: str, scope: Scope) -> Iterator[tuple[ast.Name, Scope]]:
        """Where the value of `name`, bound once in `scope`, is read."""
        found = scope.find(name)
        if found is None or len(found[1]) != 1:
            return
        for use, inside in self.script.index.names_of(found[0], name):
            if isinstance(use.ctx, ast.Load):
                yield use, inside
