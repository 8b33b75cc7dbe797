"""Does a file train? Answered from its text, before it is indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..patterns import Pattern

# A file in whose code one of these stands trains.
_TRAINS = (
    ".backward(",
    ".zero_grad(",
    "DataLoader(",
    "TrainingArguments(",
    "TrainingArguments):",
    "autograd.grad(",
    "torch.func",
    "functorch",
    # Methods that frameworks call in each step.
    "def training_step(",
    "def compute_loss(",
    "def on_step_end(",
    "def on_before_optimizer_step(",
    "def on_train_batch_end(",
)
_STEPS = Pattern(r"opt(?:im\w*)?(?:_\w{1,8})?(?:\[[^\]\n]*\])?\.step\(", re.IGNORECASE)
_QUOTED = (">>>", "...", "#", "//")  # an example in a docstring, a comment


def trains(text: str) -> bool:
    """Return True if the code in `text` trains a model, or is called by a framework that does."""
    if any(_is_code(place, text) for word in _TRAINS for place in _places(word, text)):
        return True
    if ".step(" not in text:
        return False
    return any(_is_code(match.start(), text) for match in _STEPS.compiled.finditer(text))


def _is_code(place: int, text: str) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return not line.lstrip().startswith(_QUOTED)


def _places(word: str, text: str) -> Iterator[int]:
    """The positions in `text` at which `word` begins."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))
