"""What the parts of a check come from: words such as "cuda", strings that are renamed, and devices whose text is taken."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from ....flow.closure import reach
from ....flow.containers import ANY, held
from ....flow.edges import sources
from ...inference.library_types import RUNTIME
from ...inference.values import DEVICE, STRING, TENSOR
from ...parsed_file import ParsedFile
from ...scopes import Scope, resolve
from ...syntax import name_of, returned, texts_of
from ..literal_context import NAME
from ..literals import DeviceLiterals
from ..made_of import MadeOf
from ..specs import Devices

# Functions whose result contains the text or the elements of their arguments.
_MADE_OF_ARGUMENTS = frozenset(
    "str repr format ascii getattr set list tuple sorted frozenset next iter map min max any "
    "enumerate zip dict OrderedDict defaultdict ChainMap MappingProxyType fromkeys compile".split()
)
# Methods whose result contains the text or the elements of their object.
_MADE_OF_OWNER = frozenset(
    "casefold encode lower lstrip partition replace removeprefix removesuffix rpartition rsplit "
    "rstrip split strip title upper __repr__ __str__ items keys values".split()
)
_NO_TEXTS = (ast.Constant, ast.Slice)
_TYPES = "torch.cuda"  # what the names of CUDA's tensor types begin with


def is_cuda_word(script: ParsedFile, node: ast.AST | None) -> bool:
    """Return True if `node` may be a word for CUDA, or words or a table without XLA's."""
    return bool(script.cached(_Origins).words(node))


def is_device_text(script: ParsedFile, node: ast.AST | None, *, typed: bool = False) -> bool:
    """Return True if `node` may be a device's text or type, a part of it, or a collection of such.

    `typed`: the type of a tensor or of an unknown value (`x.type()`) is such a text, too.
    """
    origins = script.cached(_Origins)
    return any(origins.is_device(part, typed) for part in origins.of(node))


def pairs(script: ParsedFile, one: Iterable[ast.AST], other: Iterable[ast.AST]) -> bool:
    """Return True if one side has the text of a device, and the other side a word for CUDA."""
    others = list(other)
    return any(
        _pairs(script, a, b) or _pairs(script, b, a) for a in one for b in others if a is not b
    )


def _pairs(script: ParsedFile, word: ast.AST, text: ast.AST) -> bool:
    if isinstance(text, _NO_TEXTS) or isinstance(getattr(word, "value", ""), (int, float)):
        return False  # at once: most comparisons are with constants
    origins = script.cached(_Origins)
    words = origins.words(word)
    if not words or any(map(origins.is_current, origins.of(word))):
        return False
    typed = any(each.startswith(_TYPES) for each in words)
    return is_device_text(script, text, typed=typed)


class _Origins(MadeOf):
    """The expressions that the values of a file are made of, as far as texts and collections go."""

    def __init__(self, script: ParsedFile) -> None:
        super().__init__(script)
        self.index = script.index
        self.known: dict[ast.expr, list[ast.expr]] = {}
        # Keys that are put into a table later, by the table's name, or `.name` of an attribute.
        self.put: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for item, _ in self.index.of(ast.Subscript):
            if isinstance(item.ctx, ast.Store) and not self._is_augmented(item):
                self.put[_spelled(item.value)].append(item.slice)
        for name in ("setdefault", "update"):
            for call, _ in self.index.calls_of(name):
                if isinstance(call.func, ast.Attribute):
                    self.put[_spelled(call.func.value)] += [*_names(call), *call.args[:1]]

    def of(self, node: ast.AST | None) -> list[ast.expr]:
        """Return `node` and everything that it may be made of."""
        if not isinstance(node, ast.expr):
            return []
        if node not in self.known:
            self.known[node] = list(reach([node], self.parts))
        return self.known[node]

    def words(self, node: ast.AST | None) -> set[str]:
        """Return the words in small letters; none if CUDA's is not, or XLA's may be, among them."""
        found = self.of(node)
        words = {text.lower() for text in texts_of(found)}
        words |= {"cuda" for part in found if _is_called_cuda(part)}
        is_cuda = any("cuda" in word for word in words) and "xla" not in words
        return words if is_cuda and not any(map(self._is_unknown_key, found)) else set()

    def is_device(self, node: ast.AST, typed: bool) -> bool:
        match node:
            case ast.Constant() | ast.Compare():
                return False
            case ast.Attribute(attr="type", value=node):
                pass
            case ast.Attribute(attr="__module__"):
                return typed
            case ast.Call(func=ast.Attribute(attr="type", value=owner), args=[], keywords=[]):
                return typed or self.script.value(owner).has(TENSOR)
        if self.script.cached(Devices).is_device(node):
            return True
        value = self.script.value(node)
        if not value.has(DEVICE) or not isinstance(node, ast.expr):
            return False
        return not value.has(STRING) or is_xla_or_renamed(self.script, node)

    def parts(self, node: ast.expr) -> Iterator[ast.expr]:
        match node:
            case ast.Dict(keys=keys, values=values):
                yield from (v if key is None else key for key, v in zip(keys, values))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                yield part
            case ast.DictComp(key=part):
                yield part
            case ast.Subscript(value=ast.Dict()) | ast.Subscript(slice=ast.Constant(value=str())):
                pass  # the value of an entry: it is not among the keys
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _MADE_OF_OWNER:
                is_view = name in {"items", "values"}
                yield from (owner, *(held(self.script, owner, ANY) if is_view else ()))
            case ast.Call(func=func, args=args):
                if name_of(func) in _MADE_OF_ARGUMENTS:
                    yield from (*args, *_names(node))
            case ast.Name() | ast.Attribute():
                if node in self.index.parents:  # a name of this file
                    yield from (*self.put[_spelled(node)], *super().parts(node))
                    yield from self._elsewhere(node)
            case _:
                yield from super().parts(node)

    def _elsewhere(self, node: ast.expr) -> list[ast.expr]:
        """Return what binds the table or collection `node` in another module."""
        dotted = self.index.dotted(node)
        bound = self.script.project.bound(dotted) if dotted else None
        if bound is None or bound[0].how != "assign" or bound[0].value is None:
            return []
        return [bound[0].value]

    def _is_unknown_key(self, node: ast.expr) -> bool:
        """Return True if `node` is put into a table as a key, and is not known."""
        parent = self.index.parents.get(node)
        if not isinstance(parent, ast.Subscript) or not isinstance(parent.ctx, ast.Store):
            return False
        ends = [part for part in self.of(node) if not any(self.parts(part))]
        return not all(isinstance(end, ast.Constant) for end in ends)

    def is_current(self, node: ast.AST) -> bool:
        """Return True for `accelerator.type`, whose word is the right one on XLA."""
        return (
            isinstance(node, ast.Attribute) and node.attr == "type" and self.is_device(node, False)
        )

    def _is_augmented(self, item: ast.Subscript) -> bool:
        return isinstance(self.index.parents.get(item), ast.AugAssign)


