"""Answers from the text of a file alone: does it speak of an accelerator, and does it train?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..patterns import Pattern

# What a file that computes on an accelerator has somewhere: names of devices, or of the runtime where they came from
# such names (not where a file that trains, saves or compiles on whatever there is got them).
_ACCELERATED = ("cuda", "torch.accelerator", "torch_xla", "autocast", "apex", "cudnn")
# Each is searched only in text that contains one of its words, and begins with plain letters, which are found quickly.
# A later check makes sure that they begin a name. One expression for all takes ten times as long, with `\b` five times.
_PERHAPS_ACCELERATED = (
    ("gpu", Pattern(r"gpu(?<!\wgpu)\b")),
    (
        ".to(",
        Pattern(
            r"\.to\(\s*(?:self\.)?(?:\w*(?:args|opts?|cfg|conf(?:ig)?|params)\.(?:\w+\.)*)?device"
        ),
    ),
    ("device", Pattern(r"device(?<!\wdevice)\s*=")),
    (
        "torch.distributed",
        Pattern(r"torch(?<!\wtorch)\.distributed\b(?!\.(?:autograd|optim|rpc)\b)"),
    ),
    ("distributed", Pattern(r"from torch import [^\n]*\bdistributed\b")),
    (".to(", Pattern(r"\.to\(\s*(?:\d|[\w.]*(?:rank|gpu)\b)")),
    (
        "xla",
        Pattern(
            r"xla(?<!\wxla)\w*\.(?!save\b|inference_mode\b|compile\b|checkpoint|mark_step\b|optimizer_step\b"
            r"|MpDeviceLoader\b|reduce_gradients\b|manual_seed\b|[gs]et_rng_state|supports_fused\b"
            r"|NativeScaler\b|narrow\b|barrier\b|init_process_group\b|destroy_process_group\b|all_\w|broadcast"
            r"|reduce\w*\(|gather\w*\(|scatter\w*\()[a-z_]"
        ),
    ),
)


def speaks_of_an_accelerator(text: str) -> bool:
    """True if anything in `text` speaks of an accelerator, or of a device to compute on."""
    return any(word in text for word in _ACCELERATED) or any(
        word in text and pattern.search(text) for word, pattern in _PERHAPS_ACCELERATED
    )


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
