"""On which lines of a file can a rule have something to say? Derived from what the rules listen to.

A registration (`@RULE.call("torch.load")`) makes the lines hot that hold its name; a check of whole files or of all
nodes of a kind says with `mentions=` which parts of names its lines hold. Files that train are looked at whole: there
every line takes part.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from .analysis.nodes import walk
from .catalog.families import NAMES, PACKAGES, PARTS, is_cuda_only, may_lead_to_one
from .patterns import Pattern
from .prefilter import SUPPRESSION
from .source import Source

LISTENED: set[str] = set()  # dotted names that some rule listens to
_HOT: set[str] = set()  # those of them that make lines hot, and the modules that they lie in
_HOMES: set[str] = set()
# A name in small letters -> the texts that make their line hot, searched only in files that have the name.
_TEXTS: dict[str, set[str]] = {}
_TO_IMPORT: set[str] = set()  # names in small letters whose import makes its line hot
_IMPORTED = (Pattern(r"import (\w+)"), Pattern(r", (\w+) as\b"))
# Texts in small letters that make their line hot, by how they begin: what may follow on that, each searched at once.
_MENTIONED: dict[str, tuple[str, ...]] = {}
_BEGINNING = Pattern(r"\W*\w+\W?")
_WORD = Pattern(r"\w+")

# A file in whose code one of these stands trains.
_TRAINS = (
    ".backward(",
    ".zero_grad(",
    "DataLoader(",
    "TrainingArguments(",
    "TrainingArguments):",
    "def training_step(",
    "autograd.grad(",
    "torch.func",
    "functorch",
    # What frameworks call in each step.
    "def training_step(",
    "def compute_loss(",
    "def on_step_end(",
    "def on_before_optimizer_step(",
    "def on_train_batch_end(",
)
_STEPS = Pattern(r"opt(?:im\w*)?(?:_\w{1,8})?(?:\[[^\]\n]*\])?\.step\(", re.IGNORECASE)
_QUOTED = (">>>", "...", "#", "//")  # an example in a docstring, a comment


def listen_to_names(names: Iterable[str], end: str = "", *, hot: bool = True) -> None:
    """Lines with the last part of these dotted names are hot; with `end="("`, where it is called.

    With `hot=False` the names are only known: they make no line hot.
    """
    for dotted in names:
        home, _, last = dotted.rpartition(".")
        LISTENED.add(dotted)
        if hot:
            _HOMES.add(home)
            _HOT.add(dotted)
            # Names with capitals are rare enough to be looked at wherever they stand.
            text = last.lower() + (end if last == last.lower() else "")
            _TEXTS.setdefault(last.lower(), set()).add(text)
            _TO_IMPORT.add(last.lower())


def listen_to_attributes(names: Iterable[str], end: str = "", *, hot: bool = True) -> None:
    """Lines with `anything.<name>` are hot; with `end="("`, where it is called."""
    for name in names if hot else ():
        _TEXTS.setdefault(name.lower(), set()).add(f".{name.lower()}{end}")


def listen_to_words(names: Iterable[str], *, hot: bool = True) -> None:
    """Lines with these names are hot."""
    for name in names if hot else ():
        _TEXTS.setdefault(name.lower(), set()).add(name.lower())


def listen_to_arguments(names: Iterable[str], *, hot: bool = True) -> None:
    """Lines with `<name>=...` are hot."""
    for name in names if hot else ():
        _TEXTS.setdefault(name.lower(), set()).update((f"{name.lower()}=", f"{name.lower()} ="))


def listen_to_parts(parts: Iterable[str]) -> None:
    """Lines that hold any of these texts, in small letters, are hot: parts of names, or what begins with one."""
    for part in parts:
        match = _BEGINNING.match(part)
        assert match is not None
        start = match.group()
        rests = {*_MENTIONED.get(start, ()), part[len(start) :]}
        _MENTIONED[start] = tuple(sorted(rests))


listen_to_words(name.rpartition(".")[2] for name in (*PACKAGES, *PARTS, *NAMES))


class HotLines:
    """The lines of a file that rules may have something to say of; all of them where it trains.

    `words` are hot beside those that always are. `everywhere` makes all lines hot.
    """

    def __init__(
        self, source: Source, words: Iterable[str] = (), *, everywhere: bool = False
    ) -> None:
        imports = set() if everywhere else _imported(source.tree)
        self.trains = everywhere or "*" in imports or _trains(source)
        self.lines = [] if self.trains else _lines(source, {*imports, *words})

    def between(self, first: int, last: int) -> bool:
        """True if any line from `first` to `last` is hot."""
        if self.trains:
            return True
        at = bisect_left(self.lines, first)
        return at < len(self.lines) and self.lines[at] <= last


def local_names(source: Source, names: set[str]) -> set[str]:
    """`names`, and what they are called where an import gives them another name, at any depth."""
    if not names or not source.names.intersection(name.lower() for name in names):
        return names
    imports = (n for n in walk(source.tree) if isinstance(n, ast.ImportFrom))
    renamed = {a.asname for n in imports for a in n.names if a.asname and a.name in names}
    return names | renamed


def shows_nothing(data: bytes) -> bool:
    """True if no line of this source is hot, so that no rule has anything to look at.

    Raises:
        SourceError: it cannot be decoded or parsed.
    """
    source = Source(data)
    hot = HotLines(source)
    return not (hot.trains or hot.lines or SUPPRESSION in source.text)


def _lines(source: Source, words: set[str]) -> list[int]:
    """The hot lines of a file, in order; `words` are hot, too."""
    text = source.text.lower()
    texts = {t for name in source.names & _TEXTS.keys() for t in _TEXTS[name]}
    texts.update(word.lower() for word in words)
    found = {p for t in texts for p in _whole_places(t, text)}
    for start, rests in _MENTIONED.items():
        if source.mentions(_WORD.findall(start)[0]):
            behind = len(start)
            found.update(p for p in _places(start, text) if text.startswith(rests, p + behind))
    for pattern in _IMPORTED:
        imports = pattern.compiled.finditer(text)
        found.update(match.start() for match in imports if match[1] in _TO_IMPORT)
    lines = _lines_of(sorted(found), text)
    named = _names_given(lines, source) - texts
    if named:
        found.update(p for name in named for p in _whole_places(name, text))
        lines = _lines_of(sorted(found), text)
    return lines


def _names_given(hot: list[int], source: Source) -> set[str]:
    """The module's names for what hot lines bind or return: what they stand for is not seen where they are used."""
    lines = set(hot)
    return {
        name.lower()
        for statement in _module_level(source.tree.body)
        if lines.intersection(range(statement.lineno, (statement.end_lineno or 0) + 1))
        for name in _names_of(statement, lines)
    }


