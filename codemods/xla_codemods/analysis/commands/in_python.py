"""Commands that Python runs: `subprocess.run([...])`, `os.system("...")`, also by a variable or a function of the file's own."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..nodes import walk
from ..syntax import argument_for, keyword, returned
from .words import Word, commands

if TYPE_CHECKING:
    from ..script import Script

# What runs a command that it is given as the argument of this number.
RUNNERS = {
    "subprocess.run": 0,
    "subprocess.call": 0,
    "subprocess.check_call": 0,
    "subprocess.check_output": 0,
    "subprocess.getoutput": 0,
    "subprocess.getstatusoutput": 0,
    "subprocess.Popen": 0,
    "os.system": 0,
    "os.popen": 0,
    "os.execv": 1,
    "os.execve": 1,
    "os.execvp": 1,
    "os.execvpe": 1,
    "os.spawnv": 2,
    "os.spawnvp": 2,
    "asyncio.create_subprocess_shell": 0,
    "invoke.run": 0,
    "pexpect.run": 0,
    "pexpect.spawn": 0,
}
# What runs a command whose words are its arguments, from this number on.
RUNNERS_OF_WORDS = {"asyncio.create_subprocess_exec": 0, "os.execlp": 1, "os.execl": 1}
# Methods of what task runners hand to a function, and of IPython's shell, that run a command.
METHODS = ("run", "sudo", "local", "system", "getoutput")
_TASK_RUNNERS = ("invoke", "fabric", "nox")
_MOST_HANDS = 3  # through which a command comes


class Piece(NamedTuple):
    """The text of a line from `start` on, as `node` gives it; `written` if an edit of the text is one of the source's."""

    start: int
    node: ast.expr
    written: bool


class PythonCommand(NamedTuple):
    """One command: its words, whose places are in a line of text that Python puts together, and what that is made of."""

    words: Sequence[Word]
    pieces: Sequence[Piece]

    def piece(self, at: int) -> Piece:
        """What gives the text at an offset."""
        return self.pieces[bisect_right([piece.start for piece in self.pieces], at) - 1]


def commands_of(script: Script, call: ast.Call) -> Iterator[PythonCommand]:
    """The commands that `call` of one of the runners runs, as far as they stand in this file."""
    dotted = script.dotted(call.func) or ""
    if dotted in RUNNERS_OF_WORDS:
        yield from _listed(script, call.args[RUNNERS_OF_WORDS[dotted] :])
        return
    place = RUNNERS.get(dotted, 0)
    given = call.args[place] if len(call.args) > place else None
    given = given or keyword(call, "args") or keyword(call, "command") or keyword(call, "cmd")
    if given is not None:
        yield from _given(script, given, _MOST_HANDS)


