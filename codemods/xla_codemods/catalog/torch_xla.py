"""Names that releases of torch_xla had and 2.9, the last one, does not: what does now what they did.

Made by tests/codemods/catalog/torch_xla_names.py from the sources of 1.6 to 2.8, without what no training script names (the
insides of the compiler bridge, tests); tests/codemods/catalog/test_torch_xla.py asks the installed torch_xla for each.
"""

from __future__ import annotations

_XM = "torch_xla.core.xla_model"
_XR = "torch_xla.runtime"
_XS = "torch_xla.distributed.spmd"
_SCALER = "bfloat16 needs no loss scaling: remove it, or use `torch.amp.GradScaler`, which reads the device in every step"
_PJRT = "PJRT is all there is: remove the question"
_XRT = "run the same command on every host, or start the processes with torchrun"
_FILES = "read the files with a library for them: gcsfs, tfrecord"
_CUDA = "torch_xla has no CUDA backend any more: run the script on CUDA through `xla_migrate.runtime`, without torch_xla"

# Name -> (the first release without it, what to use). A module stands for all that is in it.
REMOVED: dict[str, tuple[str, str]] = {
    f"{_XM}.get_ordinal": ("2.7", f"use `{_XR}.global_ordinal()`"),
    f"{_XM}.xrt_world_size": ("2.7", f"use `{_XR}.world_size()`"),
    f"{_XM}.parse_xla_device": ("2.7", "use `torch.device(...).type` and `.index`"),
    f"{_XR}.xla_device": ("2.8", "use `torch_xla.device()`"),
    f"{_XR}.using_pjrt": ("2.5", _PJRT),
    f"{_XR}.requires_pjrt": ("2.5", _PJRT),
    "torch_xla.amp.GradScaler": ("2.9", _SCALER),
    "torch_xla.amp.grad_scaler": ("2.9", _SCALER),
    "torch_xla.amp.custom_bwd": ("2.1", 'use `torch.amp.custom_bwd(device_type="xla")`'),
    "torch_xla.amp.custom_fwd": ("2.1", 'use `torch.amp.custom_fwd(device_type="xla")`'),
    "torch_xla.core.functions.nms": ("2.4", "use `torchvision.ops.nms`"),
    "torch_xla.core.xla_builder.XlaComputation": (
        "2.8",
        "use `torch_xla.core.xla_builder.computation_from_module_proto`",
    ),
    "torch_xla.core.xla_builder.jax_func_to_xla_computation": (
        "2.8",
        "use `torch_xla.core.xla_builder.call_jax`",
    ),
    "torch_xla.core.xla_env_vars.GPU_NUM_DEVICES": ("2.9", _CUDA),
    "torch_xla.core.xla_env_vars.PJRT_GPU_ASYNC_CLIENT": ("2.9", _CUDA),
    "torch_xla.core.xla_env_vars.ZERO_COPY_ENABLED": (
        "2.9",
        "remove it: nothing reads the variable",
    ),
    "torch_xla.core.xrt_run_server": ("2.1", _XRT),
    "torch_xla.distributed.cluster": ("2.1", _XRT),
    "torch_xla.distributed.worker": ("2.1", _XRT),
    "torch_xla.distributed.xla_backend.init_xrt_context": ("2.1", _XRT),
    "torch_xla.distributed.xla_dist": ("2.1", _XRT),
    "torch_xla.distributed.xla_multiprocessing.PreForkConfig": ("2.1", _XRT),
    "torch_xla.distributed.xrt_init": ("2.1", _XRT),
    "torch_xla.experimental.compile": ("2.7", "use `torch_xla.compile`"),
    "torch_xla.experimental.eager.compile": ("2.7", "use `torch_xla.compile`"),
    "torch_xla.experimental.dynamo_mark_sharding.dynamo_mark_sharding": (
        "2.5",
        f"use `{_XS}.mark_sharding`",
    ),
    "torch_xla.experimental.dynamo_set_buffer_donor.dynamo_set_buffer_donor_": (
        "2.5",
        "remove it: inputs are donated where they can be",
    ),
    "torch_xla.experimental.gpu": ("2.5", _CUDA),
    "torch_xla.experimental.pjrt": ("2.5", f"use `{_XR}`"),
    "torch_xla.experimental.tpu": ("2.5", f"use `{_XR}`"),
    "torch_xla.experimental.triton": ("2.9", _CUDA),
    "torch_xla.experimental.xla_sharded_tensor": ("2.5", f"use `{_XS}.XLAShardedTensor`"),
    "torch_xla.experimental.xla_sharding": ("2.5", f"use `{_XS}`"),
    "torch_xla.tf_saved_model_integration": ("2.9", "use `torch_xla.stablehlo`"),
    "torch_xla.utils.cached_dataset": ("2.1", "cache the samples in the dataset"),
    "torch_xla.utils.gcsfs": ("2.1", _FILES),
    "torch_xla.utils.tf_record_reader": ("2.1", _FILES),
    "torch_xla.utils.dlpack.from_xla_cuda_to_cuda": (
        "2.9",
        "copy through the host: `tensor.cpu()`",
    ),
}


def removed(dotted: str) -> tuple[str, str, str] | None:
    """The removed name that `dotted` is or lies in, the first release without it, and what to use."""
    name = dotted
    while "." in name:
        if name in REMOVED:
            return (name, *REMOVED[name])
        name = name.rpartition(".")[0]
    return None
