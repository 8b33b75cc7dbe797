"""Values of the frameworks' arguments that fail on XLA, with reasons: in Python calls, and in settings files."""

from __future__ import annotations

from collections.abc import Callable

from .configurations import instead
from .deepspeed import as_accelerator, as_training_arguments
from .lightning import ACCELERATOR, fault_of_devices, fault_of_strategy_name

# Why XLA fails on a value, None, a number, a text or a dictionary; empty if it takes the value, or that is unknown.
Fault = Callable[[object], str]

# What stands for an optimizer whose states or kernels are CUDA's.
OPTIMIZERS = {
    "adamw_torch_fused": "adamw_torch",
    "adamw_apex_fused": "adamw_torch",
    "adamw_bnb_8bit": "adamw_torch",
    "adamw_8bit": "adamw_torch",
    "adamw_torch_8bit": "adamw_torch",
    "adamw_torch_4bit": "adamw_torch",
    "paged_adamw_32bit": "adamw_torch",
    "paged_adamw_8bit": "adamw_torch",
    "paged_adamw": "adamw_torch",
    "rmsprop_bnb": "rmsprop",
    "rmsprop_bnb_8bit": "rmsprop",
    "rmsprop_bnb_32bit": "rmsprop",
}
# Parts of the names of others that have none.
OTHER_OPTIMIZERS = ("8bit", "4bit", "bnb", "paged", "lion_32bit", "apex", "galore", "apollo")

# The message for float16 whenever a name enables mixed precision.
HALF = "float16 needs a GradScaler, which reads from the device in every step: use bfloat16"
HOST = "`cpu=True` is ignored if torch_xla is installed: set USE_TORCH_XLA=0 to train on the CPU"
_QUANTIZED = "the quantisation needs CUDA kernels and fails on XLA: load in bfloat16"
_MAPS = ("auto", "balanced", "balanced_low_0", "sequential", "cuda", "cuda:0", 0)


def needs_more_memory(optimizer: str) -> bool:
    """True if the states of the one in `OPTIMIZERS` that takes its place are larger."""
    return "bit" in optimizer and "32bit" not in optimizer


def _optimizer(value: object) -> str:
    name = value if isinstance(value, str) else ""
    if name in OPTIMIZERS:
        return f"`{name}` fails without CUDA: use `{OPTIMIZERS[name]}`"
    if any(part in name for part in OTHER_OPTIMIZERS):
        return f"`{name}` fails without CUDA: use an optimizer of PyTorch"
    return ""


def _device_map(value: object) -> str:
    """`"auto"`, and `{"": 0}`."""
    values = list(value.values()) if isinstance(value, dict) else [value]
    if any(one in _MAPS and one is not False for one in values):
        return "`device_map` finds no XLA device: pass one device, `xla.xla_device()`"
    return ""


def _switch(message: str) -> Fault:
    return lambda value: message if value is True else ""


def _set(message: str) -> Fault:
    """What says where settings are, or holds them, and not `""`, None or False."""
    return lambda value: message if value else ""


def _among(values: tuple[object, ...], message: str) -> Fault:
    return lambda value: message if value in values else ""


# Messages about FSDP, whenever it is enabled.
OFFLOAD = "offloading fails on XLA, whose devices hold the shards: delete the option"
HYBRID = 'hybrid strategies fail on XLA, whose devices are one mesh: use "full_shard"'
_FSDP = {"offload": OFFLOAD, "hybrid": HYBRID}


def fault_of_fsdp(value: object) -> str:
    """Return why the runtime does not shard as this strategy, option or setting says; empty if it does, or that is unknown."""
    if isinstance(value, dict):
        options = [f"{key}" for key, one in value.items() if one is True or one in ("true", "True")]
        options += [one for one in value.values() if isinstance(one, str)]
    else:
        options = [value] if isinstance(value, str) else []
    text = " ".join(options).lower()
    return next((message for word, message in _FSDP.items() if word in text), "")


