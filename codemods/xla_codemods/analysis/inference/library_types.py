"""The values that libraries' functions and classes return, by dotted name."""

from __future__ import annotations

from .values import (
    ACCEL,
    ACCELERATOR,
    ARGUMENTS,
    ARRAY,
    AUTOCAST,
    DATASET,
    DEVICE,
    DEVICE_LOADER,
    DOUBLE,
    DTYPE,
    EVENT,
    GENERATOR,
    GRAPH,
    HOST,
    INSTANCE,
    LOADER,
    MODULE,
    NUMBER,
    OPTIMIZER,
    SAMPLER,
    SCALER,
    SCHEDULER,
    SETTINGS,
    STATE_DICT,
    STREAM,
    STRING,
    TENSOR,
    UNKNOWN,
    Value,
    of,
)

# The module that migrated scripts import.
RUNTIME = "xla_migrate.runtime"
# What a copy of it is called beside scripts that do without `xla_migrate` (`--style native`).
VENDORED = "xla_runtime"

# Functions that run the module that is their first argument with other parameters.
FUNCTIONAL_CALLS = frozenset(
    f"torch.{name}" for name in ("func.functional_call", "nn.utils.stateless.functional_call")
)
# Functions that rearrange the elements of a tensor, or of an array.
REARRANGING = frozenset({"einops.rearrange", "einops.reduce", "einops.repeat"})
# Libraries whose values are none of torch's, whatever their methods are called.
FOREIGN = frozenset(
    "PIL catboost chainer cupy cv2 haiku jax jaxlib lightgbm megengine mindspore mlx mxnet numba oneflow onnxruntime"
    " optax paddle pandas polars pycuda sklearn spacy taichi tensorflow tensorrt tinygrad xgboost".split()
)

_OF_OTHERS = of(INSTANCE)  # what they return

# What reads settings from files.
_SETTINGS = frozenset(
    "yaml.load yaml.safe_load yaml.full_load yaml.unsafe_load json.load json.loads toml.load toml.loads tomli.load"
    " tomli.loads tomllib.load tomllib.loads omegaconf.OmegaConf.load omegaconf.OmegaConf.from_cli"
    " omegaconf.OmegaConf.from_dotlist omegaconf.OmegaConf.merge hydra.compose hydra.experimental.compose".split()
)
# What hands settings on in another form.
SETTINGS_OF = frozenset(
    "easydict.EasyDict box.Box addict.Dict munch.munchify munch.Munch munch.Munch.fromDict"
    " types.SimpleNamespace argparse.Namespace omegaconf.OmegaConf.create omegaconf.OmegaConf.to_container"
    " omegaconf.DictConfig ml_collections.ConfigDict".split()
)

