"""Words that make a line worth a look, and where a text holds them.

A file has thousands of words but some hundred names, most of which other files had before: what each name holds is
found out once. So a text is cut into names, and only the words that these can be part of are searched for in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .patterns import Pattern

# A line without any of these, in small letters, holds nothing that a rule looks at.
_WORDS_OF_LINES = (
    "cuda gpu nccl accelerator apex bitsandbytes bnb deepspeed flash_attn xformers triton transformer_engine nvml "
    "cupy nvidia nvtx numba cpp_extension autocast scaler float16 float64 .half .double pin_memory non_blocking "
    "cudnn tf32 matmul_precision record_stream wait_stream wait_event map_location manual_seed rng_state fork_rng no_grad "
    "inference_mode set_grad_enabled .compile torch.load torch.save apply_activation_checkpointing torch.device dataparallel "
    "distributed syncb sync_batch xla detect_anomaly dlpack pack_padded share_memory sparse=true to_sparse sparse_ load_state save_state save_model save_pretrained push_to_hub onnx "
    "safetensors torch.half torch.serialization torch.export.save torch.sparse. adamw .state.values .copy_( jit.save jit.trace .add_graph( quantize_per "
    "flash_attention attn_implementation mixed_precision device_map load_in_ trainingarguments trainer( horovod hvd prefetch "
    "tensorrt torchao sageattention flashinfer mamba_ssm causal_conv1d liger_kernel pynvml nvitop gpustat "
    "data_parallel torch.stream torch.event get_device_module outofmemoryerror cusparselt sdpa_kernel sdpbackend get_kernel "
    "tensorparallelplugin kbit_training int8_training .spawn( set_default_device qconfig aqlmconfig torch.generator "
    "avgpool avg_pool .gradient_checkpointing_enable( .enable_gradient_checkpointing( .set_grad_checkpointing( "
    "recipekwargs localsgd gather_object pippy cudf cuml megatron colossalai fairscale unsloth quantization_config cublas create_loader comm_hook"
)
_HOT = (*_WORDS_OF_LINES.split(), "from torch import", "from trl ", "torch.multiprocessing")

# Hot as names, but not as parts of others: `fused=True`, not `fused_attn`.
_HOT_NAMES = tuple(
    "adafactor asgd capturable checkpoint fused lbfgs load_and_quantize_model modelemav3 muon packedsequence "
    "pack_sequence quantize random_seed rprop set_seed sparseadam update_bn".split()
)

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

_NAME = re.compile(r"\w+")
# By its longest name it is known whether a word can stand in a text at all; very short ones are in most texts.
_PART = {
    word: max((p for p in _NAME.findall(word.lower()) if len(p) > 2), key=len, default="")
    for word in (*_HOT, *_HOT_NAMES, *_INDEXED, *_TRAINS, *_NAMED)
}
_PARTS = frozenset(_PART.values()) - {""}
_TO_BLANKS = bytes(
    c if c >= 0x80 or chr(c).isalnum() or c == ord("_") else ord(" ") for c in range(256)
)

_seen: set[str] = set()  # names of which is known what they hold
_holding: dict[str, set[str]] = {}  # and what that is, where it is anything
_MOST_NAMES = 200_000  # that are remembered


def names_in(lowered: str) -> set[str]:
    """The names, keywords and numbers of a text in small letters, each once."""
    return set(lowered.encode(errors="replace").translate(_TO_BLANKS).decode().split())


def parts_in(names: set[str]) -> set[str]:
    """The parts of words that these names hold."""
    if (
        len(_seen) > _MOST_NAMES
    ):  # before it is asked which are new: what is forgotten has to be learnt again
        _seen.clear()
        _holding.clear()
    new = names - _seen
    if new:
        _learn(new)
    return set().union(*(_holding[name] for name in names & _holding.keys()))


def places_of_words(lowered: str, parts: set[str]) -> set[int]:
    """Where any word begins that makes its line hot, in a text in small letters that holds these parts."""
    found = {p for word in _possible(_HOT, parts) for p in places(word, lowered)}
    for word in _possible(_HOT_NAMES, parts):
        found.update(p for p in places(word, lowered) if _is_whole(lowered, p, len(word)))
    for word in _possible(_INDEXED, parts):
        found.update(p for p in places(word, lowered) if _INDEX.match(lowered, p + len(word)))
    return found


def places_of_training(text: str, parts: set[str]) -> Iterator[int]:
    """Where a word begins which shows that a file trains, or that gives names to what rules have to know."""
    for word in _possible((*_TRAINS, *_NAMED), parts):
        yield from places(word, text)


def places(word: str, text: str) -> Iterator[int]:
    """Where `word` begins in `text`."""
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))


def _possible(words: tuple[str, ...], parts: set[str]) -> list[str]:
    """Those of `words` that may stand in a text which holds these parts."""
    return [word for word in words if not _PART[word] or _PART[word] in parts]


def _is_whole(text: str, place: int, length: int) -> bool:
    """Whether what stands at `place` is no part of a longer name."""
    before, behind = text[place - 1 : place], text[place + length : place + length + 1]
    return not (_NAME.match(before) or _NAME.match(behind))


def _learn(names: set[str]) -> None:
    """Find out what these names hold: by few searches in all of them together."""
    _seen.update(names)
    text = "\n".join(["", *names, ""])
    for part in _PARTS:
        for place in places(part, text):
            name = text[text.rfind("\n", 0, place) + 1 : text.find("\n", place)]
            _holding.setdefault(name, set()).add(part)
