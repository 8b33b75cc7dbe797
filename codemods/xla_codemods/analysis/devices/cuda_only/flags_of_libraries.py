"""Tests for CUDA whose result a foreign library receives: `xgboost.XGBClassifier(device="cuda" if available else "cpu")`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ....flow.calls import call_with, called, owner_of
from ....flow.closure import ends
from ....flow.conditions import whole
from ....flow.edges import uses
from ....listened import LISTENED
from ....patterns import Pattern
from ...inference.library_types import FOREIGN, is_of_others
from ...inference.values import MODULE
from ...parsed_file import ParsedFile
from ...projects.attribute_uses import uses_elsewhere
from ...projects.callees import callees_of, filled
from ...scopes import FunctionNode
from ...syntax import name_of, parameters
from ..non_device_calls import ENGINES, is_of_an_engine

# Arguments that switch a library's own code for CUDA on.
_FLAG = Pattern(r"(?:^|_)(?:gpus?|cuda)(?:$|_)", re.IGNORECASE)
# Devices of a simulator, which knows CUDA's alone.
_OF_SIMULATORS = Pattern(r"^(?:sim|simulation|physics|graphics|render(?:ing|er)?)_device(?:$|_)")
_NAMED = Pattern(rf"\b(?:{'|'.join(sorted({*FOREIGN, *ENGINES}))})\b")
_ANY = "xgboost"  # stands for the library of an object
_KNOWN = frozenset(name.partition(".")[0] for name in LISTENED) | sys.stdlib_module_names


class _Place(NamedTuple):
    """An expression with a device or a flag, or a dictionary that has it under `key`.

    `is_chosen`: it is a device, or depends on a flag. Otherwise it is the flag itself.
    """

    script: ParsedFile
    node: ast.expr
    key: str = ""
    is_chosen: bool = False


def library_given(script: ParsedFile, test: ast.expr, *, may_be_named: bool = True) -> str | None:
    """Return the library that is all that `test` decides for, None if there is none or `test` decides more.

    Libraries that a rule knows are not among them. `may_be_named`: `test` may go through a variable.
    """
    condition = whole(script, test)
    choice = script.parent(condition)
    if isinstance(choice, ast.IfExp) and choice.test is condition:
        if libraries := libraries_without_torch(script, choice):
            return libraries[0]
    return _library(_Place(script, test), may_be_named)


def is_of_a_simulator(name: str) -> bool:
    """Return True if a device that is called `name` is a simulator's."""
    return _OF_SIMULATORS.search(name) is not None


def is_for_a_simulator(script: ParsedFile, device: ast.expr) -> bool:
    """Return True if all that is done with `device` is `simulator.make(sim_device=device)`, of a foreign library."""
    library = _library(_Place(script, device, is_chosen=True))
    return library is not None and not is_without_torch(library)


def is_for_another_library(script: ParsedFile, device: ast.expr) -> bool:
    """Return True if all that is done with `device` is to pass it to libraries without torch, also in a dictionary.

    `xgboost.train({"device": device})`, `params["device"] = device`, then `XGBClassifier(**params)`.
    """
    return bool(libraries_without_torch(script, device))


def libraries_without_torch(
    script: ParsedFile, device: ast.expr, *, of_objects: bool = True
) -> list[str]:
    """Return the libraries without torch that receive `device`; none if anything else does.

    `of_objects`: also by methods of their objects, which may be objects of torch on other paths.
    """
    if not script.cached(imports_foreign):
        return []
    found = {_receiver(end, of_objects) for end in _ends(_Place(script, device, is_chosen=True))}
    return sorted(filter(None, found)) if found <= {"", *FOREIGN} else []


def imports_foreign(script: ParsedFile) -> bool:
    """Return True if the file may import a library without torch."""
    return script.source.mentions(*FOREIGN)


def is_without_torch(library: str) -> bool:
    """Return True if the library surely manages its devices itself: no tensor moves because of it."""
    return library in FOREIGN or is_of_an_engine(library)


def _library(start: _Place, may_be_named: bool = True) -> str | None:
    """Return the only library that receives the value of `start`, by names, attributes, dictionaries and functions."""
    found = _ends(start, may_be_named)
    libraries = {_receiver(end) for end in found}
    library = libraries.pop() if len(libraries) == 1 else None
    # Last: what is asked of the project makes the file depend on the others.
    if not library or any(_is_used_elsewhere(end) for end in found if end != start):
        return None
    return library


def _ends(start: _Place, may_be_named: bool = True) -> list[_Place]:
    def step(place: _Place) -> Iterable[_Place]:
        return _next(place, start.script, may_be_named or place.script is not start.script)

    return ends([start], step)


