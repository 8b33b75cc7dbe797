"""CUDA-only optimizers as calls of others: names, arguments and defaults."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings, migrated

HEAD = """\
import torch
from apex.optimizers import FusedAdam, FusedSGD, FusedLAMB, FusedNovoGrad, FusedAdagrad, FusedMixedPrecisionLamb
import bitsandbytes as bnb
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.ops import lion
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # apex
        ("FusedAdam(p)", "torch.optim.AdamW(p, weight_decay=0.0)"),
        ("FusedAdam(p, 1e-3)", "torch.optim.AdamW(p, 1e-3, weight_decay=0.0)"),
        ("FusedAdam(p, 1e-3, True)", "torch.optim.AdamW(p, 1e-3, weight_decay=0.0)"),
        ("FusedAdam(p, 1e-3, True, b, e, True, w)", "torch.optim.AdamW(p, 1e-3, betas=b, eps=e, weight_decay=w)"),
        ("FusedAdam(p, weight_decay=args.wd)", "torch.optim.AdamW(p, weight_decay=args.wd)"),
        ("FusedAdam(p, adam_w_mode=False)", "torch.optim.Adam(p)"),
        ("FusedAdam(p, adam_w_mode=True, eps=1e-6)", "torch.optim.AdamW(p, eps=1e-6, weight_decay=0.0)"),
        ("FusedAdam(p, adam_w_mode=w)", "(torch.optim.AdamW if w else torch.optim.Adam)(p, weight_decay=0.0)"),
        ("FusedAdam(p, amsgrad=False, set_grad_none=True, capturable=False)", "torch.optim.AdamW(p, amsgrad=False, weight_decay=0.0)"),
        ("FusedAdam([x for x in p if x.requires_grad], 1e-3, True, b)", "torch.optim.AdamW([x for x in p if x.requires_grad], 1e-3, betas=b, weight_decay=0.0)"),
        ("FusedSGD(p, 0.1, 0.9, 0, 1e-4, True)", "torch.optim.SGD(p, 0.1, 0.9, 0, 1e-4, True)"),
        ("FusedSGD(p, lr=0.1, wd_after_momentum=False, set_grad_none=True)", "torch.optim.SGD(p, lr=0.1)"),
        ("FusedLAMB(p)", "timm.optim.Lamb(p)"),
        ("FusedLAMB(p, 1e-3, True, b, e, w, False, True, True)", "timm.optim.Lamb(p, 1e-3, True, b, e, w, grad_averaging=True)"),
        ("FusedLAMB(p, max_grad_norm=0.5, use_nvlamb=nv)", "timm.optim.Lamb(p, max_grad_norm=0.5, always_adapt=nv)"),
        ("FusedMixedPrecisionLamb(p, lr=1e-3, step=0, reduced_precision_dtype=None)", "timm.optim.Lamb(p, lr=1e-3)"),
        ("FusedAdagrad(p, 1e-2, 1e-8)", "torch.optim.Adagrad(p, 1e-2, eps=1e-8)"),
        ("FusedNovoGrad(p, 1e-3, norm_type=0, amsgrad=False)", "xla.NovoGrad(p, 1e-3, norm_type=0)"),
        # bitsandbytes
        ("bnb.optim.AdamW8bit(p)", "torch.optim.AdamW(p)"),
        ("bnb.optim.PagedAdamW8bit(p, lr=1e-5, percentile_clipping=100, block_wise=True)", "torch.optim.AdamW(p, lr=1e-5)"),
        ("bnb.optim.Adam8bit(p, 1e-3, b, e)", "torch.optim.Adam(p, 1e-3, b, e)"),
        ("bnb.optim.Adam8bit(p, weight_decay=0)", "torch.optim.Adam(p, weight_decay=0)"),
        ("bnb.optim.Adam8bit(p, 1e-3, b, e, w)", "torch.optim.AdamW(p, 1e-3, b, e, w)"),
        ("bnb.optim.Adam(p, weight_decay=w, amsgrad=True)", "torch.optim.AdamW(p, weight_decay=w)"),
        ("bnb.optim.adamw.AdamW32bit(p, optim_bits=8, min_8bit_size=4096)", "torch.optim.AdamW(p)"),
        ("bnb.optim.PagedLion8bit(p, weight_decay=w)", "timm.optim.Lion(p, weight_decay=w)"),
        ("bnb.optim.SGD8bit(p, 0.1, momentum=0.9, nesterov=True)", "torch.optim.SGD(p, 0.1, momentum=0.9)"),
        ("bnb.optim.SGD(p, 0.1, 0.9, 0, w)", "torch.optim.SGD(p, 0.1, 0.9, weight_decay=w)"),
        ("bnb.optim.RMSprop8bit(p, alpha=0.9, centered=False)", "torch.optim.RMSprop(p, alpha=0.9)"),
        ("bnb.optim.Adagrad8bit(p, optim_bits=8)", "torch.optim.Adagrad(p)"),
        # DeepSpeed
        ("DeepSpeedCPUAdam(p, lr=1e-4)", "torch.optim.AdamW(p, lr=1e-4, weight_decay=0.0)"),
        ("DeepSpeedCPUAdam(model_params=p)", "torch.optim.AdamW(params=p, weight_decay=0.0)"),
        ("DeepSpeedCPUAdam(p, adamw_mode=m, weight_decay=w)", "(torch.optim.AdamW if m else torch.optim.Adam)(p, weight_decay=w)"),
        ("lion.FusedLion(p, 1e-4)", "timm.optim.Lion(p, 1e-4, betas=(0.9, 0.999))"),
        ("lion.DeepSpeedCPULion(p, betas=b)", "timm.optim.Lion(p, betas=b, lr=1e-3)"),
    ],
)  # fmt: skip
def test_calls(before: str, after: str) -> None:
    assert migrated(f"{HEAD}o = {before}\n", unsafe=True).splitlines()[-1] == f"o = {after}"


