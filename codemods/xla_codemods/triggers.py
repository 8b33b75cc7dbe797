"""Is there anything in this file for us? Answered from the bytes, before anything is parsed."""

from __future__ import annotations

import re
from bisect import bisect_left

# A file without any of these is none of our business. Few and short: they are searched in every file.
WORDS = (b"torch", b"cuda", b"CUDA", b"NCCL", b"nvml", b"apex", b"deepspeed", b"triton")

# A line without any of these holds nothing that a rule looks at.
_HOT = re.compile(
    r"""cuda|CUDA|\bgpu|GPU|nccl|NCCL|accelerator|apex|bitsandbytes|\bbnb\b|deepspeed|flash_attn|xformers|triton
    |transformer_engine|nvml|cupy|nvidia|nvtx|numba|cpp_extension|autocast|[Ss]caler|float16|float64|\.half\b
    |\.double\b|pin_memory|non_blocking|fused|Fused|capturable|cudnn|tf32|matmul_precision|record_stream
    |map_location|manual_seed|rng_state|inference_mode|torch\.compile|torch\.load|torch\.save|checkpoint
    |\.to\(\s*(?:\d|[\w.]*(?:rank|gpu|idx|index|ordinal)\b)|device\s*=\s*(?:\d|[\w.]*(?:rank|gpu))
    |torch\.device|DataParallel|distributed|xla""",
    re.VERBOSE,
)

# A file that trains is looked at whole.
_TRAINS = re.compile(
    r"\.backward\(|\.zero_grad\(|\boptim(?:izer)?s?\.step\(|no_grad\(|inference_mode|set_grad_enabled|DataLoader\(|\.to\(\s*(?:self\.|args\.)?device"
)


def concerns(data: bytes) -> bool:
    """Whether the bytes of a file hold a trigger word."""
    return any(word in data for word in WORDS)


class HotLines:
    """The lines of `text` on which something of interest stands; all of them where the file trains."""

    def __init__(self, text: str) -> None:
        self.trains = _TRAINS.search(text) is not None
        self.lines: list[int] = []
        if not self.trains:
            self.lines = _line_numbers(text)

    def between(self, first: int, last: int) -> bool:
        """Whether any line from `first` to `last` is hot."""
        if self.trains:
            return True
        at = bisect_left(self.lines, first)
        return at < len(self.lines) and self.lines[at] <= last


def _line_numbers(text: str) -> list[int]:
    """Numbers (from 1, ascending) of the lines that match."""
    numbers: list[int] = []
    line, position = 1, 0
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    for match in _HOT.finditer(text):
        line += text.count(newline, position, match.start())
        position = match.start()
        if not numbers or numbers[-1] != line:
            numbers.append(line)
    return numbers
