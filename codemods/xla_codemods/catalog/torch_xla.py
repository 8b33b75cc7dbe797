"""Names that releases of torch_xla had and 2.9, the last one, does not: what does now what they did.

Made by tests/codemods/catalog/torch_xla_names.py from the sources of 1.6 to 2.8, without what no training script names (the
insides of the compiler bridge, tests); tests/codemods/catalog/test_torch_xla.py asks the installed torch_xla for each.
"""

from __future__ import annotations

_XM = "torch_xla.core.xla_model"
_XR = "torch_xla.runtime"
_XS = "torch_xla.distributed.spmd"
_SCALER = "bfloat16 needs no loss scaling: remove it, or use `torch.amp.GradScaler`, which reads the device in every step"
_PJRT = "torch_xla 2.9 always uses PJRT: remove the test"
_XRT = "run the same command on every host, or start the processes with torchrun"
_FILES = "read the files with a library for them: gcsfs, tfrecord"
_CUDA = "torch_xla 2.9 has no CUDA backend: run the script on CUDA through `xla_migrate.runtime`, without torch_xla"

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
        "remove it, because nothing reads the variable",
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
        "remove it, because inputs are donated if possible",
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


# Arguments that releases of torch_xla took and 2.9 does not: function -> argument -> what to do.
_ONE_KIND = "PJRT has devices of one kind: remove it"
REMOVED_ARGUMENTS: dict[str, dict[str, str]] = {
    f"{_XM}.get_xla_supported_devices": {"devkind": _ONE_KIND},
    f"{_XM}.all_reduce": {"cctx": "remove it, because steps no longer depend on it"},
    "torch_xla.distributed.parallel_loader.ParallelLoader": {
        "fixed_batch_size": "pass `drop_last=True` to the DataLoader"
    },
    "torch_xla.distributed.parallel_loader.MpDeviceLoader": {
        "fixed_batch_size": "pass `drop_last=True` to the DataLoader"
    },
    f"{_XS}.mark_sharding": {
        "use_dynamo_custom_op": "use `torch_xla.distributed.spmd.mark_sharding_with_gradients`"
    },
    "torch_xla.compile": {"num_different_graphs_allowed": "use `max_different_graphs`"},
}
# Variables of the environment that nothing in 2.9 reads any more.
REMOVED_VARIABLES: dict[str, str] = {
    **dict.fromkeys(
        (
            "XRT_TPU_CONFIG",
            "XRT_WORKERS",
            "XRT_DEVICE_MAP",
            "XRT_MESH_SERVICE_ADDRESS",
            "XRT_SHARD_WORLD_SIZE",
        ),
        "set PJRT_DEVICE, to TPU, NEURON or CPU",
    ),
    "GPU_NUM_DEVICES": _CUDA,
    "XLA_USE_F16": "run the model under `torch.autocast`, in bfloat16",
    "XLA_DOWNCAST_F16": "run the model under `torch.autocast`, in bfloat16",
}
# What turns float32 into bfloat16 below the script, and on which devices.
_ROUNDED = (
    "makes torch_xla compute float32 in bfloat16, and other devices train in float32: convert the "
    "model "
    "(`model.to(torch.bfloat16)`), or compute under `xla.autocast`"
)
VARIABLES: dict[str, str] = {
    **{
        name: f"has no effect: torch_xla 2.9 does not read it: {what}"
        for name, what in REMOVED_VARIABLES.items()
    },
    "XLA_USE_BF16": _ROUNDED,
    "XLA_DOWNCAST_BF16": _ROUNDED,
}


def unread(name: str, value: str) -> str:
    """Return the message about a variable that other devices, or torch_xla 2.9 itself, do not read; "" if it is off."""
    is_off = VARIABLES.get(name) == _ROUNDED and value.lower() in ("", "0", "false")
    return "" if is_off or name not in VARIABLES else f"`{name}` {VARIABLES[name]}"


def removed(dotted: str) -> tuple[str, str, str] | None:
    """The removed name that `dotted` is or lies in, the first release without it, and what to use."""
    name = dotted
    while "." in name:
        if name in REMOVED:
            return (name, *REMOVED[name])
        name = name.rpartition(".")[0]
    return None