def _attention(value: object) -> str:
    if value in ("flash_attention_2", "flash_attention_3"):
        return 'its kernels need CUDA: use "sdpa"'
    return 'flex_attention fails on XLA: use "sdpa"' if value == "flex_attention" else ""


# Of transformers' TrainingArguments: rewritten in the call for some values only.
OF_ARGUMENTS: dict[str, Fault] = {
    "optim": _optimizer,
    "tf32": _switch("TF32 exists on NVIDIA GPUs only, and the argument fails on XLA: remove it"),
    "torch_compile": _switch("PyTorch's compiler fails on XLA tensors: remove the argument"),
    "use_liger_kernel": _switch("Liger's kernels need Triton and fail on XLA: remove the argument"),
}
# All of them; the others are rewritten in the call, whatever their value.
OF_FIELDS: dict[str, Fault] = {
    **OF_ARGUMENTS,
    "fp16": _switch(HALF),
    "fp16_full_eval": _switch(HALF),
    "gradient_checkpointing": _switch(
        "PyTorch's activation checkpointing fails on XLA: set "
        "`transformers.modeling_utils.checkpoint` to `xla.checkpoint`"
    ),
    "fsdp": fault_of_fsdp,
    "fsdp_config": fault_of_fsdp,
    "deepspeed": _set(instead(as_training_arguments, [])),
    "use_cpu": _switch(HOST),
    "no_cuda": _switch(HOST),
    "ddp_backend": _among(("nccl",), "the backend NCCL fails on XLA: remove it"),
}
# Of `from_pretrained`.
OF_LOADING: dict[str, Fault] = {
    "device_map": _device_map,
    "load_in_8bit": _switch(_QUANTIZED),
    "load_in_4bit": _switch(_QUANTIZED),
    "attn_implementation": _attention,
}
# The same, of types given by their names.
LOADED_HALF = (
    "float16 is slow or overflows on TPUs and Trainium, which are made for bfloat16: use bfloat16"
)
OF_TYPES: dict[str, Fault] = {
    name: _among(("float16",), LOADED_HALF) for name in ("torch_dtype", "dtype")
}
# Of Lightning's Trainer and Fabric.
OF_TRAINER: dict[str, Fault] = {
    "accelerator": _among(("gpu", "cuda"), ACCELERATOR),
    "devices": fault_of_devices,
    "strategy": lambda value: fault_of_strategy_name(value) if isinstance(value, str) else "",
    "precision": _among(
        (16, "16", "16-mixed", "16-true"),
        'float16 needs a GradScaler and fails on XLA: use "bf16-mixed"',
    ),
}


# Of accelerate's, by a name: in its file of settings, and in the environment.
SHARDED_BY_NAME = "accelerate ignores the setting on XLA: pass a `FullyShardedDataParallelPlugin` to the Accelerator in the script"
MEGATRON = (
    "Megatron-LM needs CUDA: shard in your own training loop with `xla.FullyShardedDataParallel`"
)


def _on(message: str) -> Fault:
    """A switch, as accelerate reads it in the environment."""
    return lambda value: (
        message if str(value).lower() in ("1", "true", "t", "yes", "y", "on") else ""
    )


# Environment variables by which accelerate's launcher passes its arguments on.
OF_ENVIRONMENT: dict[str, Fault] = {
    "ACCELERATE_MIXED_PRECISION": lambda value: HALF if str(value).lower() == "fp16" else "",
    "ACCELERATE_USE_FSDP": _on(SHARDED_BY_NAME),
    "ACCELERATE_USE_DEEPSPEED": _on(instead(as_accelerator, [])),
    "ACCELERATE_USE_MEGATRON_LM": _on(MEGATRON),
    "ACCELERATE_USE_CPU": _on(HOST),
    "ACCELERATE_DYNAMO_BACKEND": lambda value: (
        ""
        if str(value).lower() in ("", "no")
        else "PyTorch's compiler fails on XLA, which compiles without it: remove it"
    ),
}
