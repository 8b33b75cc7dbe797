"""Commands that Python runs: `subprocess.run([...])`, `os.system("...")`, also by a variable or a function of the file's own."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...flow.calls import calls_by_name
from ...flow.closure import reach
from ...flow.edges import sources
from ..nodes import walk
from ..scopes import FunctionNode
from ..script import Script
from ..syntax import keyword, text_of
from .launchers import Word, commands

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
        yield from _given(script, given)


def commands_of_method(script: Script, call: ast.Call) -> Iterator[PythonCommand]:
    """Yield the commands that `call` runs: `ctx.run(...)` of invoke or nox, or `get_ipython().system(...)`."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return
    home = _task_runner(script, call.func.value)
    if home == "nox":
        yield from _listed(script, call.args)
    elif home or _is_of_ipython(script, call.func.value):
        yield from _given(script, call.args[0])


def _task_runner(script: Script, owner: ast.expr) -> str:
    """The library of which `owner` is the context: `@task def train(ctx)`, `@nox.session def train(session)`, `ctx: Context`."""
    for binding in script.bindings(owner):
        function = script.function(owner)
        if binding.how == "parameter" and isinstance(function, ast.FunctionDef):
            markers = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
            markers += [a.annotation for a in function.args.args if a.annotation is not None]
        else:
            value = binding.value
            markers = [value.func] if isinstance(value, ast.Call) else []
        for node in markers:
            home = (script.dotted(node, script.module) or "").partition(".")[0]
            if home in _TASK_RUNNERS:
                return home
    return ""


def _is_of_ipython(script: Script, owner: ast.expr) -> bool:
    """`get_ipython()`, also by a name for it."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith("get_ipython")
        for node in reach([owner], lambda node: sources(script, node))
    )


def _given(script: Script, node: ast.expr) -> Iterator[PythonCommand]:
    for part in reach([node], lambda part: _sources(script, part)):
        if isinstance(part, (ast.List, ast.Tuple)) or _begins_a_list(part):
            yield from _listed(script, [*_items(part), *_appended(script, part)])
        elif not isinstance(part, ast.Name) and not _sources(script, part):
            yield from _line(script, part)


def _sources(script: Script, node: ast.expr) -> Sequence[ast.expr]:
    """Return what gives the text or list `node`, also by its parts."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[inner]):
            return [inner]
        case ast.Call(func=ast.Attribute(value=inner, attr="split"), args=[]):
            return [inner]
        case ast.Call(args=[inner, *_]) if script.dotted(node.func) == "shlex.split":
            return [inner]
        case ast.Name(id=name):
            return [*sources(script, node), *_rest(script, script.function(node), name)]
        case ast.Call() | ast.IfExp():
            return sources(script, node)
    return []


def _begins_a_list(node: ast.expr) -> bool:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.left
    return isinstance(node, ast.List)


def _items(node: ast.expr) -> list[ast.expr]:
    """Return the items of `["a"] + b + ["c"]`; any other expression is one unknown item."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_items(node.left), *_items(node.right)]
    return list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _appended(script: Script, made: ast.expr) -> Iterator[ast.expr]:
    """What `name.append(x)`, `name.extend([...])` and `name += [...]` put behind the items of the list that `made` makes."""
    match script.parent(made):
        case ast.Assign(targets=[ast.Name(id=name)]):
            home = script.function(made) or script.tree
        case _:
            return
    for node in walk(home):
        match node:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=value):
                if target == name:
                    yield from _items(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=target), attr=method), args=[value]):
                if target == name and method in ("append", "extend"):
                    yield from [value] if method == "append" else _items(value)


def _rest(script: Script, function: FunctionNode | None, name: str) -> list[ast.expr]:
    """Return what the calls of `function`, in this file, pass for its parameter `*name`."""
    rest = function.args.vararg if function is not None else None
    if function is None or rest is None or rest.arg != name:
        return []
    return [ast.Tuple(call.args, ast.Load()) for call in calls_by_name(script, function)]


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
    return script.segment(node)[1:-1] == text_of(node)