def commands_of_method(script: Script, call: ast.Call) -> Iterator[PythonCommand]:
    """Yield the commands that `call` runs: `ctx.run(...)` of invoke or nox, or `get_ipython().system(...)`."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return
    home = _task_runner(script, call.func.value)
    if home == "nox":
        yield from _listed(script, call.args)
    elif home or _is_of_ipython(script, call.func.value):
        yield from _given(script, call.args[0], _MOST_HANDS)


def _task_runner(script: Script, owner: ast.expr) -> str:
    """The library of which `owner` is the context: `@task def train(ctx)`, `@nox.session def train(session)`, `ctx: Context`."""
    for binding in script.bindings(owner):
        function = script.function(owner)
        if binding.how == "parameter" and isinstance(function, ast.FunctionDef):
            said = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
            said += [a.annotation for a in function.args.args if a.annotation is not None]
        else:
            value = binding.value
            said = [value.func] if isinstance(value, ast.Call) else []
        for node in said:
            home = (script.dotted(node, script.module) or "").partition(".")[0]
            if home in _TASK_RUNNERS:
                return home
    return ""


def _is_of_ipython(script: Script, owner: ast.expr) -> bool:
    """`get_ipython()`, also by a name for it."""
    if isinstance(owner, ast.Name):
        values = [b.value for b in script.reaching(owner)]
        return any(v is not None and _is_of_ipython(script, v) for v in values if v is not owner)
    return isinstance(owner, ast.Call) and ast.unparse(owner.func).endswith("get_ipython")


def _given(script: Script, node: ast.expr, hands: int) -> Iterator[PythonCommand]:
    match node:
        case ast.List() | ast.Tuple():
            yield from _listed(script, node.elts)
        case ast.BinOp(op=ast.Add()) if _begins_a_list(node):
            yield from _listed(script, _items(node))
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[parts]):
            yield from _given(script, parts, hands)
        case ast.Call(func=ast.Attribute(value=text, attr="split"), args=[]):
            yield from _given(script, text, hands)
        case ast.Call(args=[text, *_]) if script.dotted(node.func) == "shlex.split":
            yield from _given(script, text, hands)
        case ast.Call() if hands and (function := script.value(node.func).definition) is not None:
            for value in returned(function) if isinstance(function, ast.FunctionDef) else ():
                yield from _given(script, value, hands - 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _given(script, body, hands)
            yield from _given(script, orelse, hands)
        case ast.Name():
            if hands:
                yield from _named(script, node, hands - 1)
        case _:
            yield from _line(script, node)


def _named(script: Script, name: ast.Name, hands: int) -> Iterator[PythonCommand]:
    """Yield what the name may be: by its bindings or, for a parameter, by the calls in this file."""
    function = script.function(name)
    for binding in script.reaching(name):
        if binding.how == "parameter" and function is not None:
            for argument in _passed(script, function, name.id):
                yield from _given(script, argument, hands)
        elif binding.how == "assign" and binding.value is not None and not binding.path:
            if isinstance(binding.value, ast.List) or _begins_a_list(binding.value):
                home = script.function(binding.node) or script.tree
                items = [*_items(binding.value), *_appended(home, name.id)]
                yield from _listed(script, items)
            else:
                yield from _given(script, binding.value, hands)


def _begins_a_list(node: ast.expr) -> bool:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    return isinstance(node, ast.List)


def _items(node: ast.expr) -> list[ast.expr]:
    """Return the items of `["a"] + b + ["c"]`; any other expression is one unknown item."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_items(node.left), *_items(node.right)]
    return list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _appended(home: ast.AST, name: str) -> Iterator[ast.expr]:
    """What `name.append(x)`, `name.extend([...])` and `name += [...]` put behind the items of a list."""
    for node in walk(home):
        match node:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=value):
                if target == name:
                    yield from _items(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=target), attr=method), args=[value]):
                if target == name and method in ("append", "extend"):
                    yield from [value] if method == "append" else _items(value)


def _passed(script: Script, function: ast.AST, name: str) -> Iterator[ast.expr]:
    """What the calls of a function pass for its parameter `name`, in this file."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    is_method = isinstance(script.parent(function), ast.ClassDef)
    for call, _ in script.index.calls_of(function.name):
        given = argument_for(name, function, call, skip_self=is_method)
        if given is not None:
            yield given
        elif function.args.vararg is not None and function.args.vararg.arg == name:
            yield ast.Tuple(call.args, ast.Load())


def _listed(script: Script, items: Sequence[ast.expr]) -> Iterator[PythonCommand]:
    words, pieces, at = [], [], 0
    for item in items:
        text = _text(script, item)
        words.append(Word(text, at, at + len(text)))
        pieces.append(Piece(at, item, _is_written(script, item)))
        at += len(text) + 1
    if words:
        yield PythonCommand(words, pieces)


def _line(script: Script, node: ast.expr) -> Iterator[PythonCommand]:
    text, pieces = "", []
    for part in _parts(node):
        pieces.append(Piece(len(text), part, _is_written(script, part)))
        text += _text(script, part)
    for command in commands(text) if text else ():
        yield PythonCommand(command.words, pieces)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The strings that one is put together of, in their order."""
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from _parts(left)
            yield from _parts(right)
        case ast.BinOp(op=ast.Mod(), left=left):
            yield from _parts(left)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "strip")):
            yield from _parts(value)
        case _:
            yield node


def _text(script: Script, node: ast.expr) -> str:
    """What an expression gives, as far as it is written there; "{}" is what is only known when the program runs."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(script, part) for part in parts)
        case ast.Attribute() if script.dotted(node) == "sys.executable":
            return "python"
        case ast.FormattedValue(value=value):
            return _text(script, value)
    return "{}"


def _is_written(script: Script, node: ast.expr) -> bool:
    """True if the string stands there as it is, in quotes: no escapes, prefixes or parts."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and script.segment(node)[1:-1] == node.value
    )
