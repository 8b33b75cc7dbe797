"""How numbers are formatted, and which code needs the text, in the words of findings."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from ...inference.unpacking import part
from ...nodes import walk
from ..tensors.device_tensors import losses
from .readers.modules import class_elsewhere, method_of

if TYPE_CHECKING:
    from ...script import Script

_SHOWN = frozenset("float format int repr round str".split())


def is_a_number(script: Script, read: ast.AST, tensors: list[ast.expr]) -> bool:
    """True if `read` formats each of `tensors` as a number."""
    match read:
        case ast.FormattedValue(conversion=-1, format_spec=ast.JoinedStr()):
            return True
        case ast.FormattedValue(conversion=-1):
            texts = {ast.unparse(loss) for loss in losses(script)}
            return all(ast.unparse(t) in texts or _is_a_norm(script, t) for t in tensors)
    return shows_numbers(read, tensors)


def _is_a_norm(script: Script, node: ast.expr) -> bool:
    """True for a name for what clipping has returned, which has no dimensions."""
    bindings = script.reaching(node) if isinstance(node, ast.Name) else []
    return bool(bindings) and all(
        isinstance(b.value, ast.Call)
        and not b.path
        and script.dotted(b.value.func) == "torch.nn.utils.clip_grad_norm_"
        for b in bindings
    )


def leads_to(script: Script, node: ast.AST, call: ast.Call) -> bool:
    """True if `call` shows `node`, as it is or formatted."""
    current: ast.AST | None = node
    while current is not call:
        if current is None or isinstance(current, ast.Lambda):
            return False
        current = script.parent(current)
    return True


def is_only_formatted(script: Script, node: ast.AST, call: ast.Call) -> bool:
    """True if calls between `node` and `call` take any number."""
    while (parent := script.parent(node)) is not call and parent is not None:
        node = parent
        if isinstance(node, ast.Call) and not _takes_any_number(script, node):
            return False
    return True


def _takes_any_number(script: Script, call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute):
        dotted = script.dotted(func) or ""
        return func.attr in {"format", "join"} or dotted.startswith("math.")
    return getattr(func, "id", "") in _SHOWN


def is_formatted(script: Script, node: ast.AST) -> bool:
    parent = script.parent(node)
    if isinstance(parent, ast.Tuple):
        node, parent = parent, script.parent(parent)
    match parent:
        case ast.FormattedValue() | ast.Compare():
            return True
        case ast.BinOp(op=ast.Mod(), left=left):
            return is_text(left)
        case ast.keyword():
            return is_formatted(script, parent)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _SHOWN
    return False


def obstacle_of(script: Script, node: ast.AST, statement: ast.stmt) -> str:
    """What uses `node`, as the finding says it."""
    if isinstance(statement, (ast.If, ast.While, ast.Assert)):
        return _decided(script, statement)
    parent = script.parent(node)
    while isinstance(parent, ast.keyword):
        parent = script.parent(parent)
    match parent:
        case ast.Compare() | ast.If() | ast.While() | ast.BoolOp() | ast.IfExp() | ast.Assert():
            return "the script decides on it"
        case ast.Call(func=func) if _is_opened_each_time(script, func):
            return f"`{ast.unparse(func.value)}` is opened in every step"  # type: ignore[attr-defined]
        case ast.Call(func=ast.Attribute() as func) if reads_tensors(script, func):
            return f"`{ast.unparse(func)}` asks what it is, and would read the tensor itself"
        case ast.Call(func=func):
            return f"what `{ast.unparse(func)}` does with it is not known"
        case ast.FormattedValue() | ast.JoinedStr():
            return "the text that it is put into is kept"
    return f"it is used in `{ast.unparse(statement).partition(chr(10))[0][:60]}`"


def _is_opened_each_time(script: Script, func: ast.expr) -> bool:
    """`f.write`, in `with open(path, "a") as f:` of the loop."""
    match func:
        case ast.Attribute(attr="write" | "writelines", value=ast.Name() as file):
            loop = script.training.loop_of(file)
            return loop is not None and any(
                b.how == "with" and loop.node in script.ancestors(b.node)
                for b in script.reaching(file)
            )
    return False


def _decided(script: Script, statement: ast.If | ast.While | ast.Assert) -> str:
    """What is decided on a value, as the finding says it."""
    if isinstance(statement, ast.If):
        inside = [n for s in (*statement.body, *statement.orelse) for n in walk(s)]
        leaves = (ast.Break, ast.Return, ast.Raise)
        if any(isinstance(n, leaves) or is_an_exit(script, n) for n in inside):
            return "the script decides on it whether it goes on"
        if any(isinstance(n, ast.Continue) or _steps(n) for n in inside):
            return "the script decides on it whether the weights change"
    elif isinstance(statement, ast.Assert):
        return "the script decides on it whether it goes on"
    return "the script decides on it"


def is_an_exit(script: Script, node: ast.AST) -> bool:
    """`sys.exit(1)`, `exit()`, `quit()`."""
    match node:
        case ast.Call(func=ast.Name(id="exit" | "quit") as func):
            return script.index.scope(func).find(func.id) is None
        case ast.Call(func=func):
            return script.dotted(func) == "sys.exit"
    return False


def _steps(node: ast.AST) -> bool:
    """`optimizer.step()`, `loss.backward()`, `optimizer.zero_grad()`."""
    return isinstance(node, ast.Attribute) and node.attr in {
        "backward",
        "optimizer_step",
        "step",
        "zero_grad",
    }


def reads_tensors(script: Script, func: ast.Attribute) -> bool:
    """True for a method of another module's class that does `if isinstance(v, torch.Tensor): v = v.item()`."""
    found = class_elsewhere(script, made_by(script, func.value))
    method = method_of(found[1], func.attr) if found is not None else None
    text = ast.unparse(method) if method is not None else ""
    return ".item()" in text and ("isinstance(" in text or "is_tensor(" in text)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_container(node: ast.expr | None) -> bool:
    match node:
        case ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp():
            return True
        case ast.BinOp(left=ast.List(), op=ast.Mult()) | ast.BinOp(op=ast.Mult(), right=ast.List()):
            return True  # [0.0] * 3
        case ast.BinOp(left=ast.List(), op=ast.Add()) | ast.BinOp(op=ast.Add(), right=ast.List()):
            return True  # losses + [0.0]
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[] | [ast.GeneratorExp()]):
            return True
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field"), keywords=given):
            made = [k.value for k in given if k.arg == "default_factory"]  # of a dataclass
            return [getattr(m, "id", "") for m in made] in (["list"], ["dict"])
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in {"defaultdict", "deque", "OrderedDict"}
    return False


