"""What the rules for precision, optimizers, checkpoints and graph tools say of torch and torch_xla is so."""

from __future__ import annotations

import inspect
import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch_xla = pytest.importorskip("torch_xla")

import torch_xla.core.xla_model as xm  # noqa: E402
import torch_xla.debug.metrics as met  # noqa: E402
from torch import nn  # noqa: E402

from xla_migrate import runtime as xla  # noqa: E402

from ... import warm  # noqa: E402
from ...runtime.rehearsal import start_device  # noqa: E402


@pytest.fixture(scope="module")
def device() -> Any:
    start_device()
    return torch_xla.device()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch_xla.sync()


def model(device: Any) -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to(device)


def reads_of(step: Callable[[], Any], warm_up: int = 3) -> int:
    """Host reads of one step, after some that warm up."""

    def count() -> int:
        xm.wait_device_ops()
        data = met.metric_data("TransferFromDeviceTime")
        return int(data[0]) if data else 0

    for _ in range(warm_up):
        step()
        torch_xla.sync()
    before = count()
    step()
    torch_xla.sync()
    return count() - before


def stepper(net: Any, optimizer: Any, device: Any) -> Callable[[], None]:
    x = torch.ones(3, 4, device=device)

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    return step


@pytest.mark.parametrize(("enabled", "reads"), [(True, 1), (False, 0)])
def test_fact_1_73_a_scaler_reads_once_per_step_unless_switched_off(
    device: Any, enabled: bool, reads: int
) -> None:
    net = model(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("xla", enabled=enabled)
    x = torch.ones(3, 4, device=device)

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(net(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    assert reads_of(step) == reads


def test_a_scaler_that_is_switched_off_does_nothing() -> None:
    """What XLA204 leaves where somebody holds on to one."""
    scaler = torch.amp.GradScaler(enabled=False)
    x = torch.ones(2)
    assert scaler.scale(x) is x
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 65536.0})
    assert scaler.get_scale() == 1.0


def test_torchs_questions_about_autocast_take_xla(device: Any) -> None:
    assert not torch.is_autocast_enabled("xla")
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("xla")
        assert not torch.is_autocast_enabled()  # CUDA's
        assert torch.get_autocast_dtype("xla") == torch.bfloat16
    torch.set_autocast_dtype("xla", torch.bfloat16)


def test_custom_fwd_takes_xla(device: Any) -> None:
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="xla", cast_inputs=torch.bfloat16)
        def forward(ctx: Any, x: Any) -> Any:
            seen.append((x.dtype, torch.is_autocast_enabled("xla")))
            return 2 * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="xla")
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad

    x = torch.ones(2, device=device, requires_grad=True)
    with torch.autocast("xla"):
        Double.apply(x).sum().backward()
    assert seen == [(torch.bfloat16, False)]
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"capturable": True, "foreach": True}, AssertionError),
        ({"capturable": True}, None),
        ({"foreach": True}, None),
    ],
)
def test_fact_3_26_optimizer_flags(
    device: Any, options: dict[str, bool], error: type[Exception] | None
) -> None:
    net = model(device)

    def train() -> None:
        stepper(net, torch.optim.Adam(net.parameters(), **options), device)()

    if error is None:
        train()
    else:
        with pytest.raises(error):
            train()


def reads_of_an_optimizer(name: str) -> int:
    device = torch_xla.device()
    net = model(device)  # four parameters, of which Muon takes the two matrices
    params = [p for p in net.parameters() if name != "Muon" or p.dim() == 2]
    optimizer = getattr(torch.optim, name)(params, lr=1e-3)
    return reads_of(stepper(net, optimizer, device))


@pytest.mark.e2e
def test_fact_3_27_reads_of_optimizers() -> None:
    """In a process of its own: the runtime's patches, which other tests apply, save some."""
    reads = {"ASGD": 12, "Adafactor": 8, "Muon": 20, "AdamW": 0}
    code = f"from {__name__} import *; print(*map(reads_of_an_optimizer, {list(reads)}))"
    python = warm.python(*warm.TORCH_XLA)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "PJRT_DEVICE": "CPU"}
    run = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.split() == [str(count) for count in reads.values()], run.stderr


def test_fact_3_27_lbfgs_compiles_at_every_step(device: Any) -> None:
    net = nn.Linear(2, 1).to(device)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x = torch.ones(1, 2, device=device)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss

    compiled = []
    for _ in range(2):
        before = met.counter_value("UncachedCompile") or 0
        optimizer.step(closure)
        torch_xla.sync()
        compiled.append((met.counter_value("UncachedCompile") or 0) - before)
    assert min(compiled) > 4


