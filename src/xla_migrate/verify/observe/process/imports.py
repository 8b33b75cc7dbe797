"""Acting when the script imports a library, and hiding libraries from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from . import where


class AfterImport:
    """A meta-path finder that calls a function once a module has been executed."""

    def __init__(self, actions: dict[str, Callable[[Any], None]]) -> None:
        self.actions = actions

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with the action behind its execution."""
        action = self.actions.get(name)
        if action is None:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            if self.actions.pop(name, None) is not None:
                action(module)

        spec.loader.exec_module = execute_then_act  # type: ignore[method-assign]
        return spec


def after(actions: dict[str, Callable[[Any], None]]) -> Callable[[], None]:
    """Call each action with its module, right after its import (at once if it is imported already).

    What is returned ends the waiting for imports.
    """
    waiting = dict(actions)
    for name in list(waiting):
        if name in sys.modules:
            waiting.pop(name)(sys.modules[name])
    finder = AfterImport(waiting)
    sys.meta_path.insert(0, finder)
    return lambda: sys.meta_path.remove(finder)


class ImportFirst:
    """A meta-path finder that imports the module `first` when the user's code imports one of `names` before it."""

    def __init__(self, first: str, names: Container[str]) -> None:
        self.first = first
        self.names = names

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders give that are there once `first` is imported."""
        if name not in self.names or self.first in sys.modules:
            return None
        frame = where.importer()
        if frame is None or not where.is_in_project(frame.f_code.co_filename):
            return None
        import_module(self.first)
        others = (finder for finder in [*sys.meta_path] if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        return next((spec for spec in specs if spec is not None), None)


def hide(name: str, is_hidden: Callable[[], bool] = lambda: True) -> Callable[[], None]:
    """Make a package look not installed, to imports and to those who probe, by the class or an instance of it.

    Args:
        name: of the package.
        is_hidden: called at each search for it.

    Returns:
        A function that ends it.
    """
    before = vars(PathFinder)["find_spec"]
    find = PathFinder.find_spec.__func__  # type: ignore[attr-defined]

    @classmethod  # type: ignore[misc]
    def find_spec(
        cls: Any, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] == name and is_hidden():
            return None
        found: ModuleSpec | None = find(cls, fullname, path, target)
        return found

    PathFinder.find_spec = find_spec  # type: ignore[method-assign,assignment]
    return lambda: setattr(PathFinder, "find_spec", before)
