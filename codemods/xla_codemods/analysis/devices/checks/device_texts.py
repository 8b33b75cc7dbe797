"""Checks of a device by its text: a word for CUDA is compared with text made from a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from ...parsed_file import ParsedFile
from .origins import is_cuda_word, is_device_text, is_renamed, is_xla_or_renamed, pairs
from .pieces import pieces

_METHODS = (
    "__contains__ __eq__ __ne__ count endswith find index rfind rindex startswith "
    "intersection isdisjoint issubset issuperset match search fullmatch findall finditer "
    "replace split removeprefix lstrip strip"
).split()
_FUNCTIONS = frozenset(
    f"{home}.{name}"
    for home, names in {
        "re": "match search fullmatch findall finditer",
        "operator": "eq ne contains countOf indexOf",
        "fnmatch": "fnmatch fnmatchcase",
    }.items()
    for name in names.split()
)
_READS = ("get", "pop", "__getitem__")


class TextCheck(NamedTuple):
    """A check at `node`: of a `text`, in a `table`, of a `module` of torch, or by a `name`."""

    node: ast.expr | ast.pattern
    of: str = "text"


def checks(script: ParsedFile) -> Iterator[TextCheck]:
    """Yield every check of a device by its text; one may come several times."""
    yield from _comparisons(script)
    yield from _calls(script)
    yield from _lookups(script)
    yield from (TextCheck(node, "name") for node in computed_names(script))


def _comparisons(script: ParsedFile) -> Iterator[TextCheck]:
    for node, _ in script.index.of(ast.Compare):
        sides = [node.left, *node.comparators]
        is_identity = all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        if is_identity:
            continue
        is_one = any(pairs(script, [one], [other]) for one, other in combinations(sides, 2))
        if is_one and not _checks_the_runtime(script, sides):
            is_table = isinstance(node.ops[0], (ast.In, ast.NotIn)) and _is_table(script, sides[-1])
            yield TextCheck(node, "table" if is_table else "text")
    for joined, _ in script.index.of(ast.BinOp):
        if isinstance(joined.op, (ast.BitAnd, ast.Sub, ast.BitXor)):
            if pairs(script, [joined.left], [joined.right]):
                yield TextCheck(joined)
    for match, _ in script.index.of(ast.Match):
        for case in match.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchValue) and pairs(
                    script, [part.value], [match.subject]
                ):
                    yield TextCheck(part)


def _calls(script: ParsedFile) -> Iterator[TextCheck]:
    """Yield `re.match("cuda", str(device))` and `str(device).find("cuda")`."""
    for name in (*_METHODS, *{function.rpartition(".")[2] for function in _FUNCTIONS}):
        for call, _ in script.index.calls_of(name):
            if script.dotted(call.func) in _FUNCTIONS:
                if any(pairs(script, [a], [b]) for a, b in combinations(call.args, 2)):
                    yield TextCheck(call)
            elif isinstance(call.func, ast.Attribute):
                if pairs(script, [call.func.value], call.args[:1]):
                    yield TextCheck(call)
    for call, _ in script.index.calls_of("getattr"):
        if isinstance(call.func, ast.Name) and not isinstance(call.args[1], ast.Constant):
            if script.dotted(call.args[0]) in {"torch", "torch.backends"}:
                if is_cuda_word(script, call.args[1]):
                    yield TextCheck(call, "module")


def _lookups(script: ParsedFile) -> Iterator[TextCheck]:
    """Yield `table[key]` and `table.get(key)`, if the table has a key for CUDA and none for XLA."""
    for item, _ in script.index.of(ast.Subscript):
        is_read = isinstance(item.ctx, ast.Load) or isinstance(script.parent(item), ast.AugAssign)
        if is_read and pairs(script, [item.value], [item.slice]):
            yield TextCheck(item, "table")
    for name in _READS:
        for call, _ in script.index.calls_of(name):
            if isinstance(call.func, ast.Attribute):
                if pairs(script, [call.func.value], call.args[:1]):
                    yield TextCheck(call, "table")


def _is_table(script: ParsedFile, node: ast.expr) -> bool:
    return isinstance(script.only_value(node) or node, ast.Dict)


def _checks_the_runtime(script: ParsedFile, sides: list[ast.expr]) -> bool:
    """Return True for `kind == "cuda"` with `kind = xla.device_type()`: a test for CUDA."""
    loops = [b for side in sides if isinstance(side, ast.Name) for b in script.reaching(side)]
    return not any(b.how == "for" for b in loops) and any(
        is_xla_or_renamed(script, part) and not is_renamed(script, part) for part in sides
    )


_NAMESPACES = frozenset({"globals", "locals", "vars"})


def computed_names(script: ParsedFile) -> Iterator[ast.Call | ast.Subscript]:
    """Yield the lookups by such a name, if the name exists for CUDA and not for XLA."""
    for node, name in _found_by_name(script):
        parts = pieces(name)
        telling = [p for p in parts if isinstance(p, ast.expr) and is_device_text(script, p)]
        if not telling:
            continue
        if len(parts) == 1:
            if isinstance(node, ast.Call) and script.dotted(node.args[0]) != "torch":
                yield node  # getattr(model, device.type)
        elif _is_there(script, parts, telling, "cuda"):
            if not _is_there(script, parts, telling, "xla"):
                yield node


def _found_by_name(script: ParsedFile) -> Iterator[tuple[ast.Call | ast.Subscript, ast.expr]]:
    for call, _ in script.index.calls_of("getattr"):
        if isinstance(call.func, ast.Name) and len(call.args) > 1:
            yield call, call.args[1]
    for call, _ in script.index.calls_of("import_module"):
        if call.args and not isinstance(call.args[0], ast.Name):
            yield call, call.args[0]
    for item, _ in script.index.of(ast.Subscript):
        owner = item.value
        if (isinstance(owner, ast.Call) and getattr(owner.func, "id", "") in _NAMESPACES) or (
            isinstance(owner, ast.Attribute) and owner.attr == "__dict__"
        ):
            yield item, item.slice


def _is_there(
    script: ParsedFile, parts: list[str | ast.expr], telling: list[ast.expr], kind: str
) -> bool:
    """True if the program has a name, or a file, that the parts make for devices of that kind."""
    made = "".join(
        re.escape(p) if isinstance(p, str) else kind if p in telling else r"\w*" for p in parts
    )
    word = re.compile(rf"(?<![\w/]){made.removeprefix(re.escape('.'))}\b")
    if word.search(script.source.text):
        return True
    if script.project.in_its_programs(script.project.modules.matching(word)):
        return True
    paths = (path.replace("/", ".") for path in script.project.program_paths)
    return any(word.search(path) for path in paths)
