"""Devices in settings that a call passes with all the others: `Runner(**config)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...inference.members import is_settings
from ...inference.values import SETTINGS
from ...nodes import walk
from ...projects.callees import callees_of, parameters
from ...script import Script
from ...syntax import keyword, name_of
from ..specs import is_device_name

# Functions that accept "cuda" on an XLA host after the migration.
_CONVERTING = frozenset({"device", "device_type", "xla_device"})


def devices_in_spread_settings(script: Script, call: ast.Call) -> Iterator[tuple[ast.keyword, str]]:
    """Yield each `**settings` of `call` from a file, with a parameter for a device that it fills as a text."""
    spread = [k for k in call.keywords if k.arg is None and _are_from_a_file(script, k.value)]
    target = callees_of(script).called(script.index, call.func) if spread else None
    if target is None:
        return
    positional = parameters(target)[len(call.args) :]
    for parameter in (*positional, *target.function.args.kwonlyargs):
        name = parameter.arg
        if is_device_name(name) and keyword(call, name) is None:
            if not _is_converted(target.owner or target.function, name):
                yield from ((each, name) for each in spread)


def _are_from_a_file(script: Script, node: ast.expr) -> bool:
    value = script.value(node)
    return is_settings(value) and value.has(SETTINGS)


def _is_converted(code: ast.AST, name: str) -> bool:
    """Return True if the function or class makes a device of the parameter `name`: `torch.device(self.device)`."""
    calls = (n for n in walk(code) if isinstance(n, ast.Call))
    given = (
        each
        for call in calls
        if name_of(call.func) in _CONVERTING
        for argument in (*call.args, *(k.value for k in call.keywords))
        for each in walk(argument)
    )
    return any(name_of(each) == name for each in given if isinstance(each, ast.expr))
