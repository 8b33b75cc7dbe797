"""CUDA-only methods, arguments and functions of torch itself; its profilers and its extension builder."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    NONE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    RUNTIME,
    SAME,
    SILENT,
    SLOW,
    STAYS,
    Row,
    rows,
)

_PINNED = "pinned memory serves CUDA's copies only; `xla.MpDeviceLoader` moves batches ahead of use"
_BUILD = "builds CUDA code: write it with torch's operations, or as a Pallas (TPU) or NKI (Trainium) kernel"
_CUDNN = "calls cuDNN directly: use the function of torch.nn.functional"

_FACTORIES = (
    "arange",
    "empty",
    "full",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "tensor",
    "zeros",
)
_CAPTURABLE = (
    "ASGD",
    "Adadelta",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
)

METHODS: tuple[Row, ...] = (
    *rows(
        "torch.Tensor",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"cuda": "x.to(xla.xla_device())"},
        rule="XLA101",
    ),
    *rows(
        "torch.nn.Module",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"cuda": "model.to(xla.xla_device())"},
        rule="XLA101",
    ),
    *rows(
        "torch.UntypedStorage",
        ABSENT,
        NONE,
        RAISES,
        {"cuda": "XLA tensors have no storage: move the tensor", "pin_memory": _PINNED},
    ),
    *rows(
        "torch.UntypedStorage",
        ABSENT,
        NONE,
        SILENT,
        {"is_cuda": "ask `xla.is_accelerator(tensor)`"},
        evidence="docs",
    ),
    *rows(
        "torch.Tensor",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "is_cuda": (
                "xla.is_accelerator(x)",
                "False of every XLA tensor: the other branch is taken",
            )
        },
        rule="XLA107",
    ),
    *rows("torch.Tensor", REMOVED, CONTEXT, RAISES, {"pin_memory": _PINNED}, rule="XLA402"),
    *rows("torch.Tensor", STAYS, SAME, HARMLESS, {"is_pinned": f"False always: {_PINNED}"}),
    *rows(
        "torch.Tensor",
        REMOVED,
        CONTEXT,
        RAISES,
        {"record_stream": "XLA orders the work itself"},
        rule="XLA123",
    ),
    *rows(
        "torch.Tensor",
        ABSENT,
        NONE,
        RAISES,
        {
            "__cuda_array_interface__": "shares CUDA memory with other libraries: pass `.cpu().numpy()`"
        },
        evidence="docs",
    ),
    *rows("torch.Tensor", STAYS, SAME, HARMLESS, {"get_device": "the index of the XLA device"}),
)

ARGUMENTS_OF: tuple[Row, ...] = (
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {
            "torch.utils.data.DataLoader(pin_memory)": f"a warning only; {_PINNED}",
            "torch.utils.data.DataLoader(pin_memory_device)": f"a warning only; {_PINNED}",
        },
        rule="XLA402",
        evidence="fact 2",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        RAISES,
        {f"torch.{name}(pin_memory)": _PINNED for name in _FACTORIES},
        rule="XLA402",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {
            "torch.Tensor.to(non_blocking)": "XLA's copies do not block",
            "torch.Tensor.copy_(non_blocking)": "XLA's copies do not block",
        },
        rule="XLA403",
        evidence="fact 2",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {"torch.Tensor.cuda(non_blocking)": "XLA's copies do not block"},
        rule="XLA101",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "torch.optim.AdamW(fused)": "fused=xla.supports_fused()",
            "torch.optim.Adam(fused)": "fused=xla.supports_fused()",
            "torch.optim.SGD(fused)": "fused=xla.supports_fused()",
            "torch.optim.Adagrad(fused)": "fused=xla.supports_fused()",
        },
        rule="XLA304",
        torch="2.0+",
        evidence="fact 3.26",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        SLOW,
        {
            f"torch.optim.{name}(capturable)": "serves CUDA graphs; with foreach=True it fails"
            for name in _CAPTURABLE
        },
        rule="XLA305",
        torch="1.12+",
        evidence="fact 3.26",
    ),
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            'torch.device("cuda")': (
                "xla.xla_device()",
                'torch.device("cuda") itself is quiet: what is put there fails',
            ),
            'torch.Tensor.to("cuda")': "x.to(xla.xla_device())",
            'torch.zeros(device="cuda")': "torch.zeros(..., device=xla.xla_device())",
        },
        rule="XLA104",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {"torch.Tensor.to(0)": ("x.to(xla.xla_device())", "an index means CUDA")},
        rule="XLA106",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            'torch.Generator(device="cuda")': (
                "xla.generator()",
                "there are no generators on XLA (fact 1.33): it is the host's",
            )
        },
        rule="XLA112",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            'torch.load(map_location="cuda")': (
                "xla.load(path)",
                "no map_location names an XLA device (fact 1.44)",
            )
        },
        rule="XLA702",
        evidence="fact 1.44",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "torch.nn.parallel.DistributedDataParallel(device_ids)": "a process drives one XLA device",
            "torch.nn.parallel.DistributedDataParallel(output_device)": "a process drives one XLA device",
        },
        rule="XLA603",
        evidence="fact 2",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "torch.autograd.profiler.profile(use_cuda)": "profile XLA with `torch_xla.debug.profiler`",
            "torch.profiler.profile(use_cuda)": "profile XLA with `torch_xla.debug.profiler`",
        },
        evidence="measured",
    ),
    *rows(
        "",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"torch.random.fork_rng(devices)": ("xla.fork_rng(...)", "it forks the device's, too")},
        rule="XLA130",
        evidence="fact 1.3",
    ),
)

FUNCTIONS: tuple[Row, ...] = (
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "set_default_tensor_type": ("", "the next tensor that is made fails"),
            "set_default_device": (
                "torch.set_default_device(xla.xla_device())",
                "the next tensor that is made fails",
            ),
        },
        rule="XLA109",
        evidence="fact 2",
    ),
    *rows(
        "torch",
        ABSENT,
        NONE,
        RAISES,
        {
            "cudnn_affine_grid_generator": _CUDNN,
            "cudnn_batch_norm": _CUDNN,
            "cudnn_convolution": _CUDNN,
            "cudnn_convolution_add_relu": _CUDNN,
            "cudnn_convolution_relu": _CUDNN,
            "cudnn_convolution_transpose": _CUDNN,
            "cudnn_grid_sampler": _CUDNN,
        },
        evidence="docs",
    ),
    *rows("torch", ABSENT, NONE, SILENT, {"cudnn_is_acceptable": _CUDNN}, evidence="docs"),
    *rows(
        "torch",
        ABSENT,
        NONE,
        RAISES,
        {
            "get_device_module": "torch has no module for XLA: call the runtime's functions (fact 1.3)",
        },
        rule="XLA115",
        torch="2.6+",
        evidence="fact 1.3",
    ),
    *rows(
        "torch",
        REMOVED,
        CONTEXT,
        RAISES,
        {"Stream": "a stream of CUDA's: XLA orders the work itself"},
        rule="XLA123",
        torch="2.6+",
        evidence="fact 1.3",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"Event": ("xla.Event(enable_timing=True)", "an event of CUDA's")},
        rule="XLA122",
        torch="2.6+",
    ),
    *rows(
        "torch",
        RUNTIME,
        RENAMED,
        SILENT,
        {
            "OutOfMemoryError": (
                "RuntimeError",
                'XLA raises RuntimeError ("RESOURCE_EXHAUSTED") and not this',
            )
        },
        rule="XLA131",
        torch="2.5+",
        evidence="fact 2",
    ),
    *rows(
        "torch",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "has_cuda": ("xla.is_available()", "true of the build, not of the machine"),
        },
        rule="XLA102",
        evidence="docs",
    ),
    *rows(
        "torch",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "set_float32_matmul_precision": (
                "xla.set_float32_matmul_precision(precision)",
                "does not reach XLA, where TPUs compute in bfloat16 by default",
            )
        },
        rule="XLA129",
        evidence="fact 1.108",
    ),
    *rows(
        "torch.nn",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "SyncBatchNorm": ("xla.SyncBatchNorm(...)", "torch's works on CUDA's tensors only"),
            "SyncBatchNorm.convert_sync_batchnorm": "xla.convert_sync_batchnorm(model)",
        },
        rule="XLA609",
        evidence="docs",
    ),
    *rows(
        "torch.version",
        STAYS,
        CONTEXT,
        SILENT,
        {"cuda": "true of the build, not of the machine: do not branch on it"},
        evidence="fact 2",
    ),
    *rows(
        "torch.nn.attention",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "sdpa_kernel": "chooses between CUDA kernels: `scaled_dot_product_attention` has one form on XLA",
            "SDPBackend": "names CUDA kernels: `scaled_dot_product_attention` has one form on XLA",
        },
        torch="2.3+",
    ),
    *rows(
        "torch.nn",
        RUNTIME,
        CONTEXT,
        SILENT,
        dict.fromkeys(
            ("DataParallel", "parallel.DataParallel", "parallel.data_parallel"),
            (
                "xla.DistributedDataParallel(model)",
                "runs on one device without a word: for several, one process each (`xla.launch`)",
            ),
        ),
        rule="XLA605",
        evidence="fact 2",
    ),
)

PROFILERS: tuple[Row, ...] = (
    *rows(
        "torch.profiler",
        REWRITTEN,
        CONTEXT,
        HARMLESS,
        {
            "ProfilerActivity.CUDA": (
                "torch.profiler.supported_activities()",
                "records nothing of XLA: use `torch_xla.debug.profiler`; alone it fails",
            )
        },
        rule="XLA127",
        evidence="fact 1.107",
    ),
    *rows(
        "torch.autograd.profiler",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "emit_nvtx": "marks ranges for NVIDIA's profiler; XLA's has `torch_xla.debug.profiler.Trace(name)`"
        },
        rule="XLA127",
    ),
)

EXTENSIONS: tuple[Row, ...] = (
    *rows(
        "torch.utils.cpp_extension",
        ABSENT,
        NONE,
        RAISES,
        {
            "CUDAExtension": _BUILD,
            "CUDA_HOME": "the folder of a CUDA toolkit, which an XLA host lacks",
            "CUDNN_HOME": "the folder of cuDNN, which an XLA host lacks",
            "load": f"with `.cu` sources it {_BUILD}",
            "load_inline": f"with `cuda_sources` it {_BUILD}",
        },
        rule="XLA902",
        evidence="docs",
    ),
    *rows(
        "torch.utils.cpp_extension",
        STAYS,
        SAME,
        HARMLESS,
        {
            "BuildExtension": "builds C++ as well; only CUDA sources are lost",
            "CppExtension": "C++ for the host: it runs on host tensors",
            "SyclExtension": "builds for Intel's devices",
            "check_compiler_is_gcc": "asks about the host's compiler",
            "check_compiler_ok_for_platform": "asks about the host's compiler",
            "get_compiler_abi_compatibility_and_version": "asks about the host's compiler",
            "get_cxx_compiler": "asks about the host's compiler",
            "get_default_build_root": "a folder of the host",
            "include_paths": 'asks about the host; with "cuda", about a CUDA toolkit',
            "library_paths": 'asks about the host; with "cuda", about a CUDA toolkit',
            "is_ninja_available": "asks about the host",
            "remove_extension_h_precompiler_headers": "removes files of the host",
            "verify_ninja_availability": "asks about the host",
        },
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = (*METHODS, *ARGUMENTS_OF, *FUNCTIONS, *PROFILERS, *EXTENSIONS)
