"""Which lines of a file hold anything for us? Answered from its text, before its tree is walked."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator

from .catalog.families import PACKAGES
from .hot_words import parts_in, places, places_of_training, places_of_words
from .source import Source
from .words import SUPPRESSION

# What is hot behind `torch.` is so behind another name for torch.
_PARTS_OF_TORCH = ("load", "save", "device", "half", "Stream", "Event", "Generator")
# What is imported from these is hot by its local name.
_HOMES = (
    "torch.accelerator",
    "torch.backends",
    "torch.cuda",
    "torch.amp",
    "torch.distributed",
    "torch.multiprocessing",
    "torch.nn.parallel",
    "torch.utils.checkpoint",
    "torch.utils.cpp_extension",
    "apex",
    "bitsandbytes",
    "deepspeed",
    "cupy",
    "flash_attn",
    "horovod",
    "numba.cuda",
    "nvidia",
    "peft",
    "pynvml",
    "tensorrt",
    "torch_tensorrt",
    "torchao",
    "transformer_engine",
    "triton",
    "trl",
    "xformers",
)
# So are names that rules listen to, where they are imported by themselves; the engine says which they are.
LISTENED: set[str] = set()
_QUOTED = (">>>", "...", "#", "//")  # an example in a docstring, a comment


def imported(tree: ast.Module) -> tuple[str, ...]:
    """Local names that the module imports from CUDA's homes, which their uses need not name."""
    return tuple(
        word
        for statement in _top_level(tree.body)
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
        for word in _words_of(statement, alias)
    )


def _words_of(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, ...]:
    if alias.name == "torch" and alias.asname and isinstance(statement, ast.Import):
        return tuple(f"{alias.asname}.{name}" for name in _PARTS_OF_TORCH)
    if _is_home(_home(statement, alias)):
        return (alias.asname or alias.name.partition(".")[0],)
    return ()


def _is_home(dotted: str) -> bool:
    return dotted in LISTENED or dotted.startswith(_HOMES) or dotted.partition(".")[0] in PACKAGES


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _top_level([*statement.body, *statement.orelse])
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _top_level(handler.body)


def _home(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(
        statement, ast.Import
    ):  # a whole module: torch's own parts are named where they are used
        return alias.name if alias.asname or alias.name.partition(".")[0] != "torch" else ""
    return f"{statement.module or ''}.{alias.name}"


class HotLines:
    """The lines of a file on which something of interest stands; all of them where it trains.

    `words` are of interest beside those that always are; "*" among them is a home all of whose names are imported.
    """

    def __init__(self, source: Source, words: tuple[str, ...] = ()) -> None:
        self.trains = "*" in words
        self.lines: list[int] = []
        if self.trains:
            return
        text, parts = source.text, parts_in(source.names)
        self.trains = _trains(text, parts)
        if not self.trains:
            found = places_of_words(text.lower(), parts)
            found.update(place for word in words for place in places(word, text))
            self.lines = _lines_of(sorted(found), text)

    def between(self, first: int, last: int) -> bool:
        """Whether any line from `first` to `last` is hot."""
        if self.trains:
            return True
        at = bisect_left(self.lines, first)
        return at < len(self.lines) and self.lines[at] <= last


def shows_nothing(data: bytes) -> bool:
    """Whether no line of this source is hot, so that no rule has anything to look at.

    Raises:
        SourceError: it cannot be decoded or parsed.
    """
    source = Source(data)
    hot = HotLines(source, imported(source.tree))
    return not (hot.trains or hot.lines or SUPPRESSION in source.text)


def _trains(text: str, parts: set[str]) -> bool:
    for place in places_of_training(text, parts):
        line = text[text.rfind("\n", 0, place) + 1 : place]
        if not line.lstrip().startswith(_QUOTED):
            return True
    return False


def _lines_of(places: list[int], text: str) -> list[int]:
    """The lines (from 1) that these ascending places of `text` lie on, each once."""
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    numbers: list[int] = []
    line, position = 1, 0
    for place in places:
        line += text.count(newline, position, place)
        position = place
        if not numbers or numbers[-1] != line:
            numbers.append(line)
    return numbers
