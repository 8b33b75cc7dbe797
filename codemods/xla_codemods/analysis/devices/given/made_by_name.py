"""Devices that settings pass to objects made by name: hydra's `instantiate`, Lightning's `LightningCLI`.

No code passes them. The file of settings says `_target_: lib.ModelEma` and `device: cuda`.
"""

from __future__ import annotations

import ast

from ....flow.edges import sources
from ...nodes import walk
from ...projects.callees import callees_of, filled
from ...projects.passed_arguments import passed_arguments
from ...scopes import FunctionNode
from ...script import Script
from ...syntax import parameters, unparsed
from ..specs import is_device_name

# Functions and packages that make objects of the classes that a file of settings names; and of hydra,
# since "instantiate" alone is a word of comments.
_MAKING = (
    *("build_from_cfg", "get_obj_from_str", "instantiate_class", "instantiate_from_config"),
    *("jsonargparse", "LightningCLI", "load_hyperpyyaml"),
)
_OF_HYDRA = ("hydra", "instantiate")


def is_of_an_object_made_by_name(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is a parameter for a device that only a file of settings can fill, or an attribute with it."""
    names = [node] if isinstance(node, ast.Name) else _stored_names(script, node)
    return bool(names) and all(_is_filled_by_settings(script, name) for name in names)


def may_be_none(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is None where the settings say nothing, and no test around it excludes that."""
    names = [node] if isinstance(node, ast.Name) else _stored_names(script, node)
    defaults = [source for name in names for source in sources(script, name)]
    if not any(isinstance(each, ast.Constant) and each.value is None for each in defaults):
        return False
    tests = [a.test for a in script.ancestors(node) if isinstance(a, (ast.If, ast.IfExp))]
    spelled = ast.unparse(node)
    return not any(unparsed(part) == spelled for test in tests for part in walk(test))


def _stored_names(script: Script, node: ast.expr) -> list[ast.Name]:
    """Return the names that are stored in `self.device`; none if something else is, too."""
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
        return []
    stored = sources(script, node)
    names = [each for each in stored if isinstance(each, ast.Name)]
    return names if len(names) == len(stored) else []


def _is_filled_by_settings(script: Script, name: ast.Name) -> bool:
    bindings = script.reaching(name)
    if not is_device_name(name.id) or [b.how for b in bindings] != ["parameter"]:
        return False
    found = script.index.scope(name).find(name.id)
    function = found[0].node if found is not None else None
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
        return False
    makes = _mentions(script, *_MAKING) or all(_mentions(script, word) for word in _OF_HYDRA)
    return makes and _takes_texts(function, name.id) and _is_left_open(script, function, name.id)


def _mentions(script: Script, *words: str) -> bool:
    """Return True if the file, or another module of its programs, has one of `words`."""
    return script.source.mentions(*words) or script.project.mentions(*words)


def _takes_texts(function: FunctionNode, name: str) -> bool:
    """Return True unless the annotation wants a `torch.device`, which a file of settings cannot hold."""
    (annotation,) = [p.annotation for p in parameters(function) if p.arg == name] or [None]
    text = ast.unparse(annotation) if annotation is not None else ""
    return "device" not in text or "str" in text


def _is_left_open(script: Script, function: FunctionNode, name: str) -> bool:
    """Return True if no call of the program passes `name`, except in `**settings`."""
    callees = callees_of(script)
    target = callees.target(script.index, function)
    if target is None:
        return False
    for index, call in passed_arguments(script).calls(target):
        handed = callees.handed(index, call)
        if handed is None or handed.target is None or handed.target.function is not function:
            continue
        if name in dict(filled(handed, target)):
            return False
    return True