@pytest.mark.parametrize(
    "call",
    [
        "FusedAdam(p, bias_correction=False)",
        "FusedAdam(p, bias_correction=b)",
        "FusedAdam(p, capturable=True, master_weights=True)",
        "FusedAdam(p, **options)",
        "FusedAdam(*arguments)",
        "FusedSGD(p, lr=0.1, wd_after_momentum=True)",
        "FusedLAMB(p, adam_w_mode=False)",
        "FusedAdagrad(p, adagrad_w_mode=w)",
        "bnb.optim.AdamW8bit(p, percentile_clipping=5)",
        "bnb.optim.LAMB(p)",
        "bnb.optim.LARS8bit(p, lr=0.1)",
        "bnb.optim.PagedAdEMAMix8bit(p)",
        "bnb.optim.PytorchLARS(p)",
        "f(bnb.optim.AdEMAMix)",
        "bnb.optim.GlobalOptimManager.get_instance()",
        "DeepSpeedCPUAdam(p, bias_correction=False)",
    ],
)
def test_left_to_a_person(call: str) -> None:
    source = f"{HEAD}o = {call}\n"
    last = len(source.splitlines())
    assert [code for line, code in findings(source) if line == last and code.startswith("XLA30")]
    assert migrated(source).splitlines()[-1] == f"o = {call}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("o = bnb.optim.AdamW8bit", "o = torch.optim.AdamW"),
        ("o = bnb.optim.AdamW8bit if a else torch.optim.AdamW\no(p, lr=1)", "o = torch.optim.AdamW if a else torch.optim.AdamW\no(p, lr=1)"),
        ("o = FusedAdam\no(p, weight_decay=w)\nloss.backward()", "o = torch.optim.AdamW\no(p, weight_decay=w)\nloss.backward()"),
        ("self.o = FusedSGD\nself.o(p, lr=1)\nloss.backward()", "self.o = torch.optim.SGD\nself.o(p, lr=1)\nloss.backward()"),
        ("fit(optimizer_cls=bnb.optim.AdamW8bit)", "fit(optimizer_cls=torch.optim.AdamW)"),
    ],
)  # fmt: skip
def test_classes_called_later(before: str, after: str) -> None:
    assert migrated(f"{HEAD}{before}\n", unsafe=True).endswith(after + "\n")


