"""How numbers are formatted, and which code needs the text, in the words of findings."""

from __future__ import annotations

import ast
from itertools import count, takewhile

from ....patterns import Pattern
from ...nodes import FUNCTIONS, LOOPS, walk
from ...script import Script
from ...syntax import text_of
from ..tensors.losses import losses
from ..turns import is_an_exit

_CONVERSION = Pattern(r"%(?!%)[-+ #0-9.*]*(\w)")  # of `"%5.2f" % loss`
_STEPS = frozenset({"backward", "optimizer_step", "step", "zero_grad"})
_IN_PLACE = frozenset("add_ addcmul_ clamp_ copy_ div_ fill_ mul_ sub_".split())
_SHOWN = frozenset("float format int repr round str".split())


def is_a_number(script: Script, read: ast.AST, tensors: list[ast.expr]) -> bool:
    """True if `read` formats each of `tensors` as a number."""
    match read:
        case ast.FormattedValue(conversion=-1, format_spec=ast.JoinedStr()):
            return True
        case ast.FormattedValue(conversion=-1):
            texts = {ast.unparse(loss) for loss in losses(script)}
            return all(ast.unparse(t) in texts for t in tensors)
    return _shows_numbers(read, tensors)


def leads_to(script: Script, node: ast.AST, call: ast.Call) -> bool:
    """Return True if `call` shows `node`, as it is or formatted."""
    around = [node, *takewhile(lambda a: not isinstance(a, ast.Lambda), script.ancestors(node))]
    return call in around


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
            return "the result decides what runs next"
        case ast.Call(func=ast.Attribute(attr=name)) if name in _IN_PLACE:
            return "it is computed with a tensor or array"
        case ast.Call(func=func):
            return f"it is not known what `{ast.unparse(func)}` does with it"
        case ast.FormattedValue() | ast.JoinedStr():
            return "the script keeps the text that contains it"
    return f"it is used in `{ast.unparse(statement).partition(chr(10))[0][:60]}`"


def _decided(script: Script, statement: ast.If | ast.While | ast.Assert) -> str:
    """Return what the script decides on a value, for the finding."""
    inside = [*walk(statement)] if isinstance(statement, ast.If) else []
    if any(_ends(script, node) for node in (statement, *inside)):
        return "the result decides whether the script continues"
    if any(isinstance(n, ast.Continue) or getattr(n, "attr", "") in _STEPS for n in inside):
        return "the result decides whether the weights change"
    return "the result decides what runs next"


def _ends(script: Script, node: ast.AST) -> bool:
    """Return True if `node` ends a loop or the script, or tells the caller to: `return True`.

    Another `return` outside of loops only skips the rest of a function.
    """
    if isinstance(node, ast.Return):
        if isinstance(getattr(node.value, "value", None), bool):
            return True
        around = takewhile(lambda each: not isinstance(each, FUNCTIONS), script.ancestors(node))
        return any(isinstance(each, LOOPS) for each in around)
    return isinstance(node, (ast.Break, ast.Raise, ast.Assert)) or is_an_exit(script, node)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or text_of(node) is not None


def _shows_numbers(node: ast.AST, shown: list[ast.expr]) -> bool:
    """Return True if `node` formats each of `shown` as a number: by `%.3f`, `{:.3f}`."""
    given: list[ast.expr] = []
    kinds: list[bool] = []
    match node:
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
            given = right.elts if isinstance(right, ast.Tuple) else [right]
            kinds = [kind in "deEfFgG" for kind in _CONVERSION.findall(text)]
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
            from string import Formatter

            named = {str(k): one for k, one in enumerate(node.args)}
            named |= {str(keyword.arg): keyword.value for keyword in node.keywords}
            fields = [field for field in Formatter().parse(text) if field[1] is not None]
            numbers = map(str, count())
            names = [field[1] or next(numbers) for field in fields]
            given = [named[name] for name in names if name in named]
            kinds = [bool(f[2]) and "{" not in (f[2] or "") and not f[3] for f in fields]
        case ast.Call(args=[ast.Constant(value=str(text)), *given]):  # of `logging`
            kinds = [kind in "deEfFgG" for kind in _CONVERSION.findall(text)]
    texts = {one for one, is_number in zip(given, kinds) if not is_number}
    return len(kinds) == len(given) and texts.isdisjoint(shown) and {*given}.issuperset(shown)
