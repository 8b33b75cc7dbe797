"""Under which names the instances of a class are called: `model = Net()`, and so `model(x)` runs `Net.forward`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

# Methods that run when the instance itself is called.
CALLED_AS_INSTANCE = frozenset({"__call__", "forward"})


def names_given(made: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> Iterator[str]:
    """The last names of what the instance `made` is bound to: `criterion`, of `self.criterion = Loss().to(device)`, too."""
    node: ast.AST = made
    while isinstance(parents.get(node), (ast.Attribute, ast.Call)):  # .to(device), DDP(...)
        node = parents[node]
    around = parents.get(node)
    statement = parents.get(around) if isinstance(around, ast.Tuple) else around
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(around, ast.Tuple):  # model, criterion = Model(), Loss()
            if not isinstance(target, ast.Tuple) or len(target.elts) != len(around.elts):
                continue
            target = target.elts[next(k for k, e in enumerate(around.elts) if e is node)]
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr
