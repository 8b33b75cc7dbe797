"""The files of a project: which module a name lies in, and who imports whom. All is read off texts and import lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property

from .import_lines import Import, imports_in

# Never looked for in a project: nearly every name begins with one of them.
_OTHERS = frozenset(
    "PIL cv2 matplotlib numpy pandas scipy sklearn torch torchvision tqdm transformers wandb xla_migrate xla_runtime yaml".split()
)


class ProjectFiles:
    """The Python files of one project: `files` by path from its root, with `/`. They are read when they are asked for."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self._texts: dict[str, str] = {}
        self._having: dict[tuple[str, ...], frozenset[str]] = {}
        self._imports: dict[str, tuple[Import, ...]] = {}
        self._located: dict[tuple[str, str], tuple[str, list[str]] | None] = {}

    def text(self, path: str) -> str:
        """The file at `path`, good for searching."""
        if path not in self._texts:
            self._texts[path] = self.files[path].decode("utf-8", "replace")
        return self._texts[path]

    def having(self, words: tuple[str, ...]) -> frozenset[str]:
        """The paths of the files with one of `words`."""
        if words not in self._having:
            texts = ((path, self.text(path)) for path in self.files)
            found = frozenset(path for path, text in texts if any(word in text for word in words))
            self._having[words] = found
        return self._having[words]

    def imports(self, path: str) -> tuple[Import, ...]:
        """Its imports, anywhere in it, read off its lines."""
        if path not in self._imports:
            self._imports[path] = tuple(imports_in(self.text(path)))
        return self._imports[path]

    def locate(self, dotted: str, path: str) -> tuple[str, list[str]] | None:
        """The module that `dotted`, imported in the file at `path`, lies in, and what is left of the name.

        Absolute names are looked for beside the file, and then in each folder above, up to the project's root.
        """
        folder = path.rpartition("/")[0]
        if (dotted, folder) not in self._located:
            self._located[dotted, folder] = self._locate(dotted, folder)
        return self._located[dotted, folder]

    def _locate(self, dotted: str, folder: str) -> tuple[str, list[str]] | None:
        name = dotted.lstrip(".")
        parts = name.split(".") if name else []
        folders = folder.split("/") if folder else []
        if level := len(dotted) - len(name):
            if level - 1 > len(folders):
                return None
            base = folders[: len(folders) - level + 1]
            found = self._below(base, parts)
            if found is None and "/".join((*base, "__init__.py")) in self.files:
                found = "/".join((*base, "__init__.py")), parts
            return found
        for depth in range(len(folders), -1, -1):
            if (found := self._below(folders[:depth], parts)) is not None:
                return found
        return None

    def has(self, root: str, path: str) -> bool:
        """True if a module or folder called `root` can be imported in the file at `path`."""
        folders = path.split("/")[:-1]
        beside = ("/".join((*folders[:depth], root)) for depth in range(len(folders), -1, -1))
        return any(f"{name}.py" in self.files or name in self.folders for name in beside)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders that modules lie in."""
        found: set[str] = set()
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in found:
                found.add(path)
        return frozenset(found)

    def _below(self, folders: list[str], parts: list[str]) -> tuple[str, list[str]] | None:
        here, best = list(folders), None
        for k, part in enumerate(parts):
            here.append(part)
            for ending in ("/__init__.py", ".py"):
                if (path := "/".join(here) + ending) in self.files:
                    best = path, parts[k + 1 :]
                    break
        return best

    # Who imports whom.

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """File -> the files that it imports, the packages around them included."""
        return {path: set(self._imported(path)) for path in self.files}

    def _imported(self, path: str) -> Iterator[str]:
        for home, name, _ in self.imports(path):
            if is_of_others(home.partition(".")[0]):
                continue
            dotted = f"{home}{'' if home.endswith('.') else '.'}{name}" if name != "*" else home
            found = self.locate(dotted.rstrip(".") if name else home, path)
            if found is not None and found[0] != path:
                yield found[0]
                folders = found[0].split("/")[:-1]
                while folders:
                    if (package := "/".join((*folders, "__init__.py"))) in self.files:
                        yield package
                    folders.pop()

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """The other way round."""
        found: dict[str, set[str]] = {path: set() for path in self.files}
        for path, imported in self.graph.items():
            for other in imported:
                found[other].add(path)
        return found

    def reached(self, path: str, both_ways: bool = False) -> set[str]:
        """The files that running the one at `path` loads, itself included; `both_ways`: all that belong together."""
        seen, stack = {path}, [path]
        while stack:
            current = stack.pop()
            others = set(self.graph.get(current, ()))
            if both_ways:
                others |= self.importers.get(current, set())
            stack += others - seen
            seen |= others
        return seen


def is_of_others(root: str) -> bool:
    """True if nearly nobody calls a module of his own `root`."""
    return root in _OTHERS or root in sys.stdlib_module_names