def test_fact_3_28_step_counts_on_the_device_are_read_back(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without our patch, which may be applied in this process.
    torchs = inspect.unwrap(torch.optim.Adam._init_group)  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.optim.Adam, "_init_group", torchs)
    net = model(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    step = stepper(net, optimizer, device)
    assert reads_of(step) == 0
    optimizer.load_state_dict(optimizer.state_dict())
    assert reads_of(step) == 0  # `load_state_dict` leaves them on the CPU
    for state in optimizer.state.values():
        for key, value in state.items():
            state[key] = value.to(device)
    assert reads_of(step) == len(list(net.parameters()))


@pytest.mark.parametrize("name", ["Lamb", "Lion"])
def test_timms_optimizers_read_nothing(device: Any, name: str) -> None:
    optim = pytest.importorskip("timm.optim")
    net = nn.Linear(4, 2).to(device)
    optimizer = getattr(optim, name)(net.parameters(), lr=1e-3)
    assert reads_of(stepper(net, optimizer, device)) == 0


def test_fact_1_47_assign_leaves_parameters_on_the_cpu(device: Any) -> None:
    net = model(device)
    net.load_state_dict({k: v.cpu() for k, v in net.state_dict().items()}, assign=True)
    assert {p.device.type for p in net.parameters()} == {"cpu"}


def test_fact_3_12_a_product_shares_no_buffer(device: Any) -> None:
    """What XLA511 writes: `q.data.copy_(p.data * 1)`."""
    source, target = model(device), model(device)
    step = stepper(source, torch.optim.SGD(source.parameters(), lr=0.1), device)
    for _ in range(3):
        for p, q in zip(source.parameters(), target.parameters(), strict=True):
            q.data.copy_(p.data * 1)
        torch_xla.sync()
        copied = [q.detach().cpu() for q in target.parameters()]
        for _ in range(2):
            step()
            torch_xla.sync()
        for before, q in zip(copied, target.parameters(), strict=True):
            assert torch.equal(before, q.detach().cpu())


def test_a_product_with_one_keeps_every_bit() -> None:
    x = torch.tensor([-0.0, 1e-45, float("inf"), 3.4e38])
    assert torch.equal((x * 1).view(torch.int32), x.view(torch.int32))


def test_section_2_anomaly_detection_reads_gradients_back(device: Any) -> None:
    net = model(device)
    step = stepper(net, torch.optim.SGD(net.parameters(), lr=0.1), device)

    def checked() -> None:
        with torch.autograd.detect_anomaly():
            step()

    def traced() -> None:
        with torch.autograd.detect_anomaly(check_nan=False):
            step()

    assert reads_of(checked, warm_up=1) > 5
    assert reads_of(traced, warm_up=1) == 0


def test_section_2_no_sparse_gradients(device: Any) -> None:
    embedding = nn.Embedding(4, 2, sparse=True).to(device)
    with pytest.raises(NotImplementedError, match="SparseXLA"):
        embedding(torch.tensor([1, 2], device=device)).sum().backward()


def test_packed_sequences_compile_for_each_set_of_lengths(device: Any) -> None:
    lstm = nn.LSTM(2, 3, batch_first=True).to(device)

    def compiled(lengths: list[int]) -> int:
        xla.mark_step()
        before = xla.metrics()["compiles"] or 0
        x = torch.ones(2, 7, 2, device=device)
        lstm(nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), True))[0].data.tolist()
        return (xla.metrics()["compiles"] or 0) - before

    assert compiled([7, 2]) > 0
    assert compiled([7, 2]) == 0
    assert compiled([7, 3]) > 0


def test_section_2_no_shared_memory_and_no_dlpack(device: Any) -> None:
    with pytest.raises(RuntimeError, match="only available on CPU"):
        nn.Linear(2, 2).to(device).share_memory()
    with pytest.raises(BufferError):
        torch.utils.dlpack.to_dlpack(torch.ones(2, device=device))


def test_section_2_quantized_tensors_come_out_on_the_cpu(device: Any) -> None:
    x = torch.quantize_per_tensor(torch.ones(2, device=device), 0.1, 0, torch.qint8)
    assert x.device.type == "cpu"


def test_fact_3_50_data_takes_no_tensor_of_another_device(device: Any) -> None:
    parameter = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = parameter.data.to(device)
    moved = parameter.to(device)
    moved.data = moved.data.to(device)  # where it is already


