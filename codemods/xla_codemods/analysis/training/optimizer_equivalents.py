"""Calls of a CUDA-only optimizer as calls of one that computes the same.

An `Equivalent` names the other optimizer and its counterpart of each argument. The meaning of an argument is never guessed:
if one has no counterpart, the call needs a manual change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ...edits import AddArgument, DropArgument, Edit, RenameArgument, Replace
from ...flow.calls import call_of
from ...flow.closure import reach
from ...flow.edges import uses
from ..parsed_file import ParsedFile
from ..scopes import Scope
from ..syntax import keyword

_NONE: Mapping[str, object] = MappingProxyType({})

# Parameters of torch's optimizers (and of the runtime's Lion and Lamb), by position.
ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")
SGD = ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov")
RMSPROP = ("params", "lr", "alpha", "eps", "weight_decay", "momentum", "centered")
ADAGRAD = ("params", "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
LION = ("params", "lr", "betas", "weight_decay")
LAMB = (
    "params",
    "lr",
    "bias_correction",
    "betas",
    "eps",
    "weight_decay",
    "grad_averaging",
    "max_grad_norm",
)


class Equivalent(NamedTuple):
    """`target` takes the arguments of the original, whose parameters are `parameters`, in its own `order`.

    `explicit` are defaults of the original that differ in the target; `dropped` mean nothing to the target;
    `only` have a counterpart for this value alone, which is omitted; `renamed` have another name there.
    """

    target: str
    parameters: tuple[str, ...]
    order: tuple[str, ...]
    explicit: Mapping[str, object] = _NONE
    dropped: frozenset[str] = frozenset()
    only: Mapping[str, object] = _NONE
    renamed: Mapping[str, object] = _NONE


class NoCounterpart(Exception):
    """An argument that the other optimizer has nothing for."""


def edits(
    script: ParsedFile,
    call: ast.Call,
    scope: Scope,
    equivalent: Equivalent,
    func: Edit | None = None,
) -> list[Edit]:
    """The edits that make `call` one of the equivalent.

    Raises:
        NoCounterpart: an argument means something that the equivalent does not have.
    """
    given = list(_given(call, equivalent))
    result: list[Edit] = [func or Replace(call.func, script.spell(equivalent.target, scope))]
    in_place = 0  # positional arguments that keep their position
    positional = True
    for name, node, named in given:
        if _is_left_out(name, node, equivalent):
            result.append(DropArgument(call, named or node))
            positional = positional and named is not None
            continue
        new = str(equivalent.renamed.get(name, name))
        if named is None:
            positional = positional and equivalent.order[in_place : in_place + 1] == (new,)
            in_place += 1
        if named is not None and new != name:
            result.append(RenameArgument(call, named, new))
        elif named is None and not positional:
            result += [
                DropArgument(call, node),
                AddArgument(call, f"{new}={{0}}", (node,)),
            ]
    names = {name for name, _, _ in given}
    for name, value in equivalent.explicit.items():
        if name not in names:
            result.append(AddArgument(call, f"{name}={value}"))
    return result


def _given(
    call: ast.Call, equivalent: Equivalent
) -> Iterator[tuple[str, ast.expr, ast.keyword | None]]:
    """Parameter name, value and (where written so) keyword of each argument."""
    for name, node in zip(equivalent.parameters, call.args):
        if isinstance(node, ast.Starred):
            raise NoCounterpart("unknown arguments (`*`)")
        yield name, node, None
    if len(call.args) > len(equivalent.parameters):
        raise NoCounterpart("that many positional arguments")
    for named in call.keywords:
        if named.arg is None:
            raise NoCounterpart("unknown arguments (`**`)")
        yield named.arg, named.value, named


def _is_left_out(name: str, node: ast.expr, equivalent: Equivalent) -> bool:
    if name in equivalent.only:
        if isinstance(node, ast.Constant) and node.value == equivalent.only[name]:
            return True
        raise NoCounterpart(f"`{name}`")
    return name in equivalent.dropped


def adam_by_mode(
    script: ParsedFile, call: ast.Call, scope: Scope, equivalent: Equivalent
) -> tuple[Equivalent, Edit | None]:
    """Return AdamW, the `equivalent`, if weight decay is decoupled; Adam if it is not; or a choice at run time,
    as an edit of the callee.
    """
    name = "adam_w_mode" if "adam_w_mode" in equivalent.parameters else "adamw_mode"
    index = equivalent.parameters.index(name)
    mode = call.args[index] if len(call.args) > index else keyword(call, name)
    if mode is None or (isinstance(mode, ast.Constant) and mode.value):
        return equivalent, None
    if isinstance(mode, ast.Constant):
        return equivalent._replace(target="torch.optim.Adam", explicit=_NONE), None
    adamw, adam = (script.spell(f"torch.optim.{kind}", scope) for kind in ("AdamW", "Adam"))
    return equivalent, Replace(call.func, f"({adamw} if {{0}} else {adam})", (mode,))


def stands_in(script: ParsedFile, node: ast.expr, equivalent: Equivalent) -> bool:
    """Return True if the equivalent can replace `node`, a class that is called elsewhere: the calls must pass every
    argument whose default differs, and no argument that the equivalent lacks.
    """
    reached = reach([node], lambda each: uses(script, each))
    calls = [call for use in reached if (call := call_of(script, use)) is not None]
    if not calls and equivalent.explicit:
        return False
    for call in calls:
        try:
            names = {name for name, _, named in _given(call, equivalent) if named is not None}
        except NoCounterpart:
            return False
        positional = equivalent.parameters[: len(call.args)]
        if positional != equivalent.order[: len(call.args)]:
            return False
        if names & {*equivalent.dropped, *equivalent.only, *equivalent.renamed}:
            return False
        if not set(equivalent.explicit) <= names.union(positional):
            return False
    return True


def told_of_import(message: str, equivalent: Equivalent) -> str:
    """`message`, which says so where the equivalent comes from a package that the script may not have."""
    package = equivalent.target.partition(".")[0]
    return (
        f"{message} (from {package}, which has to be installed)" if package == "timm" else message
    )
