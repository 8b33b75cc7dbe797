"""Loops that change the batches of a list, which a device loader would hand out as copies: `batch["ref"] = ref(batch)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...patterns import Pattern
from ..nodes import walk
from ..parsed_file import ParsedFile
from ..syntax import name_of, unparsed

# A loader makes its batches anew for each loop.
_LOADER = Pattern(r"loader|(?:^|_)dl(?:_|$)|_iter(?:ator)?$|^it$")
_CHANGING = frozenset({"setdefault", "update"})
_MOVING = frozenset({"cuda", "to"})


def changes_kept_batches(script: ParsedFile, loop: ast.AST, iterated: ast.expr) -> bool:
    """Return True if `loop` changes the batches in `iterated`, no loader, and other code may read them there."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or not isinstance(loop.target, ast.Name):
        return False
    if _LOADER.search(name_of(iterated)) is not None:
        return False
    changes = list(_changes(script, loop, loop.target.id))
    if not changes:
        return False
    if _is_read_elsewhere(script, loop, iterated):
        return True
    is_parameter = isinstance(iterated, ast.Name) and any(
        binding.how == "parameter" for binding in script.reaching(iterated)
    )
    return is_parameter and not all(map(_is_a_move, changes))


def _changes(script: ParsedFile, loop: ast.For | ast.AsyncFor, name: str) -> Iterator[ast.AST]:
    """Yield the stores of entries of the element called `name`, while that is what the loop took."""
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner) as read)]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as read, attr=method)):
                if method not in _CHANGING:
                    continue
            case _:
                continue
        if owner == name and [b.how for b in script.reaching(read)] == ["for"]:
            yield node


def _is_a_move(change: ast.AST) -> bool:
    """Return True for `batch["x"] = batch["x"].to(device)`."""
    match change:
        case ast.Assign(
            targets=[target], value=ast.Call(func=ast.Attribute(value=owner, attr=method))
        ):
            return method in _MOVING and unparsed(owner) == unparsed(target)
    return False


def _is_read_elsewhere(
    script: ParsedFile, loop: ast.For | ast.AsyncFor, iterated: ast.expr
) -> bool:
    """Return True if code outside of `loop` reads `iterated` after it, or at any time if it is an attribute; not its length."""
    if isinstance(iterated, ast.Attribute):
        reads: list[ast.expr] = [read for read, _ in script.index.attributes(iterated.attr)]
    elif isinstance(iterated, ast.Name):
        reads = [r for r in script.index.same(iterated) if r.lineno > (loop.end_lineno or 0)]
    else:
        return False
    inside = set(walk(loop))
    loads = (r for r in reads if isinstance(getattr(r, "ctx", None), ast.Load))
    others = (read for read in loads if read is not iterated and read not in inside)
    return any(not _is_counted(script, read) for read in others)


def _is_counted(script: ParsedFile, read: ast.expr) -> bool:
    around = script.parent(read)
    return isinstance(around, ast.Call) and name_of(around.func) == "len"
