"""Read a DeepSpeed configuration: entries that the engine honours, ignores or refuses."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Concern how DeepSpeed does it: memory, buckets, logs, files.
_WITHOUT_EFFECT = frozenset(
    "steps_per_print wall_clock_breakdown dump_state memory_breakdown prescale_gradients gradient_predivide_factor "
    "communication_data_type seq_parallel_communication_data_type seq_parallel_comm_data_type vocabulary_size log_level "
    "disable_python_gc zero_allow_untested_optimizer "
    "zero_force_ds_cpu_optimizer activation_checkpointing aio data_types checkpoint comms_logger disable_allgather "
    "fp32_allreduce graph_harvesting timers load_universal_checkpoint".split()
)
_HEARD = frozenset(
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping optimizer scheduler "
    "fp16 bf16 bfloat16 zero_optimization dataloader_drop_last".split()
)
TAKEN = _HEARD | _WITHOUT_EFFECT
# DeepSpeed's defaults. An entry with its default value requests nothing.
DEFAULTS: dict[str, object] = {
    "gradient_allreduce_op": "mean",
    "managed_gradient_accumulation": True,
}
# Of torch, and of `optimizers`; in small letters.
OPTIMIZERS = {
    name.lower(): name
    for name in "Adam AdamW SGD Adagrad Adadelta Adamax ASGD NAdam RAdam RMSprop Rprop Lion Lamb".split()
}
# Parameters of optimizers that choose DeepSpeed's kernel.
_OF_KERNELS = frozenset({"torch_adam", "fp32_optimizer_states", "fused", "set_grad_none"})


@dataclass(frozen=True)
class Config:
    """The settings of the engine.

    Attributes:
        micro_batch: samples of one replica's batch; 0 if it is not given.
        accumulation: batches for one update.
        clipping: the largest norm of all gradients; 0 for any.
        half: compute in bfloat16, with weights in float32 behind it.
        stage: of ZeRO.
        optimizer: `(name, arguments)`, or None.
        scheduler: `(name, arguments)`, or None.
        drop_last: loaders leave out a last batch that is smaller.
    """

    micro_batch: int
    accumulation: int
    clipping: float
    half: bool
    stage: int
    optimizer: tuple[str, dict[str, Any]] | None
    scheduler: tuple[str, dict[str, Any]] | None
    drop_last: bool


def read(given: Any, replicas: int) -> Config:
    """A dictionary, or the path of a JSON file, for so many replicas.

    Raises:
        NotImplementedError: it requests a feature that the engine does not have.
        ValueError: batch sizes do not fit, a value is "auto", or there is no configuration.
    """
    if given is None:
        raise ValueError("DeepSpeed needs a configuration: config=..., or --deepspeed_config FILE")
    table = dict(given) if isinstance(given, Mapping) else _parsed(Path(given).read_text())
    _check(table)
    micro, accumulation = _batches(table, replicas)
    half = any(_enabled(table.get(name)) for name in ("fp16", "bf16", "bfloat16"))
    return Config(
        micro,
        accumulation,
        _clipping(table),
        half,
        int(_zero(table).get("stage", 0)),
        _named(table.get("optimizer")),
        _named(table.get("scheduler")),
        bool(table.get("dataloader_drop_last")),
    )


def _clipping(table: Mapping[str, Any]) -> float:
    if "gradient_clipping" in table:
        return float(table["gradient_clipping"])
    warnings.warn(
        "deepspeed configuration: without `gradient_clipping` gradients are clipped to a norm of "
        f"{_DEFAULT_CLIPPING}, as in DeepSpeed 0.19.3 and later, but not in earlier versions: set "
        "it explicitly, 0 for none",
        stacklevel=4,
    )
    return _DEFAULT_CLIPPING


_DEFAULT_CLIPPING = 1.0


def _parsed(text: str) -> dict[str, Any]:
    """The text of a JSON file, with comments and commas as DeepSpeed takes them."""
    try:
        return dict(json.loads(text))
    except json.JSONDecodeError:
        for pattern in (_COMMENT, _LAST_COMMA):
            text = pattern.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)
        return dict(json.loads(text))


_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|#[^\n]*|//[^\n]*|/\*[\s\S]*?\*/')
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')


def optimizer_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The class in `torch.optim` or `optimizers`, and its arguments, for an optimizer of DeepSpeed's.

    Raises:
        NotImplementedError: there is none of its kind.
    """
    kept = {
        k: tuple(v) if k == "betas" else v for k, v in arguments.items() if k not in _OF_KERNELS
    }
    if name.lower() == "lamb":  # whose arguments are DeepSpeed's
        return "Lamb", kept
    if kept.pop("bias_correction", True) is not True:
        raise NotImplementedError(f"deepspeed's {name} without bias correction: torch has none")
    if name.lower() in ("adam", "adamw"):
        decoupled = kept.pop("adam_w_mode", True) or name.lower() == "adamw"
        return ("AdamW" if decoupled else "Adam"), {"weight_decay": 0.0, **kept}
    if name.lower() not in OPTIMIZERS:
        raise NotImplementedError(
            f"deepspeed's {name} on {_HERE}: create a PyTorch optimizer, and pass it as "
            "optimizer=..."
        )
    return OPTIMIZERS[name.lower()], kept


