"""The expressions that a value may be made of: parts, arguments of calls, values of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...flow.closure import reach
from ...flow.edges import sources
from ..parsed_file import ParsedFile
from ..script import Script
from ..syntax import position
from .literal_context import ELSEWHERE, KEPT, SINK, place

_BY_KEY = frozenset({"get", "getenv", "pop", "setdefault"})  # what comes first is no value


class MadeOf:
    """The expressions that a value may be made of, one step at a time."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def parts(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield the parts of `node`, and where its value comes from."""
        yield from sources(self.script, node)
        bound = (b for b in self.script.bindings(node) if b.how not in {"parameter", "import"})
        yield from (binding.value for binding in bound if binding.value is not None)
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
            case ast.Call():
                yield from self._given(node)

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
    for call, scope in script.index.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        dotted = script.dotted(call.func, scope) or ""
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if dotted in _UNBOUND:
                is_one = given is not call.args[0]
            elif isinstance(given, ast.Starred):
                is_one = dotted == "torch.device" or name == "to"
            else:
                is_one = not isinstance(given, ast.Constant) and place(script, given) == SINK
            if is_one:
                yield given
