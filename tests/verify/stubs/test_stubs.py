"""Stand-ins for CUDA-only packages: their own formulas and defaults, step by step."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from xla_migrate.verify.observe.process import where

from ... import warm

pytestmark = pytest.mark.usefixtures("cuda")


def train(make, steps: int = 4, scale: float = 1.0) -> torch.Tensor:
    """Parameters after some steps on fixed gradients."""
    generator = torch.Generator().manual_seed(0)
    w = torch.nn.Parameter(torch.randn(5, 3, generator=generator))
    b = torch.nn.Parameter(torch.randn(3, generator=generator))
    optimizer = make([w, b])
    for _ in range(steps):
        for p in (w, b):
            p.grad = torch.randn(p.shape, generator=generator) * scale
        optimizer.step()
    return torch.cat([w.detach().flatten(), b.detach()])


def same(ours, theirs, **options) -> None:
    torch.testing.assert_close(train(ours, **options), train(theirs, **options))


def test_apex_adam_is_adamw_without_decay_by_default() -> None:
    from apex.optimizers import FusedAdam

    same(lambda p: FusedAdam(p), lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.0))
    same(
        lambda p: FusedAdam(p, lr=0.1, weight_decay=0.1, betas=(0.8, 0.9)),
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, betas=(0.8, 0.9)),
    )
    same(
        lambda p: FusedAdam(p, lr=0.1, weight_decay=0.1, adam_w_mode=False),
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1),
    )
    with pytest.raises(RuntimeError, match="AMSGrad"):
        FusedAdam([torch.nn.Parameter(torch.ones(1))], amsgrad=True)


def test_apex_sgd_and_adagrad() -> None:
    from apex.optimizers import FusedAdagrad, FusedSGD

    for options in ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}):
        options = {"lr": 0.1, "weight_decay": 0.01, **options}
        same(lambda p, o=options: FusedSGD(p, **o), lambda p, o=options: torch.optim.SGD(p, **o))
    same(
        lambda p: FusedSGD(p, lr=0.1, momentum=0.9, dampening=0.5),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    )
    same(lambda p: FusedAdagrad(p), lambda p: torch.optim.Adagrad(p, lr=1e-2, eps=1e-10))
    late = train(lambda p: FusedSGD(p, 0.1, 0.9, 0, 0.1, wd_after_momentum=True))
    early = train(lambda p: FusedSGD(p, 0.1, 0.9, 0, 0.1))
    assert not torch.allclose(late, early)


def lamb_by_hand(w, grads, lr, beta1, beta2, eps, decay, limit):
    """One tensor, written out from multi_tensor_lamb.cu."""
    m = v = torch.zeros_like(w)
    for t, g in enumerate(grads, 1):
        g = g / max(1.0, float(g.norm()) / limit)
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        update = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps) + decay * w
        w = w - lr * (w.norm() / update.norm() if decay else 1.0) * update
    return w


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_apex_lamb(decay: float) -> None:
    from apex.optimizers import FusedLAMB

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(5, generator=generator)
    grads = [torch.randn(5, generator=generator) for _ in range(4)]
    w = torch.nn.Parameter(start.clone())
    optimizer = FusedLAMB([w], lr=0.1, weight_decay=decay)
    for grad in grads:
        w.grad = grad.clone()
        optimizer.step()
    expected = lamb_by_hand(start, grads, 0.1, 0.9, 0.999, 1e-6, decay, 1.0)
    torch.testing.assert_close(w.detach(), expected)
    assert FusedLAMB([w]).defaults["weight_decay"] == 0.01


def test_apex_novograd() -> None:
    """Written out from multi_tensor_novograd.cu, L2 norm, decay outside the moment."""
    from apex.optimizers import FusedNovoGrad

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, generator=generator)
    grads = [torch.randn(5, generator=generator) for _ in range(4)]
    w = torch.nn.Parameter(x.clone())
    optimizer = FusedNovoGrad([w], lr=0.1, weight_decay=0.02)
    m, n = torch.zeros(5), None
    for t, g in enumerate(grads, 1):
        w.grad = g.clone()
        optimizer.step()
        n = g.norm() if n is None else (0.999 * n**2 + 0.001 * g.norm() ** 2).sqrt()
        m = 0.9 * m + 0.1 * g
        scale = n / (1 - 0.999**t) ** 0.5 + 1e-8
        x = x - 0.1 * (m / (1 - 0.9**t) / scale + 0.02 * x)
    torch.testing.assert_close(w.detach(), x)


def test_apex_norms() -> None:
    from apex.normalization import FusedLayerNorm, FusedRMSNorm
    from apex.normalization.fused_layer_norm import MixedFusedLayerNorm

    x = torch.randn(2, 6)
    torch.testing.assert_close(FusedLayerNorm(6)(x), torch.nn.LayerNorm(6)(x))
    torch.testing.assert_close(FusedRMSNorm(6)(x), torch.nn.RMSNorm(6, eps=1e-5)(x))
    assert FusedLayerNorm((3, 2)).half()(x.half().view(2, 3, 2)).dtype == torch.float16
    assert MixedFusedLayerNorm(6)(x.half()).dtype == torch.float32


def test_apex_multi_tensor_applier_and_parallel() -> None:
    import amp_C
    from apex.multi_tensor_apply import multi_tensor_applier
    from apex.parallel import DistributedDataParallel, convert_syncbn_model

    flag, out = torch.zeros(1, dtype=torch.int), [torch.zeros(2)]
    multi_tensor_applier(amp_C.multi_tensor_scale, flag, [[torch.ones(2)], out], 0.5)
    assert out[0].tolist() == [0.5, 0.5]
    norm, _ = multi_tensor_applier(amp_C.multi_tensor_l2norm, flag, [out], False)
    assert float(norm) == pytest.approx(0.5**0.5)
    model = convert_syncbn_model(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    assert isinstance(model[0], torch.nn.SyncBatchNorm)
    assert issubclass(DistributedDataParallel, torch.nn.parallel.DistributedDataParallel)


@pytest.mark.parametrize(
    ("level", "weights", "output"),
    [
        ("O0", torch.float32, torch.float32),
        ("O1", torch.float32, torch.float16),
        ("O2", torch.float16, torch.float32),
        ("O3", torch.float16, torch.float32),
    ],
)
def test_apex_amp_levels(level: str, weights: torch.dtype, output: torch.dtype) -> None:
    from apex import amp

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).cuda()
    plain = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    try:
        model, optimizer = amp.initialize(model, optimizer, opt_level=level)
        assert model[0].weight.dtype == weights
        assert model[1].weight.dtype == (weights if level == "O3" else torch.float32)
        x = torch.randn(8, 3, device="cuda")
        assert model[0](x.to(weights)).dtype == (torch.float16 if level != "O0" else torch.float32)
        assert model(x).dtype == (torch.float16 if level == "O1" else output)
        optimizer.zero_grad()
        with amp.scale_loss(model(x).float().square().mean(), optimizer) as scaled:
            scaled.backward()
        grads = [p.grad for p in amp.master_params(optimizer)]
        assert all(g is not None and float(g.abs().max()) < 100 for g in grads)  # unscaled
        optimizer.step()
    finally:
        torch.set_autocast_enabled("cuda", False)
    for before, after in zip(plain, model.parameters(), strict=True):
        assert after.dtype == weights or before is plain[2] or before is plain[3]
    assert not torch.equal(plain[0], model[0].weight.float())
    assert set(amp.state_dict()) == {"loss_scaler0"}


def test_apex_amp_trains_after_an_evaluation() -> None:
    from apex import amp

    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    try:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        with torch.no_grad():
            model(torch.ones(1, 2).cuda())
        with amp.scale_loss(model(torch.ones(1, 2).cuda()).float().mean(), optimizer) as scaled:
            scaled.backward()
        assert model.weight.grad is not None
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_apex_amp_skips_one_step_after_an_overflow() -> None:
    from apex import amp

    w = torch.nn.Linear(1, 1, bias=False).cuda()
    optimizer = torch.optim.SGD(w.parameters(), lr=1.0)
    w, optimizer = amp.initialize(w, optimizer, opt_level="O2", verbosity=0)
    before = w.weight.item()
    with amp.scale_loss(w(torch.ones(1, 1).cuda()).sum() * float("inf"), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert w.weight.item() == before
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 2.0**15
    optimizer.zero_grad()
    with amp.scale_loss(w(torch.ones(1, 1).cuda()).sum(), optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert w.weight.item() == pytest.approx(before - 1, abs=1e-2)


def test_apex_amp_accumulates_over_backwards() -> None:
    from apex import amp

    w = torch.nn.Linear(1, 1, bias=False).cuda()
    optimizer = torch.optim.SGD(w.parameters(), lr=1.0)
    w, optimizer = amp.initialize(w, optimizer, opt_level="O2", verbosity=0)
    for delay in (False, True, False):
        loss = w(torch.ones(1, 1).cuda()).sum() * 0.25
        with amp.scale_loss(loss, optimizer, delay_unscale=delay) as scaled:
            scaled.backward()
    (master,) = amp.master_params(optimizer)
    assert float(master.grad) == 0.75


def test_bitsandbytes_adam_decays_after_the_update() -> None:
    import bitsandbytes as bnb

    same(lambda p: bnb.optim.Adam8bit(p), lambda p: torch.optim.Adam(p, lr=1e-3))
    assert bnb.optim.AdamW([torch.nn.Parameter(torch.ones(1))]).defaults["weight_decay"] == 0.01
    x = torch.tensor([1.0, -2.0])
    w = torch.nn.Parameter(x.clone())
    optimizer = bnb.optim.PagedAdamW32bit([w], lr=0.1, weight_decay=0.5)
    w.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    torch.testing.assert_close(w.detach(), (x - 0.1) * (1 - 0.05))


def test_bitsandbytes_others() -> None:
    import bitsandbytes as bnb
    from bitsandbytes.optim import SGD8bit

    same(
        lambda p: SGD8bit(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    )
    same(lambda p: bnb.optim.RMSprop(p), lambda p: torch.optim.RMSprop(p, lr=0.01))
    same(lambda p: bnb.optim.Adagrad(p), lambda p: torch.optim.Adagrad(p, lr=0.01))
    w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = bnb.optim.Lion8bit([w], lr=0.1, weight_decay=0.5)
    w.grad = torch.tensor([3.0, -5.0])
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([0.95 - 0.1, -1.9 + 0.1]))
    with pytest.raises(NotImplementedError, match="momentum"):
        bnb.optim.SGD([w], lr=0.1)
    with pytest.raises(NotImplementedError, match="needs CUDA"):
        _ = bnb.functional
    assert not hasattr(bnb.nn, "Linear4bit")  # what libraries ask


def test_deepspeed_optimizers() -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
    from deepspeed.ops.lamb import FusedLamb

    for ours in (FusedAdam, DeepSpeedCPUAdam):
        same(lambda p, o=ours: o(p), lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.0))
    w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    w.grad = torch.tensor([1.0, 1.0])
    FusedLamb([w], lr=0.1).step()
    # update = m / (sqrt(v) + eps) = 0.1 / sqrt(0.001) each; |p| / |update| = 1.118 within the limits
    update = torch.tensor([0.1, 0.1]) / 0.001**0.5
    step = 0.1 * 0.001**0.5 / 0.1
    expected = torch.tensor([3.0, 4.0]) - step * (5.0 / update.norm()) * update
    torch.testing.assert_close(w.detach(), expected)


def test_flash_attention_is_exact_attention() -> None:
    from flash_attn import flash_attn_func, flash_attn_qkvpacked_func, flash_attn_varlen_func
    from flash_attn.bert_padding import pad_input, unpad_input
    from flash_attn.flash_attn_interface import flash_attn_kvpacked_func

    q, k, v = (torch.randn(2, 5, 4, 8) for _ in range(3))

    def exact(q, k, v, allowed):
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
        return torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(~allowed, -1e30).softmax(-1), v)

    full = torch.ones(5, 5, dtype=torch.bool)
    close = torch.testing.assert_close
    close(flash_attn_func(q, k, v), exact(q, k, v, full))
    close(flash_attn_func(q, k, v, causal=True), exact(q, k, v, full.tril()))
    close(flash_attn_qkvpacked_func(torch.stack([q, k, v], 2)), exact(q, k, v, full))
    close(flash_attn_kvpacked_func(q, torch.stack([k, v], 2)), exact(q, k, v, full))
    window = full.tril(1).triu(-1)
    close(flash_attn_func(q, k, v, window_size=(1, 1)), exact(q, k, v, window))
    # fewer queries than keys: aligned at the bottom right
    close(flash_attn_func(q[:, :2], k, v, causal=True), exact(q[:, :2], k, v, full.tril()[3:]))
    grouped = k[:, :, :2].repeat_interleave(2, 2)
    close(flash_attn_func(q, k[:, :, :2], v), exact(q, grouped, v, full))
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    tokens, indices, bounds, longest, lengths = unpad_input(q.flatten(2), mask)
    assert (tokens.shape, longest, lengths.tolist()) == ((8, 32), 5, [3, 5])
    close(pad_input(tokens, indices, 2, 5), q.flatten(2) * mask[..., None])
    flat = tokens.view(8, 4, 8)
    out = flash_attn_varlen_func(flat, flat, flat, bounds, bounds, longest, longest)
    close(out[:3][None], exact(*[flat[None, :3]] * 3, full[:3, :3]))


def test_pynvml_says_that_there_is_none() -> None:
    import pynvml

    with pytest.raises(pynvml.NVMLError, match="nvmlInit"):
        pynvml.nvmlInit()


def test_only_the_users_code_finds_stand_ins() -> None:
    """Libraries that probe for optional packages keep their path."""
    assert importlib.util.find_spec("apex") is None
    assert importlib.util.find_spec("flash_attn") is None
    from timm.layers import fast_norm

    assert not fast_norm.has_apex


@pytest.mark.parametrize("is_project", [True, False])
def test_an_optional_import_outside_the_project_finds_no_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_project: bool
) -> None:
    """A library may be installed in any folder: `pip install --target`, PYTHONPATH."""
    for name, text in {
        "optional_user": "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\n",
        "certain_user": "if True:\n    import flash_attn\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(where, "_project", (f"{tmp_path}/",) if is_project else ())
    optional = importlib.import_module("optional_user")
    assert (optional.flash_attn is not None) == is_project
    assert importlib.import_module("certain_user").flash_attn is not None


def test_nothing_is_found_without_the_redirection() -> None:
    code = (
        "import xla_migrate.verify.redirect\ntry:\n import apex\nexcept ImportError: print('none')"
    )
    out = subprocess.run(
        [warm.for_side("reference"), "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "none"


def test_diffusers_keeps_its_own_attention() -> None:
    diffusers = importlib.import_module("diffusers")  # behind the redirection's begin
    model = diffusers.UNet2DModel(
        sample_size=8,
        layers_per_block=1,
        block_out_channels=(8,),
        norm_num_groups=4,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
    )
    x, steps = torch.randn(1, 3, 8, 8), torch.tensor([3])
    before = model(x, steps).sample
    model.enable_xformers_memory_efficient_attention()
    assert torch.equal(model(x, steps).sample, before)
