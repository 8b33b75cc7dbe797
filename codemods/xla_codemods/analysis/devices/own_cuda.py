"""Classes of a program that define `cuda` themselves, and calls of `cuda` on objects that may be of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...flow.calls import methods
from ...patterns import Pattern
from ..index import Index
from ..inference.values import MODULE
from ..nodes import walk
from ..projects.callees import callees_of
from ..scopes import FunctionNode
from ..script import Script
from ..syntax import name_of, parameters
from ..training.tensors.device_tensors import may_be_read

# Methods of tensors and modules whose results are such, too.
_OF_TORCH = frozenset(
    "bfloat16 bool clone contiguous detach double eval float half int long requires_grad_ squeeze to train"
    " transpose unsqueeze view".split()
)
_DEFINED = Pattern(r"\bdef cuda\(")
# Parameters of their `cuda`.
_PARAMETERS = frozenset({"device", "non_blocking", "async", "memory_format"})

_Method = tuple[Index, FunctionNode]


def classes_with_their_own(script: Script, owner: ast.expr, call: ast.Call) -> str:
    """Return the classes of the program, no modules, that define `cuda`, if `owner` may be an object of one; otherwise ""."""
    value = script.value(owner)
    if value.kinds or value.definition is not None or name_of(owner) in {"self", "super"}:
        return ""
    if _is_result_of_torchs(owner) or call in script.training.moves_of_device_loaders:
        return ""
    functions = [*_of_file(script, owner, call), *_of_other_modules(script, call)]
    if not functions or may_be_read(script, owner):
        return ""
    owners = ((index, index.parent(function)) for index, function in functions)
    plain = (
        each.name
        for index, each in owners
        if isinstance(each, ast.ClassDef) and _is_plain(script, index, each)
    )
    return " or ".join(dict.fromkeys(f"`{name}`" for name in plain))


def _of_file(script: Script, owner: ast.expr, call: ast.Call) -> Iterator[_Method]:
    """Yield the methods `cuda` of the file that `call` may run."""
    defined = script.index.cached(methods).get("cuda", ())
    if any(around in defined for around in script.ancestors(call)):
        return  # the parts of an object with the method
    # Of a batch, as a rule: a class whose method takes what those of tensors take is no part of one.
    is_part = isinstance(owner, (ast.Subscript, ast.Attribute))
    for each in defined:
        is_given_more = bool(call.args or call.keywords) and _takes_others(each)
        if _may_take(each, call) and (not is_part or is_given_more):
            yield script.index, each


def _of_other_modules(script: Script, call: ast.Call) -> Iterator[_Method]:
    """Yield the methods `cuda` of the program's other modules that `call` is likely to mean.

    A plain `x.cuda()` moves a tensor or a module far more often than an object of another module.
    """
    if not (call.args or call.keywords) or script.project.is_alone:
        return
    modules = script.project.modules
    for path in sorted(modules.matching(_DEFINED) & script.project.programs):
        if (index := modules.whole(path)) is None:
            continue
        for each in index.cached(methods).get("cuda", ()):
            if _may_take(each, call) and _takes_others(each):
                yield index, each


def is_used_as_its_own(script: Script, owner: ast.expr, call: ast.Call) -> bool:
    """Return True if the code reads fields of `owner` that a class of the file with its own `cuda`, no module, has."""
    defined = script.index.cached(methods).get("cuda", ())
    if not defined or not isinstance(owner, ast.Name):
        return False
    read = {script.parent(name) for name in script.index.same(owner)}
    names = {each.attr for each in read if isinstance(each, ast.Attribute)}
    for function in defined:
        definition = script.parent(function)
        if isinstance(definition, ast.ClassDef) and _may_take(function, call):
            if names.isdisjoint(_fields(definition)):
                continue
            if _is_plain(script, script.index, definition):
                return True
    return False


def _fields(definition: ast.ClassDef) -> set[str]:
    """Return the fields that the class itself sets, without those that tensors have, too."""
    stores = (n for n in walk(definition) if isinstance(n, ast.Attribute))
    own = {n.attr for n in stores if isinstance(n.ctx, ast.Store) and name_of(n.value) == "self"}
    return own - {"data", "device", "dtype", "grad", "requires_grad", "shape"}


def _may_take(function: FunctionNode, call: ast.Call) -> bool:
    """Return True if the method `function` takes the arguments of `call`."""
    arguments = function.args
    places = [*arguments.posonlyargs, *arguments.args][1:]
    names = {each.arg for each in (*places, *arguments.kwonlyargs)}
    given = [k.arg for k in call.keywords]
    if len(call.args) > len(places) and arguments.vararg is None:
        return False
    if arguments.kwarg is None and not names.issuperset(filter(None, given)):
        return False
    needed = places[len(call.args) : len(places) - len(arguments.defaults)]
    return None in given or all(each.arg in given for each in needed)


def _takes_others(function: FunctionNode) -> bool:
    """Return True if the method `function` has a parameter that those of tensors and modules don't have."""
    names = [each.arg for each in parameters(function)][1:]
    return not _PARAMETERS.issuperset(names)


def _is_result_of_torchs(owner: ast.expr) -> bool:
    """Return True for `net.eval()` and other results of methods that tensors and modules have."""
    return (
        isinstance(owner, ast.Call)
        and isinstance(owner.func, ast.Attribute)
        and owner.func.attr in _OF_TORCH
    )


def _is_plain(script: Script, home: Index, definition: ast.ClassDef) -> bool:
    """Return True if `definition`, of the module `home`, is no module of torch."""
    lineage = callees_of(script).lineage(home, definition)
    kinds = (index.inference.base_kind(base, index.scope(base)) for index, base in lineage)
    return not any(MODULE in kind for kind in kinds)
