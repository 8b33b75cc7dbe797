"""Which lines of a file hold anything for us? Answered from its text, before its tree is walked."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator

from .catalog.families import PACKAGES
from .patterns import Pattern
from .source import Source
from .words import SUPPRESSION

# A line without any of these, in small letters, holds nothing that a rule looks at. Plain strings, each searched
# on its own: forty such searches take a seventh of the time of one regular expression of forty branches.
_WORDS_OF_LINES = (
    "cuda gpu nccl accelerator apex bitsandbytes bnb deepspeed flash_attn xformers triton transformer_engine nvml "
    "cupy nvidia nvtx numba cpp_extension autocast scaler float16 float64 .half .double pin_memory non_blocking "
    "fused capturable cudnn tf32 matmul_precision record_stream wait_stream wait_event map_location manual_seed rng_state fork_rng no_grad "
    "inference_mode set_grad_enabled .compile torch.load torch.save checkpoint torch.device dataparallel "
    "distributed syncb sync_batch xla detect_anomaly dlpack pack_padded quantize share_memory sparse=true to_sparse sparse_ load_state save_state save_model save_pretrained push_to_hub onnx "
    "safetensors torch.half adamw .state.values .copy_( jit.save "
    "flash_attention attn_implementation mixed_precision device_map load_in_ trainingarguments trainer( horovod hvd prefetch "
    "tensorrt torchao sageattention flashinfer mamba_ssm causal_conv1d liger_kernel pynvml nvitop gpustat "
    "data_parallel torch.stream torch.event get_device_module outofmemoryerror cusparselt sdpa_kernel sdpbackend get_kernel "
    "tensorparallelplugin kbit_training int8_training .spawn( set_default_device qconfig aqlmconfig torch.generator "
    "cudf cuml megatron colossalai fairscale unsloth quantization_config cublas create_loader comm_hook"
)
_HOT = (*_WORDS_OF_LINES.split(), "from torch import", "from trl ", "torch.multiprocessing")
# Those that are parts of names are looked for among the file's names, which are fewer than its words.
_HOT_IN_NAMES = tuple(word for word in _HOT if word.isidentifier())
_HOT_ELSEWHERE = tuple(word for word in _HOT if not word.isidentifier())

# These are hot only where a device given by its index follows (a number, or what is called like one), or an option.
_INDEXED = (".to(", ".to_empty(", "device=", "device =")
_INDEX = Pattern(
    r"\s*(?:\d|[\w.]*(?:rank|gpus?|_ids?|idx|index|indices|ordinal)\b|(?:self\.)?(?:args|opts?|options|cfg|conf|config|hparams|flags)[.\[])"
)

# A file that trains is looked at whole.
_TRAINS = (
    ".backward(",
    ".zero_grad(",
    "DataLoader(",
    "optimizer.step(",
    "optim.step(",
    "opt.step(",
    "TrainingArguments(",
    "TrainingArguments):",
)
# So is one in which these are given a name: that it is theirs cannot be seen where it is used.
_NAMED = (
    "Scaler(",
    *(
        f"cuda.{kind}"
        for kind in (
            *(
                f"{dtype}Tensor"
                for dtype in ("Float", "Double", "Half", "Long", "Int", "Byte", "Bool")
            ),
            "Stream(",
            "get_device_properties(",
        )
    ),
    *(f"{before}{quote}cuda" for before in ("= ", "= f", "return ") for quote in "\"'"),
)
# What is imported from these is hot by its local name.
# What is hot behind `torch.` is so behind another name for torch.
_PARTS_OF_TORCH = ("load", "save", "device", "half", "Stream", "Event", "Generator")
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
    """The lines of `text` on which something of interest stands; all of them where the file trains.

    `words` are of interest beside those that always are; "*" among them is a home all of whose names are imported.
    """

    def __init__(self, text: str, words: tuple[str, ...] = ()) -> None:
        self.trains = "*" in words or _trains(text)
        self.lines: list[int] = []
        if not self.trains:
            self.lines = _line_numbers(text, words)

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
    hot = HotLines(source.text, imported(source.tree))
    return not (hot.trains or hot.lines or SUPPRESSION in source.text)


def _trains(text: str) -> bool:
    for word in (*_TRAINS, *_NAMED):
        for place in _places(word, text):
            line = text[text.rfind("\n", 0, place) + 1 : place]
            if not line.lstrip().startswith(_QUOTED):
                return True
    return False


def _line_numbers(text: str, words: tuple[str, ...]) -> list[int]:
    """Numbers (from 1, ascending) of the hot lines."""
    lowered = text.lower()
    names = _names(lowered)
    found = [word for word in _HOT_IN_NAMES if word in names]
    found += [word for word in _HOT_ELSEWHERE if word in lowered]
    places = {place for word in found for place in _places(word, lowered)}
    for word in _INDEXED:
        places.update(p for p in _places(word, lowered) if _INDEX.match(lowered, p + len(word)))
    places.update(place for word in words for place in _places(word, text))
    return _lines_of(sorted(places), text)


def _names(text: str) -> str:
    """The names, keywords and numbers in `text`, each once: an eighth of a usual file."""
    parts = text.encode(errors="replace").translate(_TO_BLANKS).split()
    return b"\n".join(set(parts)).decode()


_TO_BLANKS = bytes(
    c if c >= 0x80 or chr(c).isalnum() or c == ord("_") else ord(" ") for c in range(256)
)


def _places(word: str, text: str) -> Iterator[int]:
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
