"""The other modules of a project, as one of its modules sees them.

A file is judged by itself; here it asks, where its own text is not enough: is the `autocast` that it imports from
`utils` torch's, does another module import what this one would drop, is it part of a program that trains on an
accelerator? Sources are given by path. Most is read off import lines; a module is parsed only to confirm what they
promise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

from ...catalog.families import may_lead_to_one
from ...flow.closure import ends
from ...listened import LISTENED
from ...patterns import Pattern
from ...source import Source, SourceError
from ..accelerators import speaks_of_an_accelerator
from ..bindings import Binding
from ..index import Index, build
from ..inference.inference import Inference
from ..inference.values import UNKNOWN, Value, for_others
from ..nodes import walk
from ..scopes import LOCAL, MODULES, STAR_EXPORTS, Scope
from .files import DEFAULT_DEVICE, Import, ProjectFiles, cuda_defaults, is_of_others

T = TypeVar("T")
_TESTS = Pattern(r"(?:^|/)(?:tests?/|testing/|test_[^/]*$|conftest\.py$|[^/]*_test\.py$)")
TRAINS = (".backward(", ".step(")
_ARGUMENTS = "TrainingArguments"  # of transformers' Trainer, which trains on any accelerator
SCALES = "scaler("  # `loss_scaler(loss, optimizer)`, which computes gradients and steps
COMPUTES_GRADIENTS = ("backward(", SCALES)
# Common names for torch's modules and classes, used when passing them on.
_ALIASES = frozenset({"DDP", "DP", "F", "FSDP", "T", "dist", "mp", "np", "th", "tqdm"})


# `device_module = torch.cuda`, in a module.
_KEPT = Pattern(r"^(\w+)\s*=\s*(?:torch|apex)\.[\w.]+[ \t]*$", re.MULTILINE)


class Modules(ProjectFiles):
    """The Python files of one project, and the meaning of their names. They are parsed on demand."""

    def __init__(
        self, files: Mapping[str, bytes], beside: Mapping[str, bytes] | None = None
    ) -> None:
        super().__init__(files)
        self.beside = beside if beside is not None else {}  # its JSON files
        self._sources: dict[str, tuple[bytes, Source]] = {}
        self._scopes: dict[str, Scope | None] = {}
        self._origins: dict[tuple[str, str], str] = {}
        self._returned: dict[tuple[str, str], Value] = {}
        self._whole: dict[str, Index | None] = {}
        self._remembered: dict[tuple[str, str], Any] = {}

    def remembered(self, key: tuple[str, str], make: Callable[[], T]) -> T:
        """What `make` gives at the first call with `key`: what, and the path of the module that it is of."""
        if key not in self._remembered:
            self._remembered[key] = make()
        found: T = self._remembered[key]
        return found

    def source(self, path: str, data: bytes) -> Source:
        """Return `data` of the module at `path`, parsed; once if it is the module's own and others may ask for it.

        Raises:
            SourceError: it cannot be decoded or parsed.
        """
        known = self._sources.get(path)
        if known is not None and known[0] == data:
            return known[1]
        source = Source(data)
        if data == self.files.get(path) and (
            self.graph.importers.get(path) or path in self._scopes
        ):
            self._sources[path] = data, source  # not the rewritten text: `scope` has this tree
        return source

    def scope(self, path: str) -> Scope | None:
        """The names of the module at `path`; None where it cannot be parsed."""
        if path not in self._scopes:
            try:
                source = self.source(path, self.files[path])
                self._sources[path] = self.files[path], source
                scope = self._scopes[path] = Scope(source.tree, None, source.text)
                scope.elsewhere = Project(self, path)
            except (SourceError, RecursionError, MemoryError):
                self._scopes[path] = None
        return self._scopes[path]

    def origin(self, dotted: str, path: str) -> str:
        """What `dotted`, imported in the file at `path` from a module of the project, is called outside of it.

        Empty if it is not an import of that module, or unknown.
        """
        key = (dotted, path)
        if key not in self._origins:
            self._origins[key] = ""  # modules that import each other
            self._origins[key] = self._origin(dotted, path)
        return self._origins[key]

    def _origin(self, dotted: str, path: str) -> str:
        found = self.locate(dotted, path)
        if found is None or not found[1]:
            return ""
        home, (name, *more) = found
        imports = self.imports(home)
        if not any(i.local == name or i.name == "*" for i in imports):
            if name not in _KEPT.compiled.findall(self.text(home)):
                return ""
        scope = self.scope(home)
        inner = scope.dotted(name) if scope is not None else None
        if inner is None:
            return ""
        full = ".".join((inner, *more))
        return self.origin(full, home) or ("" if self._is_own(full, home) else full)

    def defined(self, dotted: str, path: str) -> tuple[ast.AST, str] | None:
        """The function or class that `dotted` names in the file at `path`, and the file that it stands in."""
        found = self.bound(dotted, path)
        if found is None or found[0].how not in {"def", "class"}:
            return None
        return found[0].node, found[1]

    def bound(self, dotted: str, path: str) -> tuple[Binding, str] | None:
        """The one place that binds what `dotted` names in the file at `path`, and the file that it stands in."""
        match self._ends(dotted, path):
            case [(home, [_], [binding])] if not binding.dotted:
                return binding, home
        return None

    def _ends(self, dotted: str, path: str) -> list[tuple[str, list[str], list[Binding]]]:
        """Return the files that bind what `dotted` may name, with what they bind, and with the names that are left."""
        found = [self._names(*place) for place in ends([(dotted, path)], self._imported_from)]
        return [] if None in found else [*filter(None, found)]

    def _names(self, dotted: str, path: str) -> tuple[str, list[str], list[Binding]] | None:
        found = self.locate(dotted, path)
        scope = self.scope(found[0]) if found is not None and found[1] else None
        if found is None or scope is None:
            return None
        return (*found, scope.bindings.get(found[1][0], []))

    def _imported_from(self, place: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the names that a module imports under the name `place`, each with the path of that module."""
        home, names, bindings = self._names(*place) or ("", [], [])
        if bindings and all(b.how == "import" for b in bindings):
            yield from ((".".join((b.dotted, *names[1:])), home) for b in bindings)
        scope = self.scope(home) if names and not bindings else None
        for star in scope.stars if scope is not None else ():
            if self._has_own(star, names[0], home):
                yield ".".join((star, *names)), home

    def _has_own(self, home: str, name: str, path: str) -> bool:
        """Return True if the module `home`, imported in the file at `path`, has a public `name`."""
        found = self.locate(home, path)
        scope = self.scope(found[0]) if found is not None and not found[1] else None
        return scope is not None and name in scope.bindings and not name.startswith("_")

    def holds(self, dotted: str, path: str) -> bool:
        """True if `dotted`, imported in the file at `path`, is no module, function or class, but what a name is bound to.

        `utils.model`, and `utils.Holder.model` of a class.
        """
        found = self._ends(dotted, path)
        return bool(found) and all(_is_of_a_value(names, bindings) for _, names, bindings in found)

    def returned(self, dotted: str, path: str) -> Value:
        """What calling `dotted`, imported in the file at `path`, gives: as its own module tells."""
        key = (dotted, path)
        if key not in self._returned:
            self._returned[key] = UNKNOWN  # modules that call each other
            found = self.defined(dotted, path)
            if found is not None:
                self._returned[key] = for_others(self._result(*found))
        return self._returned[key]

    def _result(self, node: ast.AST, path: str) -> Value:
        scope = self.scope(path)
        if isinstance(node, ast.ClassDef) and scope is not None:
            return Index(scope).inference.instance(node, scope)
        if not isinstance(node, ast.FunctionDef):
            return UNKNOWN
        index = self.whole(path)
        return index.inference.returned(node, index.module) if index is not None else UNKNOWN

    def whole(self, path: str) -> Index | None:
        """All of the module at `path`, indexed; None where it cannot be parsed."""
        if path not in self._whole:
            self._whole[path] = self._indexed(path)
        return self._whole[path]

    def shared(self, path: str, tree: ast.Module) -> Index | None:
        """Return the index of the module at `path` if other modules may need it, too, and `tree` is the module's."""
        if not (self.graph.importers.get(path) or path in self._whole):
            return None
        scope = self.scope(path)
        return self.whole(path) if scope is not None and scope.node is tree else None

    def _indexed(self, path: str) -> Index | None:
        scope = self.scope(path)
        if scope is None or not isinstance(scope.node, ast.Module):
            return None
        index = build(scope.node, scope.text, scope)
        index.path = path
        Project(self, path).inform(index.inference)
        return index

    def _is_own(self, dotted: str, path: str) -> bool:
        return dotted.startswith(".") or self.locate(dotted, path) is not None

    def starred(self, home: str, name: str, path: str) -> str | None:
        """What `from home import *` in the file at `path` brings under `name`.

        Its dotted name, empty for nothing, `LOCAL` for something of the project; None if that is unknown.
        """
        found = self.locate(home, path)
        scope = self.scope(found[0]) if found is not None and not found[1] else None
        if found is None or scope is None:
            return None
        bindings = scope.bindings
        public = _is_public(name, bindings.get("__all__", ()))
        if not public:
            return None if public is None else ""
        if name not in bindings and not scope.stars:
            return ""
        inner = scope.dotted(name)
        if inner is None:
            return LOCAL if name in bindings else None
        return self.origin(inner, found[0]) or (LOCAL if self._is_own(inner, found[0]) else inner)

    @cached_property
    def renamed(self) -> frozenset[str]:
        """Names under which modules have what some rule listens to, or what only CUDA has: `import ... as MyDDP`."""
        found: set[str] = set()
        for path in self.files:
            for home, name, local in self.imports(path):
                if (name or home.rpartition(".")[2]) in _interesting() or may_lead_to_one(
                    f"{home}.{name}" if name else home
                ):
                    found.add(local)
            if "torch" in (text := self.text(path)):
                found.update(_KEPT.compiled.findall(text))
        return frozenset(found)

    @cached_property
    def tests(self) -> frozenset[str]:
        """The files of tests, by their names and folders."""
        return frozenset(path for path in self.files if _TESTS.search(path))

    @cached_property
    def accelerated(self) -> frozenset[str]:
        """The files of programs that train on an accelerator. Tests are no programs."""
        found: set[str] = set()
        train = self.having((*TRAINS, _ARGUMENTS))
        speak = self.where(speaks_of_an_accelerator) | self.having(("Accelerator(", _ARGUMENTS))
        programs = self.having(("__main__",))
        for path in self.files:
            if path in self.tests or (self.graph.importers[path] and path not in programs):
                continue
            reached = self.graph.loaded_by(path)
            if reached & train and reached & speak:
                found |= reached
        return frozenset(found)


