"""conda's environment.yml: channels, conda packages, and the requirements of pip below them, a line each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...results import WARNING
from .codes import CUDA_WHEEL, TORCH_VERSION
from .found import Found, Wanted, whole_line
from .packages import TORCH, in_index, in_requirement

_ITEM = re.compile(
    r"^(?P<lead>[ \t]*-[ \t]+)(?P<quote>[\"']?)(?P<value>[^\"'#\r\n]+?)(?P=quote)[ \t]*(?:#[^\n]*)?\r?$",
    re.MULTILINE,
)
_CUDA = re.compile(
    r"(?:[\w./-]+::)?(pytorch-cuda|cudatoolkit|cuda-toolkit|cuda|cudnn|nccl|cuda-nvcc)\b(?!-)"
)
_PYTORCH = re.compile(r"(?:[\w./-]+::)?pytorch(?P<version>[\s=<>!~].*)?$")
_CHANNELS = re.compile(r"^(?:[\w./:-]*/)?nvidia(?:/label/[\w.-]+)?$")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of an environment file of conda."""
    items = list(_ITEM.finditer(text))
    for item in items:
        value, begin, end = item["value"].strip(), item.start("value"), item.end("value")
        alone = _is_alone(item, items, text)
        removal = None if alone else whole_line(text, item.start(), item.end())
        edits = () if removal is None else (removal,)
        if _CHANNELS.match(value) and _section(text, begin) == "channels":
            yield Found(CUDA_WHEEL, begin, end, "a channel of CUDA packages", edits, WARNING)
        elif _section(text, begin) != "dependencies":
            continue
        elif _CUDA.match(value):
            yield Found(CUDA_WHEEL, begin, end, "CUDA, which an XLA host does not need", edits)
        elif _PYTORCH.match(value):
            message = f"torch_xla needs pip's torch {TORCH}: conda's torch does not match torch_xla"
            yield Found(TORCH_VERSION, begin, end, message, (), WARNING, "medium")
        else:
            yield from in_requirement(value, begin, removal)
            yield from in_index(value, begin)


def _section(text: str, place: int) -> str:
    """The key at the margin that `place` stands below."""
    keys = list(re.finditer(r"^([\w-]+):", text[:place], re.MULTILINE))
    return keys[-1][1] if keys else ""


def _is_alone(item: re.Match[str], items: list[re.Match[str]], text: str) -> bool:
    """True if it is the only item of its list: without it the list would be null."""
    lead = item["lead"]
    for other in items:
        if other is item or other["lead"] != lead:
            continue
        first, last = sorted((item, other), key=lambda m: m.start())
        between = text[first.end() : last.start()].splitlines()
        indent = len(lead) - len(lead.lstrip())
        if all(_indent(line) >= indent for line in between if line.strip()):
            return False
    return True


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