# What the runtime has under torch_xla's own names: on XLA they are torch_xla's objects, elsewhere stand-ins. By namespace, and
# by the modules that have them; a name of several has one meaning in all of them.
_STAND_INS: dict[str, dict[tuple[str, ...], str]] = {
    "spmd": {
        (
            _XS,
            f"{_XS}.xla_sharding",
            "torch_xla.experimental.xla_sharding",
        ): "HybridMesh Mesh ShardingSpec "
        "annotate_custom_sharding apply_backward_optimization_barrier clear_sharding get_1d_mesh get_global_mesh "
        "mark_sharding mark_sharding_with_gradients set_global_mesh",
        (f"{_XS}.xla_sharding",): "apply_xla_patch_to_nn_linear",
        ("torch_xla.distributed.fsdp", "torch_xla.distributed.fsdp.utils"): "checkpoint_module",
        (
            "torch_xla.distributed.fsdp.wrap",
        ): "always_wrap_policy lambda_auto_wrap_policy recursive_wrap "
        "size_based_auto_wrap_policy transformer_auto_wrap_policy",
        (
            "torch_xla.experimental.spmd_fully_sharded_data_parallel",
        ): "SpmdFullyShardedDataParallel",
        (
            _XR,
        ): "addressable_runtime_device_count global_runtime_device_attributes global_runtime_device_count is_spmd "
        "use_spmd",
    },
    "fsdp": {
        (
            "torch_xla.distributed.fsdp",
            "torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel",
        ): "XlaFullyShardedDataParallel",
        (
            "torch_xla.distributed.fsdp",
            "torch_xla.distributed.fsdp.state_dict_utils",
        ): "consolidate_sharded_model_checkpoints consolidate_sharded_state_dicts",
    },
    "distributed_checkpoint": {
        (
            "torch_xla.experimental.distributed_checkpoint",
            "torch_xla.experimental.distributed_checkpoint.manager",
        ): "CheckpointManager",
        (
            "torch_xla.experimental.distributed_checkpoint",
            "torch_xla.experimental.distributed_checkpoint.planners",
        ): "SPMDLoadPlanner SPMDSavePlanner",
        (
            "torch_xla.experimental.distributed_checkpoint",
            "torch_xla.experimental.distributed_checkpoint.util",
        ): "prime_optimizer",
    },
    "profiler": {
        (
            "torch_xla.debug.profiler",
        ): "StepTrace Trace start_server start_trace stop_trace trace trace_detached trace_me",
    },
    "counters": {
        (
            "torch_xla.debug.metrics",
        ): "clear_all clear_counters clear_metrics counter_names counter_value "
        "executed_fallback_ops metric_data metric_names metrics_report short_metrics_report",
    },
    "loops": {
        ("torch_xla.experimental.assume_pure",): "assume_pure",
        ("torch_xla.experimental.gradient_accumulation",): "gradient_accumulation",
        ("torch_xla.experimental.scan",): "scan",
        ("torch_xla.experimental.scan_layers",): "scan_layers",
    },
    "helpers": {
        ("torch_xla", "torch_xla.torch_xla"): "devices real_devices",
        (
            _XM,
        ): "RateTracker do_on_ordinals get_xla_supported_devices optimization_barrier_ send_cpu_data_to_device unlazy "
        "xla_device_hw xla_device_kind xla_real_devices",
        ("torch_xla.distributed.xla_multiprocessing",): "MpModelWrapper MpSerialExecutor",
        (
            "torch_xla.experimental",
            "torch_xla.experimental.eager",
        ): "eager_mode eager_mode_context is_eager_mode",
        (
            _XR,
            "torch_xla.experimental.pjrt",
        ): "device_type host_index initialize_cache is_bf16_supported process_count "
        "process_index set_device_type",
        (
            "torch_xla.test.test_utils",
        ): "close_summary_writer get_summary_writer now print_test_update "
        "print_training_update write_to_summary",
        (
            "torch_xla.utils.utils",
        ): "FnDataGenerator SampleGenerator check_env_flag eprint getenv_as parallel_work",
    },
}

# torch_xla's name -> the runtime's, as `spmd.Mesh`.
STAND_INS: dict[str, str] = {
    f"{home}.{name}": f"{namespace}.{name}"
    for namespace, homes in _STAND_INS.items()
    for of_names, names in homes.items()
    for home in of_names
    for name in names.split()
}
