"""Options of transformers' trainers in a shell command: `python train.py --output_dir out --tf32 True --fp16`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xla_codemods.analysis.commands.launchers import Word
from xla_codemods.analysis.frameworks.values import (
    OF_ARGUMENTS,
    OF_FIELDS,
    OF_LOADING,
    OPTIMIZERS,
    needs_more_memory,
)

from ...results import SAFE, UNSAFE, WARNING
from .codes import TRAINING_SETTINGS
from .found import Edit, Found

# Scripts with a parser of their own have options of the same names, such as `--fp16`, which the migration of
# the script handles. The options below, or their combination, only transformers has. None of them is what a fix
# removes: then the next run would not see the other options.
_OF_TRANSFORMERS = frozenset(
    "eval_strategy evaluation_strategy save_strategy logging_strategy fp16_full_eval bf16_full_eval"
    " ddp_find_unused_parameters ddp_bucket_cap_mb ddp_timeout torch_empty_cache_steps torch_compile_backend"
    " torch_compile_mode half_precision_backend gradient_checkpointing_kwargs lr_scheduler_kwargs"
    " group_by_length eval_accumulation_steps load_best_model_at_end metric_for_best_model save_only_model"
    " logging_first_step logging_nan_inf_filter neftune_noise_alpha remove_unused_columns"
    " auto_find_batch_size dataloader_pin_memory label_smoothing_factor full_determinism".split()
)
# fairseq's `--ddp-backend` is another.
_BACKENDS = frozenset({"nccl", "gloo", "mpi", "ccl", "xccl", "hccl", "cncl", "mccl"})
_BATCH = frozenset("per_device_train_batch_size per_device_eval_batch_size".split())
_BESIDE_BATCH = frozenset(
    "do_train do_eval eval_steps logging_steps max_steps overwrite_output_dir save_steps save_total_limit"
    " warmup_ratio".split()
)
_OPTIMIZERS = {*OPTIMIZERS, "adamw_torch", "adamw_hf", "adamw_torch_xla", "adamw_torch_npu_fused"}
_PARSERS = re.compile(r"\b(HfArgumentParser|TrlParser)\b")
_OWN_BACKEND = re.compile(r"[\"']--ddp[_-]backend[\"']")
_LARGEST = 1 << 20
_SWITCHES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class TrainerOption(NamedTuple):
    """`--name`, `--name value` or `--name=value`.

    Attributes:
        name: with underscores.
        value: true without a value, a switch, or the text.
        before: where the word before it ends.
        after: where the next word begins if it is the first of an array, otherwise its end.
        start: where `--name` begins.
        name_end: where it ends.
        value_start: where the value begins.
        end: where all of it ends.
    """

    name: str
    value: object
    before: int
    after: int
    start: int
    name_end: int
    value_start: int
    end: int


def in_options(words: Sequence[Word], folder: str, text: str) -> Iterator[Found]:
    """Yield the findings in the options of a command.

    Args:
        words: the words of the command. Options before the script are its launcher's.
        folder: where the file with the command is. Empty: not known.
        text: the whole file.
    """
    every = list(_options(words, text))
    options = {option.name: option for option in every}
    if not options:
        return
    others = {name: option for name, option in options.items() if name != "ddp_backend"}
    is_known = _is_of_transformers(others) or _is_parsed_by_them(words, folder)
    if not is_known and not _is_a_backend(options, words, folder):
        return
    faults = {**OF_FIELDS, **OF_LOADING}
    for option in every:
        name = option.name
        if name in faults and (message := faults[name](option.value)):
            found = _found(option, message, options.get(name.replace("fp16", "bf16")))
            # Without the option, the next run would not see the others.
            yield found if is_known or name != "ddp_backend" else found._replace(edits=())


def _is_of_transformers(options: Mapping[str, TrainerOption]) -> bool:
    known = options.keys()
    if known & _OF_TRANSFORMERS or (known & _BATCH and known & _BESIDE_BATCH):
        return True
    return "optim" in options and options["optim"].value in _OPTIMIZERS


def _is_a_backend(options: Mapping[str, TrainerOption], words: Sequence[Word], folder: str) -> bool:
    """Return True if `--ddp_backend nccl` is an option of transformers, and not of the script's own parser."""
    option = options.get("ddp_backend")
    if option is None or option.value not in _BACKENDS:
        return False
    return _OWN_BACKEND.search(_script(words, folder)) is None


def _is_parsed_by_them(words: Sequence[Word], folder: str) -> bool:
    """Return True if the script of the command has transformers' parser."""
    return _PARSERS.search(_script(words, folder)) is not None


def _script(words: Sequence[Word], folder: str) -> str:
    """Return the text of the command's script, whose path is relative to the file; "" if there is none."""
    script = next((word.plain for word in words if word.plain.endswith(".py")), "")
    if not script or not folder:
        return ""
    try:
        with open(os.path.join(folder, script), encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except (OSError, ValueError):
        return ""


def _options(words: Sequence[Word], text: str) -> Iterator[TrainerOption]:
    """Yield the options behind the script."""
    script = next((k for k, word in enumerate(words) if word.plain.endswith(".py")), len(words))
    rest = words[script:]
    for k, word in enumerate(rest):
        if not word.text.startswith("--"):
            continue
        name, equals, value = word.text[2:].partition("=")
        name_end = value_start = word.start + len(f"--{name}")
        end = word.end
        if equals:
            value_start += 1
        elif k + 1 < len(rest) and not rest[k + 1].text.startswith("--"):
            value, value_start, end = rest[k + 1].text, rest[k + 1].start, rest[k + 1].end
        else:
            value = "true"
        plain = value.strip("\"'")
        meant = _SWITCHES.get(plain.lower(), plain)
        before = rest[k - 1].end
        if before > word.start or ")" in text[before : word.start]:  # in an array, or after one
            before = len(text[: word.start].rstrip(" \t\r\n\\"))
        is_first = before == word.start
        after = len(text) - len(text[end:].lstrip(" \t")) if is_first else end
        yield TrainerOption(
            name.replace("-", "_"), meant, before, after, word.start, name_end, value_start, end
        )


def _found(option: TrainerOption, message: str, other: TrainerOption | None) -> Found:
    """Return the finding at an option; `other` is `--bf16` beside `--fp16`, if it is given."""
    found = Found(TRAINING_SETTINGS, option.start, option.end, message)
    left_out = Edit(option.before, option.after, "")
    if option.name == "optim" and option.value in OPTIMIZERS:
        name = str(option.value)
        edit = Edit(option.value_start, option.end, OPTIMIZERS[name])
        return found._replace(edits=(edit,), safety=UNSAFE if needs_more_memory(name) else SAFE)
    if option.name == "attn_implementation":
        return found._replace(edits=(Edit(option.value_start, option.end, "sdpa"),))
    if option.name in {*OF_ARGUMENTS, "ddp_backend"}:  # which have no effect, or fail, on XLA
        return found._replace(edits=(left_out,))
    if option.name.startswith("fp16"):
        name = f"--{option.name.replace('fp16', 'bf16')}"
        edits = [Edit(option.start, option.name_end, name)] if other is None else [left_out]
        if other is not None and other.value is False:
            edits.append(Edit(other.value_start, other.end, "True"))
        return found._replace(edits=tuple(edits), severity=WARNING)
    return found._replace(effort="medium")
