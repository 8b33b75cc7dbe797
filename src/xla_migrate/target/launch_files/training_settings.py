"""YAML files of settings that a framework reads: accelerate's config, transformers' arguments, Lightning's Trainer, optimizers'."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import yaml

from xla_codemods.analysis.commands.launchers import ONE_PER_DEVICE
from xla_codemods.analysis.frameworks.configurations import Configuration, instead
from xla_codemods.analysis.frameworks.deepspeed import as_accelerator, of_accelerate
from xla_codemods.analysis.frameworks.lightning import (
    TAKEN_CLASSES,
    UNPATCHED,
    fault_of_strategy_class,
    is_taken_strategy,
)
from xla_codemods.analysis.frameworks.values import (
    HALF,
    MEGATRON,
    OF_FIELDS,
    OF_LOADING,
    OF_TRAINER,
    OPTIMIZERS,
    SHARDED_BY_NAME,
    Fault,
    needs_more_memory,
)

from ...results import INFO, SAFE, UNSAFE, WARNING
from .codes import TRAINING_SETTINGS
from .found import Edit, Found, Wanted
from .yaml_mappings import mappings

# Keys of a framework: two of them in one mapping tell whose it is, unless all of them are words of many.
_OF_MANY = frozenset({"devices", "strategy", "precision", "deterministic", "dtype"})
_TRANSFORMERS = frozenset(
    "output_dir per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps num_train_epochs "
    "learning_rate lr_scheduler_type warmup_ratio warmup_steps weight_decay max_grad_norm logging_steps save_steps "
    "save_strategy save_total_limit eval_steps eval_strategy evaluation_strategy report_to push_to_hub hub_model_id "
    "model_name_or_path torch_dtype dtype dataloader_num_workers".split()
)
_LIGHTNING = frozenset(
    "accelerator devices strategy precision num_nodes max_epochs min_epochs max_steps min_steps fast_dev_run "
    "limit_train_batches limit_val_batches val_check_interval check_val_every_n_epoch num_sanity_val_steps "
    "log_every_n_steps accumulate_grad_batches gradient_clip_val gradient_clip_algorithm enable_checkpointing "
    "enable_progress_bar sync_batchnorm default_root_dir deterministic".split()
)
_ACCELERATE = frozenset(
    "compute_environment num_processes num_machines machine_rank main_training_function rdzv_backend".split()
)
_TRAINER_CLASS = re.compile(r"(?:pytorch_)?lightning(?:_fabric)?\.(?:.*\.)?(?:Trainer|Fabric)")
_DISTRIBUTED_TYPES = {
    "MULTI_GPU": f"this starts processes for GPUs: {ONE_PER_DEVICE}",
    "FSDP": SHARDED_BY_NAME,
    "MEGATRON_LM": MEGATRON,
}
# Where none of these keys stands, a file is not parsed.
_KEYS = re.compile(
    r"\b(?:{})[\"']?[ \t]*:".format(
        "|".join(
            [*OF_FIELDS, *OF_LOADING, *OF_TRAINER, "mixed_precision", "distributed_type", "fused"]
        )
    )
)


class Entry(NamedTuple):
    """One `key: value`; `value` is None, a bool, a number, a text, or a dictionary of such."""

    key: yaml.Node
    node: yaml.Node
    value: object

    def found(self, message: str, text: str = "", **more: str) -> Found:
        """A finding at the value, for which `text` is the right one, if any."""
        start, end = self.node.start_mark.index, self.node.end_mark.index
        edits = (Edit(start, end, text),) if text else ()
        return Found(TRAINING_SETTINGS, start, end, message, edits, **more)


Entries = dict[str, Entry]
Reader = Callable[[Entries], Iterator[Found]]


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a file of settings."""
    for entries in _mappings(text):
        reader = _reader(entries)
        if reader is not None:
            yield from reader(entries)
        if reader is not _accelerate:
            yield from _of_an_accelerator(entries)


def _mappings(text: str) -> Iterator[Entries]:
    """Yield all mappings of the file, at any depth; none if it is not YAML, as a template may not be."""
    if not _KEYS.search(text):
        return
    for node, _ in mappings(text):
        yield {key.value: Entry(key, value, _value(value)) for key, value in _named(node)}