def test_a_scripted_module_is_saved_from_the_cpu(device: Any, tmp_path: Any) -> None:
    traced = torch.jit.trace(nn.Linear(2, 2).to(device), torch.ones(1, 2, device=device))
    with pytest.raises(RuntimeError):
        torch.jit.save(traced, tmp_path / "model.pt")
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), tmp_path / "model.pt")
    from xla_migrate import runtime  # noqa: F401 - which moves parameters of such modules too

    loaded = torch.jit.load(tmp_path / "model.pt", map_location="cpu").to(device)
    assert loaded(torch.ones(1, 2, device=device)).shape == (1, 2)


def test_safetensors(device: Any, tmp_path: Any) -> None:
    files = pytest.importorskip("safetensors.torch")
    state = nn.Linear(2, 2).to(device).state_dict()
    with pytest.raises(RuntimeError):
        files.save_file(state, tmp_path / "a")
    files.save_file({k: v.cpu() for k, v in state.items()}, tmp_path / "a")
    loaded = files.load_file(tmp_path / "a", device="xla")
    assert {v.device.type for v in loaded.values()} == {"xla"}


def test_slices_from_further_back_than_there_is_raise(device: Any) -> None:
    """XLA517: elsewhere they take all there is."""
    x = torch.arange(6.0).reshape(2, 3)
    assert x[:, -16:].shape == (2, 3)
    with pytest.raises(RuntimeError, match="out of range"):
        x.to(device)[:, -16:]
    with pytest.raises(RuntimeError, match="out of range"):
        x.to(device)[:, :-5]
    moved = x.to(device)
    assert moved[:, max(moved.size(1) - 16, 0) :].cpu().equal(x[:, -16:])
    assert moved[:, : max(moved.size(1) - 5, 0)].shape == x[:, :-5].shape


def _fallbacks(device: Any) -> dict[str, Callable[[], Any]]:
    """What XLA518 says has no kernel, run."""
    import torch.nn.functional as F

    from xla_migrate.runtime import patches

    patches.apply_one("operations.complex_views")  # without it, istft ends the process
    image = torch.randn(2, 3, 8, 8, device=device)
    square = torch.randn(6, 6, device=device)
    positive = square @ square.t() + 6 * torch.eye(6, device=device)
    labels = torch.randint(0, 5, (4,), device=device)
    complex_ = torch.complex(square, square)
    spectrum, window = complex_.repeat(1, 2), torch.ones(10, device=device)
    logits = torch.randn(8, 2, 5, device=device).log_softmax(2)
    ctc = (
        logits,
        torch.ones(2, 3, dtype=torch.long, device=device),
        torch.tensor([8, 8]),
        torch.tensor([3, 3]),
    )
    cases: dict[str, Callable[[], Any]] = {
        "torch.linalg.cholesky": lambda: torch.linalg.cholesky(positive),
        "torch.linalg.det": lambda: torch.linalg.det(positive),
        "torch.linalg.lstsq": lambda: torch.linalg.lstsq(positive, square),
        "torch.linalg.matrix_exp": lambda: torch.linalg.matrix_exp(square),
        "torch.linalg.qr": lambda: torch.linalg.qr(square),
        "torch.linalg.solve": lambda: torch.linalg.solve(positive, square),
        "torch.nn.functional.ctc_loss": lambda: F.ctc_loss(*ctc),
        "torch.corrcoef": lambda: torch.corrcoef(square),
        "torch.cov": lambda: torch.cov(square),
        "torch.poisson": lambda: torch.poisson(square.abs()),
        "torch.cholesky_inverse": lambda: torch.cholesky_inverse(positive),
        "torch.cholesky_solve": lambda: torch.cholesky_solve(square, positive),
        "torch.cummin": lambda: torch.cummin(square, 0),
        "torch.det": lambda: torch.det(positive),
        ".det": lambda: positive.det(),
        "torch.igammac": lambda: torch.igammac(square.abs(), square.abs()),
        "torch.index_reduce": lambda: torch.index_reduce(
            image[0, 0], 0, labels, image[0, 0, :4], "amax"
        ),
        "torch.lcm": lambda: torch.lcm(labels, labels),
        "torch.matrix_exp": lambda: torch.matrix_exp(square),
        ".matrix_exp": lambda: square.matrix_exp(),
        "torch.segment_reduce": lambda: torch.segment_reduce(
            square[0], "sum", lengths=torch.tensor([2, 4], device=device)
        ),
        "torch.linalg.cholesky_ex": lambda: torch.linalg.cholesky_ex(positive),
        "torch.linalg.householder_product": lambda: torch.linalg.householder_product(
            square, square[0]
        ),
        "torch.linalg.ldl_factor": lambda: torch.linalg.ldl_factor(positive),
        "torch.linalg.lu_solve": lambda: torch.linalg.lu_solve(
            *torch.linalg.lu_factor(positive), square
        ),
        "torch.linalg.solve_ex": lambda: torch.linalg.solve_ex(positive, square),
        "torch.logcumsumexp": lambda: torch.logcumsumexp(square, 0),
        "torch.stft": lambda: torch.stft(square.flatten(), 16, return_complex=True),
        ".stft": lambda: square.flatten().stft(16, return_complex=True),
        "torch.istft": lambda: torch.istft(spectrum, 10, window=window),
        ".istft": lambda: spectrum.istft(10, window=window),
        "interpolate(antialias=True)": lambda: F.interpolate(
            image, scale_factor=0.5, mode="bilinear", antialias=True
        ),
        ".logcumsumexp": lambda: square.logcumsumexp(0),
        "torch.nn.CTCLoss": lambda: nn.CTCLoss()(*ctc),
    }
    cases |= _other_fallbacks(device, square, positive)
    for name in ("median", "mode", "nanmedian"):
        cases[f"torch.{name}"] = lambda name=name: getattr(torch, name)(square.abs())
        cases[f".{name}"] = lambda name=name: getattr(square.abs(), name)()
    for name in ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "irfft", "irfft2", "irfftn"):
        cases[f"torch.fft.{name}"] = lambda name=name: getattr(torch.fft, name)(complex_)
    for name in ("rfft", "rfft2", "rfftn"):
        cases[f"torch.fft.{name}"] = lambda name=name: getattr(torch.fft, name)(square)
    return cases


