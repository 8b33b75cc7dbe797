"""Which placeholder of a text shows an argument: the `{:.3f}` of `"{} {:.3f}".format(step, loss)`, the `%f` of `"%s %f" % (name, loss)`."""

from __future__ import annotations

import ast
import re
import string

_PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?[-+ #0]*(?P<width>\*|\d+)?(?:\.(?P<digits>\*|\d+))?[hlL]?(?P<kind>[a-zA-Z%])"
)
_AS_TEXT = frozenset("sra")


def shows_numbers(node: ast.AST, shown: list[ast.expr]) -> bool:
    """True if `node` formats each of `shown` as a number, with a format that a tensor's own text is not."""
    match node:
        case ast.BinOp(
            left=ast.Constant(value=str(text)), op=ast.Mod(), right=ast.Tuple(elts=given)
        ):
            return _percent(text, given, shown)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=ast.Dict() as given):
            return _percent(text, _by_key(given), shown)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=one):
            return _percent(text, [one], shown)
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
            named: dict[object, ast.expr] = {k.arg: k.value for k in node.keywords}
            return _braces(text, {**dict(enumerate(node.args)), **named}, shown)
        case ast.Call(args=[ast.Constant(value=str(text)), *given]):  # logging's
            return _percent(text, given, shown)
    return False


def _by_key(given: ast.Dict) -> dict[object, ast.expr]:
    return {k.value: v for k, v in zip(given.keys, given.values) if isinstance(k, ast.Constant)}


def _percent(
    text: str, given: list[ast.expr] | dict[object, ast.expr], shown: list[ast.expr]
) -> bool:
    found = [m for m in _PERCENT.finditer(text) if m["kind"] != "%"]
    if any("*" in (m["width"], m["digits"]) for m in found):
        return False
    if isinstance(given, dict):
        pairs = [(given.get(m["key"]), m["kind"]) for m in found]
    elif len(found) != len(given):
        return False
    else:
        pairs = [(value, m["kind"]) for value, m in zip(given, found)]
    return _all_numbers([(value, kind not in _AS_TEXT) for value, kind in pairs], shown)


def _braces(text: str, given: dict[object, ast.expr], shown: list[ast.expr]) -> bool:
    pairs: list[tuple[ast.expr | None, bool]] = []
    count = 0
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError:
        return False
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if spec and "{" in spec:
            return False
        key: object = int(name) if name.isdigit() else name
        if not name:
            key, count = count, count + 1
        pairs.append((given.get(key), bool(spec) and not conversion))
    return _all_numbers(pairs, shown)


def _all_numbers(pairs: list[tuple[ast.expr | None, bool]], shown: list[ast.expr]) -> bool:
    """True if each of `shown` goes somewhere, and nowhere as text."""
    return all(
        found and all(found)
        for found in ([number for value, number in pairs if value is tensor] for tensor in shown)
    )
