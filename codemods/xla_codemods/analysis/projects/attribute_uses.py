"""Uses in other modules of the programs of this module's functions, or of attributes of its classes' objects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...flow.closure import reach
from ...patterns import Pattern
from ..index import Index
from ..inference.values import ARRAY, DTYPE, INSTANCE, MODULE, NUMBER, STRING, TENSOR
from .project import Modules, Project

_CLASS = Pattern(r"^[ \t]*class[ \t]+(\w+)[ \t]*(\(?)", re.MULTILINE)
_WORD = Pattern(r"[A-Za-z_]\w*")
_OTHER_NAME = Pattern(
    r"^[ \t]*([A-Z]\w*)[ \t]*=[ \t]*([^\n(#]+)$", re.MULTILINE
)  # `Base = Trainer`
# By which modules are loaded that no import names.
_LOADS = (
    *("import_module(", "__import__(", "walk_packages(", "iter_modules(", "entry_points("),
    *("spec_from_file_location(", "run_path(", "run_module(", "instantiate(", "locate("),
)
# Never an object of a user-defined class.
_PLAIN = frozenset({ARRAY, DTYPE, NUMBER, STRING, TENSOR})


class AttributeUse(NamedTuple):
    """`node`, in the module `home`."""

    node: ast.Attribute | ast.Name
    home: Index


def uses_elsewhere(project: Project, owner: str, name: str) -> Iterator[AttributeUse | None]:
    """Where they may do so; None for a module that cannot be parsed."""
    modules = project.modules
    having = modules.with_word(name) - {project.path}
    paths = sorted(_beside(project) & having) if having else []
    related = _related(project, owner) if paths else frozenset()
    for path in paths:
        if not re.search(rf"\.\s*{re.escape(name)}\b", modules.text(path)):
            continue
        index = modules.whole(path)
        if index is None:
            yield None
            continue
        uses = (AttributeUse(node, index) for node, _ in index.attributes(name))
        yield from (use for use in uses if _may_be_of(modules, use, related))


def uses_of_function(project: Project, name: str) -> Iterator[AttributeUse | None]:
    """Yield the uses of this module's function `name` in other modules of the programs; None if one is unknown."""
    modules = project.modules
    for path in sorted(_beside(project) & modules.with_word(name)):
        index = modules.whole(path)
        if index is None:
            yield None
            continue
        imports = modules.imports(path)
        names = modules.local_names(name, path)
        if any(
            i.name == "*" and modules.locate(i.home, path) == (project.path, []) for i in imports
        ):
            yield None
        found: list[ast.Name | ast.Attribute] = []
        found += [node for node, _ in index.of(ast.Name) if node.id in names]
        found += [node for node, _ in index.attributes(name)]
        for node in found:
            dotted = index.dotted(node)
            if dotted is None:
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    yield None  # it is other things, too
                continue
            defined = modules.defined(dotted, path)
            if defined is not None and defined[1] == project.path:
                yield AttributeUse(node, index)
            elif defined is None and modules.locate(dotted, path) is not None:
                yield None


def is_of_another_class(project: Project, owner: str, use: AttributeUse) -> bool:
    """True if `use`, in the module that `project` is seen from, is of an object that has nothing to do with the class `owner`."""
    if project.is_alone:
        return False
    return not _may_be_of(project.modules, use, _related(project, owner))


def _beside(project: Project) -> frozenset[str]:
    """Return the other modules that a process may load together with this one, except tests."""
    modules = project.modules
    found = project.programs
    if modules.having(_LOADS):
        found = modules.graph.connected(project.path) - {project.path}
    return found - modules.tests


def _may_be_of(modules: Modules, use: AttributeUse, related: frozenset[str]) -> bool:
    node, home = use
    dotted = home.dotted(node)
    if dotted is not None:  # of a module: of a library, or a function of one of the project's
        found = modules.locate(dotted, home.path)
        return found is not None and len(found[1]) > 1
    assert isinstance(node, ast.Attribute)
    known = _class_made(modules, home, node.value)
    if known:
        return known in related
    value = home.value(node.value)
    if isinstance(value.definition, ast.ClassDef):
        return value.definition.name in related
    return not value.kinds & _PLAIN or bool(value.kinds & {INSTANCE, MODULE})


def _class_made(modules: Modules, home: Index, owner: ast.expr) -> str:
    """The class of another module that the name `owner`, before the attribute, is made of: `agent = DQN()`."""
    made: set[str] = set()
    for binding in home.bindings(owner):
        value = binding.value
        if binding.how != "assign" or binding.path or not isinstance(value, ast.Call):
            return ""
        dotted = home.dotted(value.func)
        defined = modules.defined(dotted, home.path) if dotted else None
        if defined is None or not isinstance(defined[0], ast.ClassDef):
            return ""
        made.add(defined[0].name)
    return made.pop() if len(made) == 1 else ""


def _related(project: Project, owner: str) -> frozenset[str]:
    """The classes whose methods may run with an object of the class `owner`, or of one that derives from it, by their names."""
    key = f"related to {owner}", project.path

    def found() -> frozenset[str]:
        bases = _bases(project.modules, {*_beside(project), project.path})
        below = [name for name in bases if owner in reach([name], lambda each: bases.get(each, ()))]
        return frozenset(reach([owner, *below], lambda each: bases.get(each, ())))

    return project.modules.remembered(key, found)


def _bases(modules: Modules, paths: set[str]) -> dict[str, set[str]]:
    """By the names of the classes of these modules the names that stand in their heads, as they are called at home."""
    found: dict[str, set[str]] = {}
    for path in paths:
        text = modules.text(path)
        if "class" not in text:
            continue
        at_home = {i.local: i.name for i in modules.imports(path) if i.name}
        for head in _CLASS.compiled.finditer(text):
            words = _WORD.compiled.findall(_parenthesised(text, head.end())) if head[2] else []
            named = {at_home.get(word, word) for word in words}
            found.setdefault(head[1], set()).update(named, words)
        for given in _OTHER_NAME.compiled.finditer(text):
            found.setdefault(given[1], set()).update(_WORD.compiled.findall(given[2]))
    return found


def _parenthesised(text: str, start: int) -> str:
    """`text` from `start` up to the parenthesis that closes the one before it."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return text[start:]
