"""The model whose parameters an optimizer takes: `model`, of `torch.optim.SGD(model.parameters(), lr=0.1)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....flow.closure import reach
from ....flow.edges import sources
from ...inference.values import OPTIMIZER
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...scopes import Binding
from ...syntax import dict_entries, keyword

_GIVE = frozenset({"parameters", "named_parameters"})
_MOVES = frozenset("to cuda cpu float double half bfloat16 train eval requires_grad_ xpu".split())


class Sources:
    """Where parameters of one file come from."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script

    def of_optimizer(self, optimizer: ast.expr) -> list[ast.expr]:
        """The modules and parameters that it trains, as far as they are seen."""
        given = self.given(optimizer).values()
        return [owner for each in given if each is not None for owner in self._owners(each)]

    def given(self, optimizer: ast.expr) -> dict[ast.Call, ast.expr | None]:
        """Map each call that makes `optimizer` to the parameters that it is given."""
        reached = reach([optimizer], self._makers)
        calls = [c for c in reached if isinstance(c, ast.Call) and not self._makers(c)]
        return {call: call.args[0] if call.args else keyword(call, "params") for call in calls}

    def of_loop_around(self, node: ast.AST) -> Iterator[ast.expr]:
        """The modules whose parameters the loops around `node` go through."""
        for above in self.script.ancestors(node):
            if isinstance(above, (ast.For, ast.AsyncFor)):
                yield from self._owners(above.iter)
            elif isinstance(above, (ast.ListComp, ast.GeneratorExp)):
                for generator in above.generators:
                    yield from self._owners(generator.iter)

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

    def _makers(self, node: ast.expr) -> Sequence[ast.expr]:
        """Return what the optimizer `node` comes from; of `SAM(optimizer)` the optimizer inside."""
        match node:
            case ast.Call(args=[(ast.Name() | ast.Attribute()) as first, *_]):
                return [first] if self.script.value(first).has(OPTIMIZER) else []
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return parts
            case ast.Name() | ast.Attribute():
                return sources(self.script, node)
        return []

    def _owners(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield `model` of `model.parameters()` in `node`, and `weight` of `[weight]`."""
        for part in reach([node], self._parts):
            yield from _given_by(part)
            if isinstance(part, ast.Attribute):  # `[table.weight]`, but `self.weight` itself
                yield part if ast.unparse(part.value) == "self" else part.value
            elif isinstance(part, ast.Name):
                below = reach(self._parts(part), self._parts)
                if not any(isinstance(b, ast.Name | ast.Attribute) or _given_by(b) for b in below):
                    yield part

    def _parts(self, node: ast.expr) -> Sequence[ast.expr]:
        """Return what holds the parameters that `node` holds."""
        if _given_by(node):
            return []
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                entries = [dict(dict_entries(part)).get("params", part) for part in parts]
                return [entry for entry in entries if not isinstance(entry, ast.Call)]
            case ast.Name():
                return sources(self.script, node)
            case ast.Call(args=args):
                return args[-1:]
            case ast.ListComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
                return [first.iter]
        return []


def _given_by(node: ast.expr) -> list[ast.expr]:
    """Return `model` of each `model.parameters()` in `node`."""
    return [
        part.func.value
        for part in walk(node)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _GIVE
    ]
