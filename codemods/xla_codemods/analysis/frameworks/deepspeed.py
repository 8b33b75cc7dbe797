"""The demands of a DeepSpeed configuration: of a dictionary in a script, and of a file.

A configuration is a dictionary, with `...` for unknown values. The runtime's engine
(`xla_migrate.runtime.compat.deepspeed`) takes `TAKEN`, and makes `OPTIMIZERS` and `SCHEDULES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# One of these stands in nearly every configuration, and hardly anywhere else.
MARKS = frozenset({"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"})
# The parts of a configuration that the runtime's engine hears, or that change nothing on XLA.
TAKEN = frozenset(
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping optimizer scheduler "
    "fp16 bf16 bfloat16 zero_optimization steps_per_print wall_clock_breakdown dump_state memory_breakdown "
    "prescale_gradients gradient_predivide_factor communication_data_type seq_parallel_communication_data_type "
    "seq_parallel_comm_data_type vocabulary_size log_level disable_python_gc "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer activation_checkpointing aio data_types checkpoint "
    "comms_logger disable_allgather fp32_allreduce graph_harvesting timers dataloader_drop_last "
    "load_universal_checkpoint".split()
)
# In small letters.
OPTIMIZERS = frozenset(
    "adam adamw sgd adagrad adadelta adamax asgd nadam radam rmsprop rprop lion lamb".split()
)
# DeepSpeed's schedules, and torch's schedules that are made from an optimizer and numbers.
SCHEDULES = frozenset(
    "WarmupLR WarmupDecayLR WarmupCosineLR OneCycle LRRangeTest StepLR MultiStepLR ConstantLR LinearLR ExponentialLR "
    "PolynomialLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR OneCycleLR".split()
)

_MONITOR = "the engine for XLA writes no logs: delete this entry, and log in the training loop"
_FILES = (
    "the engine for XLA writes checkpoints itself, before the script continues: remove the setting"
)
_LENGTHS = "XLA compiles once for each length of sequence: remove the setting, and choose samples in the dataset"
_WITHOUT = {
    "amp": "apex's mixed precision fails without CUDA: use `bf16`",
    "autotuning": "DeepSpeed tries settings on GPUs only: remove the setting, and use `xla-migrate tune`",
    "comet": _MONITOR,
    "compile": "DeepSpeed compiles for GPUs, and XLA compiles without it: remove the setting",
    "compression_training": "DeepSpeed's compression uses layers for CUDA: remove the setting, and quantise after the training",
    "csv_monitor": _MONITOR,
    "curriculum_learning": _LENGTHS,
    "data_efficiency": _LENGTHS,
    "datastates": _FILES,
    "eigenvalue": "XLA has no engine that computes eigenvalues between steps: remove the setting",
    "elasticity": "XLA has no engine that chooses batch sizes by the number of GPUs: remove the setting, and set the batch sizes",
    "expert_parallel": "XLA has no engine that spreads experts over devices: remove the setting",
    "flops_profiler": "DeepSpeed's profiler counts on CUDA only: remove the setting, and use `xla-migrate profile`",
    "gradient_allreduce_op": "the engine for XLA averages gradients over the devices: remove the setting, and multiply the loss "
    "by their number",
    "hybrid_engine": "DeepSpeed's inference kernels fail without CUDA: remove the setting, and generate with the model",
    "managed_gradient_accumulation": "the engine for XLA counts batches itself: remove the setting, and mark the updates with "
    "`engine.set_gradient_accumulation_boundary`",
    "nebula": _FILES,
    "progressive_layer_drop": "XLA compiles once for each choice of layers: remove the setting",
    "quantize_training": "DeepSpeed's quantised training needs CUDA kernels: remove the setting, and train in `bf16`",
    "sparse_attention": "DeepSpeed's sparse attention needs CUDA kernels: remove the setting, and pass the mask to `scaled_dot_product_attention`",
    "sparse_gradients": "sparse gradients fail on XLA: remove the setting, so that gradients are dense",
    "tensor_parallel": "DeepSpeed splits layers over NCCL: remove the setting, and shard by SPMD (`--parallel spmd`)",
    "tensorboard": _MONITOR,
    "torch_autocast": "the engine for XLA has no autocast: remove the setting, and switch `bf16` on",
    "wandb": _MONITOR,
}
# DeepSpeed's defaults: for some options only the other value has an effect.
DEFAULTS: dict[str, object] = {
    "gradient_allreduce_op": "mean",
    "managed_gradient_accumulation": True,
}
_ONE_BIT = {"onebitadam": "Adam", "zerooneadam": "Adam", "onebitlamb": "AdamW"}
# What of ZeRO rounds what it sends.
_ROUNDED = frozenset(
    {
        "zero_quantized_weights",
        "zero_quantized_nontrainable_weights",
        "zero_quantized_gradients",
        "zeropp_loco_param",
    }
)


class Demand(NamedTuple):
    """One demand of a configuration: its location (`keys`, from outside in), and the message about it.

    `is_refused` where the runtime's engine ends with an error; else it trains, and this is good to know.
    """

    keys: tuple[str, ...]
    message: str
    is_refused: bool = True


def is_configuration(table: object) -> bool:
    """True for a dictionary that has keys of a configuration."""
    return isinstance(table, Mapping) and not MARKS.isdisjoint(table)


def asked(table: Mapping[str, Any]) -> Iterator[Demand]:
    """Yield the parts of a configuration that have no counterpart on XLA."""
    for name, value in table.items():
        if name not in TAKEN and not _is_off(name, value):
            unknown = f"the engine for XLA has no `{name}`: remove the setting"
            yield Demand((name,), _WITHOUT.get(name, unknown))
    yield from _optimizer(table.get("optimizer"))
    yield from _scheduler(table.get("scheduler"))
    yield from _zero(table.get("zero_optimization"))


def _is_off(name: str, value: object) -> bool:
    """Return True if `name` with this value changes nothing."""
    if name in DEFAULTS:
        return (value.lower() if isinstance(value, str) else value) == DEFAULTS[name]
    if isinstance(value, Mapping):
        switches = [value[key] for key in ("enabled", "deepcompile") if key in value]
        return bool(switches) and not any(one is ... or one for one in switches)
    return value is not ... and not value


def _kind(entry: object) -> str:
    kind = entry.get("type") if isinstance(entry, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _optimizer(entry: object) -> Iterator[Demand]:
    kind, keys = _kind(entry), ("optimizer", "type")
    if kind.lower() in _ONE_BIT:
        message = f"`{kind}` compresses what NCCL sends, and XLA averages whole gradients: use `{_ONE_BIT[kind.lower()]}`"
        yield Demand(keys, message)
    elif kind and kind.lower() not in OPTIMIZERS:
        message = (
            f"the engine for XLA has no optimizer `{kind}`: create one, and pass it as `optimizer=`"
        )
        yield Demand(keys, message)
    params = entry.get("params") if isinstance(entry, Mapping) else None
    if isinstance(params, Mapping) and params.get("bias_correction") is False:
        message = "PyTorch's optimizers cannot switch off bias correction: remove the setting"
        yield Demand(("optimizer", "params", "bias_correction"), message)


def _scheduler(entry: object) -> Iterator[Demand]:
    kind = _kind(entry)
    if kind and kind not in SCHEDULES:
        message = f"the engine for XLA has no schedule `{kind}`: create a PyTorch scheduler, and pass it as `lr_scheduler=`"
        yield Demand(("scheduler", "type"), message)


def _zero(table: object) -> Iterator[Demand]:
    if not isinstance(table, Mapping):
        return
    for name, value in table.items():
        keys = ("zero_optimization", name)
        if name.startswith(("offload_", "cpu_offload")) and _is_offloaded(value):
            message = "XLA offloads nothing, so all states are in the device's memory: use `--parallel spmd` to shard them"
            yield Demand(keys, message, is_refused=False)
        elif name in _ROUNDED and value:
            message = "the setting has no effect, because XLA sends uncompressed numbers: remove it"
            yield Demand(keys, message, is_refused=False)
        elif name == "zenflow" and value:
            message = "ZenFlow delays updates on the host, and XLA makes each update in its step: remove the setting"
            yield Demand(keys, message, is_refused=False)


def _is_offloaded(value: object) -> bool:
    if isinstance(value, Mapping):
        return value.get("device", "none") not in ("none", None, ...)
    return value is True


# Options of a trainer without DeepSpeed.

# Of an optimizer's parameters, transformers' names.
_PARAMETERS = {
    "lr": "learning_rate={}",
    "betas": "adam_beta1={0[0]}, adam_beta2={0[1]}",
    "eps": "adam_epsilon={}",
    "weight_decay": "weight_decay={}",
}
_KINDS_OF_SCHEDULES = {
    "WarmupLR": "constant_with_warmup",
    "WarmupDecayLR": "linear",
    "WarmupCosineLR": "cosine",
}


def as_training_arguments(table: Mapping[str, Any]) -> list[str]:
    """What the configuration says and transformers' arguments can say: `max_grad_norm=1.0`."""
    options = ["bf16=True"] if _is_half(table) else []
    options += _numbers(table, "train_micro_batch_size_per_gpu", "per_device_train_batch_size={}")
    options += _numbers(table, "gradient_accumulation_steps", "gradient_accumulation_steps={}")
    options += _numbers(table, "gradient_clipping", "max_grad_norm={}")
    params = _params(table.get("optimizer"))
    for name, form in _PARAMETERS.items():
        options += _numbers(params, name, form)
    schedule = _KINDS_OF_SCHEDULES.get(_kind(table.get("scheduler")))
    options += [f'lr_scheduler_type="{schedule}"'] if schedule else []
    return options + _numbers(
        _params(table.get("scheduler")), "warmup_num_steps", "warmup_steps={}"
    )


