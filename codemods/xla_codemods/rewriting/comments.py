"""Comments that speak of a removed statement alone go with it; whatever may be of what follows stays.

Such a comment stands directly above what is removed, names it by a word that is used of nothing else, and has no word
in common with the next statement that stays. Until the edits are made it is a mark, so that lines keep their numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..source import Source, split_lines
from .chunks import block_of, first_line, indentation, last_line


class Marks(NamedTuple):
    """The source with marks, and for the line of each what stood there and the statement that it speaks of."""

    source: Source
    speaking: dict[int, tuple[str, ast.stmt]]


_MARK = "# (xla-migrate: gone with line {})"
_MARKED = re.compile(r"[ \t]*# \(xla-migrate: gone with line (\d+)\)\s*\Z")
_LINES = 3  # a longer one explains more than a line
# What is more than a remark on the next line: notes for others, rulers, headlines, questions, numbered steps, links.
_KEPT = re.compile(
    r"todo|fixme|xxx|hack|noqa|type:|pylint|pragma|fmt:|isort|yapf|xla-migrate|licen[cs]e|copyright|https?:"
    r"|\A(?:%%|\+ |-\Z|end)|\bregion\b|coding[:=]|[-=#*~_+]{3}|[:?]\s*\Z|\bstep \d|\A\s*\(?\d+[.)]|\b(?:otherwise|instead|below|following|everything|rest)\b",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"\b(?:and|then|as well|also)\b|[,;&]")
# Behind such a word stands when or why.
_REASON = re.compile(
    r"\b(?:before|after|prior to|so that|because|in order to|to avoid|to prevent)\b"
)
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_ENDING = re.compile(r"(?:ations?|izes?|ized|izing|ings?|ions?|ers?|ed|es|s|e)\Z")
_STOP = frozenset(
    "the for and with from this that are its all not but you use can will now our has was is it in of to".split()
)
# What is removed, by a part of its text; the words that are used of it; and those that may be of more around it.
_SPOKEN_OF = (
    (r"[Ss]caler?\b|[Uu]nscale|GradScaler|scale_loss", "scaler scale scaling unscale gradscaler", "amp fp16 mixed precision"),
    (r"\bamp\b|apex", "amp apex", "fp16 mixed precision"),
    (r"empty_cache|ipc_collect|reset_\w*memory", "cache memory vram oom", "free clear release"),
    (r"[Ss]tream", "stream streams", "overlap asynchronously asynchronous async"),
    (r"\bsynchronize\b|wait_\w+", "synchronize sync synchronization", "wait finish"),
    (r"cudnn|benchmark", "cudnn benchmark autotuner autotune tf32", ""),
    (r"set_device", "cuda gpu", ""),
    (r"CUDAGraph|graph_pool|capture", "graph graphs cudagraph", "capture"),
    (r"watch|histogram|profiler|nvtx", "nvtx profiler", ""),
)  # fmt: skip


def marked(
    source: Source, removed: Iterable[ast.stmt], parents: Mapping[ast.AST, ast.AST]
) -> Marks:
    """`source` in which the comments that go with `removed` are marks; its tree is the same."""
    gone = set(removed)
    lines = list(source.lines)
    speaking: dict[int, tuple[str, ast.stmt]] = {}
    for statement in gone:
        for number in _of_it_alone(source, statement, gone, parents):
            speaking[number] = lines[number - 1], statement
            mark = indentation(lines[number - 1]) + _MARK.format(number)
            lines[number - 1] = mark + source.newline
    return Marks(source.with_lines(lines) if speaking else source, speaking)


def without_marks(text: str, marks: Marks, refused: set[ast.AST]) -> str:
    """Return `text` without the marked comments, except those of statements that were not removed."""
    if not marks.speaking:
        return text
    lines: list[str] = []
    went = False  # a comment went, and only blank lines came so far
    for line in split_lines(text):
        found = _MARKED.match(line)
        if found is not None:
            comment, statement = marks.speaking[int(found[1])]
            if statement in refused:
                lines.append(comment)
            went = went or statement not in refused
        elif went and not line.strip() and (not lines or _begins(lines[-1])):
            continue  # the second of two blank lines, or the first of a block
        else:
            went = went and not line.strip()
            lines.append(line)
    return "".join(lines)


def _begins(line: str) -> bool:
    return not line.strip() or line.rstrip().endswith(":")


def _of_it_alone(
    source: Source, statement: ast.stmt, gone: set[ast.stmt], parents: Mapping[ast.AST, ast.AST]
) -> Iterator[int]:
    """The lines of the comment above `statement`, if it goes with it."""
    numbers = list(_above(source, statement))
    if not 0 < len(numbers) <= _LINES:
        return
    lines = (source.lines[number - 1].strip().lstrip("#").strip() for number in numbers)
    text = " ".join(reversed(list(lines)))
    if _KEPT.search(text) or _is_code(text):
        return
    following, is_apart = _following(source, statement, gone, parents)
    words = _words(_REASON.split(text, maxsplit=1)[0])
    own, wider = _spoken_of(source.segment(statement), statement)
    known = {_stem(word) for word in (own | wider if is_apart else own)}
    if known.isdisjoint(_stem(word) for word in words):
        return
    if following is not None:
        several = _SEVERAL.search(_REASON.split(text, maxsplit=1)[0])
        others = _words(source.segment(following)[:1000])
        # Behind a blank line stands what uses it, not what it is called.
        if several or _have_one(words - own if is_apart else words, others):
            return
    yield from numbers


def _above(source: Source, statement: ast.stmt) -> Iterator[int]:
    """The lines of the comment directly above, the last first."""
    line = first_line(statement) - 1
    before = source.lines[line]
    depth = indentation(before)
    if before.encode()[: statement.col_offset].strip():  # it shares its line with another
        return
    while line and source.lines[line - 1].startswith(depth + "#"):
        yield line
        line -= 1


def _is_code(text: str) -> bool:
    """True for what was commented out."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    return not all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Name) for s in body)


def _following(
    source: Source, statement: ast.stmt, gone: set[ast.stmt], parents: Mapping[ast.AST, ast.AST]
) -> tuple[ast.stmt | None, bool]:
    """The next statement of the block that stays, and whether a blank line or a comment stands before it."""
    block = block_of(statement, parents)
    line = last_line(statement)
    is_apart = False
    for other in block[block.index(statement) + 1 :]:
        between = source.lines[line : first_line(other) - 1]
        is_apart = is_apart or any(not t.strip() or t.lstrip().startswith("#") for t in between)
        if other not in gone and isinstance(other, ast.stmt):
            return other, is_apart
        line = last_line(other)
    return None, True


def _spoken_of(text: str, statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Words that are used of what `text` does, and those that may be of more around it."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return _words(text) - {"import", "torch", "utils", "optim"}, set()
    own: set[str] = set()
    wider: set[str] = set()
    for pattern, first, second in _SPOKEN_OF:
        if re.search(pattern, text):
            own |= set(first.split())
            wider |= set(second.split())
    return own, wider


def _have_one(words: set[str], others: set[str]) -> bool:
    """True if a word of the one is one of the others, be it in another form."""
    stems = {_stem(word) for word in others}
    return any(_alike(_stem(word), stem) for word in words for stem in stems)


def _words(text: str) -> set[str]:
    whole = {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z0-9]+", text)}
    return (whole | {part.lower() for part in _PART.findall(text) if len(part) > 2}) - _STOP


def _stem(word: str) -> str:
    return _ENDING.sub("", word) if len(word) > 4 else word


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) > 3 and long.startswith(short))