class Project:
    """The project as the module at `path` sees it.

    `depends_on_modules`: a verdict on that module depends on others. `depends_on_files`: it depends on files that are no
    Python.
    """

    def __init__(self, modules: Modules, path: str) -> None:
        self._modules = modules
        self.path = path
        self.depends_on_modules = self.depends_on_files = False
        self._roots: dict[str, bool] = {}
        self._origins: dict[str, str] = {}

    @property
    def is_alone(self) -> bool:
        """True if no other module is known."""
        return not self._modules.files

    @property
    def modules(self) -> Modules:
        """The modules of the project. Whoever looks at them depends on them."""
        self.depends_on_modules = True
        return self._modules

    def source(self, data: bytes) -> Source:
        """Return the `data` of this module, parsed; see `Modules.source`."""
        return self._modules.source(self.path, data)

    def index(self, tree: ast.Module, text: str) -> tuple[Index, bool]:
        """Return the index of this module, and True if other modules use it as well.

        Names of a shared index are resolved for all who ask, so the verdict counts as one that depends on others.
        """
        shared = self._modules.shared(self.path, tree)
        if shared is not None:
            self.depends_on_modules = True
            return shared.with_own_values(), True
        index = build(tree, text)
        index.module.elsewhere, index.path = self, self.path
        return index, False

    def inform(self, inference: Inference) -> None:
        """Let the values of this module depend on the other modules."""
        inference.elsewhere = self.returned
        inference.has_default = self.has_cuda_default

    def has_cuda_default(self, dotted: str) -> bool:
        """Return True if another module of the program makes CUDA the default of what calling `dotted` makes."""
        reaching = self._cuda_defaults - ({DEFAULT_DEVICE} if dotted == "torch.Tensor" else set())
        return bool(reaching)

    @cached_property
    def _cuda_defaults(self) -> frozenset[str]:
        return cuda_defaults(self.modules, self.path)

    def origin(self, dotted: str) -> str:
        """See `Modules.origin`; empty for names that no rule knows."""
        if dotted not in self._origins:
            is_own, last = self.has(dotted), dotted.rpartition(".")[2]
            is_known = is_own and (last in _interesting() or self.hands_on(last))
            self._origins[dotted] = self.modules.origin(dotted, self.path) if is_known else ""
        return self._origins[dotted]

    def hands_on(self, name: str) -> bool:
        """True if some module has something under `name` that rules listen to."""
        return name in self.modules.renamed

    def has_text(self, pattern: re.Pattern[str], word: str = "") -> bool:
        """True if `pattern`, which contains the identifier `word`, is found in the text of any module."""
        modules = self.modules
        if not word:
            return bool(modules.matching(pattern))
        return any(pattern.search(modules.text(path)) for path in modules.with_word(word))

    def has_function(self, name: str) -> bool:
        """True if any module defines a function or method of this name."""
        return name in self.modules.functions

    def is_loaded_by_caller(self, *names: str) -> bool:
        """Return True if another module loads this one, and calls something whose last name is one of `names`."""
        modules = self.modules
        having = frozenset().union(*map(modules.with_word, names)) - {self.path}
        found = having & modules.graph.loading(self.path) if having else having
        called = re.compile(rf"\b(?:{'|'.join(names)})\(")
        return any(called.search(modules.text(path)) for path in found)

    def has(self, dotted: str) -> bool:
        """True if `dotted` begins with a module of the project. Even the answer no is one of the project."""
        root = dotted.partition(".")[0]
        if self.is_alone or (root and is_of_others(root)):
            return False
        if root not in self._roots:
            self._roots[root] = not root or self.modules.has(root, self.path)
        return self._roots[root]

    def is_of_its_package(self, dotted: str) -> bool:
        """True if `dotted` names something of the package that this module itself is a part of."""
        root, _, rest = dotted.partition(".")
        if f"{root}/" not in self.path or not rest or is_of_others(root):
            return False
        found = self.modules.locate(dotted, self.path)
        if found is None or f"/{root}/" not in f"/{found[0]}":
            return False
        path, left = found
        top = f"/{path}"[: f"/{path}".rindex(f"/{root}/") + len(root) + 2]
        is_below = f"/{path}" != f"{top}__init__.py"
        return f"/{self.path}".startswith(top) and (is_below or left[0] in self.modules.text(path))

    def starred(self, home: str, name: str) -> str | None:
        """See `Modules.starred`."""
        known = name in _interesting() or self.hands_on(name)
        if not known and name not in self.modules.definitions:
            return None
        return self.modules.starred(home, name, self.path)

    def function(self, dotted: str) -> ast.FunctionDef | None:
        """The function of another module that `dotted` names."""
        found = self.definition(dotted)
        return found[0] if found is not None and isinstance(found[0], ast.FunctionDef) else None

    def definition(self, dotted: str) -> tuple[ast.AST, str] | None:
        """See `Modules.defined`."""
        return self.modules.defined(dotted, self.path) if self.has(dotted) else None

    def bound(self, dotted: str) -> tuple[Binding, str] | None:
        """See `Modules.bound`."""
        return self.modules.bound(dotted, self.path) if self.has(dotted) else None

    def holds(self, dotted: str) -> bool:
        """See `Modules.holds`."""
        return self.has(dotted) and self.modules.holds(dotted, self.path)

    def returned(self, dotted: str) -> Value:
        """See `Modules.returned`."""
        if not self.has(dotted):
            return UNKNOWN
        return self.modules.returned(dotted, self.path)

    @property
    def beside(self) -> Mapping[str, bytes]:
        """The JSON files of the project, except large ones, by path from its root."""
        self.depends_on_files = True
        return self.modules.beside

    @property
    def runs_accelerated(self) -> bool:
        """True if a program that trains on an accelerator loads this module."""
        return self.path in self.modules.accelerated

    def wants(self, name: str) -> bool:
        """True if another module imports `name` from this one, or all that it has."""
        names, whole = self._imports_of_me
        if name in names or ("*" in names and self._may_be_public(name)):
            return True
        using = whole and whole & self.modules.with_word(name)
        return any(_uses(self.modules.text(other), name) for other in using)

    @cached_property
    def _imports_of_me(self) -> tuple[set[str], set[str]]:
        """Return the names that other modules import from this one, and the modules that import it as a whole."""
        names, whole = set[str](), set[str]()
        for other in self.modules.graph.importers.get(self.path, ()):
            for found in self.modules.imports(other):
                home = self.modules.locate(found.home, other)
                if home is not None and home[0] == self.path:
                    names.add(found.name)
                if self._is_me(found, other):
                    whole.add(other)
        return names, whole

    def _may_be_public(self, name: str) -> bool:
        """True if a star import brings `name`: `__all__` names it, or there is none."""
        text = self.modules.text(self.path)
        if "__all__" in text:
            return re.search(rf"[\"']{re.escape(name)}[\"']", text) is not None
        return not name.startswith("_")

    def _is_me(self, found: Import, other: str) -> bool:
        """True if `found` imports this whole module: `import utils`, `from lib import utils`."""
        separator = "" if found.home.endswith(".") or not found.name else "."
        home = self.modules.locate(f"{found.home}{separator}{found.name}", other)
        return home is not None and home == (self.path, [])

    def uses_attribute(self, name: str) -> bool:
        """True if another module of the same programs has `.name` of anything."""
        modules = self.modules

        def found() -> frozenset[str]:
            return frozenset(o for o in modules.with_word(name) if _uses(modules.text(o), name))

        using = modules.remembered(("use the attribute", name), found) - {self.path}
        return bool(using) and not using.isdisjoint(modules.graph.connected(self.path))

    @property
    def imported(self) -> set[str]:
        """The modules that this one imports."""
        found = self._modules.graph.imported.get(self.path, set())
        self.depends_on_modules |= bool(found)
        return found

    @cached_property
    def program_paths(self) -> list[str]:
        """Return the other modules of the programs that load this one."""
        return sorted(self.programs)

    @cached_property
    def programs(self) -> frozenset[str]:
        """Return the same modules as a set."""
        return self.modules.graph.programs(self.path) - {self.path}

    def in_its_programs(self, paths: frozenset[str]) -> bool:
        """Return True if one of `paths` is another module of the programs that load this one."""
        return not paths.isdisjoint(self.programs)

    def mentions(self, *words: str) -> bool:
        """True if another module of the same programs has one of these words."""
        others = self.modules.graph.connected(self.path) - {self.path}
        return not others.isdisjoint(self.modules.having(words))


def _is_of_a_value(names: list[str], bindings: list[Binding]) -> bool:
    """Return True if `bindings` bind the first name to a value, or to a class, of which more names are taken."""
    ways = {binding.how for binding in bindings}
    return bool(ways) and not ways & {"import", "def"} and (ways != {"class"} or len(names) > 1)


def _is_public(name: str, listed: Sequence[Binding]) -> bool | None:
    """Return True if a star import provides `name` of a module with this `__all__`; None if that is unknown."""
    if not listed:
        return not name.startswith("_")
    values = [binding.value for binding in listed if binding.value is not None]
    if any(isinstance(n, ast.Constant) and n.value == name for v in values for n in walk(v)):
        return True
    is_whole = all(isinstance(v, (ast.List, ast.Tuple)) for v in values)
    return False if is_whole else None


def _uses(text: str, attribute: str) -> bool:
    return re.search(rf"\.{re.escape(attribute)}\b", text) is not None


@cache
def _interesting() -> frozenset[str]:
    """Last parts of the names that rules listen to, and of the modules that they lie in."""
    names = {name.rpartition(".")[2] for name in (*LISTENED, *MODULES)}
    return frozenset(names.union(_ALIASES, *STAR_EXPORTS.values()))