def _next(place: _Place, home: ParsedFile, may_be_named: bool) -> Iterable[_Place]:
    """Return where the value of `place` goes: also into one other module than `home`, but not on to a third one."""
    script, node = place.script, place.node
    around = script.parent(node)
    call = script.parent(around) if isinstance(around, ast.keyword) else around
    key = place.key
    if isinstance(around, ast.keyword) and around.arg and not _FLAG.search(key):
        key = around.arg
    match around:
        case ast.BoolOp() | ast.UnaryOp():
            return [place._replace(node=around)]
        case ast.IfExp(test=test):
            return [place._replace(node=around, is_chosen=place.is_chosen or node is test)]
        case ast.Dict(keys=keys, values=values):
            name = str(getattr(keys[values.index(node)], "value", "")) if node in values else ""
            return [place._replace(node=around, key=key if _FLAG.search(key) else name)]
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "dict":
        return [place._replace(node=call, key=key)]
    if _foreign(place):
        return []
    if script is home and (reads := list(_in_another_module(script, node))):
        return [_Place(*read, key, place.is_chosen) for read in reads]
    if not may_be_named:
        return []
    if into := _put_into(script, node):
        return [place._replace(node=each, key=key) for each in into]
    return [place._replace(node=each) for each in uses(script, node)]


def _put_into(script: ParsedFile, node: ast.expr) -> list[ast.expr]:
    """Return the reads of the dictionary that `node` is put into: `params["device"] = node`, also of `**options`."""
    around = script.parent(node)
    match around, script.parent(around) if around is not None else None:
        case (
            (ast.keyword(arg=str()), ast.Call(func=ast.Attribute(attr="update", value=owner)))
            | (ast.Call(func=ast.Attribute(attr="update", value=owner)), _)
            | (ast.Assign(targets=[ast.Subscript(value=owner)]), _)
        ) if owner is not node and isinstance(owner, ast.Name):
            return [name for name in script.index.same(owner) if isinstance(name.ctx, ast.Load)]
        case ast.keyword(arg=name), ast.Call() as call:
            function = called(script, call)
            rest = function.args.kwarg if function is not None else None
            if function is not None and rest is not None:
                if all(each.arg != name for each in parameters(function)):
                    return list(_reads(script, rest.arg, function))
    return []


def _in_another_module(script: ParsedFile, node: ast.expr) -> Iterator[tuple[ParsedFile, ast.expr]]:
    """Yield the reads of the parameter that `node` is passed to, in a function of another module that may name a library."""
    call = call_with(script, node)
    handed = callees_of(script).handed(script.index, call) if call is not None else None
    target = handed.target if handed is not None else None
    if handed is None or target is None or target.home is script.index:
        return
    if not _NAMED.search(script.project.modules.text(target.home.path)):
        return
    names = [name for name, argument in filled(handed, target) if argument is node]
    rest = target.function.args.kwarg
    if not names and rest is not None and any(k.value is node for k in handed.keywords):
        names = [rest.arg]
    other = script.other_file(target.home.path)
    for name in names:
        yield from ((other, read) for read in _reads(other, name, target.function))


def _reads(script: ParsedFile, name: str, function: FunctionNode) -> Iterator[ast.Name]:
    """Yield the reads of the parameter `name` in `function`, which another parse of the file may have made."""
    for read, _ in script.index.names(name):
        around = script.function(read)
        if isinstance(read.ctx, ast.Load) and around is not None:
            if (around.name, around.lineno) == (function.name, function.lineno):
                yield read


def _receiver(place: _Place, of_objects: bool = True) -> str | None:
    """Return the library that receives `place`; "" if the place only fills, reads or shows it, None for another."""
    script, node = place.script, place.node
    match script.parent(node):
        case ast.Subscript(value=owner) | ast.Attribute(value=owner) if owner is node:
            return ""
    call = call_with(script, node)
    if call is None or script.dotted(call.func) is not None:
        return _foreign(place)
    if isinstance(call.func, ast.Attribute):
        return _ANY if of_objects and is_of_others(script.value(call.func.value)) else None
    return "" if name_of(call.func) == "print" else None


def _foreign(place: _Place) -> str | None:
    """Return the library whose function is called with `place`, if the argument can only be meant for CUDA."""
    script = place.script
    call = call_with(script, place.node)
    dotted = script.dotted(call.func) if call is not None else None
    if call is None or dotted is None or script.project.has(dotted):
        return None
    library = dotted.partition(".")[0]
    if is_without_torch(library):
        return library
    given = script.parent(place.node)
    name = (given.arg or place.key) if isinstance(given, ast.keyword) else ""
    is_named = _FLAG.search(name) or (_FLAG.search(place.key) and _receives_a_module(script, call))
    is_flag = bool(is_named) and not place.is_chosen
    is_known = library in _KNOWN or library.startswith("torch")
    return library if (is_flag or is_of_a_simulator(name)) and not is_known else None


def _receives_a_module(script: ParsedFile, call: ast.Call) -> bool:
    """Return True for `Agent(net, {"use_cuda": test})`: a tracker, or a container of settings, receives no model."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(script.value(argument).has(MODULE) for argument in given)


def _is_used_elsewhere(place: _Place) -> bool:
    """Return True if another module may read the variable or attribute."""
    script = place.script
    match place.node:
        case ast.Name(id=name):
            return script.is_imported_elsewhere(name)
        case ast.Attribute(attr=name) as end:
            owner = owner_of(script, end)
            return owner is None or any(
                True for _ in uses_elsewhere(script.project, owner.name, name)
            )
    return False
