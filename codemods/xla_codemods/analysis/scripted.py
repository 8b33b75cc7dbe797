"""Functions that TorchScript compiles: what is called in them has to be compiled, too, and the runtime cannot be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Finding
from ..patterns import Pattern
from .nodes import walk
from .parsed_file import ParsedFile
from .script import Script
from .syntax import name_of

_COMPILES = frozenset(
    f"torch.jit.{name}" for name in ("script", "script_method", "script_if_tracing", "export")
)
_LEAVES = frozenset({"torch.jit.ignore", "torch.jit.unused"})
# Decorators of a project's own, by their names: `@torch_jit_script_unless_coverage`.
_OWN = Pattern(r"jit_?script|script_?jit|torch_?script", re.IGNORECASE)
_ADVICE = "TorchScript compiles the function and cannot call the runtime: make the call outside of it, or remove `torch.jit.script`"


def without_calls_in_torchscript(script: Script, found: list[Finding]) -> list[Finding]:
    """`found`, without the fixes that would put calls of the runtime into what TorchScript compiles."""
    if not script.source.mentions("jit", "torchscript"):
        return found
    scripted = script.cached(_scripted)
    if not scripted:
        return found
    return [
        _left(finding) if _calls_there(script, finding, scripted) else finding for finding in found
    ]


def _calls_there(script: Script, finding: Finding, scripted: frozenset[ast.AST]) -> bool:
    return any(
        f"{script.xla}." in getattr(edit, "text", "")
        and any(around in scripted for around in script.ancestors(edit.node))
        for edit in finding.edits
    )


def _left(finding: Finding) -> Finding:
    head = finding.message.partition(": ")[0]
    return finding._replace(message=f"{head}: {_ADVICE}", edits=(), safety=None)


def _scripted(script: ParsedFile) -> frozenset[ast.AST]:
    """The functions with a decorator that compiles, functions and classes passed to `torch.jit.script`, and branches for it."""
    found: set[ast.AST] = set()
    for branch, _ in script.index.of(ast.If):
        if isinstance(branch.test, ast.Call):
            if script.dotted(branch.test.func) == "torch.jit.is_scripting":
                found.update(branch.body)
    for function, _ in script.index.of(ast.FunctionDef):
        if any(_compiles(script, decorator) for decorator in function.decorator_list):
            found.add(function)
    for call in walk(script.tree):  # lines that no rule looks at have no place in the index
        if not isinstance(call, ast.Call) or not call.args:
            continue
        if script.dotted(call.func) in _COMPILES:
            definition = script.value(call.args[0]).definition
            if isinstance(definition, ast.FunctionDef):
                found.add(definition)
            elif isinstance(definition, ast.ClassDef):
                found.update(_methods(script, definition))
    return frozenset(found)


def _methods(script: ParsedFile, definition: ast.ClassDef) -> Iterator[ast.AST]:
    """Yield what may be compiled with an object of the class: all except its constructor and methods kept in Python."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            if not any(script.dotted(d) in _LEAVES for d in node.decorator_list):
                yield node


def _compiles(script: ParsedFile, decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    dotted = script.dotted(node)
    if dotted in _COMPILES:
        return True
    last = name_of(node)
    return dotted not in _LEAVES and _OWN.search(last) is not None