def _names(call: ast.Call) -> list[ast.expr]:
    """Return the keywords of `dict(cuda=f)` as strings."""
    return [ast.Constant(keyword.arg) for keyword in call.keywords if keyword.arg is not None]


def _spelled(table: ast.expr) -> str:
    """Return the name of a table, or `.name` for an attribute of any object."""
    return f".{table.attr}" if isinstance(table, ast.Attribute) else name_of(table)


def _is_called_cuda(node: ast.AST) -> bool:
    """Return True for `Device.CUDA`, `consts.CUDA_DEVICE` and `DeviceType.GPU.value`."""
    if isinstance(node, ast.Attribute) and node.attr in {"value", "name"}:
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr.isupper() and ("CUDA" in node.attr or node.attr == "GPU")
    return isinstance(node, ast.Name) and node.id.isupper() and "CUDA" in node.id


def is_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` may be such a string: comparisons of it with "cuda" must change."""
    return _comes_from(script, node, lambda value: _is_such_a_string(script, value))


def is_xla_or_renamed(script: ParsedFile, node: ast.expr) -> bool:
    """The same, before the script is rewritten and after: `kind = xla.device_type()`."""
    return is_renamed(script, node) or _comes_from(
        script,
        node,
        lambda value: (
            isinstance(value, ast.Call) and _is_the_runtimes(value.func, script.index.scope(value))
        ),
    )


def _comes_from(script: ParsedFile, node: ast.expr, ends: Callable[[ast.expr], bool]) -> bool:
    return any(map(ends, reach([node], lambda value: sources(script, value))))


def _literals(script: ParsedFile) -> set[ast.AST]:
    placed = script.cached(DeviceLiterals).all
    return {each.spec.node for each in placed if each.place == NAME and not each.of_devices}


def _is_such_a_string(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` is such a string, or a name or result of a module that has one."""
    name, project = node.func if isinstance(node, ast.Call) else node, script.project
    if node in script.cached(_literals):
        return True
    is_name = isinstance(name, (ast.Name, ast.Attribute))
    dotted = resolve(name, script.index.scope(node)) if is_name else None
    found = project.bound(dotted) if dotted else None
    inside = project.modules.scope(found[1]) if found is not None else None
    if found is None or inside is None:
        return False
    if isinstance(found[0].node, ast.FunctionDef):
        return any(_chooses(value, inside) for value in returned(found[0].node))
    return found[0].how == "assign" and not found[0].path and _chooses(found[0].value, inside)


def _chooses(node: ast.expr | None, scope: Scope) -> bool:
    match node:
        case ast.IfExp(body=ast.Constant(value=first), orelse=ast.Constant(value=second)):
            return {"cuda", "cpu"} == {first, second}
        case ast.Call(func=func):
            return _is_the_runtimes(func, scope)
    return False


def _is_the_runtimes(func: ast.expr, scope: Scope) -> bool:
    return resolve(func, scope) == f"{RUNTIME}.device_type"
