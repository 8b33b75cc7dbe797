"""The model whose parameters an optimizer takes: `model`, of `torch.optim.SGD(model.parameters(), lr=0.1)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...inference.values import OPTIMIZER
from ...nodes import walk
from ...scopes import Binding
from ...syntax import argument_for, dict_entries, keyword

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_GIVE = frozenset({"parameters", "named_parameters"})
_DEEPEST = 4  # names and functions that it is followed through
_MOVES = frozenset("to cuda cpu float double half bfloat16 train eval requires_grad_ xpu".split())


class Sources:
    """Where parameters of one file come from."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def of_optimizer(self, optimizer: ast.expr) -> list[ast.expr]:
        """The modules and parameters that it trains, as far as they are seen."""
        return [
            owner
            for call in self._makers(optimizer, 0)
            if (given := _given(call)) is not None
            for owner in self._owners(given, 0)
        ]

    def of_loop_around(self, node: ast.AST) -> Iterator[ast.expr]:
        """The modules whose parameters the loops around `node` go through."""
        for above in self.script.ancestors(node):
            if isinstance(above, (ast.For, ast.AsyncFor)):
                yield from self._owners(above.iter, 0)
            elif isinstance(above, (ast.ListComp, ast.GeneratorExp)):
                for generator in above.generators:
                    yield from self._owners(generator.iter, 0)

    def is_parameter(self, node: ast.expr) -> bool:
        """True if `node` is what a function is given."""
        return any(binding.how == "parameter" for binding in self._bindings(node))

    def is_made_here(self, node: ast.expr) -> bool:
        """True if every assignment to `node` constructs it."""
        bindings = self._bindings(node)
        return bool(bindings) and all(
            b.value is not None and not b.path and self._is_construction(b.value) for b in bindings
        )

    def _is_construction(self, node: ast.expr) -> bool:
        """`nn.Embedding(...)`, `Net().to(device)`; or what keeps it: `table = table.to(device)`."""
        while (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MOVES
            and self.script.dotted(node.func) is None
        ):
            node = node.func.value
            if isinstance(node, (ast.Name, ast.Attribute)):
                return True
        if not isinstance(node, ast.Call):
            return False
        dotted = self.script.dotted(node.func) or ""
        if dotted.startswith("torch."):
            return True
        if isinstance(self.script.value(node.func).definition, ast.ClassDef):
            return True
        last = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        return bool(dotted) and last[:1].isupper()

    def _bindings(self, node: ast.expr) -> list[Binding]:
        if isinstance(node, ast.Name):
            return self.script.bindings(node)
        text = ast.unparse(node)
        return [
            Binding("assign", statement, statement.value)
            for statement, _ in self.script.index.assignments(text)
        ]

    def _makers(self, node: ast.expr, depth: int) -> Iterator[ast.Call]:
        """The calls that make the optimizer `node`."""
        if depth > _DEEPEST:
            return
        if isinstance(node, ast.Call):
            yield from self._inner(node, depth)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                yield from self._makers(element, depth + 1)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            for binding in self._bindings(node):
                for value in self._values(binding):
                    yield from self._makers(value, depth + 1)

    def _inner(self, call: ast.Call, depth: int) -> Iterator[ast.Call]:
        """`call`, or the optimizer that it is put around: `SAM(optimizer)`."""
        first = call.args[0] if call.args else None
        if isinstance(first, (ast.Name, ast.Attribute)) and self.script.value(first).has(OPTIMIZER):
            yield from self._makers(first, depth + 1)
        else:
            yield call

    def _values(self, binding: Binding) -> Iterator[ast.expr]:
        """What a name is bound to: of a parameter what this file's calls give for it."""
        if binding.how == "parameter" and isinstance(binding.node, ast.arg):
            name = binding.node.arg
            arguments = self.script.parent(binding.node)
            function = self.script.parent(arguments) if arguments is not None else None
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                is_method = isinstance(self.script.parent(function), ast.ClassDef)
                own = function.name
                if own == "__init__":
                    own = getattr(self.script.parent(function), "name", own)
                for call, _ in self.script.index.calls_of(own):
                    given = argument_for(name, function, call, skip_self=is_method)
                    if given is not None:
                        yield given
        elif binding.value is not None:
            if len(binding.path) == 1 and isinstance(binding.value, (ast.Tuple, ast.List)):
                index = binding.path[0]
                yield from (
                    binding.value.elts if index < 0 else binding.value.elts[index : index + 1]
                )
            else:
                yield binding.value

    def _owners(self, node: ast.expr, depth: int) -> Iterator[ast.expr]:
        """`model` of `model.parameters()`, wherever it stands in `node`; `weight` of `[weight]`; also by a name."""
        if depth > _DEEPEST:
            return
        seen = False
        for part in walk(node):
            match part:
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _GIVE:
                    seen = True
                    yield owner
        if seen:
            return
        if isinstance(node, (ast.List, ast.Tuple)):
            for element in node.elts:
                element = dict(dict_entries(element)).get("params", element)
                if not isinstance(element, ast.Call):
                    yield from self._owners(element, depth + 1)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self._by_name(node, depth)
        elif isinstance(node, (ast.Call, ast.ListComp, ast.GeneratorExp)):
            inner = node.args[-1:] if isinstance(node, ast.Call) else [node.generators[0].iter]
            for iterated in inner:
                yield from self._owners(iterated, depth + 1)

    def _by_name(self, node: ast.Name | ast.Attribute, depth: int) -> Iterator[ast.expr]:
        if isinstance(node, ast.Attribute):  # `[table.weight]`, but `self.weight` itself
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield node if is_own else node.value
            return
        bindings = self._bindings(node)
        found = [
            owner
            for binding in bindings
            for value in self._values(binding)
            for owner in self._owners(value, depth + 1)
        ]
        if found:
            yield from found
        else:
            yield node


def _given(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else keyword(call, "params")
