"""The import graph: which module loads which, directly and through others. Each answer is computed once per program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

Paths = frozenset[str]


class ImportGraph:
    """The imports of a program's modules. `imported` maps each path to the paths that it imports."""

    def __init__(self, imported: Mapping[str, set[str]]) -> None:
        self.imported = imported
        self._loaded: dict[Paths, Paths] = {}
        self._loading: dict[Paths, Paths] = {}
        self._connected: dict[str, Paths] = {}
        self._programs: dict[Paths, Paths] = {}
        self._users: dict[str, Paths] = {}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Map each path to the paths that import it."""
        found: dict[str, set[str]] = {path: set() for path in self.imported}
        for path, imported in self.imported.items():
            for other in imported:
                found[other].add(path)
        return found

    def users(self, path: str) -> Paths:
        """Return the modules that import `path`, or a package whose `__init__.py` imports it."""
        if path not in self._users:
            found = _reach(self.importers.get(path, ()), self._importers_of_packages)
            self._users[path] = found - {path}
        return self._users[path]

    @cached_property
    def _importers_of_packages(self) -> dict[str, set[str]]:
        packages = (path for path in self.importers if path.endswith("__init__.py"))
        return {path: self.importers[path] for path in packages}

    def loaded_by(self, path: str) -> Paths:
        """Return the modules that running `path` loads, including itself."""
        cycle = self._cycles.get(path, frozenset({path}))
        if cycle not in self._loaded:
            found = _reach(cycle, self.imported)
            if not self.importers.get(path):
                return found  # a program: no other module needs its closure
            self._loaded[cycle] = found
        return self._loaded[cycle]

    def loading(self, path: str) -> Paths:
        """Return the modules that load `path`, directly or through others, including itself."""
        cycle = self._cycles.get(path, frozenset({path}))
        if cycle not in self._loading:
            self._loading[cycle] = _reach(cycle, self.importers)
        return self._loading[cycle]

    def connected(self, path: str) -> Paths:
        """Return the modules that any chain of imports connects with `path`, including itself."""
        if path not in self._connected:
            found = _reach({path}, self._neighbours)
            self._connected.update(dict.fromkeys(found, found))
        return self._connected[path]

    def programs(self, path: str) -> Paths:
        """Return every module of the programs that load `path`, including itself."""
        loading = self.loading(path)
        if len(loading) == 1:
            return self.loaded_by(path)
        if loading not in self._programs:
            self._programs[loading] = _reach(loading, self.imported)
        return self._programs[loading]

    @cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        return {path: self.imported[path] | back for path, back in self.importers.items()}

    @cached_property
    def _cycles(self) -> dict[str, Paths]:
        """Map each path to its import cycle: the modules that load it and that it loads."""
        found: dict[str, Paths] = {}
        for path in reversed(_last_first(self.imported)):
            if path not in found:
                cycle = _reach({path}, self.importers, without=found)
                found.update(dict.fromkeys(cycle, cycle))
        return found


def _last_first(edges: Mapping[str, set[str]]) -> list[str]:
    """Return the paths in the order in which a depth-first walk along `edges` leaves them."""
    seen: set[str] = set()
    left: list[str] = []
    for start in edges:
        work = [(start, False)]
        while work:
            path, is_left = work.pop()
            if is_left:
                left.append(path)
            elif path not in seen:
                seen.add(path)
                work.append((path, True))
                work += [(other, False) for other in edges[path] if other not in seen]
    return left


def _reach(
    start: Iterable[str], edges: Mapping[str, set[str]], without: Mapping[str, Paths] = {}
) -> Paths:
    """Return everything that `edges` lead to from `start`, including `start`, except `without`."""
    seen = set(start)
    work = list(seen)
    while work:
        new = edges.get(work.pop(), set()) - seen - without.keys()
        seen |= new
        work += new
    return frozenset(seen)