_RESULTS: dict[str, Value] = {
    # devices
    "torch.cuda.current_device": of(DEVICE, ACCEL),
    "torch.accelerator.current_accelerator": of(DEVICE, ACCEL),
    "torch.accelerator.current_device_index": of(DEVICE, ACCEL),
    "torch_xla.device": of(DEVICE, ACCEL),
    "torch_xla.core.xla_model.xla_device": of(DEVICE, ACCEL),
    f"{RUNTIME}.xla_device": of(DEVICE, ACCEL),
    f"{RUNTIME}.device_type": of(DEVICE, ACCEL, STRING),
    # loaders, samplers
    "torch.utils.data.DataLoader": of(LOADER),
    "torch.utils.data.dataloader.DataLoader": of(LOADER),
    "torchdata.stateful_dataloader.StatefulDataLoader": of(LOADER),
    "torch_geometric.loader.DataLoader": of(LOADER),
    "torch_geometric.data.DataLoader": of(LOADER),
    "timm.data.create_loader": of(LOADER),
    "torchtext.data.BucketIterator": of(LOADER),
    "torch_xla.distributed.parallel_loader.MpDeviceLoader": of(DEVICE_LOADER),
    f"{RUNTIME}.MpDeviceLoader": of(DEVICE_LOADER),
    "torch.utils.data.random_split": Value(element=of(DATASET)),
    # mixed precision
    "torch.cuda.amp.GradScaler": of(SCALER),
    "torch.cuda.amp.grad_scaler.GradScaler": of(SCALER),
    "torch.GradScaler": of(SCALER),
    "torch.amp.GradScaler": of(SCALER),
    "torch.amp.grad_scaler.GradScaler": of(SCALER),
    "torch.cpu.amp.GradScaler": of(SCALER),
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": of(SCALER),
    "fairscale.optim.grad_scaler.GradScaler": of(SCALER),
    "fairscale.optim.grad_scaler.ShardedGradScaler": of(SCALER),
    "torch.cuda.amp.autocast": of(AUTOCAST),
    "torch.cuda.amp.autocast_mode.autocast": of(AUTOCAST),
    "torch.amp.autocast": of(AUTOCAST),
    "torch.amp.autocast_mode.autocast": of(AUTOCAST),
    "torch.autocast": of(AUTOCAST),
    f"{RUNTIME}.autocast": of(AUTOCAST),
    # optimizers beyond torch.optim
    "torch.distributed.optim.ZeroRedundancyOptimizer": of(OPTIMIZER),
    "torch.distributed.optim.DistributedOptimizer": of(INSTANCE),  # of remote parameters
    f"{RUNTIME}.LBFGS": of(OPTIMIZER),
    "transformers.AdamW": of(OPTIMIZER),
    "transformers.Adafactor": of(OPTIMIZER),
    "transformers.optimization.AdamW": of(OPTIMIZER),
    "transformers.optimization.Adafactor": of(OPTIMIZER),
    "timm.optim.create_optimizer": of(OPTIMIZER),
    "timm.optim.create_optimizer_v2": of(OPTIMIZER),
    "timm.optim.optim_factory.create_optimizer": of(OPTIMIZER),
    "deepspeed.ops.adam.FusedAdam": of(OPTIMIZER),
    "deepspeed.ops.adam.DeepSpeedCPUAdam": of(OPTIMIZER),
    "deepspeed.ops.lamb.FusedLamb": of(OPTIMIZER),
    "deepspeed.ops.lion.FusedLion": of(OPTIMIZER),
    "apex.contrib.clip_grad.clip_grad_norm_": of(TENSOR, ACCEL),
    # schedulers
    "transformers.get_scheduler": of(SCHEDULER),
    "transformers.optimization.get_scheduler": of(SCHEDULER),
    "timm.scheduler.create_scheduler": Value(items=(of(SCHEDULER), of(NUMBER))),
    "timm.scheduler.create_scheduler_v2": Value(items=(of(SCHEDULER), of(NUMBER))),
    # modules
    "timm.create_model": of(MODULE),
    "timm.models.create_model": of(MODULE),
    "torch.compile": of(MODULE),
    f"{RUNTIME}.compile": of(MODULE),
    "torch.hub.load": of(MODULE),
    "torch.optim.swa_utils.AveragedModel": of(MODULE),
    "torch.optim.swa_utils.SWALR": of(SCHEDULER),
    # services
    "torch.cuda.Stream": of(STREAM),
    "torch.cuda.ExternalStream": of(STREAM),
    "torch.cuda.current_stream": of(STREAM),
    "torch.cuda.default_stream": of(STREAM),
    "torch.cuda.streams.Stream": of(STREAM),
    "torch.accelerator.current_stream": of(STREAM),
    "torch.Stream": of(STREAM),
    "torch.cuda.Event": of(EVENT),
    "torch.Event": of(EVENT),
    f"{RUNTIME}.Event": of(EVENT),
    "torch.cuda.CUDAGraph": of(GRAPH),
    "torch.Generator": of(GENERATOR),
    "accelerate.Accelerator": of(ACCELERATOR),
    "accelerate.accelerator.Accelerator": of(ACCELERATOR),
    # tensors
    "torch.nn.Parameter": of(TENSOR),
    "torch.nn.parameter.Parameter": of(TENSOR),
    "torch.nn.utils.clip_grad_norm_": of(TENSOR, ACCEL),
    "torch.nn.utils.clip_grad.clip_grad_norm_": of(TENSOR, ACCEL),
    "torch.nn.utils.rnn.pad_sequence": of(TENSOR),
    "torch.from_numpy": of(TENSOR, HOST),
    "torch_xla.core.xla_model._maybe_convert_to_cpu": of(TENSOR, HOST),
    "torch.cuda.is_available": of(NUMBER),
    # numbers and strings
    "len": of(NUMBER),
    "float": of(NUMBER),
    "int": of(NUMBER),
    "bool": of(NUMBER),
    "round": of(NUMBER),
    "range": Value(element=of(NUMBER)),
    "str": of(STRING),
}

