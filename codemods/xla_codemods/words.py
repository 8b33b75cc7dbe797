"""Is there anything in this file for us? Answered from the bytes, before anything is parsed."""

from __future__ import annotations

import re

from .catalog.families import PACKAGES

# What comments begin with that switch findings off.
SUPPRESSION = "xla-migrate:"

# A file in which none of these stands, in small letters or capitals, and that imports none of the packages below, is none
# of our business. They are few and short, since each is searched in every file.
WORDS = (b"torch", b"cuda", b"nccl", b"nvidia", SUPPRESSION.encode())

# Packages whose names hold none of them are looked for where something is imported: a search that begins with a
# literal costs no more than one for a word, whatever number of names may follow.
_MORE = {
    "accelerate",
    "diffusers",
    "horovod",
    "kernels",
    "lightning",
    "lightning_fabric",
    "numba",
    "nvitop",
    "peft",
    "py3nvml",
    "sentence_transformers",
    "timm",
    "transformers",
    "trl",
    "xformers",
}
_UNSEEN = b"|".join(
    name.encode()
    for name in sorted({*PACKAGES, *_MORE})
    if not any(word in name.lower().encode() for word in WORDS)
)
_IMPORTS = (
    re.compile(rb"import [\w., ]*?\b(?:%s)\b" % _UNSEEN),
    re.compile(rb"from (?:%s)\b" % _UNSEEN),
)


def concerns(data: bytes) -> bool:
    """Whether the bytes of a file hold a trigger word, or import what none of them is in."""
    lowered = data.lower()
    if any(word in lowered for word in WORDS):
        return True
    return any(pattern.search(data) for pattern in _IMPORTS)
