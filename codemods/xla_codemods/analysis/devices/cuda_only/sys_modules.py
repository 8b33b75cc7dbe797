"""Whether the program looks for a package in `sys.modules`: its import must stay then, even if nothing uses it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...index import Index, build
from ...parsed_file import ParsedFile
from .presence import reads_modules

_OF_TORCH = frozenset({"torch", "torch_xla", "torchvision"})


class SysModules:
    """Packages that the edited file, or another module of its programs, looks for in `sys.modules`."""

    def __init__(self, tree: ast.Module, script: ParsedFile) -> None:
        self._tree, self._script = tree, script
        self._known: dict[str, bool] = {}

    def looks_for(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        """Return True if the import of `alias` must stay, because code tests that its package is imported."""
        home = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
        package = home.partition(".")[0]
        is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
        if is_relative or package in _OF_TORCH:
            return False
        if package not in self._known:
            self._known[package] = any(reads_modules(index, package) for index in self._indexes())
        return self._known[package]

    def _indexes(self) -> Iterator[Index]:
        """Yield the modules that speak of `sys.modules`."""
        if "modules" in self._script.source.text:
            yield build(self._tree, self._script.source.text)
        project = self._script.project
        if project is not None:
            modules = project.modules
            connected = modules.graph.connected(project.path) - {project.path}
            for path in sorted(connected & modules.having(("sys.modules",))):
                project.asked = True
                index = modules.whole(path)
                if index is not None:
                    yield index