# Names below a prefix: a capitalised last part is a class, and makes ...
_CLASSES = (
    ("torch.optim.lr_scheduler.", of(SCHEDULER)),
    ("torch.optim.", of(OPTIMIZER)),
    ("torch_optimizer.", of(OPTIMIZER)),
    ("pytorch_optimizer.", of(OPTIMIZER)),
    ("apex.optimizers.", of(OPTIMIZER)),
    ("apex.contrib.optimizers.", of(OPTIMIZER)),
    ("bitsandbytes.optim.", of(OPTIMIZER)),
    ("torch_xla.amp.syncfree.", of(OPTIMIZER)),
    ("timm.optim.", of(OPTIMIZER)),
    ("timm.scheduler.", of(SCHEDULER)),
    ("torch.nn.", of(MODULE)),
    ("apex.normalization.", of(MODULE)),
    ("apex.parallel.", of(MODULE)),
    ("timm.loss.", of(MODULE)),
    ("torchmetrics.", of(MODULE)),
    ("segmentation_models_pytorch.", of(MODULE)),
    ("torchvision.datasets.", of(DATASET)),
    ("torch.cuda.", Value(frozenset({TENSOR, ACCEL}))),  # FloatTensor and its like
)

_DTYPES = frozenset(
    (
        "float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 "
        "long uint8 bool"
    ).split()
)

# Functions of the runtime that return a tensor.
_OF_RUNTIME = frozenset(
    "masked_count masked_loss masked_mean masked_share masked_sum narrow".split()
)

# torch functions that return a data type.
_GIVE_DTYPES = frozenset(
    f"torch.{name}"
    for name in "get_default_dtype get_autocast_dtype get_autocast_gpu_dtype promote_types result_type".split()
)

# torch functions that return something else than a tensor.
_NOT_TENSORS = frozenset(
    (
        "numel typename initial_seed seed manual_seed no_grad enable_grad inference_mode save load compile "
        "allclose equal finfo iinfo Size use_deterministic_algorithms"
    ).split()
)
# `torch.is_autocast_enabled`, `torch.get_num_threads`.
_OF_SETTINGS = ("is_", "are_", "can_", "get_", "has_", "set_")

# torch functions that make a tensor out of nothing: on the host unless `device=` says otherwise.
FACTORIES = frozenset(
    (
        "arange as_tensor empty empty_strided eye full linspace logspace normal ones rand "
        "randint randn randperm tensor tril_indices triu_indices zeros hann_window "
        "hamming_window asarray scalar_tensor bartlett_window blackman_window kaiser_window "
        "complex"
    ).split()
)

# Old constructors: `torch.FloatTensor(...)`.
HOST_TENSORS = frozenset(
    f"torch.{kind}Tensor"
    for kind in (
        "Float",
        "Double",
        "Half",
        "BFloat16",
        "Byte",
        "Char",
        "Short",
        "Int",
        "Long",
        "Bool",
        "",
    )
)


def is_foreign(dotted: str) -> bool:
    """True if `dotted` is of a library that has nothing of torch's in its values."""
    return dotted.partition(".")[0] in FOREIGN


def is_of_others(value: Value) -> bool:
    """True if `value` came out of such a library, by its functions or the methods of what they gave."""
    return value == _OF_OTHERS


def result(dotted: str) -> Value:
    """What calling `dotted` returns, as far as its name tells; tensor functions are `infer`'s affair."""
    found = _RESULTS.get(dotted)
    if found is not None:
        return found
    if dotted in _GIVE_DTYPES:
        return of(DTYPE)
    last = dotted.rpartition(".")[2]
    if last[:1].isupper() and not is_foreign(dotted):
        return _instance(dotted, last)
    if dotted.startswith(("torchvision.models.", "timm.models.")):
        return of(MODULE)
    if dotted.startswith("transformers."):
        return _transformers(dotted, last)
    if last in {"parse_args", "parse_known_args"}:
        return of(ARGUMENTS)
    if dotted in _SETTINGS:
        return of(ARGUMENTS, SETTINGS)
    if dotted.startswith("numpy."):
        return of(ARRAY)
    return _OF_OTHERS if is_foreign(dotted) else UNKNOWN


