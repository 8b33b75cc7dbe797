"""StableHLO text: what a graph takes and gives, and what of it is computed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace

_MAIN = re.compile(r"func\.func (?:public )?@main\(")
_ARGUMENT = re.compile(r"%arg\d+\b")
_NAME = re.compile(r"^module @\S+", re.MULTILINE)


@dataclass(frozen=True)
class Graph:
    """A module's `main`.

    Attributes:
        text: StableHLO.
        arguments: `(%name, type, attributes)` of each; a type is like `tensor<8x32xf32>`.
        results: `(value, type, attributes)` of each.
        given: how many arguments there were before those that nothing reads were left out.
        kept: of those, the positions of `arguments`.
    """

    text: str
    arguments: list[tuple[str, str, str]]
    results: list[tuple[str, str, str]]
    given: int = 0
    kept: list[int] = field(default_factory=list)

    @property
    def key(self) -> str:
        """A name for this text: equal graphs have equal keys."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_donors(self, positions: list[int]) -> Graph:
        """With these arguments (numbered as given) handed over: their memory may take results."""
        wanted = {self.kept.index(p) for p in positions if p in self.kept}
        arguments = [
            (
                name,
                kind,
                _joined(attributes, "jax.buffer_donor = true") if i in wanted else attributes,
            )
            for i, (name, kind, attributes) in enumerate(self.arguments)
        ]
        return replace(self, text=_rebuilt(self.text, arguments, self.results), arguments=arguments)


def parse(text: str) -> Graph:
    """The graph of a module's text. No text is a graph without results."""
    if not text:
        return Graph("", [], [])
    text = _NAME.sub("module @graph", text, count=1)
    head, _, tail = _signature(text)
    arguments = [_argument(part) for part in _split(head)]
    values = _split(_returned(text)[2])
    results = [(v, *_typed(t)) for v, t in zip(values, _split(tail), strict=True)]
    return Graph(text, arguments, results, len(arguments), list(range(len(arguments))))


def computed(text: str) -> Graph:
    """Return the graph without results that are unchanged arguments, and without arguments that are then unused.

    torch_xla's text of all that lives has each tensor that takes part among the results, changed or not.
    """
    graph = parse(text)
    names = {name for name, _, _ in graph.arguments}
    results = [result for result in graph.results if result[0] not in names]
    inside = body(graph.text)
    used = set(_ARGUMENT.findall(inside)) | {value for value, _, _ in results}
    kept = [i for i, (name, _, _) in enumerate(graph.arguments) if name in used]
    arguments = [graph.arguments[i] for i in kept]
    text = _rebuilt(graph.text, arguments, results) if results else ""
    new = _numbers(text)
    arguments = [(new.get(name, name), kind, more) for name, kind, more in arguments]
    text = _ARGUMENT.sub(lambda found: new[found[0]], text)
    return Graph(text, arguments, results, graph.given, kept)


def _numbers(text: str) -> dict[str, str]:
    """New names for arguments, numbered as they occur: which were left out, and where they stood, is no part of a graph."""
    names = dict.fromkeys(_ARGUMENT.findall(text))
    return {name: f"%arg{k}" for k, name in enumerate(names)}


def parts(sharding: str) -> int:
    """Over how many pieces a tensor with this sharding (as HLO writes it) is spread; 1 if every device has all of it."""
    found = re.search(r"devices=\[([\d,]+)\]", sharding)
    if not found:
        return 1
    sizes = [int(size) for size in found.group(1).split(",")]
    if "last_tile_dim_replicate" in sharding:
        sizes.pop()
    count = 1
    for size in sizes:
        count *= size
    return count


def shape_of(kind: str) -> tuple[tuple[int, ...], str]:
    """Return ((8, 32), "f32") for `tensor<8x32xf32>`."""
    inside = kind.partition("<")[2].rpartition(">")[0].split(",")[0]
    *sizes, element = inside.split("x")
    return tuple(int(size) for size in sizes if size.isdigit()), element


