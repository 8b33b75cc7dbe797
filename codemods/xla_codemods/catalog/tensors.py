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

_PINNED = "pinned memory serves CUDA's copies only; `xla.MpDeviceLoader` moves batches ahead of use"

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
        },
        rule="XLA403",
        evidence="fact 2",
    ),
    *rows(
        "",
        STAYS,
        SAME,
        HARMLESS,
        {"torch.Tensor.copy_(non_blocking)": "XLA's copies do not block"},
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

ROWS: tuple[Row, ...] = (*METHODS, *ARGUMENTS_OF)