def _instance(dotted: str, last: str) -> Value:
    for prefix, value in _CLASSES:
        if dotted.startswith(prefix):
            if prefix == "torch.cuda." and not last.endswith("Tensor"):
                return UNKNOWN
            return value
    if dotted.startswith("torch.utils.data.") or dotted.startswith("torch_geometric."):
        if last.endswith("Sampler"):
            return of(SAMPLER)
        if last.endswith("Dataset") or last in {"Subset"}:
            return of(DATASET)
        if last.endswith("Loader"):
            return of(LOADER)
    if dotted.startswith("transformers."):
        return _transformers(dotted, last)
    if dotted in HOST_TENSORS:
        return of(TENSOR, HOST, DOUBLE) if last == "DoubleTensor" else of(TENSOR, HOST)
    if last.endswith("Sampler"):
        return of(SAMPLER)
    return UNKNOWN


def _transformers(dotted: str, last: str) -> Value:
    """Model classes are made by name, `from_pretrained` or `from_config`."""
    if last.startswith("get_") and "schedule" in last:
        return of(SCHEDULER)
    name = (
        dotted.rsplit(".", 2)[-2]
        if last in {"from_pretrained", "from_config", "_from_config"}
        else last
    )
    if name.endswith(
        ("Config", "Tokenizer", "TokenizerFast", "Processor", "Trainer", "Arguments", "Collator")
    ):
        return UNKNOWN
    if "Model" in name or "For" in name.lstrip("F") or name.startswith("AutoModel"):
        return of(MODULE)
    return UNKNOWN


def attribute(dotted: str) -> Value:
    """What the attribute `dotted` (not called) is."""
    if dotted.startswith("torch.") and dotted[6:] in _DTYPES:
        return of(DTYPE)
    if dotted in {
        "math.pi",
        "math.inf",
        "numpy.inf",
        "numpy.nan",
        "torch.inf",
        "torch.nan",
        "torch.pi",
    }:
        return of(NUMBER)
    return UNKNOWN


def is_tensor_function(dotted: str) -> bool:
    """True if `dotted` is a function of tensors that returns tensors on their device."""
    home, _, last = dotted.rpartition(".")
    if home in {"torch.nn.functional", "torch.special", "torch.linalg", "torch.fft"}:
        return True
    if home in {"torchvision.ops", "torchvision.ops.boxes"}:
        return not last[:1].isupper()
    if home == RUNTIME and last in _OF_RUNTIME:
        return True
    if home != "torch" or dotted in _GIVE_DTYPES:
        return False
    is_setting = last.startswith(_OF_SETTINGS)
    return not is_setting and last not in _NOT_TENSORS and not last[:1].isupper()


# Methods that only tensors have, and that give tensors.
TENSORS_ALONE = frozenset(
    "argsort_ clamp_ contiguous detach detach_ expand_as index_add_ index_copy_ index_fill_ index_select log_softmax "
    "masked_fill masked_fill_ masked_select narrow new_ones new_tensor new_zeros permute requires_grad_ scatter_ "
    "scatter_add_ type_as unsqueeze unsqueeze_ view_as".split()
)

# Methods of tensors and arrays that keep the type of their numbers.
SAME_TYPE = frozenset(
    "clone contiguous copy cpu cuda detach expand flatten permute pin_memory ravel repeat requires_grad_ reshape"
    " squeeze t to transpose unsqueeze view".split()
)
# Methods that leave the tensor world.
NUMBER_METHODS = frozenset(
    {"item", "numel", "nelement", "dim", "ndimension", "size", "stride", "element_size"}
)
HOST_METHODS = frozenset({"cpu", "pin_memory"})  # whose tensor is on the host
ARRAY_METHODS = frozenset({"numpy", "tolist"})  # whose result is no tensor, and on the host
# Methods whose result is saved in checkpoints.
CHECKPOINTS = {"state_dict": of(STATE_DICT)}
