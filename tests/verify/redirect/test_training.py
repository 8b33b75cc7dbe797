"""Autocast, scalers, optimizers and files in a redirected run."""

from __future__ import annotations

import io

import pytest
import torch
from torch.utils import checkpoint

from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.observe.training import losses
from xla_migrate.verify.redirect import amp

pytestmark = pytest.mark.usefixtures("cuda")


@pytest.mark.parametrize(
    ("context", "dtype"),
    [
        (lambda: torch.autocast("cuda"), torch.float16),
        (lambda: torch.autocast(device_type="cuda", dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.amp.autocast("cuda", dtype=torch.float16), torch.float16),
        (lambda: torch.cuda.amp.autocast(), torch.float16),
        (lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.autocast("cuda", enabled=False), torch.float32),
        (lambda: torch.autocast("cuda", dtype=torch.float32), torch.float32),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_autocast_in_every_spelling(context, dtype) -> None:
    layer = torch.nn.Linear(4, 4).cuda()
    x = torch.randn(2, 4, device="cuda")
    with context():
        assert layer(x).dtype == dtype
        assert torch.is_autocast_enabled() == (dtype != torch.float32)
        assert torch.is_autocast_enabled("cuda") == (dtype != torch.float32)
        if dtype != torch.float32:
            assert torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda") == dtype
    assert context()(layer)(x).dtype == dtype  # as a decorator
    assert layer(x).dtype == torch.float32


def test_autocast_follows_cudas_list() -> None:
    """fact 1.72: what CUDA keeps in float32 and the CPU's own list does not."""
    x = torch.randn(2, 4, 4, device="cuda", dtype=torch.bfloat16)
    wide = torch.randn(2, 4, 4, device="cuda")
    f = torch.nn.functional
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for out in (
            x.softmax(-1),
            f.log_softmax(x, -1),
            f.layer_norm(x, (4,)),
            f.group_norm(x, 2),
            x.exp(),
            x.sum(),
            x.norm(),
            x.cumsum(-1),
            x**2,
            f.softplus(x),
            torch.logsumexp(x, -1),
            f.mse_loss(x, x),
            torch.atan2(x, wide),
        ):
            assert out.dtype == torch.float32
        for out in (x @ wide, f.scaled_dot_product_attention(wide, wide, wide), f.relu(x), x + x):
            assert out.dtype == torch.bfloat16
        assert torch.mv(wide[0], wide[0, 0]).dtype == torch.bfloat16
        assert x.sum(dtype=torch.float64).dtype == torch.float64


def test_the_policy_covers_all_of_cudas_operations() -> None:
    """A torch that adds to CUDA's list must be noticed."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key
    cuda, here = (
        {name.removeprefix("aten::") for name in registered(key) if name.startswith("aten::")}
        for key in ("AutocastCUDA", "AutocastCPU")
    )  # other packages register theirs when they are imported
    kernels_below = {
        "_convolution",
        "convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "_cudnn_rnn",
        "_scaled_dot_product_flash_attention",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell",
    }  # of operations that are in the list themselves
    assert {name for name in cuda - here if "imname" not in name.lower()} <= kernels_below | {
        "norm.names_ScalarOpt_dim"
    }
    assert set(amp.FP32) <= cuda


def test_custom_functions_cast_as_on_cuda() -> None:
    seen = {}

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen["forward"] = (x.dtype, torch.is_autocast_enabled("cuda"))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            seen["backward"] = torch.is_autocast_enabled("cuda")
            return grad * 2

    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        Double.apply(x).sum().backward()
    assert seen == {"forward": (torch.float32, False), "backward": False}
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.amp.GradScaler("cuda"),
        lambda: torch.amp.GradScaler(device="cuda", init_scale=65536.0),
        lambda: torch.cuda.amp.GradScaler(),
        lambda: torch.cuda.amp.GradScaler(enabled=True),
        lambda: torch.GradScaler(),
    ],
)
@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_grad_scaler_in_every_spelling(make, unscale: bool) -> None:
    scaler = make()
    assert scaler.is_enabled()
    w = torch.nn.Parameter(torch.ones(2, device="cuda"))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale((w * 3).sum()).backward()
    assert w.grad.tolist() == [3 * 65536.0] * 2
    if unscale:
        scaler.unscale_(optimizer)
        assert w.grad.tolist() == [3.0, 3.0]
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [-2.0, -2.0]
    assert scaler.get_scale() == 65536.0
    scaler.load_state_dict(scaler.state_dict())
    optimizer.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [-2.0, -2.0]
    assert scaler.get_scale() == 32768.0


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
        lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, capturable=True),
        lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
        lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.1)),
        lambda p: torch.optim.RMSprop(p, lr=0.1),
    ],
)
def test_optimizers_accept_their_cuda_options(make) -> None:
    w = torch.nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = make([w])
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(w.square().sum()).backward()
        torch.nn.utils.clip_grad_norm_([w], 1e9, foreach=True)
        scaler.step(optimizer)
        scaler.update()
    assert float(w.detach().max()) < 1
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)


def test_files_tag_devices_as_on_a_gpu() -> None:
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(1, device="cuda"), "b": torch.ones(1)}, buffer)

    def load(**options):
        buffer.seek(0)
        loaded = torch.load(buffer, **options)
        return loaded["a"].is_cuda, loaded["b"].is_cuda

    assert load() == (True, False)
    assert load(map_location="cpu") == (False, False)
    assert load(map_location=torch.device("cuda:0")) == (True, True)
    assert load(map_location={"cuda:0": "cpu"}) == (False, False)
    assert load(map_location=lambda storage, location: storage) == (False, False)
    assert load(map_location=lambda storage, location: storage.cuda(0)) == (True, True)
    assert load(weights_only=False) == (True, False)


def test_cuda_files_of_real_gpus_load() -> None:
    """A file whose storages are tagged cuda:0 (as a GPU wrote it)."""
    buffer = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), buffer)
    assert b"cuda:0" in buffer.getvalue()
    buffer.seek(0)
    assert torch.load(buffer).device == torch.device("cuda", 0)


def test_gradients_of_gradients() -> None:
    """`torch.autograd.grad` hands itself to every mode, as it is found in its module."""
    x = torch.full((2, 2), 3.0, device="cuda", requires_grad=True)
    (slope,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert slope.is_cuda
    assert slope.tolist() == [[6.0, 6.0], [6.0, 6.0]]
    slope.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_loss_that_is_differentiated_by_grad_is_recorded_once() -> None:
    patches = Patches()
    losses.install(patches)
    try:
        losses.forget()
        w = torch.ones(2, device="cuda", requires_grad=True)
        torch.autograd.grad((w * 2).sum(), w)
        assert [value.item() for value, _ in losses.since_step] == [4.0]
    finally:
        losses.forget()
        patches.undo()


def test_activation_checkpointing_compares_where_tensors_are() -> None:
    described = checkpoint._allowed_determinism_checks_to_fns["default"]
    x = torch.ones(2)
    assert described(x.cuda()) == described(x)
    layer = torch.nn.Linear(2, 2).cuda()
    checkpoint.checkpoint(layer, x.cuda(), use_reentrant=False).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.numpy(), lambda t: t.tolist()])
def test_packed_sequences_keep_their_sizes_on_the_host(form) -> None:
    rnn = torch.nn.utils.rnn
    lstm = torch.nn.LSTM(4, 4, batch_first=True).cuda()
    x = torch.randn(2, 5, 4, device="cuda")
    packed = rnn.pack_padded_sequence(x, form(torch.tensor([5, 3])), batch_first=True)
    assert packed.data.is_cuda
    assert not packed.batch_sizes.is_cuda
    out, lengths = rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    assert out.is_cuda
    assert not lengths.is_cuda
    assert lengths.tolist() == [5, 3]
