"""Every device that a script names, with the place where it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from ..nodes import CALLABLES, walk
from ..parsed_file import ParsedFile
from .availability import whole_choice
from .checks.pieces import pieces
from .literal_context import KEPT, MAYBE, NAME, SINK, place
from .specs import Devices, Spec

_LAUNCHES = ("spawn", "launch")


class DeviceLiteral(NamedTuple):
    """One device that the script names: `of_devices` if the expression is a torch.device, not a string."""

    spec: Spec
    place: str
    of_devices: bool = False


class DeviceLiterals:
    """Every device that one script names by a string, with its place."""

    def __init__(self, script: ParsedFile) -> None:
        self.script = script
        self._inside: set[ast.AST] = set()  # part of a larger one

    @cached_property
    def all(self) -> list[DeviceLiteral]:
        """In source order of their kinds; a choice by availability is one."""
        text = self.script.source.text
        if "cuda" not in text and "accelerator" not in text:
            return []
        return list(self._found())

    def is_inside(self, node: ast.AST) -> bool:
        """True if `node` is part of a choice (or a string being made) that is looked at as a whole."""
        return bool(self.all) and node in self._inside

    def is_chosen(self, node: ast.AST) -> bool:
        """True if `node` is a choice that is looked at as a whole."""
        return any(placed.spec.node is node for placed in self.all)

    def spec(self, node: ast.expr) -> Spec | None:
        """What `node` says as a whole: the name of a device, or a choice of one by availability."""
        return self.script.cached(Devices).spec(node) or whole_choice(self.script, node)

    def is_early(self, node: ast.AST) -> bool:
        """True if `node` is evaluated when the module is imported, and other processes may import it too.

        That is so for defaults, class bodies, and modules that launch processes or that such a module loads:
        the device must not be touched before the processes run (fact 1.9).
        """
        for ancestor in self.script.ancestors(node):
            if isinstance(ancestor, (ast.arguments, ast.ClassDef)):
                return True
            if isinstance(ancestor, CALLABLES):
                return False
        if any(self.script.index.calls_of(name) for name in _LAUNCHES):
            return True
        project = self.script.project
        return project.is_loaded_by_caller(*_LAUNCHES)

    def _found(self) -> Iterator[DeviceLiteral]:
        script, index = self.script, self.script.index
        for choice, _ in index.of(ast.IfExp):
            if choice in self._inside:
                continue
            spec = whole_choice(script, choice)
            if spec is None:
                continue
            numbered = self._numbered(choice)
            if numbered is not None:
                self._inside.update(walk(choice))
                yield DeviceLiteral(numbered, place(script, numbered.node))
                continue
            found = place(script, choice)
            if found == KEPT:  # whatever it is called, it is a device
                found = NAME
            parent = script.parent(choice)
            of_devices = any(isinstance(leaf, ast.Call) for leaf in (choice.body, choice.orelse))
            if of_devices or found in {MAYBE, SINK, NAME}:
                self._inside.update(node for node in walk(choice) if node is not choice)
                yield DeviceLiteral(spec, found, of_devices)
            elif isinstance(parent, ast.Call) and script.dotted(parent.func) == "torch.device":
                self._inside.update(walk(choice))  # is looked at from the call
        calls = [*index.calls_of("format"), *index.calls_of("join")]
        devices = script.cached(Devices)
        for nodes in (index.of(ast.JoinedStr), index.of(ast.BinOp), calls, index.of(ast.Constant)):
            for node, _ in nodes:
                if node in self._inside:
                    continue
                spec = devices.spec(node)
                if spec is not None:
                    self._inside.update(_own_parts(node))
                    yield DeviceLiteral(spec, place(script, node))

    def _numbered(self, choice: ast.IfExp) -> Spec | None:
        """Return the device of `f"{choice}:{rank}"`."""
        text: ast.AST = choice
        while isinstance(around := self.script.parent(text), _OF_TEXTS):
            text = around
        match pieces(text) if isinstance(text, ast.expr) else []:
            case [first, ":", ast.expr() as index] if first is choice:
                return self.script.cached(Devices).numbered(text, index)  # type: ignore[arg-type]
        return None


_OF_TEXTS = (ast.FormattedValue, ast.JoinedStr, ast.BinOp)


def _own_parts(node: ast.expr) -> Iterator[ast.AST]:
    """The constants that a string is made of."""
    if not isinstance(node, ast.Constant):
        yield from (part for part in walk(node) if isinstance(part, ast.Constant))