def _other_fallbacks(
    device: Any, square: torch.Tensor, positive: torch.Tensor
) -> dict[str, Callable[[], Any]]:
    """Those whose arguments are much the same."""
    import torch.nn.functional as F

    image = torch.randn(2, 3, 8, 8, device=device)
    volume = torch.randn(1, 3, 7, 8, 8, device=device)
    likely = square.sigmoid()
    labels = torch.randint(0, 5, (4,), device=device)
    pairs = (torch.ones(4, 6, dtype=torch.long, device=device),)
    eye = torch.eye(6, device=device)
    spread: Any = torch.distributions
    cases: dict[str, Callable[[], Any]] = {
        "torch.linalg.eig": lambda: torch.linalg.eig(square),
        "torch.linalg.eigvals": lambda: torch.linalg.eigvals(square),
        "torch.linalg.lu": lambda: torch.linalg.lu(square),
        "torch.linalg.lu_factor": lambda: torch.linalg.lu_factor(square),
        "torch.linalg.solve_triangular": lambda: torch.linalg.solve_triangular(
            positive, square, upper=True
        ),
        "torch.qr": lambda: torch.qr(square),
        "torch.special.zeta": lambda: torch.special.zeta(likely + 2, likely + 1),
        "torch.igamma": lambda: torch.igamma(likely, likely),
        "torch.gcd": lambda: torch.gcd(labels, labels),
        ".cauchy_": lambda: likely.clone().cauchy_(),
        ".log_normal_": lambda: likely.clone().log_normal_(),
        ".geometric_": lambda: likely.clone().geometric_(0.5),
        "torch.nn.functional.adaptive_max_pool3d": lambda: F.adaptive_max_pool3d(volume, 1),
        "torch.nn.AdaptiveMaxPool3d": lambda: nn.AdaptiveMaxPool3d(1)(volume),
        "torch.nn.functional.fractional_max_pool2d": lambda: F.fractional_max_pool2d(
            image, 2, output_size=4
        ),
        "torch.nn.FractionalMaxPool2d": lambda: nn.FractionalMaxPool2d(2, output_size=4)(image),
        "torch.nn.RReLU": lambda: nn.RReLU()(square),
        "torch.nn.functional.multilabel_margin_loss": lambda: F.multilabel_margin_loss(
            square[:4], *pairs
        ),
        "torch.nn.MultiLabelMarginLoss": lambda: nn.MultiLabelMarginLoss()(square[:4], *pairs),
        "torch.distributions.Binomial": lambda: spread.Binomial(5, likely).sample(),
        "torch.distributions.Cauchy": lambda: spread.Cauchy(square, likely).rsample(),
        "torch.distributions.LowRankMultivariateNormal": lambda: spread.LowRankMultivariateNormal(
            square[0], square, likely[0]
        ).rsample(),
        "torch.distributions.MultivariateNormal": lambda: spread.MultivariateNormal(
            square, eye
        ).rsample(),
        "torch.distributions.NegativeBinomial": lambda: spread.NegativeBinomial(3, likely).sample(),
    }
    for name in ("Chi2", "Dirichlet", "Poisson", "StudentT"):
        cases[f"torch.distributions.{name}"] = lambda name=name: getattr(spread, name)(
            likely + 2
        ).sample()
    for name in ("Beta", "Gamma"):
        cases[f"torch.distributions.{name}"] = lambda name=name: getattr(spread, name)(
            likely, likely
        ).rsample()
    for name in ("bessel_j0", "erfcx", "i0e", "i1", "log_ndtr", "ndtri"):
        cases[f"torch.special.{name}"] = lambda name=name: getattr(torch.special, name)(likely)
    cases |= _box_fallbacks(device)
    for name in ("i0", "frexp"):
        cases[f"torch.{name}"] = lambda name=name: getattr(torch, name)(likely)
    cases["torch.nextafter"] = lambda: torch.nextafter(square, likely)
    return cases


