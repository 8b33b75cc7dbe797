"""The files of a project: which module a name lies in, and who imports whom. All is read off texts and import lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from ...patterns import Pattern
from ...program.import_graph import ImportGraph
from ...program.import_roots import import_roots
from ...program.texts import Texts

# Never looked for in a project: nearly every name begins with one of them.
_OTHERS = frozenset(
    "PIL cv2 matplotlib numpy pandas scipy sklearn torch torchvision tqdm transformers wandb xla_migrate xla_runtime yaml".split()
)

# Libraries whose functions the rules know. Examples in the repository of such a library are analysed with this
# knowledge, not with the library's source.
_KNOWN = frozenset({"accelerate", "lightning", "pytorch_lightning"})
# Calls that make new tensors on an accelerator by default.
DEFAULT_DEVICE = "set_default_device"
_SETTINGS = {
    DEFAULT_DEVICE: Pattern(r"\bset_default_device\([^\n)]*(?:cuda|device)"),
    "set_default_tensor_type": Pattern(r"\bset_default_tensor_type\([^\n]*cuda"),
}


class ProjectFiles(Texts):
    """The Python files of one project: `files` by path from its root, with `/`. They are read on demand."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self._imports: dict[str, tuple[Import, ...]] = {}
        self._located: dict[tuple[str, str], tuple[str, list[str]] | None] = {}

    def imports(self, path: str) -> tuple[Import, ...]:
        """Its imports, anywhere in it, read off its lines."""
        if path not in self._imports:
            self._imports[path] = tuple(imports_in(self.text(path)))
        return self._imports[path]

    def local_names(self, name: str, path: str) -> set[str]:
        """Return what the module at `path` calls the things that it imports by `name`."""
        return {found.local for found in self.imports(path) if found.name == name}

    def locate(self, dotted: str, path: str) -> tuple[str, list[str]] | None:
        """The module that `dotted`, imported in the file at `path`, lies in, and what is left of the name.

        Absolute names are looked for beside the file, then in each folder above, up to the project's root, and then in
        folders that the project puts on Python's path (`import_roots`), except for libraries that rules know.
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
        for depth in self._depths(folders, parts):
            if (found := self._below(folders[:depth], parts)) is not None:
                return found
        roots = [] if parts[:1] and parts[0] in _KNOWN else self._on_the_path
        found_there = [self._below(each.split("/"), parts) for each in roots]
        known = [found for found in found_there if found is not None]
        return known[0] if len(known) == 1 else None

    def _depths(self, folders: list[str], parts: list[str]) -> list[int]:
        """Return the numbers of `folders` to look in; last the package `parts[0]`, which is not in itself."""

        def is_package(depth: int) -> bool:
            inits = "/".join((*folders[:depth], "__init__.py"))
            return folders[depth - 1 : depth] == parts[:1] and inits in self.files

        return sorted(range(len(folders), -1, -1), key=is_package)

    def has(self, root: str, path: str) -> bool:
        """True if a module or folder called `root` can be imported in the file at `path`."""
        folders = path.split("/")[:-1]
        beside = ("/".join((*folders[:depth], root)) for depth in range(len(folders), -1, -1))
        roots = [] if root in _KNOWN else self._on_the_path
        on_the_path = (f"{folder}/{root}" for folder in roots)
        return any(
            f"{name}.py" in self.files or name in self.folders for name in (*beside, *on_the_path)
        )

    @cached_property
    def _on_the_path(self) -> list[str]:
        return import_roots(self, self.folders)

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
            name = "/".join(here)
            for ending in ("/__init__.py", ".py"):
                if (path := name + ending) in self.files:
                    best = path, parts[k + 1 :]
                    break
            if name not in self.folders:
                break
        return best

    # Who imports whom.

    @cached_property
    def graph(self) -> ImportGraph:
        """Which file imports which; with a file the packages around it are imported."""
        imported = {path: set(self._imported(path)) for path in self.files}
        known = set[str]().union(*imported.values())
        for path in self.having(("import_module(", "__import__(")):
            imported[path] |= {p for p in self._loaded_by_name(path) if p not in known} - {path}
        return ImportGraph(imported)

    def _loaded_by_name(self, path: str) -> Iterator[str]:
        """Yield the modules that `import_module(args.model)` or `import_module("models." + name)` may load.

        All of a package that is written out, and otherwise those whose name is a text of the file.
        """
        text = self.text(path)
        for own, head, rest in _BY_NAME.compiled.findall(text):
            is_own = bool(own) or head.startswith(".")  # `f"{__name__}.{name}"`, `f".{name}"`
            package = head.strip(".").replace(".", "/")
            package = f"{path.rpartition('/')[0]}/{package}".strip("/") if is_own else package
            for module in self.files if head.endswith(".") else ():
                folder = f"/{module}".rpartition("/")[0]
                is_deep = "." in rest and f"/{package}/" in f"{folder}/"
                if is_deep or folder.endswith(f"/{package}"):
                    yield module
            for name in () if head else dict.fromkeys(_QUOTED.compiled.findall(text)):
                if (found := self.locate(name, path)) is not None and not found[1]:
                    yield found[0]
                elif "." not in name and name != "__main__":
                    yield from self._in_folders.get(f"{name}.py", ())

    @cached_property
    def _in_folders(self) -> dict[str, list[str]]:
        """The modules in folders by their last names."""
        found: dict[str, list[str]] = {}
        for path in self.files:
            if "/" in path:
                found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

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


def is_of_others(root: str) -> bool:
    """Return True if `root` is the name of a known library, which projects seldom use for a module."""
    return root in _OTHERS or root in sys.stdlib_module_names


_IMPORT = Pattern(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\((?:[^)#]|#[^\n]*)*\)|[^\n#;]*)"
    r"|import[ \t]+([^\n#;]+))",
    re.MULTILINE,
)
_COMMENT = Pattern(r"#[^\n]*")
_BY_NAME = Pattern(
    r"(?:import_module|__import__)\(\s*(__(?:name|package)__\s*\+\s*|(?=f[\"']\{__(?:name|package)__\}))?"
    r"(?:f?[\"'](?:\{__(?:name|package)__\})?([\w.]*)([^\"']*))?"
)
_QUOTED = Pattern(r"[\"']([A-Za-z_][\w.]*)[\"']")


class Import(NamedTuple):
    """`from home import name as local`; of `import home as local` there is no name."""

    home: str
    name: str
    local: str


def imports_in(text: str) -> Iterator[Import]:
    """Every import in `text`, wherever it stands; one in a string is taken for one, too."""
    if "\\\n" in text:
        text = text.replace("\\\n", " ")
    for home, names, modules in _IMPORT.compiled.findall(text):
        if "#" in names:
            names = _COMMENT.compiled.sub("", names)
        for part in names.strip("() \t\r\n").split(","):
            words = part.split()
            if words:
                yield Import(home, words[0], words[2] if len(words) == 3 else words[0])
        for part in modules.split(","):
            words = part.split()
            if words:
                local = words[2] if len(words) == 3 else words[0].partition(".")[0]
                yield Import(words[0], "", local)


def cuda_defaults(modules: ProjectFiles, path: str) -> frozenset[str]:
    """Return the settings of a CUDA or given device, or a CUDA tensor type, in other modules of programs with this one."""

    def is_set(name: str) -> bool:
        having = modules.with_word(name) - {path}
        others = having & modules.graph.programs(path) if having else having
        return any(_SETTINGS[name].search(modules.text(other)) for other in others)

    return frozenset(filter(is_set, _SETTINGS))
