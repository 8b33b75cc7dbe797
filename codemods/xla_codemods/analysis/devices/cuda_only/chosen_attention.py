"""Tests for CUDA that choose how a model of transformers attends: `attn if torch.cuda.is_available() else "sdpa"`."""

from __future__ import annotations

import ast

from ....flow.conditions import before
from ...frameworks.attention import is_chosen
from ...parsed_file import ParsedFile

# What runs everywhere. A script that falls back to one of them without CUDA chooses kernels with CUDA.
_EVERYWHERE = frozenset({"sdpa", "eager"})


def is_kept_from_hosts(script: ParsedFile, choice: ast.IfExp, with_cuda: ast.expr) -> bool:
    """Return True if `with_cuda`, one of the values of `choice`, is an implementation for CUDA.

    The other value is "sdpa" or "eager", or the choice goes to a parameter, key or variable
    `attn_implementation`.
    """
    without = choice.orelse if with_cuda is choice.body else choice.body
    if _runs_everywhere(with_cuda):
        return False
    return _runs_everywhere(without) or is_chosen(script, choice)


def is_chosen_in(script: ParsedFile, branch: ast.If, denied: bool) -> bool:
    """Return True if `branch` gives a name an implementation with CUDA, and "sdpa" or "eager" without.

    Args:
        script: the file.
        branch: an `if` that tests for CUDA.
        denied: whether its body is for hosts without CUDA.
    """
    with_cuda, without = (branch.orelse, branch.body) if denied else (branch.body, branch.orelse)
    given = _given(with_cuda)
    if given is None or any(map(_runs_everywhere, given.values())):
        return False
    if not without:
        without = [s for s in before(script, branch) if _name(s) in given]
    fallback = _given(without)
    overrides = denied and not with_cuda  # what was chosen before
    if not fallback or not (overrides or fallback.keys() == given.keys()):
        return False
    return all(map(_runs_everywhere, fallback.values()))


def _given(statements: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """Return what names are bound to by `statements`, if they do nothing else."""
    found: dict[str, ast.expr] = {}
    for statement in statements:
        name = _name(statement)
        value = getattr(statement, "value", None)
        if not name or value is None:
            return None
        found[name] = value
    return found


def _name(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[(ast.Name() | ast.Attribute() | ast.Subscript()) as target]):
            return ast.unparse(target)
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
    return ""


def _runs_everywhere(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in _EVERYWHERE