def _box_fallbacks(device: Any) -> dict[str, Callable[[], Any]]:
    """Those of torchvision."""
    from torchvision import ops

    image = torch.randn(1, 4, 8, 8, device=device)
    boxes = torch.tensor([[0.0, 0, 4, 4], [2, 2, 6, 6]], device=device)
    scores, kinds = torch.tensor([0.5, 0.9], device=device), torch.zeros(2, device=device)
    offsets, weight = (
        torch.randn(1, 18, 6, 6, device=device),
        torch.randn(4, 4, 3, 3, device=device),
    )
    cases: dict[str, Callable[[], Any]] = {
        "nms": lambda: ops.nms(boxes, scores, 0.5),
        "batched_nms": lambda: ops.batched_nms(boxes, scores, kinds, 0.5),
        "deform_conv2d": lambda: ops.deform_conv2d(image, offsets, weight),
        "masks_to_boxes": lambda: ops.masks_to_boxes(image[0] > -9),
        "DeformConv2d": lambda: ops.DeformConv2d(4, 4, 3).to(device)(image, offsets),
        "MultiScaleRoIAlign": lambda: ops.MultiScaleRoIAlign(["0"], 2, 2)(
            {"0": image}, [boxes], [(8, 8)]
        ),
    }
    for name in ("complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss"):
        cases[name] = lambda name=name: getattr(ops, name)(boxes, boxes + 1)
    for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
        cases[name] = lambda name=name: getattr(ops, name)(image, [boxes], 2)
    for name in ("RoIAlign", "RoIPool", "PSRoIAlign", "PSRoIPool"):
        sampling = (2,) if name.endswith("Align") else ()
        cases[name] = lambda name=name, more=sampling: getattr(ops, name)(2, 1.0, *more)(
            image, [boxes]
        )
    return {f"torchvision.ops.{name}": run for name, run in cases.items()}


def test_fact_3_37_what_has_no_kernel_is_computed_on_the_host(device: Any) -> None:
    """XLA518."""
    from xla_codemods.rules.step import cpu_fallback

    cases = _fallbacks(device)
    named = {
        *cpu_fallback.FUNCTIONS,
        *cpu_fallback.CLASSES,
        *(f".{m}" for m in cpu_fallback.METHODS),
    }
    assert named == {name for name in cases if "=" not in name}
    missing = []
    for name, run in cases.items():
        torch_xla.sync()
        met.clear_all()
        run()
        torch_xla.sync()
        if not met.executed_fallback_ops():
            missing.append(name)
    assert missing == []


def test_what_has_a_kernel(device: Any) -> None:
    """What XLA518 does not speak of, or offers instead."""
    import torch.nn.functional as F

    from xla_migrate.runtime import patches

    patches.apply_one("resize")

    image = torch.randn(2, 3, 8, 8, device=device)
    torch_xla.sync()
    met.clear_all()
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        F.interpolate(image, scale_factor=2, mode=mode)  # by patches.resize
    nn.AdaptiveAvgPool2d(1)(image)
    nn.AdaptiveAvgPool2d(2)(image)  # 8 is a multiple
    image.sort()
    image.topk(2)
    torch.cdist(image[0], image[0])
    torch.multinomial(image[0, 0].abs(), 1)
    torch.multinomial(image[0, 0].abs(), 20, replacement=True)
    torch_xla.sync()
    assert met.executed_fallback_ops() == []


def test_torch_knows_no_backend_of_xla_devices() -> None:
    """XLA601: `get_default_backend_for_device`."""
    code = "import torch_xla, torch.distributed as d; d.get_default_backend_for_device(torch_xla.device())"
    python = warm.python(*warm.TORCH_XLA)
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert "Default backend not registered for device" in run.stderr
