"""cuDNN, the precision of matrix products, NVTX and profilers."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.backends.cudnn.benchmark = True", "xla.set_cudnn(benchmark=True)"),
        ("torch.backends.cudnn.enabled = not args.no", "xla.set_cudnn(enabled=not args.no)"),
        ("from torch.backends import cudnn\ncudnn.deterministic = True", "xla.set_cudnn(deterministic=True)"),
        ("import torch.backends.cudnn as cudnn\ncudnn.allow_tf32 = t", "xla.set_cudnn(allow_tf32=t)"),
        ("if torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True",
         "if xla.is_available():\n    xla.set_cudnn(benchmark=True)"),
        ("torch.backends.cudnn.benchmark = torch.backends.cudnn.enabled = True", "xla.set_cudnn(benchmark=True, enabled=True)"),
        ("torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False",
         "xla.set_cudnn(deterministic=True, benchmark=False)"),
        ("torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True",
         'xla.set_cudnn(allow_tf32=True)\nxla.set_float32_matmul_precision("high")'),
        ("torch.backends.cudnn.fastest = True\nf()", "f()"),
        ("a = torch.backends.cudnn.is_available()", 'a = xla.device_type() == "cuda"'),
        ("torch.backends.cuda.matmul.allow_tf32 = True", 'xla.set_float32_matmul_precision("high")'),
        ("torch.backends.cuda.matmul.allow_tf32 = False", 'xla.set_float32_matmul_precision("highest")'),
        ("torch.backends.cuda.matmul.allow_tf32 = a if b else c",
         'xla.set_float32_matmul_precision("high" if (a if b else c) else "highest")'),
        ('torch.backends.cuda.matmul.fp32_precision = "ieee"', 'xla.set_float32_matmul_precision("highest")'),
        ("torch.set_float32_matmul_precision(args.p)", "xla.set_float32_matmul_precision(args.p)"),
    ],
)  # fmt: skip
def test_flags(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "a = torch.backends.cudnn.benchmark",
        "assert torch.backends.cudnn.enabled",
        "a = torch.backends.cuda.matmul.allow_tf32",
        "a = torch.get_float32_matmul_precision()",
    ],
)
def test_fact_section_2_flags_that_are_read_stay(source: str) -> None:
    """They are accepted on an XLA host and have no effect."""
    assert line(source) == source
    assert codes(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "torch.backends.cudnn.benchmark = x = True",
        "a = torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cuda.matmul.fp32_precision = p",
    ],
)
def test_flags_that_are_set_with_others_are_reported(source: str) -> None:
    assert line(source) == source
    assert codes(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.cuda.nvtx.range_push("a")\nf()\ntorch.cuda.nvtx.range_pop()',
         'xla.range_push("a")\nf()\nxla.range_pop()'),
        ("d = torch.cuda.nvtx.range_push(msg=name)", "d = xla.range_push(name)"),
        ('import nvtx\nnvtx.push_range(message="a", color="red")\nnvtx.pop_range()',
         'xla.range_push("a")\nxla.range_pop()'),
        ("import torch.cuda.nvtx as nvtx\nnvtx.mark('a')\nf()", "f()"),
        ('with torch.cuda.nvtx.range("a"):\n    f()', 'with torch.profiler.record_function("a"):\n    f()'),
        ('@torch.cuda.nvtx.range("a")\ndef f(): pass', '@torch.profiler.record_function("a")\ndef f(): pass'),
        ('import nvtx\nwith nvtx.annotate("a", color="red"):\n    f()', 'with torch.profiler.record_function("a"):\n    f()'),
        ("with torch.autograd.profiler.emit_nvtx():\n    f()", "f()"),
        ("with torch.autograd.profiler.emit_nvtx(), torch.no_grad():\n    f()", "with torch.no_grad():\n    f()"),
        ("with torch.cuda.profiler.profile(), torch.autograd.profiler.emit_nvtx():\n    f()", "f()"),
        ("torch.cuda.profiler.start()\nf()", "f()"),
        ("if i == 3: torch.cuda.cudart().cudaProfilerStart()\nf()", "f()"),
        ("torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStop())\nf()", "f()"),
        ("with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:\n    f()",
         "with torch.profiler.profile(activities=torch.profiler.supported_activities()) as p:\n    f()"),
        ("try:\n    f()\nfinally:\n    torch.cuda.nvtx.range_pop()", "try:\n    f()\nfinally:\n    xla.range_pop()"),
    ],
)  # fmt: skip
def test_profilers(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "with torch.profiler.record_function('a'):\n    f()",
        "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):\n    f()",
        'p.key_averages().table(sort_by="cuda_time_total")',
        "stack.range_push(1)",
    ],
)
def test_torchs_own_profiler_stays(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []


def test_an_activity_in_a_list_that_grows_is_reported() -> None:
    source = "acts = [torch.profiler.ProfilerActivity.CPU]\nacts.append(torch.profiler.ProfilerActivity.CUDA)"
    assert line(source) == source
    assert codes(source) == ["XLA127"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('t(sort_by=f"self_{x.cuda().device.type}_time_total")',
         't(sort_by=f"self_{x.to(xla.xla_device()).device.type}_time_total".replace("xla", "device"))'),
        ('d = torch.device("cuda").type\nt(sort_by="self_" + d + "_memory_usage")',
         'd = xla.xla_device().type\nt(sort_by=("self_" + d + "_memory_usage").replace("xla", "device"))'),
        ('d = "cuda"\nx.to(d)\nt(sort_by="%s_time_total" % d)',
         'd = xla.device_type()\nx.to(d)\nt(sort_by=("%s_time_total" % d).replace("xla", "device"))'),
        ('d = torch.device("cuda").type\nt("{}_time_total".format(d))',
         'd = xla.xla_device().type\nt("{}_time_total".format(d).replace("xla", "device"))'),
        ('t(sort_by=f"self_{kind}_time_total")', 't(sort_by=f"self_{kind}_time_total")'),
    ],
)  # fmt: skip
def test_columns_of_other_devices(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ('torch.set_float32_matmul_precision("high")', "torch.backends.cuda.matmul.allow_tf32 = True", 1),
        ("torch.backends.cuda.matmul.allow_tf32 = True", 'torch.set_float32_matmul_precision("high")', 1),
        ('torch.set_float32_matmul_precision("medium")', "torch.backends.cuda.matmul.allow_tf32 = True", 2),
        ("torch.set_float32_matmul_precision(args.precision)", "torch.backends.cuda.matmul.allow_tf32 = True", 2),
    ],
)  # fmt: skip
def test_a_precision_is_set_once(first: str, second: str, count: int) -> None:
    after = migrated(f"import torch\n{first}\n{second}\nx = torch.ones(2).cuda()\n")
    assert after.count("xla.set_float32_matmul_precision(") == count