def _named(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _value(node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):  # one level: an alias may stand for what it lies in
        return {key.value: _scalar(value) for key, value in _named(node)}
    return _scalar(node)


def _scalar(node: yaml.Node) -> object:
    kind = node.tag.rpartition(":")[2]
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    if kind == "int" and node.value.isdigit():
        return int(node.value)
    return None if kind == "null" else node.value


def _reader(entries: Entries) -> Reader | None:
    if "distributed_type" in entries and len(_ACCELERATE & entries.keys()) > 1:
        return _accelerate
    named = entries.get("_target_") or entries.get("class_path")
    if named is not None and _TRAINER_CLASS.fullmatch(str(named.value)):
        return _lightning
    for keys, reader in ((_LIGHTNING, _lightning), (_TRANSFORMERS, _transformers)):
        if len(found := keys & entries.keys()) > 1 and found - _OF_MANY:
            return reader
    return None


def _accelerate(entries: Entries) -> Iterator[Found]:
    kind, half = entries["distributed_type"], entries.get("mixed_precision")
    if kind.value == "DEEPSPEED":
        yield kind.found(_without_deepspeed(entries.get("deepspeed_config")), effort="medium")
    if kind.value in _DISTRIBUTED_TYPES:
        yield kind.found(_DISTRIBUTED_TYPES[str(kind.value)], effort="medium")
    if half is not None and half.value == "fp16":
        yield half.found(HALF, "bf16", severity=WARNING)


def _of_an_accelerator(entries: Entries) -> Iterator[Found]:
    """`mixed_precision: fp16` in a program's own settings, which it may hand to an Accelerator."""
    half = entries.get("mixed_precision")
    if half is not None and half.value == "fp16":
        yield half.found(HALF, severity=INFO)


def _without_deepspeed(given: Entry | None) -> str:
    options = given.value if given is not None and isinstance(given.value, dict) else {}
    table = of_accelerate({name: _number(value) for name, value in options.items()})
    other = options.get("deepspeed_config_file")
    known = [Configuration(table)] if table and not other else []
    message = instead(as_accelerator, known)
    return f"{message} (its configuration is `{other}`)" if other else message


def _number(value: object) -> object:
    """YAML's `1.0`, which `_scalar` leaves a text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _lightning(entries: Entries) -> Iterator[Found]:
    for name, entry, message in _faults(entries, OF_TRAINER):
        if name == "strategy" and is_taken_strategy(entry.value):
            continue  # `xla.patch_lightning()` trains as DDP does
        if name == "accelerator":
            yield entry.found(message, "auto")
        elif name == "devices":
            accelerator = entries.get("accelerator")
            if accelerator is None or accelerator.value not in UNPATCHED:
                yield entry.found(message, severity=INFO)
        elif name == "precision" and entry.value != "16-true":
            yield entry.found(message, "bf16-mixed")
        else:
            yield entry.found(message, effort="medium")
    strategy = entries.get("strategy")
    if strategy is not None and isinstance(strategy.value, dict):
        made = strategy.value.get("_target_") or strategy.value.get("class_path") or ""
        name = str(made).rpartition(".")[2]
        message = fault_of_strategy_class(name)
        if message and name not in TAKEN_CLASSES:
            yield strategy.found(message, effort="medium")


def _transformers(entries: Entries) -> Iterator[Found]:
    for name, entry, message in _faults(entries, {**OF_FIELDS, **OF_LOADING}):
        if name == "optim" and entry.value in OPTIMIZERS:
            optimizer = OPTIMIZERS[str(entry.value)]
            yield entry.found(
                message, optimizer, safety=UNSAFE if needs_more_memory(str(entry.value)) else SAFE
            )
        elif name.startswith("fp16"):
            yield _as_bfloat16(entry, entries.get(name.replace("fp16", "bf16")), message)
        else:
            yield entry.found(message, effort="medium")


def _as_bfloat16(half: Entry, other: Entry | None, message: str) -> Found:
    """`fp16: true` becomes `bf16: true`; if the file has both, one is set and the other is unset."""
    found = half.found(message, "false")
    if other is None:
        start = half.key.start_mark.index
        renamed = Edit(start, half.key.end_mark.index, str(half.key.value).replace("fp16", "bf16"))
        return found._replace(edits=(renamed,))
    start, end = other.node.start_mark.index, other.node.end_mark.index
    return found._replace(edits=(*found.edits, Edit(start, end, "true")))


def _faults(entries: Entries, faults: dict[str, Fault]) -> Iterator[tuple[str, Entry, str]]:
    for name, fault in faults.items():
        entry = entries.get(name)
        if entry is not None and (message := fault(entry.value)):
            yield name, entry, message
