"""Autocast and what belongs to it, in the ways that people write them."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.amp.autocast()", "xla.autocast()"),
        ("torch.cuda.amp.autocast(True)", "xla.autocast(enabled=True)"),
        ("torch.cuda.amp.autocast(args.amp)", "xla.autocast(enabled=args.amp)"),
        ("torch.cuda.amp.autocast(enabled=not x)", "xla.autocast(enabled=not x)"),
        ("torch.cuda.amp.autocast(True, torch.bfloat16)", "xla.autocast(enabled=True, dtype=torch.bfloat16)"),
        ("torch.cuda.amp.autocast(True, torch.float16, False)", "xla.autocast(enabled=True, dtype=torch.bfloat16, cache_enabled=False)"),
        ("torch.cuda.amp.autocast(dtype=torch.half)", "xla.autocast(dtype=torch.bfloat16)"),
        ("torch.cuda.amp.autocast_mode.autocast(enabled=a)", "xla.autocast(enabled=a)"),
        ("torch.autocast('cuda')", "xla.autocast()"),
        ("torch.autocast('cuda:0')", "xla.autocast()"),
        ("torch.autocast('cuda', torch.float16)", "xla.autocast(dtype=torch.bfloat16)"),
        ("torch.autocast('cuda', dtype, amp)", "xla.autocast(dtype=dtype, enabled=amp)"),
        ("torch.autocast('cuda', cache_enabled=False)", "xla.autocast(cache_enabled=False)"),
        ("torch.autocast(device_type='cuda', dtype=torch.bfloat16)", "xla.autocast(dtype=torch.bfloat16)"),
        ("torch.autocast(device_type=kind, dtype=dtype)", "xla.autocast(device_type=kind, dtype=dtype)"),
        ("torch.autocast(kind, torch.float16)", "xla.autocast(kind, torch.bfloat16)"),
        ("torch.autocast(device.type, dtype)", "xla.autocast(device.type, dtype)"),
        ("torch.autocast(device.type, torch.float16)", "xla.autocast(device.type, torch.bfloat16)"),
        ("torch.amp.autocast('cuda', enabled=a)", "xla.autocast(enabled=a)"),
        ("torch.amp.autocast_mode.autocast('cuda')", "xla.autocast()"),
    ],
)  # fmt: skip
def test_calls(before: str, after: str) -> None:
    source = "import torch\nwith {}:\n    pass\n"
    runtime = "from xla_migrate import runtime as xla\n"
    expected = source.format(after).replace("import torch\n", "import torch\n" + runtime)
    assert migrated(source.format(before)) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@torch.cuda.amp.autocast()\ndef f(): pass", "@xla.autocast()\ndef f(): pass"),
        ("@torch.autocast('cuda', dtype=torch.float16)\ndef f(): pass", "@xla.autocast(dtype=torch.bfloat16)\ndef f(): pass"),
        ("ctx = torch.autocast('cuda') if a else nullcontext()", "ctx = xla.autocast() if a else nullcontext()"),
        ("c = torch.cuda.amp.autocast(); c.__enter__()", "c = xla.autocast(); c.__enter__()"),
        ("self.a = partial(torch.autocast, 'cuda', dtype=torch.float16)", "self.a = partial(xla.autocast, dtype=torch.bfloat16)"),
        ("a = partial(torch.cuda.amp.autocast, True)", "a = partial(xla.autocast, enabled=True)"),
        ("a = partial(torch.autocast, device_type=kind)", "a = partial(xla.autocast, device_type=kind)"),
        ("a = torch.cuda.amp.autocast if b else nullcontext\nwith a():\n    loss.backward()", "a = xla.autocast if b else nullcontext\nwith a():\n    loss.backward()"),
        ("a = torch.autocast", "a = xla.autocast"),
        ("with torch.no_grad(), torch.autocast('cuda'):\n    f()", "with torch.no_grad(), xla.autocast():\n    f()"),
        ("with torch.autocast(\n    device_type='cuda',  # here\n    dtype=torch.float16,\n):\n    f()", "with xla.autocast(\n    dtype=torch.bfloat16,\n):\n    f()"),
    ],
)  # fmt: skip
def test_contexts(before: str, after: str) -> None:
    head = "import torch\nfrom functools import partial\nfrom contextlib import nullcontext\n"
    assert migrated(head + before + "\n").endswith(after + "\n")


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nwith torch.autocast('cpu'):\n    pass\n",
        "import torch\nwith torch.autocast(device_type='mps', dtype=torch.float16):\n    pass\n",
        "import torch\nwith torch.autocast('xla'):\n    pass\n",
        "import torch\nok = isinstance(c, torch.autocast)\n",
        "import torch\nwith torch.autocast(x.device.type, enabled=False):\n    pass\n",
        "import torch\nwith torch.autocast(device.type, dtype=torch.bfloat16):\n    pass\n",
        "import torch\ndef f(kind):\n    return torch.autocast(kind)\n",
        "import torch\nkind = x.device.type\nwith torch.autocast(kind, enabled=False):\n    pass\n",
        "import torch\nCASTS = [torch.autocast, torch.cuda.amp.autocast]\n",
        "import torch\nclass cast(torch.cuda.amp.autocast): ...\n",
        "import torch\ntorch.autocast = patched\n",
        "import torch\nok = hasattr(torch.cuda.amp, 'autocast')\n",
        "import torch\nok = getattr(torch.cuda.amp, 'autocast') is not None\n",
        "import torch\ndef f(c: torch.autocast) -> None: ...\n",
        "import torch\n@torch.amp.custom_fwd(device_type=kind)\ndef f(): ...\n",
        "import torch\nx = torch.is_autocast_enabled('cpu')\n",
        "from accelerate import Accelerator\nimport torch\nwith accelerator.autocast():\n    pass\n",
    ],
)
def test_others_are_left_alone(source: str) -> None:
    assert migrated(source) == source
    assert [f for f in check(source.encode()) if f.code.startswith("XLA2")] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.autocast(x.device.type)", "xla.autocast(x.device.type)"),
        (
            "torch.autocast(self.device.type, enabled=amp)",
            "xla.autocast(self.device.type, enabled=amp)",
        ),
        ("torch.amp.autocast(device_type=dev.type)", "xla.autocast(device_type=dev.type)"),
        ("torch.autocast(kind, enabled=True)", "xla.autocast(kind, enabled=True)"),
        ("torch.autocast(x.device.type, None, amp)", "xla.autocast(x.device.type, None, amp)"),
        ("torch.autocast(x.device.type, enabled=False)", None),
        ("torch.autocast(kind, dtype=torch.bfloat16)", None),
    ],
)
def test_training_in_the_type_of_whatever_device(before: str, after: str | None) -> None:
    """On CUDA that is float16, and the loss is no longer scaled there."""
    source = f"import torch\ndef step(kind, x, amp):\n    with {before}:\n        loss = f(x)\n    loss.backward()\n"
    result = migrated(source)
    assert result == source if after is None else f"    with {after}:\n" in result


def test_an_alias_is_called_with_positional_arguments() -> None:
    source = "import torch\ncast = torch.cuda.amp.autocast\nwith cast(True):\n    pass\n"
    assert "cast = xla.autocast\nwith cast(True):" in migrated(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.is_autocast_enabled()", "torch.is_autocast_enabled(xla.device_type())"),
        ("torch.is_autocast_enabled('cuda')", "torch.is_autocast_enabled(xla.device_type())"),
        ("torch.get_autocast_dtype('cuda')", "torch.get_autocast_dtype(xla.device_type())"),
        ("torch.get_autocast_gpu_dtype()", "torch.get_autocast_dtype(xla.device_type())"),
        ("torch.set_autocast_enabled('cuda', a)", "torch.set_autocast_enabled(xla.device_type(), a)"),
        ("torch.set_autocast_enabled(a)", "torch.set_autocast_enabled(xla.device_type(), a)"),
        ("torch.set_autocast_gpu_dtype(a)", "torch.set_autocast_dtype(xla.device_type(), a)"),
        ("torch.cuda.is_bf16_supported()", "xla.is_bf16_supported()"),
        ("torch.cuda.is_bf16_supported(including_emulation=False)", "xla.is_bf16_supported()"),
        ("f(torch.cuda.is_bf16_supported)", "f(xla.is_bf16_supported)"),
        ("custom_fwd(f)", "torch.amp.custom_fwd(f, device_type=xla.device_type())"),
        ("custom_fwd(cast_inputs=dtype)", "torch.amp.custom_fwd(device_type=xla.device_type(), cast_inputs=dtype)"),
        ("torch.amp.custom_fwd(f, device_type='cuda', cast_inputs=torch.half)", "torch.amp.custom_fwd(f, device_type=xla.device_type(), cast_inputs=torch.bfloat16)"),
    ],
)  # fmt: skip
def test_questions(before: str, after: str) -> None:
    source = f"import torch\nfrom torch.cuda.amp import custom_fwd\nx = {before}\n"
    assert migrated(source).splitlines()[-1] == f"x = {after}"


def test_torch_is_imported_where_it_was_not() -> None:
    source = "from torch.cuda.amp import custom_bwd\n\n@custom_bwd\ndef f(): ...\n"
    assert migrated(source).startswith("import torch\nfrom xla_migrate import runtime as xla\n")


def test_a_function_returns_autocast() -> None:
    source = (
        "import torch\ndef context(amp):\n    return torch.cuda.amp.autocast if amp else suppress\n"
    )
    assert "    return xla.autocast if amp else suppress" in migrated(source)


@pytest.mark.parametrize(
    ("context", "is_off"),
    [
        ("torch.cuda.amp.autocast(enabled=False)", True),
        ("torch.cuda.amp.autocast(False)", True),
        ("torch.autocast('cuda', enabled=False)", True),
        ("torch.autocast('cuda', torch.float32, False)", True),
        ("torch.amp.autocast(device_type='cuda', enabled=False)", True),
        ("partial(torch.autocast, 'cuda', enabled=False)()", True),
        ("torch.cuda.amp.autocast(enabled=args.amp)", False),
        ("torch.autocast('cuda', enabled=True)", False),
        ("torch.autocast('cuda')", False),
    ],
)
def test_one_that_is_switched_off_is_told_otherwise(context: str, is_off: bool) -> None:
    source = f"import torch\nfrom functools import partial\nwith {context}:\n    f()\n"
    (message,) = [f.message for f in check(source.encode()) if f.code == "XLA201"]
    assert ("XLA's stays on" in message) is is_off
