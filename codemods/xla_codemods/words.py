"""Is there anything in this file for us? Answered from the bytes, before anything is parsed."""

from __future__ import annotations

import re

from .catalog.families import PACKAGES

# What comments begin with that switch findings off.
SUPPRESSION = "xla-migrate:"

# A file without any of these is none of our business. Few and short: they are searched in every file.
WORDS = (
    b"torch",
    b"cuda",
    b"CUDA",
    b"NCCL",
    b"nvml",
    b"apex",
    b"deepspeed",
    b"triton",
    b"transformers",
    b"accelerate",
    b"trl",
    b"lightning",
    b"horovod",
    b"flash_att",
    b"xformers",
    b"numba",
    b"cupy",
    b"nvidia",
    b"NVIDIA",
    SUPPRESSION.encode(),
)

# Packages whose names hold none of them: their imports are looked for in one search each, which a literal begins.
_UNSEEN = b"|".join(
    name.encode()
    for name in sorted({*PACKAGES, "diffusers", "kernels", "peft", "timm"})
    if not any(word in name.encode() for word in WORDS)
)
_IMPORTS = tuple(re.compile(rb"%s (?:%s)\b" % (how, _UNSEEN)) for how in (b"import", b"from"))

# What is searched first: each search of a file costs the same, and these are fewer.
_STEMS = tuple(dict.fromkeys(b"formers" if b"formers" in word else word.lower() for word in WORDS))


def concerns(data: bytes) -> bool:
    """Whether the bytes of a file hold a trigger word, or import what none of them is in."""
    lowered = data.lower()
    if any(stem in lowered for stem in _STEMS) and any(word in data for word in WORDS):
        return True
    return any(pattern.search(data) for pattern in _IMPORTS)
