"""Names that hold the number of a process without saying so: `gpu` of `mp.spawn(worker)`, `local = int(os.environ["LOCAL_RANK"])`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ....flow.edges import passed
from ....patterns import Pattern
from ...bindings import Binding
from ...scopes import Scope
from ...syntax import keyword
from .guards import named_as_a_rank

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_STARTS = ("spawn", "start_processes", "launch")
_VARIABLE = Pattern(r"(?:^|_)RANK$|^SLURM_(?:PROCID|LOCALID)$")
_ASKS = re.compile(r"environ|getenv|env", re.IGNORECASE)


class RankNames:
    """Of which names of a file it is known that they hold a rank."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self._known: dict[str | tuple[ast.AST, str], bool] = {}
        self._assigned: dict[str, list[ast.expr]] | None = None

    def __contains__(self, node: object) -> bool:
        if isinstance(node, ast.Attribute):
            return self._is_attribute(node.attr)
        if isinstance(node, ast.Name):
            return self._is_name(node, self.script.index.scope(node))
        return False

    def _is_attribute(self, name: str) -> bool:
        """`args.gpu`, if every value assigned to a `gpu` is a rank."""
        if name not in self._known:
            self._known[name] = False  # while it is looked at
            values = self._values().get(name, [])
            self._known[name] = self._are_ranks(values)
        return self._known[name]

    def _values(self) -> dict[str, list[ast.expr]]:
        """What is assigned to attributes, by their last names."""
        if self._assigned is None:
            self._assigned = {}
            for node, _ in self.script.index.of(ast.Assign):
                for target in node.targets:
                    for one, value in _pairs(target, node.value):
                        if isinstance(one, ast.Attribute):
                            self._assigned.setdefault(one.attr, []).append(value)
        return self._assigned

    def _is_name(self, node: ast.Name, scope: Scope) -> bool:
        found = scope.find(node.id)
        if found is None:
            return False
        home, bindings = found
        key = home.node, node.id
        if key not in self._known:
            self._known[key] = False
            given = [self._given(binding, node.id, home) for binding in bindings]
            values = [value for some in given for value in some or ()]
            started = any(b.how == "parameter" and self._is_first(b, home) for b in bindings)
            sure = None not in given and (self._are_ranks(values) or (started and not values))
            self._known[key] = sure
        return self._known[key]

    def _given(self, binding: Binding, name: str, home: Scope) -> list[ast.expr] | None:
        """Return the values that `binding` gives its name; None if unknown."""
        if binding.how == "assign" and binding.value is not None:
            value: ast.expr | None = binding.value
            for index in binding.path:
                fits = isinstance(value, (ast.Tuple, ast.List)) and 0 <= index < len(value.elts)
                value = value.elts[index] if fits else None  # type: ignore[union-attr]
            return [value] if value is not None else None
        if binding.how != "parameter":
            return None
        if self._is_first(binding, home):
            return []
        function = home.function
        if function is None:
            return None
        given = passed(self.script, function, name)
        known = [argument for argument in given if argument is not None]
        return known if known and len(known) == len(given) else None

    def _is_first(self, binding: Binding, home: Scope) -> bool:
        """True of the first parameter of a function that is started in several processes."""
        function = home.function
        if function is None or not function.args.args or function.args.args[0] is not binding.node:
            return False
        return any(
            isinstance(first := call.args[0] if call.args else keyword(call, "fn"), ast.Name)
            and first.id == function.name
            for start in _STARTS
            for call, _ in self.script.index.calls_of(start)
        )

    def _are_ranks(self, values: list[ast.expr]) -> bool:
        """True if some of them are, and the others stand for "the only one"."""
        told = [value for value in values if not _is_of_one(value)]
        return bool(told) and all(map(self._is_rank, told))

    def _is_rank(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._is_rank(inner)
            case ast.IfExp(body=body, orelse=orelse):
                return self._are_ranks([body, orelse])
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(variable))):
                return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(owner)))
            case ast.Call(func=func, args=[ast.Constant(value=str(variable)), *_]):
                return bool(_VARIABLE.search(variable) and _ASKS.search(ast.unparse(func)))
        return named_as_a_rank(value) or value in self


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """`args.rank, args.gpu = 0, 0`, in pairs."""
    if isinstance(target, ast.Tuple):
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            return list(zip(target.elts, value.elts))
        return [(one, value) for one in target.elts]
    return [(target, value)]


def _is_of_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in (0, -1, None)


def rank_names(script: ParsedFile) -> RankNames:
    """What holds a rank in this file besides what is called so, for `guard` and its relatives."""
    return script.cached(RankNames)