def _names_of(statement: ast.stmt, hot: set[int]) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if any(line in hot for line in _returns(statement)):
            yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in walk(target) if isinstance(node, ast.Name))


def _returns(statement: ast.AST) -> Iterator[int]:
    """The lines of the `return`s below `statement`."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for below in getattr(statement, part, ()):
            if isinstance(below, ast.Return):
                yield below.lineno
            else:
                yield from _returns(below)


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those within `if` and `try` included."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _module_level([*statement.body, *statement.orelse])
            for handler in getattr(statement, "handlers", ()):
                yield from _module_level(handler.body)
        else:
            yield statement


def _whole_places(wanted: str, text: str) -> Iterator[int]:
    """Where `wanted` stands in `text`, not as a part of a longer name."""
    return (place for place in _places(wanted, text) if _is_whole(wanted, place, text))


def _is_whole(wanted: str, place: int, text: str) -> bool:
    """True if `wanted`, which stands at `place`, is not a part of a longer name."""
    end = place + len(wanted)
    return not (
        (_is_of_name(wanted[0]) and _is_of_name(text[place - 1 : place]))
        or (_is_of_name(wanted[-1]) and _is_of_name(text[end : end + 1]))
    )


def _is_of_name(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _imported(tree: ast.Module) -> set[str]:
    """Local names of what rules listen to, where the import gives another; "*" where any name may be one of them."""
    return {
        name
        for statement in _imports(tree.body)
        for alias in statement.names
        if (name := _hot_name(statement, alias))
    }


def _hot_name(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.Import):
        dotted = alias.name
        if dotted.partition(".")[0] == "torch" and not alias.asname:
            return ""  # torch's own parts are named where they are used
        if dotted == "torch":
            return ""
    elif alias.name == "*":
        home = statement.module or ""
        return "*" if home in _HOMES or may_lead_to_one(home) else ""
    else:
        dotted = f"{statement.module or ''}.{alias.name}"
    hot = dotted in _HOT or is_cuda_only(dotted)
    return (alias.asname or alias.name.partition(".")[0]) if hot else ""


def _imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in _module_level(body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement


def _trains(source: Source) -> bool:
    text = source.text
    if any(_is_code(place, text) for word in _TRAINS for place in _places(word, text)):
        return True
    if ".step(" not in text:
        return False
    return any(_is_code(match.start(), text) for match in _STEPS.compiled.finditer(text))


def _is_code(place: int, text: str) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return not line.lstrip().startswith(_QUOTED)


def _places(word: str, text: str) -> Iterator[int]:
    """Where `word` begins in `text`."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))


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
