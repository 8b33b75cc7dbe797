"""Devices in a script: "cuda", "cuda:1", f"cuda:{rank}", and the names that hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from ...flow.closure import all_ends, reach
from ...flow.edges import uses
from ...patterns import Pattern
from ..frameworks.lightning_modules import own_device
from ..inference.library_types import RUNTIME
from ..inference.values import ACCEL, DEVICE, HOST, NUMBER, STRING
from ..parsed_file import ParsedFile
from ..scopes import FunctionNode, Scope, resolve
from ..syntax import is_literal, keyword, name_of, text_of
from .checks.pieces import pieces

# The last part of a name that by itself says: a device, or a string that names one.
_DEVICE_NAME = Pattern(
    r"device(?:_?(?:type|str|string|name|spec))?_?\d*$|(?:^|_)dev\d*$", re.IGNORECASE
)
_PLURAL_NAME = Pattern(r"(?:^|_)(?:devices|devs|device_list|gpus)$", re.IGNORECASE)
INDEX_NAME = Pattern(
    r"^(?:\w*_)?(?:local_?)?rank$|^(?:local_)?gpu(?:_?(?:id|idx|index|num|no))?$|^(?:cuda|device)_?(?:id|idx|index|ordinal)$",
    re.IGNORECASE,
)
# What `torch.cuda.current_device()` is kept under where its number is wanted.
INDEX_OF_CURRENT = Pattern(r"(?:idx|index|_id|rank|ordinal)$", re.IGNORECASE)
# Lists of them: `gpu_ids[0]`.
_INDICES_NAME = Pattern(
    r"^(?:\w*_)?(?:gpus?_?(?:ids?|idxs?|indices|list)|gpus|(?:cuda|device)_?(?:ids|idxs|indices|ordinals))$",
    re.IGNORECASE,
)
_CURRENT = frozenset(
    {
        "torch.cuda.current_device",
        "torch.accelerator.current_device_index",
        "torch.accelerator.current_device_idx",
    }
)


class Spec(NamedTuple):
    """A CUDA device as a string says it. `ordinal` is None for the current one; `digits`: it is a string of digits."""

    node: ast.expr
    ordinal: int | ast.expr | None = None
    digits: bool = False


# Code that takes the index out of a device's text: `device.split(":")[1]`, `_, index = device.split(":")`.
_TAKES_INDEX = Pattern(
    r"(?:device|gpu)\w*\.split\(\s*[\"']:[\"']\s*\)\s*\[\s*-?1\s*\]"
    r"|,\s*\w+\s*=\s*[\w.]*(?:device|gpu)\w*\.split\(\s*[\"']:[\"']"
)


_SPLITS = frozenset({"partition", "rpartition", "rsplit", "split"})


def _takes_an_index(script: ParsedFile) -> bool:
    if _TAKES_INDEX.search(script.source.text) is not None:
        return True
    return script.project.has_text(_TAKES_INDEX.compiled, "split")


class Devices:
    """The devices of one script."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self.giving: dict[FunctionNode | ast.Lambda, bool] = {}  # functions that return a device

    # Strings.

    def spec(self, node: ast.AST | None) -> Spec | None:
        """What `node` says if it is "cuda", "cuda:1", or such a string being made."""
        if isinstance(node, ast.Constant):
            return _constant(node, node.value) if isinstance(node.value, str) else None
        match node:
            case ast.JoinedStr() | ast.BinOp(op=ast.Mod()):
                return self._put_together(node)
            case ast.BinOp(op=ast.Add()):
                above = self.script.parent(node)
                is_part = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add)
                return None if is_part else self._put_together(node)
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format" | "join")):
                return self._put_together(node)
        return None

    def _put_together(self, node: ast.expr) -> Spec | None:
        """`f"cuda:{rank}"`, `"cuda:" + str(rank)`, `f"{torch.accelerator.current_accelerator()}:{rank}"`."""
        match pieces(node):
            case [str(text)]:
                return _constant(node, text)
            case ["cuda:", ast.expr() as index]:
                return self.numbered(node, index)
            case [ast.expr() as kind, ":", ast.expr() as index] if self._is_accelerator(kind):
                return self.numbered(node, index)
            case [ast.expr() as kind, str(text)] if re.fullmatch(r":\d+", text):
                if self._is_accelerator(kind) and not self.script.value(kind).has(STRING):
                    return Spec(node, int(text[1:]))
        return None

    def numbered(self, node: ast.expr, index: ast.expr) -> Spec | None:
        """Return the device `node` with the number `index`."""
        match index:
            case ast.FormattedValue():
                return None  # f"cuda:{rank:02d}"
            case ast.Call(func=ast.Name(id="str"), args=[number]):
                return Spec(node, number)
        is_added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        return Spec(node, index, digits=is_added and node.right is index)  # type: ignore[attr-defined]

    def _is_accelerator(self, kind: ast.expr) -> bool:
        value = self.script.value(kind)
        return value.has(DEVICE) and value.has(ACCEL)

    def is_current(self, node: ast.AST | None) -> bool:
        """True if `node` is None, 0, "cuda" or `torch.cuda.current_device()`: the device that one has anyway."""
        match node:
            case None | ast.Constant(value=None) | ast.Constant(value="cuda" | "cuda:0"):
                return True
            case ast.Constant(value=int(number)):
                return number == 0 and not isinstance(node.value, bool)
            case ast.Call(func=func, args=args):
                dotted = self.script.dotted(func)
                return dotted in _CURRENT or (
                    dotted in {f"{RUNTIME}.xla_device", "torch.accelerator.current_accelerator"}
                    and not args
                )
        return False

    def _is_index_read(self, node: ast.AST) -> bool:
        """Return True if the program may take the index out of the text `node`: "cuda:0" needs one there."""
        script = self.script
        if script.cached(_takes_an_index):
            return True
        reached = (
            reach([node], lambda each: uses(script, each)) if isinstance(node, ast.expr) else []
        )
        return any(
            isinstance(around := script.parent(each), ast.Attribute) and around.attr in _SPLITS
            for each in reached
        )

    # As the runtime says it.

    def device(self, spec: Spec) -> tuple[str, tuple[ast.expr, ...]]:
        """Text and holes of the runtime's device for `spec`."""
        text, holes = self.index(spec)
        return self.placed(spec.node, text), holes

    def placed(self, node: ast.AST, index: str) -> str:
        """Return the text of the device with this `index` text, at `node`; in a LightningModule, of the module's device."""
        own = None if index else own_device(self.script, node)
        return own or f"{self.script.xla}.xla_device({index})"

    def string(self, spec: Spec) -> tuple[str, tuple[ast.expr, ...]]:
        """Text and holes of the runtime's name for the device `spec`: a string, as it was."""
        text, holes = self.index(spec)
        if not text and not (spec.ordinal == 0 and self._is_index_read(spec.node)):
            return f"{self.script.xla}.device_type()", ()
        if not text:  # the index is read: "cuda:0" has one
            return f'{self.script.xla}.device_type() + ":0"', ()
        return f"str({self.script.xla}.xla_device({text}))", holes

    def given(self, node: ast.expr | None) -> tuple[str, tuple[ast.expr, ...]]:
        """Argument text and holes that hand a device of any spelling on to the runtime; nothing for the current one."""
        match node:
            case ast.Call(func=func, args=[inner], keywords=[]) if (
                self.script.dotted(func) == "torch.device" and self.spec(inner) is not None
            ):
                node = inner
        if node is None or self.is_current(node):
            return "", ()
        spec = self.spec(node)
        return self.index(spec) if spec is not None else ("{0}", (node,))

    def index(self, spec: Spec) -> tuple[str, tuple[ast.expr, ...]]:
        """Text and holes of the index of `spec`; nothing for the current device."""
        index = spec.ordinal
        if isinstance(index, int):
            return (str(index) if index else ""), ()
        if index is None or self.is_current(index):
            return "", ()
        value = self.script.value(index)
        if (spec.digits or value.has(STRING)) and not value.has(NUMBER):
            return "int({0})", (index,)
        return "{0}", (index,)

    # Names.

    def is_device(self, node: ast.AST | None) -> bool:
        """True if `node` surely is a device or names one: known, called one, or used as one in this file."""
        if node is None:
            return False
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if ast.unparse(node) in self.used or named_like_a_device(node):
                return True
        if isinstance(node, ast.Call):
            match node:
                case ast.Call(func=ast.Name(id="str"), args=[inner]):
                    return self.is_device(inner)
                case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "strip"), args=[]):
                    return self.is_device(inner)
            if self.gives_default(node) is not None:
                return True
        value = self.script.value(node)
        return value.has(DEVICE) and not value.has(STRING)

    @cached_property
    def used(self) -> frozenset[str]:
        """Names, attributes and items that some call takes for a device, as text."""
        names: set[str] = set()
        for call, _ in self.script.index.of(ast.Call):
            for node in self._taken(call):
                names.update(
                    ast.unparse(leaf)
                    for leaf in leaves(node)
                    if isinstance(leaf, (ast.Name, ast.Attribute, ast.Subscript))
                )
        return frozenset(names)

    def _taken(self, call: ast.Call) -> Iterator[ast.expr]:
        """What `call` takes for a device."""
        func = call.func
        dotted = self.script.dotted(func)
        first = call.args[0] if call.args else None
        if first is not None:
            if dotted in _TAKES_FIRST or (
                dotted is None
                and isinstance(func, ast.Attribute)
                and func.attr == "to"
                and not _may_be_dtype(first)
            ):
                yield first
        takes = (dotted or "").partition(".")[0] == "torch" or (
            dotted is None and isinstance(func, ast.Attribute) and func.attr in TENSOR_METHODS
        )
        for argument in call.keywords:
            if argument.arg == "map_location" or (takes and argument.arg in _TAKEN_KEYWORDS):
                yield argument.value

    def gives_default(self, call: ast.Call) -> ast.expr | None:
        """The default that `os.environ.get("DEVICE", default)`, `config.get("device", ...)` and the like fall back to."""
        match call:
            case ast.Call(
                func=ast.Attribute(attr="get" | "getenv" | "pop" | "setdefault"),
                args=[ast.Constant(value=str(name)), default],
            ):
                return default if is_device_name(name) else None
            case ast.Call(
                func=ast.Name(id="getattr" | "getenv"),
                args=[*_, ast.Constant(value=str(name)), default],
            ):
                return default if is_device_name(name) else None
        return None

    # Integers.

    def is_index(self, node: ast.expr) -> bool:
        """Return True if `node` is a device given as a number: by its value or name, or by those of its sources."""
        return all_ends([node], self._sources_of_index, lambda end: self._is_index(end) is True)

    def _sources_of_index(self, node: ast.expr) -> list[ast.expr]:
        if self._is_index(node) is not None:
            return []
        match node:
            case ast.BinOp(left=left, op=ast.Mod()):  # `rank % torch.cuda.device_count()`
                return [left]
        values = [binding.whole for binding in self.script.bindings(node)]
        found = [v for v in values if isinstance(v, (ast.Name, ast.Attribute, ast.BinOp))]
        return [*found] if len(found) == len(values) else []

    def _is_index(self, node: ast.expr) -> bool | None:
        """Return whether `node` itself is one; None if its sources decide."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int
        if isinstance(node, ast.Attribute) and node.attr in {"device", "dtype"}:
            if not isinstance(node.value, ast.Name) or node.value.id not in {"self", "args"}:
                return False  # a tensor's, most often by far
        if isinstance(node, ast.Call) and self.script.dotted(node.func) in _CURRENT:
            return True
        if isinstance(node, ast.Name) and INDEX_OF_CURRENT.search(node.id):
            found = self.script.index.scope(node).find(node.id)
            if found and all(self._is_current(binding.value) for binding in found[1]):
                return True
        value = self.script.value(node)
        if value.has(NUMBER) and not value.kinds - {NUMBER, STRING, DEVICE, HOST, ACCEL}:
            return True
        if value.kinds - {"none", "from outside"}:
            return False
        last = last_name(node)
        if last is None:
            return _is_one_of_indices(node) if isinstance(node, ast.Subscript) else None
        return True if INDEX_NAME.match(last) is not None else None

    def _is_current(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Call) and self.script.dotted(node.func) in _CURRENT


def _is_one_of_indices(node: ast.Subscript) -> bool:
    """`gpu_ids[0]`, `opt.gpu_ids[rank]`."""
    last = last_name(node.value)
    return (
        last is not None
        and _INDICES_NAME.match(last) is not None
        and not isinstance(node.slice, (ast.Slice, ast.Tuple))
    )


def leaves(node: ast.expr) -> Iterator[ast.expr]:
    """What `node` can be: the branches of conditional expressions and of `or`."""
    if isinstance(node, ast.IfExp):
        yield from leaves(node.body)
        yield from leaves(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from leaves(value)
    elif isinstance(node, ast.NamedExpr):
        yield from leaves(node.value)
    else:
        yield node


# A class in the module defines the method, or its nodes belong to a compiler's graph.
_OTHER_METHODS = Pattern(r"\bdef get_device\(|\.get_dtype\(")


def is_index_of_tensor(node: ast.expr, scope: Scope) -> bool:
    """True if `node` is the number of a tensor's device: `x.get_device()`, `x.device.index`.

    A class's own `self.get_device()` gives what it likes, and nodes of a compiler's graph give a torch.device.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="get_device"), args=[], keywords=[]):
            own = isinstance(owner, ast.Name) and owner.id in {"self", "cls"}
            known = own or resolve(owner, scope) is not None
            return not known and _OTHER_METHODS.search(scope.text) is None
        case ast.Attribute(value=ast.Attribute(value=owner, attr="device"), attr="index"):
            return resolve(owner, scope) is None
    return False


