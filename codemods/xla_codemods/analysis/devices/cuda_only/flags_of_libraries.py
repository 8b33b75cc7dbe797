"""Tests for CUDA whose result a foreign library receives: `xgboost.XGBClassifier(device="cuda" if available else "cpu")`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import partial

from ....flow.calls import call_with, called, owner_of
from ....flow.closure import ends
from ....flow.conditions import whole
from ....flow.edges import uses
from ....listened import LISTENED
from ....patterns import Pattern
from ...inference.library_types import FOREIGN, is_of_others
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


def library_given(script: ParsedFile, test: ast.expr, *, may_be_named: bool = True) -> str | None:
    """Return the library that is all that `test` decides for, None if there is none or `test` decides more.

    Libraries that a rule knows are not among them. `may_be_named`: `test` may go through a variable.
    """
    condition = whole(script, test)
    choice = script.parent(condition)
    if isinstance(choice, ast.IfExp) and choice.test is condition:
        if libraries := libraries_without_torch(script, choice):
            return libraries[0]
    return _library(script, test, may_be_named=may_be_named)


def is_for_a_simulator(script: ParsedFile, device: ast.expr) -> bool:
    """Return True if all that is done with `device` is `simulator.make(sim_device=device)`, of a foreign library."""
    library = _library(script, device, may_be_named=True, is_device=True)
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
    receivers = ends([device], partial(_goes_into, script))
    found = {_receiver(script, end, of_objects) for end in receivers}
    return sorted(filter(None, found)) if found <= {"", *FOREIGN} else []


def imports_foreign(script: ParsedFile) -> bool:
    """Return True if the file may import a library without torch."""
    return script.source.mentions(*FOREIGN)


def _goes_into(script: ParsedFile, node: ast.expr) -> list[ast.expr]:
    """Return the expressions with the value of `node`, and the dictionaries that it is put into."""
    around = script.parent(node)
    match around, script.parent(around) if around is not None else None:
        case ast.Dict(), _:
            return [around]
        case ast.keyword(arg=str()), ast.Call(func=ast.Name(id="dict")) as made:
            return [made]
        case (
            (ast.keyword(arg=str()), ast.Call(func=ast.Attribute(attr="update", value=owner)))
            | (ast.Call(func=ast.Attribute(attr="update", value=owner)), _)
            | (ast.Assign(targets=[ast.Subscript(value=owner)]), _)
        ) if owner is not node and isinstance(owner, ast.Name):
            return [name for name in script.index.same(owner) if isinstance(name.ctx, ast.Load)]
        case ast.keyword() as given, ast.Call() as call if options := _options(script, call, given):
            return options
    return uses(script, node)


def _options(script: ParsedFile, call: ast.Call, given: ast.keyword) -> list[ast.expr]:
    """Return the reads of the parameter `**options` that the argument `given` gets into."""
    function = called(script, call)
    if function is None or (rest := function.args.kwarg) is None:
        return []
    if any(each.arg == given.arg for each in parameters(function)):
        return []
    return list(_reads(script, rest.arg, function))


def _receiver(script: ParsedFile, node: ast.expr, of_objects: bool) -> str | None:
    """Return the library that receives `node`; "" if the place only fills, reads or shows it, None for another."""
    match script.parent(node):
        case ast.Subscript(value=owner) | ast.Attribute(value=owner) if owner is node:
            return ""
    call = call_with(script, node)
    dotted = script.dotted(call.func) if call is not None else None
    if call is None or (dotted is not None and script.project.has(dotted)):
        return None
    if dotted is None and isinstance(call.func, ast.Attribute):
        return _ANY if of_objects and is_of_others(script.value(call.func.value)) else None
    if name_of(call.func) == "print":
        return ""
    return (dotted or "").partition(".")[0] or None


def is_without_torch(library: str) -> bool:
    """Return True if the library surely manages its devices itself: no tensor moves because of it."""
    return library in FOREIGN or is_of_an_engine(library)


def _library(
    script: ParsedFile,
    node: ast.expr,
    *,
    may_be_named: bool,
    is_device: bool = False,
    key: str = "",
    may_leave: bool = True,
) -> str | None:
    """Return the library that receives `node`, which may be the value of `key` in `**options`.

    `may_leave`: `node` may go through a function of another module, but not on to a third one.
    """
    chooses = is_device
    for child, ancestor in script.upward(node):
        match ancestor:
            case ast.BoolOp() | ast.UnaryOp():
                continue
            case ast.Dict(keys=keys, values=values):
                key = (
                    str(getattr(keys[values.index(child)], "value", "")) if child in values else ""
                )
                continue
            case ast.keyword(arg=str(name)) if _makes_a_dictionary(script.parent(ancestor)):
                key = name
                continue
            case ast.Call() if _makes_a_dictionary(ancestor):
                continue
            case ast.IfExp(test=condition):
                chooses = chooses or child is condition
                continue
            case ast.Call() if child in ancestor.args:
                library = _foreign(script, ancestor, "", chooses)
            case ast.keyword(arg=name) if isinstance(call := script.parent(ancestor), ast.Call):
                key = name or key
                library = _foreign(script, call, key, chooses)
            case ast.Assign():
                library = None
            case _:
                return None
        if library is None and isinstance(child, ast.expr):
            if may_leave:
                library = _in_another_module(script, child, is_device=chooses)
            if library is None and may_be_named:
                library = _of_all_uses(
                    script, child, is_device=chooses, key=key, may_leave=may_leave
                )
        return library
    return None


def _in_another_module(script: ParsedFile, node: ast.expr, *, is_device: bool) -> str | None:
    """Return the library that gets `node` from a function of another module that it is passed to."""
    call = call_with(script, node)
    handed = callees_of(script).handed(script.index, call) if call is not None else None
    target = handed.target if handed is not None else None
    if handed is None or target is None or target.home is script.index:
        return None
    if not _NAMED.search(script.project.modules.text(target.home.path)):
        return None
    names = [name for name, argument in filled(handed, target) if argument is node]
    rest = target.function.args.kwarg
    if not names and rest is not None and any(k.value is node for k in handed.keywords):
        names = [rest.arg]
    other = script.other_file(target.home.path)
    reads = [read for name in names for read in _reads(other, name, target.function)]
    libraries = {
        _library(other, read, may_be_named=True, is_device=is_device, may_leave=False)
        for read in reads
    }
    return libraries.pop() if len(libraries) == 1 else None


def _reads(script: ParsedFile, name: str, function: FunctionNode) -> Iterator[ast.Name]:
    """Yield the reads of the parameter `name` in `function`, which another parse of the file may have made."""
    for read, _ in script.index.names(name):
        around = script.function(read)
        if isinstance(read.ctx, ast.Load) and around is not None:
            if (around.name, around.lineno) == (function.name, function.lineno):
                yield read


def _makes_a_dictionary(call: ast.AST | None) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "dict"


def _of_all_uses(
    script: ParsedFile, node: ast.expr, *, is_device: bool, key: str, may_leave: bool
) -> str | None:
    """Return the library that gets the value of `node` wherever it is passed to, by names, attributes and functions."""
    found = [end for end in ends([node], partial(_goes_into, script)) if end is not node]
    libraries = {
        _library(script, end, may_be_named=False, is_device=is_device, key=key, may_leave=may_leave)
        for end in found
    }
    library = libraries.pop() if len(libraries) == 1 else None
    # Last: what is asked of the project makes the file depend on the others.
    if library is None or any(_is_used_elsewhere(script, end) for end in found):
        return None
    return library


def _is_used_elsewhere(script: ParsedFile, end: ast.expr) -> bool:
    """Return True if another module may read the variable or attribute `end`."""
    match end:
        case ast.Name(id=name):
            return script.is_imported_elsewhere(name)
        case ast.Attribute(attr=name):
            owner = owner_of(script, end)
            return owner is None or any(
                True for _ in uses_elsewhere(script.project, owner.name, name)
            )
    return False


def _foreign(script: ParsedFile, call: ast.Call, argument: str, chooses: bool) -> str | None:
    """Return the library of `call`, if the argument can only be meant for CUDA."""
    dotted = script.dotted(call.func) or ""
    library = dotted.partition(".")[0]
    is_of_cuda = is_without_torch(library)
    if not is_of_cuda and library and library not in _KNOWN and not library.startswith("torch"):
        is_flag = _FLAG.search(argument) is not None and not chooses
        is_of_cuda = is_flag or _OF_SIMULATORS.search(argument) is not None
    return library if is_of_cuda and not script.project.has(dotted) else None
