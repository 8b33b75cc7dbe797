"""CUDA-only methods and arguments of torch itself."""

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
    SAME,
    SILENT,
    SLOW,
    STAYS,
    Row,
    rows,
)

_PINNED = "only CUDA copies use pinned memory: iterate over `xla.MpDeviceLoader`, which moves batches ahead"

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
                "the original is False for XLA tensors",
            )
        },
        rule="XLA107",
    ),
    *rows(
        "torch.Tensor",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {"pin_memory": ("x.pin_memory() if torch.cuda.is_available() else x", _PINNED)},
        rule="XLA402",
    ),
    *rows("torch.Tensor", STAYS, SAME, HARMLESS, {"is_pinned": f"False always: {_PINNED}"}),
    *rows(
        "torch.Tensor",
        REMOVED,
        CONTEXT,
        RAISES,
        {"record_stream": "XLA has no streams"},
        rule="XLA123",
    ),
    *rows(
        "torch.Tensor",
        ABSENT,
        NONE,
        RAISES,
        {
            "__cuda_array_interface__": "it shares CUDA memory with other libraries: pass `.cpu().numpy()`"
        },
        evidence="docs",
    ),
    *rows(
        "torch.Tensor",
        STAYS,
        SAME,
        HARMLESS,
        {"get_device": "it returns the index of the XLA device"},
    ),
)

ARGUMENTS_OF: tuple[Row, ...] = (
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {
            "torch.utils.data.DataLoader(pin_memory)": f"PyTorch only warns; {_PINNED}",
            "torch.utils.data.DataLoader(pin_memory_device)": f"PyTorch only warns; {_PINNED}",
        },
        rule="XLA402",
        evidence="fact 2",
    ),
    *rows(
        "",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            f"torch.{name}(pin_memory)": ("pin_memory=torch.cuda.is_available()", _PINNED)
            for name in _FACTORIES
        },
        rule="XLA402",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {
            "torch.Tensor.to(non_blocking)": "copies to XLA devices never block",
        },
        rule="XLA403",
        evidence="fact 2",
    ),
    *rows(
        "",
        STAYS,
        SAME,
        HARMLESS,
        {"torch.Tensor.copy_(non_blocking)": "copies to XLA devices never block"},
        evidence="fact 2",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {"torch.Tensor.cuda(non_blocking)": "copies to XLA devices never block"},
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
            f"torch.optim.{name}(capturable)": "it is for CUDA graphs; with foreach=True it fails on XLA"
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
                "creating the device works, but moving a tensor to it fails",
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
                "XLA has no generators, so it is a CPU generator (fact 1.33)",
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
            "torch.nn.parallel.DistributedDataParallel(device_ids)": "an XLA process drives one device",
            "torch.nn.parallel.DistributedDataParallel(output_device)": "an XLA process drives one device",
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
        {
            "torch.random.fork_rng(devices)": (
                "xla.fork_rng(...)",
                "it also forks the device's state",
            )
        },
        rule="XLA130",
        evidence="fact 1.3",
    ),
)

ROWS: tuple[Row, ...] = (*METHODS, *ARGUMENTS_OF)