def made_by(script: Script, owner: ast.expr) -> str:
    """The dotted name of the class that `owner`, a name or `self.meter`, is made of."""
    match owner:
        case ast.Name():
            values = [part(b) for b in script.reaching(owner)]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = [
                getattr(script.parent(node), "value", None)
                for node, _ in script.index.attributes(name)
                if not isinstance(node.ctx, ast.Load)
            ]
        case _:
            return ""
    made = {script.dotted(v.func) if isinstance(v, ast.Call) else None for v in values}
    return (made.pop() or "") if len(made) == 1 else ""


class _Probe:
    """An argument that records whether a text formats it as a number."""

    def __init__(self) -> None:
        self.as_number: list[bool] = []

    def __format__(self, spec: str) -> str:
        self.as_number.append(bool(spec))
        return ""

    def __str__(self) -> str:
        self.as_number.append(False)
        return ""

    __repr__ = __str__

    def __index__(self) -> int:
        self.as_number.append(True)
        return 0

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())


def shows_numbers(node: ast.AST, shown: list[ast.expr]) -> bool:
    """Return True if `node` formats each of `shown` as a number, with a format that a tensor's own text is not."""
    probes: defaultdict[ast.expr | None, _Probe] = defaultdict(_Probe)

    def all_of(nodes: list[ast.expr]) -> tuple[_Probe, ...]:
        return tuple(probes[node] for node in nodes)

    try:
        match node:
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
                match right:
                    case ast.Tuple(elts=given):
                        text % all_of(given)
                    case ast.Dict(keys=keys, values=given):
                        names = [getattr(key, "value", None) for key in keys]
                        text % dict(zip(names, all_of(given), strict=True))
                    case _:
                        text % all_of([right])
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
                named = {str(k.arg): probes[k.value] for k in node.keywords}
                text.format(*all_of(node.args), **named)
            case ast.Call(args=[ast.Constant(value=str(text)), *given]):  # logging's
                text % all_of(given)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False
    return all(probes[one].as_number and all(probes[one].as_number) for one in shown)
