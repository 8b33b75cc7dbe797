"""The expressions that a value may be made of: parts, arguments of calls, values of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from ...flow.calls import argument, calls_by_name
from ...flow.closure import reach
from ...flow.edges import sources
from ..parsed_file import ParsedFile
from ..script import Script
from ..syntax import class_values, position
from .literal_context import ELSEWHERE, KEPT, SINK, place

_BY_KEY = frozenset({"get", "getenv", "pop", "setdefault"})  # what comes first is no value


class MadeOf:
    """The expressions that a value may be made of, one step at a time."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def parts(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield the parts of `node`, and where its value comes from."""
        yield from sources(self.script, node)
        for binding in self.script.bindings(node):
            if binding.how == "parameter":
                yield from self._spread(binding.node)
            elif binding.value is not None and binding.how != "import":
                yield binding.value
        match node:
            case ast.BinOp(left=first, right=second):
                yield from (first, second)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                yield from parts
            case ast.JoinedStr(values=parts) | ast.Dict(values=parts):
                yield from parts
            case ast.Subscript(value=part) | ast.Starred(value=part):
                yield part
            case ast.FormattedValue(value=part) | ast.Lambda(body=part):
                yield part
            case ast.Attribute(attr=name) if self.script.dotted(node) is None:
                yield from self._fields.get(name, [])
            case ast.Call():
                yield from self._given(node)

    def _spread(self, parameter: ast.AST) -> Iterator[ast.expr]:
        """Yield the `*` and `**` arguments of the calls that give the parameter no argument of its own."""
        function = self.script.function(parameter)
        if function is None or not isinstance(parameter, ast.arg):
            return
        for call in calls_by_name(self.script, function):
            if argument(self.script, parameter.arg, function, call) is None:
                yield from (given for given in call.args if isinstance(given, ast.Starred))
                yield from (given.value for given in call.keywords if given.arg is None)

    @cached_property
    def _fields(self) -> dict[str, list[ast.expr]]:
        """Return the values of names in classes: `where: str = "cuda"`, read as `config.where`."""
        found: dict[str, list[ast.expr]] = {}
        for owner, _ in self.script.index.of(ast.ClassDef):
            for name, value in class_values(owner):
                found.setdefault(name, []).append(value)
        return found

    def _given(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield what a call may make its result of; nothing for torch and functions of the file."""
        dotted = self.script.dotted(call.func) or ""
        if dotted.startswith("torch.") and dotted != "torch.device":
            return
        if self.script.value(call.func).definition is not None:
            return
        args = call.args
        if isinstance(call.func, ast.Attribute):
            if call.func.attr in _BY_KEY:
                args = args[1:]
            yield call.func.value
        yield from args
        yield from (keyword.value for keyword in call.keywords)


_UNBOUND = frozenset({"torch.Tensor.to", "torch.nn.Module.to", "operator.methodcaller"})


def reaching(script: Script) -> list[ast.expr]:
    """Return the strings that stay and become the device of a tensor or module, in order."""
    literals = script.device_literals.all
    left = {
        found.spec.node
        for found in literals
        if found.place == ELSEWHERE or (found.place == KEPT and found.spec.ordinal is None)
    }
    if not left:
        return []
    rewritten = {found.spec.node for found in literals} - left
    parts = MadeOf(script).parts
    found = reach(_sinks(script), lambda node: () if node in rewritten else parts(node))
    return sorted(found.keys() & left, key=position)


def _sinks(script: Script) -> Iterator[ast.expr]:
    """What calls take for a device."""
    for call, _ in script.index.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        dotted = script.dotted(call.func) or ""
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if dotted in _UNBOUND:
                is_one = given is not call.args[0]
            elif isinstance(given, ast.Starred):
                is_one = dotted == "torch.device" or name == "to"
            else:
                is_one = not isinstance(given, ast.Constant) and place(script, given) == SINK
            if is_one:
                yield given