def is_host(node: ast.expr) -> bool:
    """True if `node` is the host: `"cpu"`, `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return is_literal(node, "cpu")


def last_name(node: ast.AST) -> str | None:
    """What `node` is called: a name, the last attribute of a chain, a constant key."""
    if isinstance(node, ast.Subscript):
        return text_of(node.slice)
    return node.arg if isinstance(node, ast.arg) else name_of(node) or None


@lru_cache(5_000)
def is_device_name(name: str) -> bool:
    """True if something called `name` (an option with its dashes, too) is a device."""
    return _DEVICE_NAME.search(name.lstrip("-").replace("-", "_")) is not None


def is_plural_name(name: str) -> bool:
    """True if something called `name` (an option with its dashes, too) are several devices."""
    return _PLURAL_NAME.search(name.lstrip("-").replace("-", "_")) is not None


def named_like_a_device(node: ast.AST) -> bool:
    """True if `node` is called a device."""
    name = last_name(node)
    return name is not None and is_device_name(name)


def named_like_devices(node: ast.AST) -> bool:
    """True if `node` is called several devices."""
    name = last_name(node)
    return name is not None and is_plural_name(name)


def device_argument(call: ast.Call) -> ast.expr | None:
    """The first argument, or `device=`."""
    return call.args[0] if call.args else keyword(call, "device")


def _constant(node: ast.expr, text: str) -> Spec | None:
    if text == "cuda":
        return Spec(node)
    head, _, index = text.partition(":")
    return Spec(node, int(index)) if head == "cuda" and index.isdecimal() else None


def _may_be_dtype(node: ast.expr) -> bool:
    """True if what `.to(...)` is given is called a data type."""
    name = last_name(node)
    return name is not None and ("type" in name.lower() or "precision" in name.lower())


# Methods of tensors and modules with a `device=`.
TENSOR_METHODS = frozenset(
    [
        "to",
        "to_empty",
        "new_empty",
        "new_full",
        "new_ones",
        "new_tensor",
        "new_zeros",
        "new_empty_strided",
        "type",
        "rand_like",
    ]
)
_TAKES_FIRST = frozenset(
    {
        "torch.device",
        "torch.autocast",
        "torch.amp.autocast",
        "torch.GradScaler",
        "torch.amp.GradScaler",
        "torch.cuda.set_device",
        "torch.cuda.device",
        "torch.set_default_device",
        "torch.Generator",
        f"{RUNTIME}.xla_device",
        f"{RUNTIME}.set_device",
        f"{RUNTIME}.autocast",
        f"{RUNTIME}.is_accelerator",
    }
)
_TAKEN_KEYWORDS = frozenset({"device", "device_type"})