def skeleton(text: str) -> str:
    """Return a graph without sizes and constants. Graphs that differ only in shape have the same result."""
    bare = re.sub(r"dense<[^>]*>", "dense<>", text)
    bare = re.sub(r"tensor<([\dx]*x)?(\w+)[^>]*>", _rank, bare)
    bare = re.sub(r"array<i64[^>]*>|\[[\d:, ]*\]", "[]", bare)
    return hashlib.sha256(re.sub(r"= -?\d+\b", "= 0", bare).encode()).hexdigest()


def _rank(found: re.Match[str]) -> str:
    return f"tensor<{(found.group(1) or '').count('x')}:{found.group(2)}>"


def _signature(text: str) -> tuple[str, tuple[int, int], str]:
    """(arguments, span from the first argument to the body's brace, results) of main."""
    found = _MAIN.search(text)
    if found is None:
        raise ValueError("no main in the graph's text")
    start = found.end()
    end = _closing(text, start)
    rest = re.compile(r"\)\s*->\s*").match(text, end)
    if rest is None:
        return text[start:end], (start, text.index("{", end)), ""
    after = rest.end()
    if text[after] == "(":
        close = _closing(text, after + 1)
        return text[start:end], (start, close + 1), text[after + 1 : close]
    close = text.index(" {", after)
    return text[start:end], (start, close), text[after:close]


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one opened before `start`."""
    depth = 1
    quoted = False
    for found in re.compile(r'["(){}<>\[\]]|->').finditer(text, start):
        mark = found.group()
        if mark == '"':
            quoted = not quoted
        elif mark != "->" and not quoted:
            depth += 1 if mark in "({<[" else -1
            if depth == 0:
                return found.start()
    raise ValueError("a bracket of the graph's text does not close")


def _split(text: str) -> list[str]:
    """At the commas that are in no bracket and no string."""
    out, depth, quoted, start = [], 0, False, 0
    for i, mark in enumerate(text):
        if mark == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif mark in "({<[":
            depth += 1
        elif mark in ")}]" or (mark == ">" and text[i - 1] != "-"):
            depth -= 1
        elif mark == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*out, last] if last else out


def _argument(text: str) -> tuple[str, str, str]:
    name, _, kind = text.partition(":")
    return (name.strip(), *_typed(kind))


def _typed(text: str) -> tuple[str, str]:
    """(type, attributes) of `tensor<8xf32> {mhlo.sharding = "..."}`."""
    kind, brace, attributes = text.strip().partition(" {")
    return kind, attributes.rpartition("}")[0] if brace else ""


def _joined(attributes: str, more: str) -> str:
    return f"{attributes}, {more}" if attributes else more


def _returned(text: str) -> tuple[int, int, str]:
    """(start, end, values) of main's return."""
    found = re.compile(r"^    return(?: (.*?))?(?: : .*)?$", re.MULTILINE).search(
        text, _signature(text)[1][1]
    )
    if found is None:
        raise ValueError("main returns nothing")
    return found.start(), found.end(), found.group(1) or ""


def body(text: str) -> str:
    """The statements of main, without its return."""
    if not text:
        return ""
    return text[_signature(text)[1][1] : _returned(text)[0]]


def _rebuilt(
    text: str, arguments: list[tuple[str, str, str]], results: list[tuple[str, str, str]]
) -> str:
    start, end = _signature(text)[1]
    first, last, _ = _returned(text)
    taken = ", ".join(f"{name}: {_with(kind, more)}" for name, kind, more in arguments)
    given = ", ".join(_with(kind, more) for _, kind, more in results)
    values = ", ".join(value for value, _, _ in results)
    kinds = ", ".join(kind for _, kind, _ in results)
    return f"{text[:start]}{taken}) -> ({given}){text[end:first]}    return {values} : {kinds}{text[last:]}"


def _with(kind: str, attributes: str) -> str:
    return f"{kind} {{{attributes}}}" if attributes else kind