_HERE = "this device"


def _check(table: Mapping[str, Any]) -> None:
    for name, value in table.items():
        if "auto" in (value, *(value.values() if isinstance(value, dict) else ())):
            raise ValueError(
                f"deepspeed configuration: `{name}` is `auto`, which only Hugging Face's Trainer fills in"
            )
        if name in TAKEN or _is_off(name, value):
            continue
        raise NotImplementedError(
            f"deepspeed configuration: `{name}` is not available on {_HERE}: remove it"
        )
    zero = _zero(table)
    offloaded = [name for name in zero if name.startswith(("offload_", "cpu_offload"))]
    if any(
        (zero[name] or {}) is True or (zero[name] or {}).get("device", "none") != "none"
        for name in offloaded
    ):
        warnings.warn("deepspeed configuration: offloading has no effect here", stacklevel=4)


def _zero(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of ZeRO; `true` means stage 1."""
    said = table.get("zero_optimization") or {}
    return {"stage": 1} if said is True else said


def _enabled(value: Any) -> bool:
    return bool(value.get("enabled", True) if isinstance(value, Mapping) else value)


def _is_off(name: str, value: Any) -> bool:
    """Return True if `name` requests nothing with this value."""
    if name in DEFAULTS:
        return bool((value.lower() if isinstance(value, str) else value) == DEFAULTS[name])
    if name == "compile" and isinstance(value, Mapping):
        return not value.get("deepcompile")
    return not _enabled(value)


def _batches(table: Mapping[str, Any], replicas: int) -> tuple[int, int]:
    """Samples of a replica's batch, and batches for one update, of which DeepSpeed wants to know two of three."""
    whole = table.get("train_batch_size")
    micro = table.get("train_micro_batch_size_per_gpu")
    accumulation = table.get("gradient_accumulation_steps")
    if whole is not None and micro is not None and accumulation is None:
        accumulation = whole // (micro * replicas)
    elif whole is not None and micro is None:
        accumulation = accumulation or 1
        micro = whole // (accumulation * replicas)
    micro, accumulation = micro or 0, accumulation or 1
    if whole is not None and micro * accumulation * replicas != whole:
        raise ValueError(
            f"deepspeed configuration: train_batch_size is {whole}, and not {micro} (per device) * {accumulation} (steps)"
            f" * {replicas} (devices)"
        )
    return micro, accumulation


def _named(entry: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]] | None:
    if not entry:
        return None
    return entry["type"], dict(entry.get("params") or {})
