"""What each rule listens to. Written by docs/generate.py: edit the rule, not this module."""

from __future__ import annotations

from typing import Any

# fmt: off
# Module, arguments of `Rule`, and names by table: `home|other{name}` stands for `home.name other.name`.
LISTENING: tuple[tuple[str, dict[str, Any], str], ...] = (
("by_hand.removed", {'code': 'XLA010', 'name': 'torch-xla-removed', 'words': ('xla', 'xrt_', 'gpu_num_devices')},
"both: torch_xla.amp{GradScaler custom_bwd custom_fwd grad_scaler} torch_xla.core.functions{nms} "
"torch_xla.core.xla_builder{XlaComputation jax_func_to_xla_computation} "
"torch_xla.core.xla_env_vars{GPU_NUM_DEVICES PJRT_GPU_ASYNC_CLIENT ZERO_COPY_ENABLED} "
"torch_xla.core.xla_model{get_ordinal parse_xla_device xrt_world_size} "
"torch_xla.core{xrt_run_server} torch_xla.distributed{cluster worker xla_dist xrt_init} "
"torch_xla.distributed.xla_backend{init_xrt_context} "
"torch_xla.distributed.xla_multiprocessing{PreForkConfig} torch_xla.experimental{compile gpu pjrt "
"tpu triton xla_sharded_tensor xla_sharding} "
"torch_xla.experimental.dynamo_mark_sharding{dynamo_mark_sharding} "
"torch_xla.experimental.dynamo_set_buffer_donor{dynamo_set_buffer_donor_} "
"torch_xla.experimental.eager{compile} torch_xla.runtime{requires_pjrt using_pjrt xla_device} "
"torch_xla{tf_saved_model_integration} torch_xla.utils{cached_dataset gcsfs tf_record_reader} "
"torch_xla.utils.dlpack{from_xla_cuda_to_cuda}; calls: os.environ{setdefault update} os{putenv} "
"torch_xla{compile} torch_xla.core.xla_model{all_reduce get_xla_supported_devices} "
"torch_xla.distributed.parallel_loader{MpDeviceLoader ParallelLoader} "
"torch_xla.distributed.spmd{mark_sharding} torch_xla.distributed.xla_multiprocessing{spawn}; "
"nodes: {Import ImportFrom Subscript}"),
("by_hand.hand_written", {'code': 'XLA011', 'name': 'hand-written-torch-xla', 'severity': 'info', 'words': ('torch_xla',)},
"file_checks: {hand_written}"),
("device.cuda_method", {'code': 'XLA101', 'name': 'cuda-method', 'of_what_runs': True},
"both: torch.Tensor|torch.nn.Module{cuda}; calls: operator{methodcaller}; methods: {cuda}; named: "
"Attribute{cuda} Call{getattr}"),
("device.device_query", {'code': 'XLA102', 'name': 'device-query', 'of_what_runs': True, 'opens': True},
"both: accelerate.utils.imports|accelerate.utils{is_cuda_available} torch._C{_cuda_getDeviceCount}"
" torch.accelerator{device_count is_available} torch.backends.cuda{is_built} "
"torch.cuda{_is_compiled current_device device_count get_device_name is_available is_initialized} "
"transformers|transformers.utils.import_utils|transformers.utils{is_torch_cuda_available}; calls: "
"torch.accelerator{current_device_idx current_device_index} torch.cuda{_lazy_init init "
"is_avaialble is_availble is_avaliable}; references: torch.cuda{_initialized} torch{has_cuda} "
"torch.version{cuda}; named: Call{hasattr}; file_checks: {chosen}"),
("device.set_device", {'code': 'XLA103', 'name': 'set-device', 'of_what_runs': True},
"both: torch.accelerator{set_device_idx set_device_index} torch.cuda{set_device}; calls: "
"torch.accelerator{device_index} torch.cuda{device device_of}"),
("device.device_literal", {'code': 'XLA104', 'name': 'device-literal', 'of_what_runs': True},
"calls: torch{device}; file_checks: {sinks}"),
("device.device_string", {'code': 'XLA105', 'name': 'device-string', 'of_what_runs': True},
"named: keyword{device rl_device sim_device}; nodes: {AugAssign}; file_checks: {device_string}; "
"fallback_checks: {reached}"),
("device.integer_device", {'code': 'XLA106', 'name': 'integer-device', 'of_what_runs': True},
"calls: torch{device}; methods: {to to_empty}; named: keyword{device}; nodes: {Assign}; "
"file_checks: {handed}"),
("device.device_test", {'code': 'XLA107', 'name': 'device-test', 'of_what_runs': True, 'opens': True},
"methods: {startswith}; named: Attribute{is_cuda on_gpu}; nodes: {Compare}; file_checks: {chosen}"),
("device.typed_tensor", {'code': 'XLA108', 'name': 'typed-tensor', 'of_what_runs': True},
"both: torch.cuda{BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor "
"HalfTensor IntTensor LongTensor ShortTensor}; methods: {type}; nodes: {Compare}"),
("device.default_device", {'code': 'XLA109', 'name': 'default-device', 'of_what_runs': True},
"calls: torch{Tensor set_default_device set_default_tensor_type tensortype}"),
("device.accelerator_module", {'code': 'XLA110', 'name': 'accelerator-module'},
"both: torch.accelerator{current_accelerator}"),
("device.given_device", {'code': 'XLA111', 'name': 'given-device', 'severity': 'warning', 'of_what_runs': True},
"calls: torch{device}; methods: {to to_empty}; named: keyword{device}; nodes: {Call Assign}"),
("device.generator", {'code': 'XLA112', 'name': 'generator', 'of_what_runs': True},
"calls: torch{Generator}"),
("device.device_properties", {'code': 'XLA113', 'name': 'device-properties'},
"calls: torch.cuda{clock_rate get_device_capability get_device_properties memory_usage power_draw "
"temperature utilization}"),
("device.several_devices", {'code': 'XLA114', 'name': 'several-devices', 'effort': 'high'},
"file_checks: {several_devices}"),
("device.device_module", {'code': 'XLA115', 'name': 'device-module', 'effort': 'medium'},
"calls: torch{get_device_module}; references: torch{cuda}; named: Call{getattr}"),
("device.tensor_type_name", {'code': 'XLA116', 'name': 'tensor-type-name'},
"references: torch.cuda{BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor "
"HalfTensor IntTensor LongTensor ShortTensor}"),
("device.command_device", {'code': 'XLA117', 'name': 'command-device', 'severity': 'warning', 'words': ('typer', 'fire', 'tyro', 'defopt', 'exec')},
"file_checks: {command_device overridden}"),
("device.device_text", {'code': 'XLA118', 'name': 'device-text'},
"calls: operator{attrgetter}; named: Call{getattr}; fallback_checks: {asked}"),
("device.driver_test", {'code': 'XLA119', 'name': 'driver-test', 'severity': 'warning'},
"calls: os.path{exists isdir isfile} shutil{which}; methods: {exists is_char_device is_dir "
"is_file}"),
("services.synchronize", {'code': 'XLA121', 'name': 'synchronize', 'of_what_runs': True},
"both: torch.accelerator|torch.cuda{synchronize}; methods: {synchronize}"),
("services.event", {'code': 'XLA122', 'name': 'event', 'of_what_runs': True},
"both: torch.cuda|torch.cuda.streams{Event}; calls: torch{Event}"),
("services.stream", {'code': 'XLA123', 'name': 'stream', 'of_what_runs': True, 'words': ('stream',)},
"file_checks: {streams}"),
("services.seed", {'code': 'XLA124', 'name': 'seed', 'severity': 'warning', 'shows_accelerator': False},
"both: torch.cuda|torch.cuda.random{manual_seed manual_seed_all} torch|torch.random{manual_seed}; "
"calls: timm.utils.random|timm.utils{random_seed} torch.cuda|torch.cuda.random{initial_seed seed "
"seed_all} transformers|transformers.trainer_utils{enable_full_determinism set_seed}"),
("services.memory_figures", {'code': 'XLA125', 'name': 'memory-figures'},
"both: "
"torch.accelerator|torch.accelerator.memory|torch.cuda|torch.cuda.memory{max_memory_allocated "
"max_memory_cached max_memory_reserved mem_get_info memory_allocated memory_cached memory_reserved"
" memory_stats memory_summary reset_max_memory_allocated reset_max_memory_cached "
"reset_peak_memory_stats}; calls: torch.cuda.memory{_dump_snapshot _record_memory_history "
"_save_memory_usage _save_segment_usage _snapshot memory_snapshot} torch.cuda{memory_snapshot}"),
("services.empty_cache", {'code': 'XLA126', 'name': 'empty-cache'},
"calls: torch._C{_cuda_clearCublasWorkspaces _cuda_emptyCache _cuda_ipc_collect} "
"torch.accelerator|torch.accelerator.memory|torch.cuda.memory{empty_cache "
"reset_accumulated_memory_stats} torch.backends.cuda.cufft_plan_cache{clear} "
"torch.cuda{empty_cache ipc_collect reset_accumulated_memory_stats set_sync_debug_mode}; "
"references: torch.backends.cuda.cufft_plan_cache{max_size}"),
("services.profiler_ranges", {'code': 'XLA127', 'name': 'profiler-ranges', 'severity': 'warning', 'words': ('_time_total', '_memory_usage')},
"calls: nvtx{annotate mark pop_range push_range} torch.autograd.profiler{emit_nvtx} "
"torch.cuda.nvtx{mark range range_end range_pop range_push range_start} torch.cuda.profiler{cudart"
" init profile start stop}; references: torch.profiler.ProfilerActivity{CUDA}; methods: "
"{cudaProfilerStart cudaProfilerStop format}; nodes: {JoinedStr BinOp}"),
("services.cudnn", {'code': 'XLA128', 'name': 'cudnn', 'severity': 'info'},
"calls: torch.backends.cudnn{is_available}; references: torch.backends.cudnn{allow_tf32 benchmark "
"deterministic enabled fastest}"),
("services.matmul_precision", {'code': 'XLA129', 'name': 'matmul-precision', 'severity': 'warning'},
"calls: torch{set_float32_matmul_precision}; references: torch.backends.cuda.matmul{allow_tf32 "
"fp32_precision} torch.backends{fp32_precision}"),
("services.rng_state", {'code': 'XLA130', 'name': 'rng-state'},
"both: torch.cuda|torch.cuda.random{get_rng_state get_rng_state_all set_rng_state "
"set_rng_state_all}; calls: torch.random{fork_rng} torch.utils.checkpoint{get_device_states "
"set_device_states}"),
("services.out_of_memory", {'code': 'XLA131', 'name': 'out-of-memory', 'severity': 'warning', 'effort': 'medium', 'words': ('memory',)},
"references: torch|torch.cuda{OutOfMemoryError}; nodes: {Compare}"),
("services.tunable", {'code': 'XLA132', 'name': 'tunable', 'severity': 'info', 'leftovers': 'low'},
"calls: torch.cuda.tunable{enable record_untuned_enable set_filename set_max_tuning_duration "
"set_max_tuning_iterations set_rotating_buffer_size tuning_enable write_file_on_exit}"),
("services.channels_last", {'code': 'XLA133', 'name': 'channels-last', 'severity': 'info', 'about': 'speed', 'shows_accelerator': False},
"references: torch{channels_last channels_last_3d}"),
("device.shared_device", {'code': 'XLA134', 'name': 'shared-device', 'of_what_runs': True},
"file_checks: {shared_device}"),
("precision.autocast", {'code': 'XLA201', 'name': 'autocast', 'of_step': 'precision'},
"both: "
"torch.amp|torch.amp.autocast_mode|torch|torch.cuda.amp|torch.cuda.amp.autocast_mode{autocast}; "
"calls: functools{partial}"),
("precision.autocast_state", {'code': 'XLA202', 'name': 'autocast-state', 'of_step': 'precision'},
"calls: torch._C{get_autocast_gpu_dtype} torch{get_autocast_dtype get_autocast_gpu_dtype "
"is_autocast_available is_autocast_enabled set_autocast_dtype set_autocast_enabled "
"set_autocast_gpu_dtype}"),
("precision.custom_fwd", {'code': 'XLA203', 'name': 'custom-fwd'},
"both: torch.cuda.amp.autocast_mode|torch.cuda.amp{custom_bwd custom_fwd}; calls: "
"torch.amp.autocast_mode|torch.amp{custom_bwd custom_fwd}"),
("precision.grad_scaler", {'code': 'XLA204', 'name': 'grad-scaler', 'severity': 'warning', 'of_step': 'precision', 'words': ('scale',)},
"both: fairscale.optim.grad_scaler{GradScaler ShardedGradScaler} torch|torch.amp|torch.amp.grad_sc"
"aler|torch.cpu.amp|torch.cuda.amp|torch.cuda.amp.grad_scaler|torch_xla.amp|torch_xla.amp.grad_sca"
"ler{GradScaler} torch.distributed.fsdp.sharded_grad_scaler{ShardedGradScaler}; file_checks: "
"{used}"),
("precision.native_scaler", {'code': 'XLA205', 'name': 'native-scaler', 'severity': 'warning', 'of_step': 'precision'},
"both: timm.utils|timm.utils.cuda{ApexScaler NativeScaler}"),
("precision.apex_amp", {'code': 'XLA206', 'name': 'apex-amp', 'of_step': 'precision', 'words': ('apex', 'scale_loss')},
"both: apex.amp{float_function half_function}; calls: apex.amp{disable_casts init initialize "
"load_state_dict master_params register_float_function register_half_function "
"register_promote_function state_dict}; references: apex{amp} apex.amp{promote_function}; "
"file_checks: {missed scale_loss}"),
("precision.apex_fp16", {'code': 'XLA207', 'name': 'apex-fp16-utils', 'effort': 'high', 'words': ('apex',)},
"both: apex.contrib.optimizers|apex.contrib.optimizers.fp16_optimizer|apex.fp16_utils.fp16_optimiz"
"er|apex.optimizers{FP16_Optimizer} apex.fp16_utils|apex.fp16_utils.fp16util{BN_convert_float "
"DynamicLossScaler FP16Model FP16_Optimizer LossScaler clip_grad_norm convert_module "
"convert_network master_params_to_model_params model_grads_to_master_grads network_to_half "
"prep_param_lists to_python_float tofp16}; nodes: {ImportFrom}"),
("precision.float16", {'code': 'XLA208', 'name': 'float16', 'severity': 'warning'},
"calls: torch{set_default_dtype}; methods: {half to type}; named: keyword{dtype torch_dtype}; "
"file_checks: {chosen}"),
("precision.float64", {'code': 'XLA209', 'name': 'float64', 'severity': 'warning'},
"calls: torch{as_tensor asarray set_default_dtype set_default_tensor_type tensor}; methods: {cuda "
"double to type}; named: keyword{dtype}"),
("precision.bf16_supported", {'code': 'XLA210', 'name': 'bf16-supported', 'words': ('bf16',)},
"both: torch.cuda{is_bf16_supported}; calls: "
"transformers|transformers.utils.import_utils|transformers.utils{is_torch_bf16_gpu_available}; "
"nodes: {BoolOp}"),
("optimizer.apex_optimizer", {'code': 'XLA301', 'name': 'apex-optimizer'},
"both: apex.optimizers{FusedAdagrad FusedAdam FusedLAMB FusedMixedPrecisionLamb FusedNovoGrad "
"FusedSGD} apex.optimizers.fused_adam{FusedAdam}; calls: apex.contrib.optimizers{FusedAdam "
"FusedLAMB FusedSGD} apex.contrib.optimizers.distributed_fused_adam{DistributedFusedAdam} "
"apex.contrib.optimizers.distributed_fused_lamb{DistributedFusedLAMB} "
"apex.contrib.optimizers.fused_adam{FusedAdam} apex.contrib.optimizers.fused_lamb{FusedLAMB} "
"apex.contrib.optimizers.fused_sgd{FusedSGD}"),
("optimizer.bitsandbytes_optimizer", {'code': 'XLA302', 'name': 'bitsandbytes-optimizer'},
"both: bitsandbytes.optim{AdEMAMix AdEMAMix32bit AdEMAMix8bit Adagrad Adagrad32bit Adagrad8bit "
"Adam Adam32bit Adam8bit AdamW AdamW32bit AdamW8bit LAMB LAMB32bit LAMB8bit LARS LARS32bit "
"LARS8bit Lion Lion32bit Lion8bit PagedAdEMAMix PagedAdEMAMix32bit PagedAdEMAMix8bit PagedAdagrad "
"PagedAdagrad32bit PagedAdagrad8bit PagedAdam PagedAdam32bit PagedAdam8bit PagedAdamW "
"PagedAdamW32bit PagedAdamW8bit PagedLAMB PagedLAMB32bit PagedLAMB8bit PagedLARS PagedLARS32bit "
"PagedLARS8bit PagedLion PagedLion32bit PagedLion8bit PagedRMSprop PagedRMSprop32bit "
"PagedRMSprop8bit PagedSGD PagedSGD32bit PagedSGD8bit PytorchLARS RMSprop RMSprop32bit RMSprop8bit"
" SGD SGD32bit SGD8bit} bitsandbytes.optim.adagrad{Adagrad Adagrad32bit Adagrad8bit PagedAdagrad "
"PagedAdagrad32bit PagedAdagrad8bit} bitsandbytes.optim.adam{Adam Adam32bit Adam8bit PagedAdam "
"PagedAdam32bit PagedAdam8bit} bitsandbytes.optim.adamw{AdamW AdamW32bit AdamW8bit PagedAdamW "
"PagedAdamW32bit PagedAdamW8bit} bitsandbytes.optim.ademamix{AdEMAMix AdEMAMix32bit AdEMAMix8bit "
"PagedAdEMAMix PagedAdEMAMix32bit PagedAdEMAMix8bit} bitsandbytes.optim.lamb{LAMB LAMB32bit "
"LAMB8bit PagedLAMB PagedLAMB32bit PagedLAMB8bit} bitsandbytes.optim.lars{LARS LARS32bit LARS8bit "
"PagedLARS PagedLARS32bit PagedLARS8bit PytorchLARS} bitsandbytes.optim.lion{Lion Lion32bit "
"Lion8bit PagedLion PagedLion32bit PagedLion8bit} bitsandbytes.optim.rmsprop{PagedRMSprop "
"PagedRMSprop32bit PagedRMSprop8bit RMSprop RMSprop32bit RMSprop8bit} "
"bitsandbytes.optim.sgd{PagedSGD PagedSGD32bit PagedSGD8bit SGD SGD32bit SGD8bit}; calls: "
"bitsandbytes.optim.GlobalOptimManager{get_instance}"),
("optimizer.deepspeed_optimizer", {'code': 'XLA303', 'name': 'deepspeed-optimizer'},
"both: deepspeed.ops.adagrad{DeepSpeedCPUAdagrad} deepspeed.ops.adam{DeepSpeedCPUAdam FusedAdam} "
"deepspeed.ops.adam.cpu_adam{DeepSpeedCPUAdam} deepspeed.ops.adam.fused_adam{FusedAdam} "
"deepspeed.ops.lamb|deepspeed.ops.lamb.fused_lamb{FusedLamb} deepspeed.ops.lion{DeepSpeedCPULion "
"FusedLion}; calls: deepspeed.ops.adam{ZenFlowCPUAdam}"),
("optimizer.fused_argument", {'code': 'XLA304', 'name': 'fused-argument', 'words': ('fused',)},
"named: keyword{** fused}; nodes: {Dict Assign}"),
("optimizer.capturable", {'code': 'XLA305', 'name': 'capturable', 'severity': 'warning', 'words': ('capturable',)},
"named: keyword{capturable}; file_checks: {in_dictionaries}"),
("optimizer.transformers_adamw", {'code': 'XLA306', 'name': 'transformers-adamw', 'severity': 'warning'},
"calls: pytorch_transformers|transformers|transformers.optimization{AdamW}"),
("optimizer.slow_optimizer", {'code': 'XLA307', 'name': 'slow-optimizer', 'severity': 'warning', 'effort': 'medium'},
"calls: torch.optim{ASGD Adafactor LBFGS SparseAdam} torch.optim.adafactor{Adafactor} "
"torch.optim.asgd{ASGD} torch.optim.lbfgs{LBFGS} "
"torch.optim.sparse_adam|torch.optim.sparseadam{SparseAdam}"),
("optimizer.state_moved", {'code': 'XLA308', 'name': 'optimizer-state-moved', 'severity': 'warning', 'about': 'speed'},
"nodes: {For}"),
("optimizer.apex_clip_grad", {'code': 'XLA309', 'name': 'apex-clip-grad'},
"both: apex.contrib.clip_grad.clip_grad|apex.contrib.clip_grad{clip_grad_norm_}"),
("optimizer.clip_foreach", {'code': 'XLA310', 'name': 'clip-foreach'},
"calls: torch.nn.utils.clip_grad|torch.nn.utils{clip_grad_norm_ clip_grad_value_ "
"clip_grads_with_norm_ get_total_norm}"),
("data.device_loader", {'code': 'XLA401', 'name': 'device-loader', 'severity': 'warning', 'of_step': 'turn'},
"calls: torch.optim.swa_utils{update_bn}; file_checks: {device_loader}"),
("data.pin_memory", {'code': 'XLA402', 'name': 'pin-memory', 'severity': 'warning', 'of_what_runs': True, 'words': ('pin_memory',)},
"methods: {pin_memory}; named: keyword{pin_memory pin_memory_device}; nodes: {Dict Assign}"),
("data.non_blocking", {'code': 'XLA403', 'name': 'non-blocking', 'severity': 'info'},
"methods: {to}"),
("data.prefetcher", {'code': 'XLA404', 'name': 'prefetcher', 'severity': 'warning', 'words': ('stream',)},
"nodes: {ClassDef}"),
("data.device_in_dataset", {'code': 'XLA405', 'name': 'device-in-dataset'},
"calls: torch.utils.data{TensorDataset}; nodes: {FunctionDef}; file_checks: {device_in_dataset}"),
("step.optimizer_step", {'code': 'XLA501', 'name': 'optimizer-step', 'severity': 'warning', 'shows_accelerator': False, 'of_step': 'step', 'of_what_runs': True},
"file_checks: {optimizer_step}"),
("step.step_mark", {'code': 'XLA502', 'name': 'step-mark', 'shows_accelerator': False, 'of_step': 'mark', 'of_what_runs': True},
"file_checks: {after_optimizer_steps in_other_loops in_evaluations_of_engines "
"before_reads_of_actions}"),
("step.host_sync", {'code': 'XLA503', 'name': 'host-sync', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_step': 'turn', 'defers': True, 'of_what_runs': True},
"calls: trl{DPOTrainer GRPOTrainer KTOTrainer RLOOTrainer RewardTrainer SFTTrainer}; methods: "
"{requires_grad_}; named: keyword{prog_bar requires_grad}; file_checks: {host_sync "
"reads_of_elements}"),
("step.dynamic_shape", {'code': 'XLA504', 'name': 'dynamic-shape', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_what_runs': True},
"both: torch{argwhere bincount masked_select nonzero unique unique_consecutive}; calls: torch{cat "
"concat concatenate repeat_interleave stack vstack where} torch.nn.functional{one_hot}; methods: "
"{argwhere bincount masked_select nonzero repeat_interleave unique unique_consecutive}; "
"file_checks: {masked growing sized_by_a_counter last_batch padded graphs}"),
("step.growing_graph", {'code': 'XLA505', 'name': 'growing-graph', 'severity': 'warning', 'of_what_runs': True},
"file_checks: {growing_graph}"),
("step.moving_slice", {'code': 'XLA506', 'name': 'moving-slice', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_what_runs': True},
"file_checks: {moving_slice at_lengths}"),
("step.inference_mode", {'code': 'XLA507', 'name': 'inference-mode', 'of_what_runs': True},
"both: torch.autograd.grad_mode|torch.autograd|torch{inference_mode}"),
("step.compile", {'code': 'XLA508', 'name': 'compile', 'of_what_runs': True},
"both: torch{compile}; methods: {compile}"),
("step.activation_checkpoint", {'code': 'XLA509', 'name': 'activation-checkpoint', 'of_what_runs': True},
"both: torch.distributed.algorithms._checkpoint.checkpoint_wrapper{checkpoint_wrapper} "
"torch.utils.checkpoint{checkpoint checkpoint_sequential}; calls: functools{partial} "
"torch.distributed.algorithms._checkpoint.checkpoint_wrapper{apply_activation_checkpointing}; "
"methods: {enable_gradient_checkpointing gradient_checkpointing_enable set_grad_checkpointing}"),
("step.python_scalar", {'code': 'XLA510', 'name': 'python-scalar', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_what_runs': True},
"file_checks: {python_scalar by_chance}"),
("step.shared_buffers", {'code': 'XLA511', 'name': 'shared-buffers', 'severity': 'warning', 'of_what_runs': True},
"methods: {copy_}"),
("step.detect_anomaly", {'code': 'XLA512', 'name': 'detect-anomaly', 'severity': 'warning', 'about': 'speed', 'of_what_runs': True},
"calls: torch.autograd.anomaly_mode|torch.autograd{detect_anomaly set_detect_anomaly}"),
("step.sparse", {'code': 'XLA513', 'name': 'sparse', 'of_what_runs': True},
"calls: torch.nn{Embedding EmbeddingBag} torch.nn.Embedding|torch.nn.EmbeddingBag{from_pretrained}"
" torch.nn.functional{embedding embedding_bag} torch.sparse{DoubleTensor FloatTensor LongTensor mm"
" softmax spdiags sum} torch{sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
"sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor}; methods: {cuda register_buffer to "
"to_sparse to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr}"),
("step.packed_sequence", {'code': 'XLA514', 'name': 'packed-sequence', 'severity': 'warning', 'effort': 'high', 'about': 'speed', 'of_what_runs': True},
"calls: torch.nn.utils.rnn{PackedSequence pack_padded_sequence pack_sequence}"),
("step.host_memory", {'code': 'XLA515', 'name': 'host-memory', 'effort': 'medium', 'of_what_runs': True},
"calls: torch._C{_to_dlpack} torch{quantize_per_channel quantize_per_tensor to_dlpack} "
"torch.utils.dlpack{to_dlpack}; methods: {resize_ resize_as_ share_memory share_memory_}"),
("step.parameter_data", {'code': 'XLA516', 'name': 'parameter-data', 'severity': 'warning', 'effort': 'medium', 'of_what_runs': True},
"nodes: {Assign}"),
("step.early_slice", {'code': 'XLA517', 'name': 'early-slice', 'of_what_runs': True},
"file_checks: {early_slice}"),
("step.cpu_fallback", {'code': 'XLA518', 'name': 'cpu-fallback', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_what_runs': True},
"calls: torch{cholesky_inverse cholesky_solve corrcoef cov cummin det frexp gcd i0 igamma igammac "
"index_reduce istft lcm logcumsumexp matrix_exp median mode nanmedian nextafter poisson qr "
"segment_reduce stft} torch.distributions{Beta Binomial Cauchy Chi2 Dirichlet Gamma "
"LowRankMultivariateNormal MultivariateNormal NegativeBinomial Poisson StudentT} torch.fft{fft "
"fft2 fftn ifft ifft2 ifftn irfft irfft2 irfftn rfft rfft2 rfftn} torch.linalg{cholesky "
"cholesky_ex det eig eigvals householder_product ldl_factor lstsq lu lu_factor lu_solve matrix_exp"
" qr solve solve_ex solve_triangular} torch.nn{AdaptiveMaxPool3d CTCLoss FractionalMaxPool2d "
"MultiLabelMarginLoss RReLU} torch.nn.functional{adaptive_max_pool3d ctc_loss "
"fractional_max_pool2d interpolate multilabel_margin_loss upsample} torch.special{bessel_j0 erfcx "
"i0e i1 log_ndtr ndtri zeta} torchvision.ops{DeformConv2d MultiScaleRoIAlign PSRoIAlign PSRoIPool "
"RoIAlign RoIPool batched_nms complete_box_iou_loss deform_conv2d distance_box_iou_loss "
"generalized_box_iou_loss masks_to_boxes nms ps_roi_align ps_roi_pool roi_align roi_pool}; "
"methods: {cauchy_ det geometric_ istft log_normal_ logcumsumexp matrix_exp median mode nanmedian "
"stft}"),
("step.moving_store", {'code': 'XLA519', 'name': 'moving-store', 'severity': 'warning', 'effort': 'medium', 'about': 'speed', 'of_what_runs': True},
"file_checks: {moving_store}"),
("step.pooling_divisor", {'code': 'XLA520', 'name': 'pooling-divisor', 'severity': 'warning', 'of_what_runs': True},
"calls: torch.nn{AvgPool2d AvgPool3d} torch.nn.functional{avg_pool2d avg_pool3d}"),
("distributed.process_group", {'code': 'XLA601', 'name': 'process-group'},
"calls: torch.distributed{destroy_process_group get_default_backend_for_device init_process_group}"
" torch.distributed.distributed_c10d{destroy_process_group init_process_group}"),
("distributed.collective", {'code': 'XLA602', 'name': 'collective', 'of_step': 'turn', 'words': ('functional_collectives',)},
"both: torch.distributed|torch.distributed.distributed_c10d{_all_gather_base _broadcast_coalesced "
"_coalescing_manager _make_nccl_premul_sum _reduce_scatter_base all_gather all_gather_coalesced "
"all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced all_to_all "
"all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list gather gather_object "
"irecv isend new_group recv reduce reduce_scatter reduce_scatter_tensor scatter "
"scatter_object_list send split_group}; calls: "
"torch.distributed.distributed_c10d|torch.distributed{monitored_barrier} "
"torch.distributed.nn|torch.distributed.nn.functional{_all_gather_base}; file_checks: {functional}"),
("distributed.data_parallel", {'code': 'XLA603', 'name': 'data-parallel', 'of_step': 'wrapper'},
"both: apex.parallel|torch.nn.parallel.distributed{DistributedDataParallel} "
"torch.nn.parallel{DistributedDataParallel DistributedDataParallelCPU}; calls: "
"torch.distributed._composable|torch.distributed._composable.replicate{replicate} "
"torch.distributed.algorithms|torch.distributed.algorithms.join{Join} "
"torch.distributed.algorithms.ddp_comm_hooks{register_ddp_comm_hook} torch.distributed.optim|torch"
".distributed.optim.zero_redundancy_optimizer{ZeroRedundancyOptimizer}; methods: "
"{_check_sync_bufs_post_fwd _post_forward _pre_forward _rebuild_buckets "
"_register_builtin_comm_hook _run_ddp_forward _sync_buffers join prepare_for_backward "
"prepare_for_forward register_comm_hook set_runtime_stats_and_log}; nodes: {Compare}"),
("distributed.launch", {'code': 'XLA604', 'name': 'launch', 'shows_accelerator': False},
"calls: torch.multiprocessing{Process spawn start_processes} torch.multiprocessing.spawn{spawn "
"start_processes}"),
("distributed.single_process", {'code': 'XLA605', 'name': 'single-process-data-parallel'},
"both: torch.nn|torch.nn.parallel|torch.nn.parallel.data_parallel{DataParallel}; calls: torch.nn.p"
"arallel._functions.Broadcast|torch.nn.parallel._functions.Gather|torch.nn.parallel._functions.Sca"
"tter{apply} torch.nn.parallel{data_parallel gather parallel_apply replicate scatter} "
"torch.nn.parallel.data_parallel{data_parallel} torch.nn.parallel.parallel_apply{parallel_apply} "
"torch.nn.parallel.replicate{replicate} torch.nn.parallel.scatter_gather{gather scatter "
"scatter_kwargs}; nodes: {ClassDef}"),
("distributed.rank_guard", {'code': 'XLA606', 'name': 'rank-guard', 'effort': 'medium'},
"nodes: {If}; file_checks: {before_the_step}"),
("distributed.unsharded_loader", {'code': 'XLA607', 'name': 'unsharded-loader', 'severity': 'warning', 'effort': 'medium'},
"file_checks: {unsharded_loader}"),
("distributed.backend_test", {'code': 'XLA608', 'name': 'backend-test'},
"calls: torch.distributed.distributed_c10d{get_backend is_nccl_available} "
"torch.distributed{get_backend is_backend_available is_nccl_available}"),
("distributed.sync_batch_norm", {'code': 'XLA609', 'name': 'sync-batch-norm'},
"both: apex.parallel|torch.nn|torch.nn.modules.batchnorm{SyncBatchNorm}; calls: "
"apex.parallel{convert_syncbn_model} timm.layers|timm.layers.norm_act|timm.models.layers|timm.mode"
"ls.layers.norm_act|torch.nn.SyncBatchNorm|torch.nn.modules.batchnorm.SyncBatchNorm{convert_sync_b"
"atchnorm}"),
("distributed.fully_sharded", {'code': 'XLA610', 'name': 'fully-sharded'},
"both: torch.distributed._composable.fsdp|torch.distributed.fsdp|torch.distributed.fsdp.fully_shar"
"ded_data_parallel{FullyShardedDataParallel fully_shard} "
"torch.distributed.checkpoint.state_dict{get_model_state_dict get_optimizer_state_dict "
"get_state_dict set_model_state_dict set_optimizer_state_dict set_state_dict}; calls: torch.distri"
"buted._composable.fsdp.FullyShardedDataParallel|torch.distributed.fsdp.FullyShardedDataParallel|t"
"orch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel{flatten_sharded_optim_"
"state_dict fsdp_modules full_optim_state_dict get_state_dict_type optim_state_dict "
"optim_state_dict_to_load scatter_full_optim_state_dict set_state_dict_type "
"shard_full_optim_state_dict sharded_optim_state_dict state_dict_type} "
"torch.distributed.device_mesh|torch.distributed|torch.distributed.tensor{init_device_mesh}"),
("distributed.spmd", {'code': 'XLA612', 'name': 'spmd', 'severity': 'info'},
"file_checks: {begun}"),
("distributed.one_process", {'code': 'XLA613', 'name': 'one-process', 'effort': 'medium'},
"file_checks: {one_process}"),
("distributed.update_by_hand", {'code': 'XLA614', 'name': 'update-by-hand', 'severity': 'info', 'effort': 'medium', 'shows_accelerator': False, 'of_step': 'turn'},
"named: Attribute{grad}"),
("distributed.worker_process", {'code': 'XLA615', 'name': 'worker-process', 'effort': 'high'},
"calls: concurrent.futures|concurrent.futures.process{ProcessPoolExecutor} "
"multiprocessing|torch.multiprocessing{Pool Process} "
"multiprocessing.pool|torch.multiprocessing.pool{Pool}; methods: {Process apply apply_async imap "
"imap_unordered map map_async starmap starmap_async submit}"),
("distributed.started_launcher", {'code': 'XLA616', 'name': 'started-launcher', 'shows_accelerator': False},
"calls: asyncio{create_subprocess_exec create_subprocess_shell} invoke{run} os{execl execlp execv "
"execve execvp execvpe popen spawnv spawnvp system} pexpect{run spawn} subprocess{Popen call "
"check_call check_output getoutput getstatusoutput run}; methods: {getoutput local run sudo "
"system}"),
("distributed.device_before_launch", {'code': 'XLA618', 'name': 'device-before-launch', 'effort': 'high'},
"calls: torch.multiprocessing|torch.multiprocessing.spawn{spawn start_processes} "
"xla_migrate.runtime{launch}"),
("distributed.divided_work", {'code': 'XLA619', 'name': 'divided-work', 'effort': 'medium'},
"nodes: {If}"),
("checkpoint.save", {'code': 'XLA701', 'name': 'save', 'severity': 'warning', 'shows_accelerator': False, 'of_step': 'file'},
"both: torch|torch.serialization{save}; calls: cloudpickle|dill|joblib{dump} pickle{dump dumps}"),
("checkpoint.load", {'code': 'XLA702', 'name': 'load', 'shows_accelerator': False},
"both: torch|torch.serialization{load}; named: keyword{map_location}"),
("checkpoint.device_state", {'code': 'XLA703', 'name': 'device-state', 'shows_accelerator': False},
"methods: {load_state_dict}"),
("checkpoint.assign", {'code': 'XLA704', 'name': 'assign', 'severity': 'warning'},
"methods: {load_state_dict}"),
("checkpoint.export", {'code': 'XLA705', 'name': 'export', 'effort': 'medium'},
"calls: torch.export{save} torch.jit{save trace trace_module} torch.onnx{_export dynamo_export "
"export} torch.onnx.utils{export}; methods: {add_graph}"),
("checkpoint.downloaded", {'code': 'XLA706', 'name': 'downloaded'},
"calls: torch.hub{load_state_dict_from_url} torch.jit{load} torch.utils.model_zoo{load_url}"),
("checkpoint.safetensors_file", {'code': 'XLA707', 'name': 'safetensors-file'},
"calls: safetensors{safe_open} safetensors.torch{load_file load_model save save_file save_model}"),
("checkpoint.pretrained", {'code': 'XLA708', 'name': 'save-pretrained'},
"methods: {push_to_hub save_pretrained}; named: Call{save_lora_adapter save_lora_weights}"),
("checkpoint.async_save", {'code': 'XLA709', 'name': 'async-save'},
"calls: torch.distributed.checkpoint|torch.distributed.checkpoint.state_dict_saver{async_save}"),
("frameworks.training_arguments", {'code': 'XLA801', 'name': 'training-arguments'},
"calls: "
"sentence_transformers|sentence_transformers.training_args{SentenceTransformerTrainingArguments} "
"transformers{HfArgumentParser Seq2SeqTrainingArguments TrainingArguments} "
"transformers.hf_argparser{HfArgumentParser} transformers.training_args{TrainingArguments} "
"transformers.training_args_seq2seq{Seq2SeqTrainingArguments} trl{BCOConfig CPOConfig DPOConfig "
"GKDConfig GRPOConfig IterativeConfig KTOConfig NashMDConfig ORPOConfig OnlineDPOConfig PPOConfig "
"PRMConfig RLOOConfig RewardConfig SFTConfig TrlParser XPOConfig}; subclasses: "
"sentence_transformers|sentence_transformers.training_args{SentenceTransformerTrainingArguments} "
"transformers{Seq2SeqTrainingArguments TrainingArguments} "
"transformers.training_args{TrainingArguments} "
"transformers.training_args_seq2seq{Seq2SeqTrainingArguments} trl{BCOConfig CPOConfig DPOConfig "
"GKDConfig GRPOConfig IterativeConfig KTOConfig NashMDConfig ORPOConfig OnlineDPOConfig PPOConfig "
"PRMConfig RLOOConfig RewardConfig SFTConfig XPOConfig}"),
("frameworks.accelerate", {'code': 'XLA802', 'name': 'accelerate'},
"calls: accelerate{Accelerator DeepSpeedPlugin FullyShardedDataParallelPlugin MegatronLMPlugin "
"TorchTensorParallelPlugin notebook_launcher} accelerate.accelerator{Accelerator} "
"accelerate.launchers{notebook_launcher} accelerate.utils{DeepSpeedPlugin "
"FullyShardedDataParallelPlugin MegatronLMPlugin TorchTensorParallelPlugin} "
"accelerate.utils.dataclasses{FullyShardedDataParallelPlugin} torch{save}; methods: {add_argument "
"load_state save_model save_state}; subclasses: accelerate|accelerate.accelerator{Accelerator}"),
("frameworks.lightning", {'code': 'XLA803', 'name': 'lightning'},
"calls: lightning{Fabric Trainer} lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer};"
" subclasses: lightning{Fabric Trainer} lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer};"
" named: Call{clip_grad_norm_ clip_grad_value_ clip_gradients}"),
("frameworks.deepspeed", {'code': 'XLA804', 'name': 'deepspeed', 'effort': 'high', 'words': ('deepspeed',)},
"fallback_checks: {deepspeed}"),
("frameworks.horovod", {'code': 'XLA805', 'name': 'horovod', 'effort': 'medium', 'leftovers': 'medium'},
"methods: {skip_synchronize synchronize}"),
("frameworks.timm", {'code': 'XLA806', 'name': 'timm-loader'},
"calls: timm.data{Mixup PrefetchLoader create_loader} timm.data.loader{PrefetchLoader "
"create_loader} timm.data.mixup{Mixup}"),
("frameworks.device_map", {'code': 'XLA807', 'name': 'device-map'},
"calls: accelerate.big_modeling{dispatch_model load_checkpoint_and_dispatch} "
"accelerate{dispatch_model infer_auto_device_map load_checkpoint_and_dispatch} "
"accelerate.utils|accelerate.utils.modeling{infer_auto_device_map} transformers{pipeline}; named: "
"Call{from_config from_pretrained}"),
("frameworks.quantized_loading", {'code': 'XLA808', 'name': 'quantized-loading', 'effort': 'high', 'of_what_runs': True},
"calls: accelerate.utils{BnbQuantizationConfig load_and_quantize_model} "
"diffusers|transformers.utils.quantization_config{BitsAndBytesConfig} "
"peft{prepare_model_for_int8_training prepare_model_for_kbit_training} transformers{AqlmConfig "
"AwqConfig BitsAndBytesConfig EetqConfig GPTQConfig HqqConfig TorchAoConfig}; named: "
"keyword{load_in_4bit load_in_8bit}; nodes: {Dict}"),
("frameworks.apex_norm", {'code': 'XLA809', 'name': 'apex-norm'},
"both: apex.normalization|apex.normalization.fused_layer_norm{FusedLayerNorm FusedRMSNorm}"),
("frameworks.accelerate_features", {'code': 'XLA810', 'name': 'accelerate-features'},
"both: accelerate.local_sgd{LocalSGD}; calls: accelerate{AORecipeKwargs Accelerator "
"AcceleratorState DistributedDataParallelKwargs FP8RecipeKwargs InitProcessGroupKwargs "
"MSAMPRecipeKwargs ParallelismConfig PartialState ProfileKwargs TERecipeKwargs gather_object "
"prepare_pippy} accelerate.accelerator{Accelerator} accelerate.inference|accelerate.parallelism_co"
"nfig|accelerate.utils|accelerate.utils.dataclasses|accelerate.utils.operations{AORecipeKwargs "
"Accelerator DistributedDataParallelKwargs FP8RecipeKwargs InitProcessGroupKwargs "
"MSAMPRecipeKwargs ParallelismConfig ProfileKwargs TERecipeKwargs gather_object prepare_pippy} "
"accelerate.state{AcceleratorState PartialState}; references: accelerate.DistributedType|accelerat"
"e.inference.DistributedType|accelerate.parallelism_config.DistributedType|accelerate.utils.Distri"
"butedType|accelerate.utils.dataclasses.DistributedType|accelerate.utils.operations.DistributedTyp"
"e{MULTI_GPU NO}"),
("frameworks.timm_processes", {'code': 'XLA811', 'name': 'timm-processes'},
"calls: timm.utils{ModelEmaV3 init_distributed_device init_distributed_device_so} "
"timm.utils.distributed{init_distributed_device init_distributed_device_so} "
"timm.utils.model_ema{ModelEmaV3}"),
("frameworks.given_by_name", {'code': 'XLA812', 'name': 'given-by-name', 'effort': 'high'},
"calls: lightning{Fabric Trainer} "
"lightning.cli|lightning.pytorch.cli|pytorch_lightning.cli{LightningCLI} "
"lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer} "
"sentence_transformers|sentence_transformers.training_args{SentenceTransformerTrainingArguments} "
"transformers{Seq2SeqTrainingArguments TrainingArguments} "
"transformers.training_args{TrainingArguments} "
"transformers.training_args_seq2seq{Seq2SeqTrainingArguments} trl{BCOConfig CPOConfig DPOConfig "
"GKDConfig GRPOConfig IterativeConfig KTOConfig NashMDConfig ORPOConfig OnlineDPOConfig PPOConfig "
"PRMConfig RLOOConfig RewardConfig SFTConfig XPOConfig}; subclasses: lightning{Fabric Trainer} "
"lightning.cli|lightning.pytorch.cli|pytorch_lightning.cli{LightningCLI} "
"lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer} "
"sentence_transformers|sentence_transformers.training_args{SentenceTransformerTrainingArguments} "
"transformers{Seq2SeqTrainingArguments TrainingArguments} "
"transformers.training_args{TrainingArguments} "
"transformers.training_args_seq2seq{Seq2SeqTrainingArguments} trl{BCOConfig CPOConfig DPOConfig "
"GKDConfig GRPOConfig IterativeConfig KTOConfig NashMDConfig ORPOConfig OnlineDPOConfig PPOConfig "
"PRMConfig RLOOConfig RewardConfig SFTConfig XPOConfig}; named: Call{_from_config from_config "
"from_pretrained parse_json_file parse_yaml_file}; nodes: {Assign}"),
("frameworks.removed_arguments", {'code': 'XLA813', 'name': 'removed-arguments'},
"calls: "
"sentence_transformers|sentence_transformers.training_args{SentenceTransformerTrainingArguments} "
"transformers{Seq2SeqTrainingArguments TrainingArguments} "
"transformers.training_args{TrainingArguments} "
"transformers.training_args_seq2seq{Seq2SeqTrainingArguments} trl{BCOConfig CPOConfig DPOConfig "
"GKDConfig GRPOConfig IterativeConfig KTOConfig NashMDConfig ORPOConfig OnlineDPOConfig PPOConfig "
"PRMConfig RLOOConfig RewardConfig SFTConfig XPOConfig}"),
("frameworks.accelerate_loaders", {'code': 'XLA814', 'name': 'accelerate-loaders'},
"calls: accelerate{Accelerator FullyShardedDataParallelPlugin} accelerate.accelerator{Accelerator}"
" accelerate.utils|accelerate.utils.dataclasses{FullyShardedDataParallelPlugin} "
"sentence_transformers|sentence_transformers.trainer{SentenceTransformerTrainer} "
"transformers{HfArgumentParser Seq2SeqTrainer Trainer} transformers.hf_argparser{HfArgumentParser}"
" transformers.trainer{Trainer} transformers.trainer_seq2seq{Seq2SeqTrainer} trl{BCOTrainer "
"CPOTrainer DPOTrainer GKDTrainer GRPOTrainer IterativeTrainer KTOTrainer NashMDTrainer "
"ORPOTrainer OnlineDPOTrainer PPOTrainer PRMTrainer RLOOTrainer RewardTrainer SFTTrainer TrlParser"
" XPOTrainer}; subclasses: accelerate{Accelerator FullyShardedDataParallelPlugin} "
"accelerate.accelerator{Accelerator} "
"accelerate.utils|accelerate.utils.dataclasses{FullyShardedDataParallelPlugin} "
"sentence_transformers|sentence_transformers.trainer{SentenceTransformerTrainer} "
"transformers{Seq2SeqTrainer Trainer} transformers.trainer{Trainer} "
"transformers.trainer_seq2seq{Seq2SeqTrainer} trl{BCOTrainer CPOTrainer DPOTrainer GKDTrainer "
"GRPOTrainer IterativeTrainer KTOTrainer NashMDTrainer ORPOTrainer OnlineDPOTrainer PPOTrainer "
"PRMTrainer RLOOTrainer RewardTrainer SFTTrainer XPOTrainer}"),
("frameworks.lightning_devices", {'code': 'XLA815', 'name': 'lightning-devices'},
"calls: lightning{Fabric Trainer} lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer} "
"lightning.pytorch.cli|pytorch_lightning.cli{LightningCLI}; subclasses: lightning{Fabric Trainer} "
"lightning.fabric|lightning_fabric{Fabric} "
"lightning.pytorch|lightning.pytorch.trainer|pytorch_lightning|pytorch_lightning.trainer{Trainer} "
"lightning.pytorch.cli|pytorch_lightning.cli{LightningCLI}"),
("frameworks.ray_resources", {'code': 'XLA816', 'name': 'ray-resources', 'effort': 'medium'},
"calls: ray.air|ray.air.config|ray.train{ScalingConfig} ray{init remote}; methods: {options}"),
("frameworks.accelerate_environment", {'code': 'XLA817', 'name': 'accelerate-environment', 'severity': 'warning', 'effort': 'medium'},
"calls: os.environ{setdefault update} os{putenv}; references: os{environ}"),
("frameworks.ignite", {'code': 'XLA818', 'name': 'ignite', 'words': ('ignite', 'monai')},
"calls: ignite.distributed{Parallel initialize spawn} ignite.engine{create_supervised_evaluator "
"create_supervised_trainer}; file_checks: {patched}"),
("frameworks.torchmetrics", {'code': 'XLA819', 'name': 'torchmetrics', 'severity': 'warning', 'about': 'speed', 'shows_accelerator': False},
"calls: torchmetrics{AUROC Accuracy AveragePrecision BinaryAUROC BinaryAccuracy "
"BinaryAveragePrecision BinaryF1Score BinaryFBetaScore BinaryHammingDistance BinaryPrecision "
"BinaryPrecisionRecallCurve BinaryROC BinaryRecall BinarySpecificity BinaryStatScores CatMetric "
"F1Score FBetaScore HammingDistance MaxMetric MeanMetric MinMetric MulticlassAUROC "
"MulticlassAccuracy MulticlassAveragePrecision MulticlassF1Score MulticlassFBetaScore "
"MulticlassHammingDistance MulticlassPrecision MulticlassPrecisionRecallCurve MulticlassROC "
"MulticlassRecall MulticlassSpecificity MulticlassStatScores MultilabelAUROC MultilabelAccuracy "
"MultilabelAveragePrecision MultilabelF1Score MultilabelFBetaScore MultilabelHammingDistance "
"MultilabelPrecision MultilabelPrecisionRecallCurve MultilabelROC MultilabelRecall "
"MultilabelSpecificity MultilabelStatScores Precision PrecisionRecallCurve ROC Recall Specificity "
"StatScores SumMetric} torchmetrics.aggregation{CatMetric MaxMetric MeanMetric MinMetric "
"SumMetric} torchmetrics.classification{AUROC Accuracy AveragePrecision BinaryAUROC BinaryAccuracy"
" BinaryAveragePrecision BinaryF1Score BinaryFBetaScore BinaryHammingDistance BinaryPrecision "
"BinaryPrecisionRecallCurve BinaryROC BinaryRecall BinarySpecificity BinaryStatScores F1Score "
"FBetaScore HammingDistance MulticlassAUROC MulticlassAccuracy MulticlassAveragePrecision "
"MulticlassF1Score MulticlassFBetaScore MulticlassHammingDistance MulticlassPrecision "
"MulticlassPrecisionRecallCurve MulticlassROC MulticlassRecall MulticlassSpecificity "
"MulticlassStatScores MultilabelAUROC MultilabelAccuracy MultilabelAveragePrecision "
"MultilabelF1Score MultilabelFBetaScore MultilabelHammingDistance MultilabelPrecision "
"MultilabelPrecisionRecallCurve MultilabelROC MultilabelRecall MultilabelSpecificity "
"MultilabelStatScores Precision PrecisionRecallCurve ROC Recall Specificity StatScores}"),
("sagemaker.estimator", {'code': 'XLA821', 'name': 'sagemaker-estimator', 'effort': 'medium'},
"calls: sagemaker.estimator{Estimator} "
"sagemaker.huggingface|sagemaker.huggingface.estimator{HuggingFace} "
"sagemaker.pytorch|sagemaker.pytorch.estimator{PyTorch}"),
("sagemaker.model_trainer", {'code': 'XLA822', 'name': 'sagemaker-model-trainer', 'effort': 'medium'},
"calls: sagemaker.core.training.configs|sagemaker.modules.configs|sagemaker.train.configs{Compute}"
" sagemaker.core.training.distributed{Torchrun} sagemaker.modules|sagemaker.modules.train|sagemake"
"r.modules.train.model_trainer|sagemaker.train|sagemaker.train.model_trainer{ModelTrainer} "
"sagemaker.modules.distributed|sagemaker.train.distributed{MPI Torchrun}"),
("sagemaker.spot", {'code': 'XLA823', 'name': 'sagemaker-spot', 'severity': 'warning', 'effort': 'medium'},
"named: keyword{enable_managed_spot_training use_spot_instances}"),
("sagemaker.hyperparameters", {'code': 'XLA824', 'name': 'sagemaker-hyperparameters', 'severity': 'warning'},
"named: keyword{hyperparameters}"),
("absent.cuda_graph", {'code': 'XLA901', 'name': 'cuda-graph', 'effort': 'high', 'leftovers': 'high'},
"calls: torch.cuda.graphs|torch.cuda{make_graphed_callables}"),
("absent.custom_kernel", {'code': 'XLA902', 'name': 'custom-kernel', 'effort': 'high', 'leftovers': 'high'},
"both: torch.utils.cpp_extension{CUDAExtension}; calls: ctypes{CDLL} ctypes.cdll{LoadLibrary} "
"torch.utils.cpp_extension{load load_inline}; references: torch.utils.cpp_extension{CUDA_HOME "
"CUDNN_HOME}"),
("absent.triton_kernel", {'code': 'XLA903', 'name': 'triton-kernel', 'effort': 'high', 'words': ('triton',)},
"both: helion{kernel} triton|triton.runtime.jit{jit}; fallback_checks: {other_kernels}"),
("absent.flash_attention", {'code': 'XLA904', 'name': 'flash-attention', 'words': ('flash', 'attn_implementation'), 'leftovers': 'high'},
"calls: flash_attn|flash_attn.flash_attn_interface|flash_attn_interface{flash_attn_func "
"flash_attn_kvpacked_func flash_attn_qkvpacked_func}; methods: "
"{enable_xformers_memory_efficient_attention set_use_memory_efficient_attention_xformers}; "
"file_checks: {implementation chosen_by_a_flag}"),
("absent.nvml", {'code': 'XLA905', 'name': 'nvml', 'effort': 'medium', 'leftovers': 'medium'},
"calls: os{popen system} subprocess{Popen call check_call check_output getoutput getstatusoutput "
"run}"),
("absent.cuda_only", {'code': 'XLA906', 'name': 'cuda-only', 'leftovers': 'medium'},
"calls: importlib{import_module}"),
("absent.dali", {'code': 'XLA907', 'name': 'dali', 'effort': 'high', 'leftovers': 'high'},
""),
("absent.tensorrt", {'code': 'XLA908', 'name': 'tensorrt', 'effort': 'high', 'words': ('tensorrt',)},
"fallback_checks: {tensorrt}"),
("absent.cupy", {'code': 'XLA909', 'name': 'cupy', 'effort': 'high', 'leftovers': 'high'},
""),
("absent.transformer_engine", {'code': 'XLA910', 'name': 'transformer-engine', 'effort': 'high', 'leftovers': 'high'},
""),
("absent.nccl", {'code': 'XLA911', 'name': 'nccl', 'effort': 'high', 'words': ('nccl',)},
"calls: torch.distributed|torch.distributed.device_mesh{DeviceMesh init_device_mesh} "
"torch.distributed.tensor{DeviceMesh}; fallback_checks: {nccl}"),
("absent.environment", {'code': 'XLA912', 'name': 'cuda-environment', 'severity': 'warning'},
"calls: os.environ{copy get pop setdefault update} os{getenv putenv unsetenv}; references: "
"os{environ}"),
("absent.allocator", {'code': 'XLA913', 'name': 'allocator', 'effort': 'medium', 'leftovers': 'medium'},
""),
("absent.quantized_layers", {'code': 'XLA914', 'name': 'quantized-layers', 'effort': 'high', 'leftovers': 'high'},
""),
("absent.foreign_engine", {'code': 'XLA915', 'name': 'foreign-engine', 'effort': 'high', 'first': True, 'words': ('curobo', 'detectron2', 'dgl', 'diff_gaussian_rasterization', 'diff_surfel_rasterization', 'fast_hadamard_transform', 'fused_ssim', 'gsplat', 'isaacgym', 'isaacgymenvs', 'isaaclab', 'isaacsim', 'minkowskiengine', 'mmengine', 'nvdiffrast', 'omni', 'openequivariance', 'pointnet2_ops', 'selective_scan_cuda', 'simple_knn', 'spconv', 'stable_baselines3', 'tinycudann', 'torch_cluster', 'torch_scatter', 'torch_sparse', 'torch_spline_conv', 'torchsparse', 'torchtitan', 'ultralytics', 'vllm')},
"file_checks: {engines}"),
("absent.flex_attention", {'code': 'XLA916', 'name': 'flex-attention', 'words': ('flex_attention',)},
"calls: torch.nn.attention.flex_attention{flex_attention}; file_checks: {implementation}"),
("absent.unrolled_recurrence", {'code': 'XLA918', 'name': 'unrolled-recurrence', 'severity': 'info', 'effort': 'medium', 'about': 'speed'},
"calls: torch.nn|torch.nn.modules|torch.nn.modules.rnn{GRU LSTM RNN}"),
("absent.code_in_text", {'code': 'XLA919', 'name': 'code-in-text', 'severity': 'warning'},
"named: Call{exec run_cell_magic run_line_magic timeit}"),
)
