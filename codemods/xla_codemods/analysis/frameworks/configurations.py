"""The configurations of DeepSpeed's that a script may train with: dictionaries of its program, and JSON files of its project."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...patterns import Pattern
from ..nodes import walk
from ..projects.project import Project
from ..script import Script
from ..syntax import dict_entries, keyword, text_of
from .deepspeed import (
    MARKS,
    Demand,
    as_accelerator,
    as_training_arguments,
    asked,
    is_configuration,
    of_accelerate,
    stage,
)
from .passed_values import given


class Configuration(NamedTuple):
    """A configuration: `node` if the file itself defines it, `name` the name of the file that contains it."""

    table: Mapping[str, Any]
    name: str = ""
    node: ast.Dict | None = None

    @property
    def refused(self) -> list[Demand]:
        """What ends with an error on XLA."""
        return [one for one in asked(self.table) if one.is_refused]


def written_out(script: Script) -> list[Configuration]:
    """Those in the file itself."""
    # All of the tree: in a file that does not train no line of a configuration is hot.
    return list(_of_tree(script.tree, "", with_nodes=True))


def elsewhere(script: Script) -> list[Configuration]:
    """Those that the file may read: in JSON files that it names, else in its program, else in the nearest JSON files."""
    project = script.project
    texts = {n.value for n in walk(script.tree) if isinstance(n, ast.Constant)}
    names = sorted(t for t in texts if isinstance(t, str) and t.endswith(".json"))
    named = {path: one for name in names for path, one in _files(project, name)}
    return list(named.values()) or [*_of_program(project)] or list(_nearest(project).values())


def of_argument(script: Script, call: ast.Call, name: str) -> list[Configuration]:
    """What the argument `name` of `call` may be: a dictionary, or the name of a file."""
    written = keyword(call, name)
    nodes = [one.node for one in given(script, call, name)]
    if isinstance(written, (ast.Dict, ast.Constant)):
        nodes.append(written)
    return [found for node in nodes for found in of_node(script, node)]


def of_node(script: Script, node: ast.expr) -> list[Configuration]:
    """What a dictionary, or the name of a file, says."""
    if isinstance(node, ast.Dict):
        table = plain(node)
        return [Configuration(table, "", node)] if is_configuration(table) else []
    name = text_of(node)
    return [one for _, one in _files(script.project, name)] if name is not None else []


def place(node: ast.Dict, keys: tuple[str, ...]) -> ast.expr:
    """The expression under `keys` in the dictionary `node`; the outermost that is there."""
    found: ast.expr = node
    for key in keys:
        if not isinstance(found, ast.Dict) or key not in (entries := dict(dict_entries(found))):
            break
        found = entries[key]
    return found


def plain(node: ast.expr) -> Any:
    """What `node` is, as far as it is written out; `...` for what is not."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Dict():
            return {name: plain(value) for name, value in dict(dict_entries(node)).items()}
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [plain(element) for element in elements]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return ...


def _of_tree(tree: ast.AST, name: str, with_nodes: bool = False) -> Iterator[Configuration]:
    for node in walk(tree):
        if isinstance(node, ast.Dict) and not MARKS.isdisjoint(dict(dict_entries(node))):
            yield Configuration(plain(node), name, node if with_nodes else None)


def _of_program(project: Project) -> Iterator[Configuration]:
    modules = project.modules
    for path in sorted(
        modules.having(tuple(sorted(MARKS))) & modules.graph.loaded_by(project.path)
    ):
        scope = modules.scope(path)
        if path != project.path and scope is not None:
            yield from _of_tree(scope.node, path)


# The advice for training without DeepSpeed.


def for_trainer(script: Script, nodes: list[ast.expr]) -> str:
    """Why transformers' Trainer fails with `deepspeed=`, one of `nodes`, and what to give it in place of that."""
    return instead(as_training_arguments, [one for node in nodes for one in of_node(script, node)])


def for_accelerator(script: Script, call: ast.Call) -> str:
    """The same, of accelerate's plugin that `call` makes."""
    options = {k.arg: plain(k.value) for k in call.keywords if k.arg}
    found = of_argument(script, call, "hf_ds_config") or [Configuration({})]
    table = {**found[0].table, **of_accelerate(options)}
    is_known = len(found) == 1 and bool(table)
    return instead(as_accelerator, [found[0]._replace(table=table)] if is_known else [])


def instead(say: Callable[[Mapping[str, Any]], list[str]], found: list[Configuration]) -> str:
    """Return the advice for training without DeepSpeed; `say` translates its configuration."""
    if len(found) != 1:
        return f"{_WITHOUT}, and set precision, accumulation and clipping of its configuration yourself; {_SHARDED}"
    ((table, name, _),) = found
    text = ", ".join(say(table))
    message = f"{_WITHOUT}, and use {text}" if text else _WITHOUT
    if name:
        message += (
            f" (from `{name}`)" if text else f", because `{name}` sets nothing else of the training"
        )
    return f"{message}; {_SHARDED}" if stage(table) == 3 else message


_WITHOUT = "DeepSpeed does not run on XLA: remove it"
_SHARDED = "shard in your own training loop with `xla.FullyShardedDataParallel`"


# JSON files.


def _files(project: Project, name: str) -> Iterator[tuple[str, Configuration]]:
    """The files that `name` may be, from the script's folder or from one above; else all whose paths end so."""
    files = _configurations(project)
    tail = posixpath.normpath(name.replace("\\", "/")).lstrip("./")
    for folder in _folders(project.path):
        path = posixpath.normpath(posixpath.join(folder, name))
        if path in files:
            yield path, files[path]
            return
    for path, found in files.items():
        if path == tail or path.endswith(f"/{tail}"):
            yield path, found


def _nearest(project: Project) -> dict[str, Configuration]:
    """All below the innermost folder around the script that has any below it."""
    files = _configurations(project)
    for folder in _folders(project.path):
        inside = f"{folder}/" if folder else ""
        if below := {path: one for path, one in files.items() if path.startswith(inside)}:
            return below
    return {}


def _folders(path: str) -> list[str]:
    """The folder of `path` and those around it, "" for the project's own."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def _configurations(project: Project) -> dict[str, Configuration]:
    beside = project.beside
    return project.modules.remembered(("deepspeed", ""), lambda: dict(_parsed(beside)))


def _parsed(files: Mapping[str, bytes]) -> Iterator[tuple[str, Configuration]]:
    for path in sorted(files):
        data = files[path]
        if any(mark.encode() in data for mark in MARKS):
            table = parsed(data.decode("utf-8", "replace"))
            if is_configuration(table):
                yield path, Configuration(table, path)


def parsed(text: str) -> Any:
    """Return the parsed text of a JSON file, with comments and commas as DeepSpeed allows; None if invalid."""
    import json

    for form in (text, strict(text)):
        try:
            return json.loads(form)
        except ValueError:
            continue
    return None


def strict(text: str) -> str:
    """`text` with blanks for comments, and for commas behind the last entry: as long as it was."""
    text = _COMMENT.compiled.sub(_blank, text)
    return _LAST_COMMA.compiled.sub(_blank, text)


_COMMENT = Pattern(r'"(?:\\.|[^"\\\n])*"|#[^\n]*|//[^\n]*|/\*[\s\S]*?\*/')
_LAST_COMMA = Pattern(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')


def _blank(found: Any) -> str:
    whole: str = found[0]
    return whole if whole[0] == '"' else "".join(c if c == "\n" else " " for c in whole)