@pytest.mark.parametrize(
    "source",
    [
        "o = FusedAdam",
        "o = FusedAdam\no(p, lr=1)\nloss.backward()",
        "o = FusedAdam\no(p, weight_decay=1, adam_w_mode=False)\nloss.backward()",
        "o = bnb.optim.AdamW8bit\no(p, min_8bit_size=1)\nloss.backward()",
        "table = {'adam': FusedAdam}",
        "o = bnb.optim.Adam8bit",
    ],
)
def test_classes_called_otherwise_are_left_to_a_person(source: str) -> None:
    after = migrated(HEAD + source + "\n")
    assert after.endswith(source + "\n")
    assert [f for f in check(after.encode()) if f.code in {"XLA301", "XLA302"}]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\no = torch.optim.AdamW(p)\n",
        "import torch\nfrom torch_xla.amp import syncfree\no = syncfree.AdamW(p)\n",
        "import torch\nfrom mylib import FusedAdam\no = FusedAdam(p)\n",
        "import torch\nfrom timm.optim import Lamb\no = Lamb(p)\n",
        "import torch\nimport bitsandbytes as bnb\nok = isinstance(o, (bnb.optim.AdamW, bnb.optim.Lion))\n",
        "import torch\nfrom apex.optimizers import FusedAdam\ndef f(o: FusedAdam) -> bool:\n    return isinstance(o, FusedAdam)\n",
    ],
)
def test_others_are_left_alone(source: str) -> None:
    assert migrated(source) == source


def test_comments_and_lines_stay() -> None:
    source = """\
    import torch
    from apex.optimizers import FusedAdam
    o = FusedAdam(
        p,  # all of them
        lr=1e-3,
        set_grad_none=True,  # apex's default
        eps=1e-6,
    )
    """
    assert migrated(source) == (
        "import torch\n"
        "o = torch.optim.AdamW(\n"
        "    p,  # all of them\n"
        "    lr=1e-3,\n"
        "    eps=1e-6,\n"
        "    weight_decay=0.0,\n"
        ")\n"
    )


@pytest.mark.parametrize(
    ("call", "safety"),
    [
        ("bnb.optim.AdamW8bit(p)", "unsafe"),
        ("bnb.optim.PagedLion8bit(p)", "unsafe"),
        ("bnb.optim.AdamW(p, optim_bits=8)", "unsafe"),
        ("bnb.optim.AdamW(p, optim_bits=args.bits)", "unsafe"),
        ("bnb.optim.SGD8bit(p, 0.1, momentum=0.9)", "unsafe"),
        ("bnb.optim.AdamW32bit(p)", "safe"),
        ("bnb.optim.AdamW(p, optim_bits=32)", "safe"),
        ("bnb.optim.PagedAdamW32bit(p)", "safe"),
    ],
)
def test_states_of_8_bits_that_become_32_are_asked_for(call: str, safety: str) -> None:
    """Memory and roundings change: that is said, and done with `--unsafe` alone."""
    every = check(f"{HEAD}o = {call}\n".encode())
    (found,) = (finding for finding in every if finding.code == "XLA302")
    assert found.safety == safety
    assert ("four times the memory" in found.message) == (safety == "unsafe")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("FusedLAMB(p)", True),
        ("bnb.optim.Lion32bit(p)", True),
        ("bnb.optim.Lion8bit(p)", True),
        ("FusedSGD(p, 0.1)", False),
        ("FusedNovoGrad(p)", False),
    ],
)
def test_a_package_that_has_to_be_installed_is_named(call: str, told: bool) -> None:
    source = f"{HEAD}from apex.optimizers import FusedLAMB, FusedNovoGrad, FusedSGD\no = {call}\n"
    assert ("from timm" in check(source.encode())[-1].message) == told


@pytest.mark.parametrize(
    "line",
    [
        "OPTIMIZERS.register_module(module=FusedLamb)",
        "OPTIMIZERS.register(FusedLamb)",
        "register_optimizer('lamb')(FusedLamb)",
        "OPTIMIZERS.register_module()(FusedLamb)",
        "REGISTRY.register_class(FusedLamb, force=True)",
    ],
)
def test_a_class_that_is_registered_keeps_its_name(line: str) -> None:
    source = f"import torch\nfrom deepspeed.ops.lamb import FusedLamb\n{line}\n"
    assert line in migrated(source)
    assert {"XLA303", "XLA906"} & {code for _, code in findings(source)}


def test_a_class_that_is_bound_is_replaced() -> None:
    source = "import torch\nfrom deepspeed.ops.lamb import FusedLamb\nkind = FusedLamb\n"
    assert "kind = xla.BoundedLamb" in migrated(source)
