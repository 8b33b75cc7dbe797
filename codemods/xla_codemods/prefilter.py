"""Is there anything in this file for us? Answered from the bytes, before anything is parsed."""

from __future__ import annotations

import functools

from .catalog.families import PACKAGES

# What comments begin with that switch findings off.
SUPPRESSION = "xla-migrate:"

# A file in which none of these stands, in small letters or capitals, and that imports none of the packages below and starts
# no launcher, is none of our business. They are few and short, since each is searched in every file.
WORDS = (
    *(b"torch", b"cuda", b"nccl", b"nvidia", b"apex", b".item()", b".step()", b".backward("),
    SUPPRESSION.encode(),
)

# Packages whose names hold none of them are looked for where something is imported: a search that begins with a
# literal costs no more than one for a word, whatever number of names may follow.
_MORE = {
    "accelerate",
    "detectron2",
    "dgl",
    "diff_gaussian_rasterization",
    "diffusers",
    "gsplat",
    "horovod",
    "ignite",
    "isaacgym",
    "isaacgymenvs",
    "isaaclab",
    "kernels",
    "lightning",
    "lightning_fabric",
    "monai",
    "numba",
    "nvitop",
    "peft",
    "py3nvml",
    "ray",
    "sagemaker",
    "sentence_transformers",
    "simple_knn",
    "spconv",
    "timm",
    "torchmetrics",
    "transformers",
    "trl",
    "vllm",
    "xformers",
    "xla_migrate",
}
# Files that start programs are looked at where these stand, too; that of torch holds a word from above.
_STARTING = {b"subprocess", b"os"}
_LAUNCHERS = (b"accelerate", b"deepspeed", b"horovodrun")


def concerns(data: bytes) -> bool:
    """True if the bytes of a file hold a trigger word, or import what none of them is in."""
    lowered = data.lower()
    return any(word in lowered for word in WORDS) or _imports_unseen(data)


@functools.cache
def _unseen() -> tuple[frozenset[bytes], bytes]:
    """Return the packages that no word is in, and a table that leaves only the names of a line."""
    packages = (name.encode() for name in {*PACKAGES, *_MORE})
    names = bytes(c if chr(c).isalnum() or c == ord("_") else ord(" ") for c in range(256))
    return frozenset(p for p in packages if not any(word in p.lower() for word in WORDS)), names


def _imports_unseen(data: bytes) -> bool:
    """True if a line with `import` in it names one of those packages, as code, in a comment or in a string, or what starts
    programs, and the file one of the launchers.

    Imports are few: to look at their lines takes half the time of a regular expression for them.
    """
    unseen, only_names = _unseen()
    place = data.find(b"import ")
    starts = False
    while place >= 0:
        end = data.find(b"\n", place)
        line = data[data.rfind(b"\n", 0, place) + 1 : end if end >= 0 else len(data)]
        words = line.translate(only_names).split()
        if not unseen.isdisjoint(words):
            return True
        starts = starts or not _STARTING.isdisjoint(words)
        place = data.find(b"import ", end) if end >= 0 else -1
    return starts and any(word in data for word in _LAUNCHERS)