def as_accelerator(table: Mapping[str, Any]) -> list[str]:
    """What the configuration says and a script with accelerate's Accelerator can say."""
    options = ['Accelerator(mixed_precision="bf16")'] if _is_half(table) else []
    options += _numbers(
        table, "gradient_accumulation_steps", "Accelerator(gradient_accumulation_steps={})"
    )
    options += _numbers(
        table, "gradient_clipping", "accelerator.clip_grad_norm_(model.parameters(), {})"
    )
    for name, whole in (("optimizer", "DummyOptim"), ("scheduler", "DummyScheduler")):
        if kind := _kind(table.get(name)):
            options.append(f"{kind} in place of {whole}")
    return options


def of_accelerate(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate options of accelerate's plugin, or of its configuration file, to a DeepSpeed configuration."""
    kept = ("gradient_accumulation_steps", "gradient_clipping")
    table: dict[str, Any] = {name: options[name] for name in kept if name in options}
    if "zero_stage" in options:
        table["zero_optimization"] = {"stage": options["zero_stage"]}
    return table


def stage(table: Mapping[str, Any]) -> int:
    """Return ZeRO's stage; 0 if it is unknown."""
    zero = table.get("zero_optimization")
    value = zero.get("stage") if isinstance(zero, Mapping) else None
    return value if isinstance(value, int) else 0


def _is_half(table: Mapping[str, Any]) -> bool:
    return any(
        isinstance(entry := table.get(name), Mapping) and entry.get("enabled") is True
        for name in ("fp16", "bf16", "bfloat16")
    )


def _params(entry: object) -> Mapping[str, Any]:
    params = entry.get("params") if isinstance(entry, Mapping) else None
    return params if isinstance(params, Mapping) else {}


def _numbers(table: Mapping[str, Any], name: str, form: str) -> list[str]:
    """`form` with the number, or the list of them, that `name` is; nothing for "auto"."""
    value = table.get(name)
    values = value if isinstance(value, (list, tuple)) else [value]
    if "{0[" in form and len(values) != 2:
        return []
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        return []
    return [form.format(value)]
