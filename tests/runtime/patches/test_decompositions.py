"""Operations that torch_xla has no kernel for, as `patches.decompositions` computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xla_migrate.runtime.patches import decompositions
from xla_migrate.runtime.patches.operations import _missing_kernels
from xla_migrate.runtime.patches.operations._kernels import take_back

from ..test_processes import in_a_warm_process
from .computing import Case, assert_computed_on_the_device, fallbacks, fallbacks_of


def _sample(**how: Any) -> Case:
    """`grid_sample` at places that depend on the image, some of them outside of it."""
    return lambda x: F.grid_sample(x, x[:, :2, ::2].movedim(1, -1) * 3 - 1.5, **how)


def _volume(**how: Any) -> Case:
    """`grid_sample` of volumes, at places that depend on the volume."""

    def sampled(x: torch.Tensor) -> torch.Tensor:
        places = torch.stack([x[:, :2] * 3 - 1.5, x[:, :2] - 0.7, 1.6 - x[:, 2:] * 3], -1)
        return F.grid_sample(x.unflatten(1, (2, 2)), places, **how)

    return sampled


def _targets(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([1, 0], device=x.device)


def _bags(x: torch.Tensor, last: int = 7, **how: Any) -> torch.Tensor:
    """Bags of 3, 0, 4 and 5 rows of `x`, some of them twice."""
    tokens = torch.tensor([3, 5, 3, 0, 1, 2, 1, 22, 23, 0, 9, 9], device=x.device)
    starts = torch.tensor([0, 3, 3, last], device=x.device)
    return F.embedding_bag(tokens, x.reshape(24, 12), starts, **how)


def _weights(x: torch.Tensor) -> torch.Tensor:
    return x.flatten()[40:52] - 0.5


def _renormed(x: torch.Tensor) -> torch.Tensor:
    """Rows that are looked up are shortened to a norm of 1 before they are; the others are not."""
    weight = x.reshape(24, 12) * 1
    rows = F.embedding(torch.tensor([[3, 5], [3, 0]], device=x.device), weight, max_norm=1.0)
    return torch.cat([rows.flatten(0, 1), weight])


def _encoded(x: torch.Tensor) -> torch.Tensor:
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval().requires_grad_(False)
    for k, weight in enumerate(encoder.parameters()):
        weight.copy_(torch.linspace(-1, 1, weight.numel()).view(weight.shape).roll(k))
    padded = x[0].sum(-1) > 4
    with torch.no_grad():
        found = encoder.to(x.device)(x[0].detach(), src_key_padding_mask=padded)
    return x[0] * found.masked_fill(padded.unsqueeze(-1), 0)


def _found(x: torch.Tensor, sequence: torch.Tensor, **how: Any) -> torch.Tensor:
    return x * torch.searchsorted(sequence, x.detach().flip(0).contiguous(), **how)


def _in_order(x: torch.Tensor) -> torch.Tensor:
    return x.detach().mul(8).round().div(8).sort(-1).values


def _with_gaps(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.detach() > 0.9, float("nan"), x)


def _edges(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.25, 1, 7, device=x.device)


def _twice(x: torch.Tensor) -> torch.Tensor:
    """The gradient of absolute values, which `computed` differentiates again."""
    x = x if x.requires_grad else x.clone().requires_grad_()
    with torch.inference_mode(False), torch.enable_grad():
        x = x if not x.is_inference() else x.clone().requires_grad_()
        values = ((x - 0.5) ** 3).abs().sum()
        return torch.autograd.grad(values, x, create_graph=True)[0]


# All of an input of shape (2, 4, 6, 6), between 0.1 and 1.1.
CASES: dict[str, Case] = {
    "_embedding_bag": lambda x: _bags(x, mode="sum"),
    "_embedding_bag of means": lambda x: _bags(x, padding_idx=3),
    "_embedding_bag of weighted rows": lambda x: _bags(
        x, mode="sum", per_sample_weights=_weights(x)
    ),
    "_embedding_bag with the last offset": lambda x: _bags(x, 12, include_last_offset=True),
    "_embedding_bag_forward_only": lambda x: x[0, 0, 0, 0] * _bags(x.detach()),
    "_nested_tensor_from_mask_left_aligned": _encoded,
    "_weight_norm_interface": lambda x: torch._weight_norm(x, x.mean((1, 2, 3), True), 0),
    "_weight_norm_interface of the last": lambda x: torch._weight_norm(x, x[:1, :1, :1] * 2, 3),
    "_cdist_forward": lambda x: torch.cdist(x, x.flip(-1)),
    "_cdist_forward of itself": lambda x: torch.cdist(x, x.detach()),
    "_cdist_forward of absolute differences": lambda x: torch.cdist(x, x.flip(0), p=1.0),
    "_cdist_forward of cubes": lambda x: torch.cdist(x, x.flip(-1), p=3.0),
    "_cdist_forward of the largest": lambda x: torch.cdist(x, x.flip(0), p=float("inf")),
    "_pdist_forward": lambda x: torch.pdist(x.reshape(24, 12)),
    "_pdist_forward of what differs": lambda x: x.sum() * torch.pdist(x.round().reshape(24, 12), 0),
    "_pdist_forward of absolute differences": lambda x: torch.pdist(x.reshape(24, 12), 1.0),
    "_pdist_forward of cubes": lambda x: torch.pdist(x.reshape(24, 12), 3.0),
    "_pdist_forward of the largest": lambda x: torch.pdist(x.reshape(24, 12), float("inf")),
    "_pdist_forward of equal rows": lambda x: torch.pdist(x[0, 0, :1].expand(3, -1)),
    "_chunk_cat": lambda x: x.sum() * torch._chunk_cat([x.detach()[0], x.detach()[0, :3]], 0, 2),
    "nll_loss": lambda x: F.cross_entropy(x[:, :, 0, 0], _targets(x)),
    "nll_loss of one sample": lambda x: F.cross_entropy(x[0, :, 0, 0], _targets(x)[0]),
    "nll_loss of one sample, alone": lambda x: F.nll_loss(
        x[0, :, 0, 0], _targets(x)[0], reduction="none"
    ),
    "nll_loss of one weighted sample": lambda x: F.nll_loss(
        x[0, :, 0, 0], _targets(x)[0], x.detach()[0, :, 1, 1], reduction="sum"
    ),
    "nll_loss of smooth labels": lambda x: F.cross_entropy(
        x[0, :, 0, 0], _targets(x)[0], label_smoothing=0.1
    ),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_shuffle by another factor": lambda x: F.pixel_shuffle(x, 1),
    "aminmax": lambda x: x * torch.stack([*torch.aminmax(x.detach())]).sum(),
    "aminmax of a dimension": lambda x: x[0] * torch.aminmax(x.detach(), dim=0)[1],
    "count_nonzero": lambda x: x * torch.count_nonzero(x.detach() > 0.5),
    "bucketize": lambda x: x * torch.bucketize(x.detach(), _edges(x)),
    "bucketize to the right": lambda x: x * torch.bucketize(x.detach(), _edges(x), right=True),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "col2im": lambda x: F.fold(x.reshape(2, 16, 9), (6, 6), 2, stride=2),
    "complex": lambda x: torch.complex(x, x[:1] * 2).abs(),
    "copysign": lambda x: torch.copysign(x, x.flip(0).detach() - 0.5),
    "copysign of a number": lambda x: torch.copysign(x, -0.0),
    "_efficientzerotensor": _twice,
    "embedding_renorm_": _renormed,
    "angle": lambda x: x * torch.angle(x.detach() - 0.5),
    "angle of complex numbers": lambda x: torch.angle(torch.complex(x - 0.5, x.flip(0))),
    "exp2": lambda x: torch.exp2(x),
    "heaviside": lambda x: x * torch.heaviside(x.detach() - 0.5, x.detach().flip(0)),
    "isposinf": lambda x: x * torch.isposinf(1 / (x.detach() - 0.5).relu()),
    "logaddexp2": lambda x: torch.logaddexp2(x, x.flip(0) * 3),
    "polar": lambda x: torch.view_as_real(torch.polar(x, x.flip(0) * 3)),
    "round": lambda x: x + torch.round(x * 100, decimals=1) + torch.round(x, decimals=-1),
    "signbit": lambda x: x * torch.signbit(x.detach() - 0.5),
    "special_xlog1py": lambda x: torch.special.xlog1py(x, x.flip(0)),
    "fmax": lambda x: torch.fmax(_with_gaps(x), x.flip(0)),
    "fmin": lambda x: torch.fmin(x, _with_gaps(x.flip(0))),
    "glu": lambda x: F.glu(x, 1),
    "grid_sampler_2d": _sample(align_corners=False),
    "grid_sampler_2d to the border": _sample(padding_mode="border", align_corners=True),
    "grid_sampler_2d reflected": _sample(padding_mode="reflection", align_corners=False),
    "grid_sampler_2d nearest": _sample(mode="nearest", align_corners=False),
    "grid_sampler_2d bicubic": _sample(mode="bicubic", align_corners=True),
    "grid_sampler_3d": _volume(align_corners=False),
    "grid_sampler_3d to the border": _volume(padding_mode="border", align_corners=True),
    "grid_sampler_3d reflected": _volume(padding_mode="reflection", align_corners=False),
    "grid_sampler_3d reflected, aligned": _volume(padding_mode="reflection", align_corners=True),
    "grid_sampler_3d nearest": _volume(mode="nearest", align_corners=False),
    "grid_sampler_3d nearest, reflected": _volume(
        mode="nearest", padding_mode="reflection", align_corners=False
    ),
    "hypot": lambda x: torch.hypot(x * 1e25, x.flip(0) * 1e25) / 1e25,
    "huber_loss": lambda x: F.huber_loss(x * 4, x.flip(0).detach(), delta=0.5),
    "huber_loss of each": lambda x: F.huber_loss(x * 4, x.flip(0), reduction="none"),
    "im2col": lambda x: F.unfold(x, 3, padding=1, stride=2),
    "im2col dilated": lambda x: F.unfold(x, (2, 3), dilation=2),
    "isin": lambda x: x * torch.isin(_in_order(x), _edges(x)),
    "isin of a number": lambda x: x * torch.isin(_in_order(x), 0.5),
    "linalg_cross": lambda x: torch.linalg.cross(x[..., :3], x[..., 3:]),
    "logaddexp": lambda x: torch.logaddexp(x, x * 3),
    "logit": lambda x: torch.logit(x / 2),
    "logit of limited numbers": lambda x: torch.logit(x / 2, eps=0.3),
    "masked_scatter": lambda x: x.masked_scatter(x > 0.5, x.flip(0)),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x.flatten(1), _targets(x)),
    "nansum": lambda x: _with_gaps(x).nansum((1, 2)),
    "nansum of all": lambda x: _with_gaps(x).nansum() + _with_gaps(x).nanmean(-1),
    "renorm": lambda x: torch.renorm(x, 2, 1, 0.5),
    "searchsorted": lambda x: _found(x, _in_order(x)),
    "searchsorted in one sequence": lambda x: _found(x, _edges(x), side="right", out_int32=True),
    "searchsorted in one that is not sorted": lambda x: _found(
        x, x.detach(), sorter=x.detach().argsort(-1)
    ),
    "sinc": lambda x: torch.sinc(x),
    "special_entr": lambda x: torch.special.entr(x),
    "vdot": lambda x: torch.vdot(x.flatten(), x.flip(0).flatten()),
    "unfold_backward": lambda x: x.unfold(2, 3, 2).mean(-1),
    "unfold_copy": lambda x: x.unfold(1, 2, 1) * x[:, :3].unsqueeze(-1),
    "unfold_copy of windows": lambda x: x.unfold(-1, 3, 1).unfold(2, 4, 2) * 2,
}


OWN = {
    operation.overloadpacket.__name__
    for operation in (_missing_kernels.DECOMPOSITIONS | _missing_kernels.BELOW_AUTOGRAD)
}
OPERATIONS = {name.partition(".")[0] for name in decompositions.OPERATIONS} | OWN


@pytest.fixture
def image() -> torch.Tensor:
    return torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(0)) + 0.1


@pytest.mark.parametrize("pool", [F.max_pool2d, F.max_pool3d])
def test_gradients_of_pooling_have_gradients(
    pool: Any, image: torch.Tensor, device: torch.device
) -> None:
    """Of torch_xla's own there are silently none, as a gradient penalty needs them."""

    def penalty(x: torch.Tensor) -> torch.Tensor:
        pooled = pool(x * 2, 2).tanh()
        return torch.autograd.grad(pooled.sum(), x, create_graph=True)[0]

    assert_computed_on_the_device(penalty, image, device, 1e-4)


def test_each_operation_has_a_case() -> None:
    assert {name.split()[0] for name in CASES} == OPERATIONS


@pytest.mark.parametrize("name", CASES)
def test_operations_are_computed_on_the_device(
    name: str, image: torch.Tensor, device: torch.device
) -> None:
    assert_computed_on_the_device(CASES[name], image, device, 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_they_are_computed_on_the_device_in_inference_mode(
    name: str, image: torch.Tensor, device: torch.device
) -> None:
    with torch.inference_mode():
        assert not fallbacks_of(lambda: CASES[name](image.to(device)))


def test_what_follows_the_last_offset_is_in_no_bag(
    image: torch.Tensor, device: torch.device
) -> None:
    case: Case = lambda x: _bags(x, mode="sum", include_last_offset=True)  # noqa: E731
    torch.testing.assert_close(case(image.to(device)).cpu(), case(image))


def test_maxima_of_bags_are_torchs(image: torch.Tensor, device: torch.device) -> None:
    case: Case = lambda x: _bags(x, mode="max", padding_idx=3)  # noqa: E731
    assert_computed_on_the_device(case, image, device)


def test_bags_in_half_precision_are_added_in_float32(device: torch.device) -> None:
    rows = torch.full((1, 4), 0.1, dtype=torch.bfloat16, device=device)
    bag = F.embedding_bag(torch.zeros(1, 4096, dtype=torch.long, device=device), rows, mode="sum")
    torch.testing.assert_close(bag.cpu().float(), torch.full((1, 4), 410.0), rtol=1e-2, atol=0)


def test_values_that_are_no_numbers_are_behind_all_others(device: torch.device) -> None:
    values = torch.tensor([float("nan"), 0.5, -1.0, 9.0])
    edges = torch.tensor([0.0, 0.5, 1.0])
    found = torch.searchsorted(edges.to(device), values.to(device)).cpu()
    assert found.tolist() == torch.searchsorted(edges, values).tolist() == [3, 1, 0, 3]


def test_elements_are_scattered_from_a_longer_tensor(
    image: torch.Tensor, device: torch.device
) -> None:
    """torch_xla's kernel fails if there are more elements than places."""
    case: Case = lambda x: x[0].masked_scatter(x[0] > 0.5, x.flip(0))  # noqa: E731
    assert_computed_on_the_device(case, image, device)


def test_a_mask_that_selects_nothing_has_a_gradient(device: torch.device) -> None:
    x = torch.full((4,), -1.0, device=device, requires_grad=True)
    (x[x > 0].sum() + x.masked_select(x > 0).sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 0, 0]


def test_windows_are_views(device: torch.device) -> None:
    x = torch.zeros(6, device=device)
    x.unfold(0, 2, 2)[1] = 1.0
    assert x.tolist() == [0, 0, 1, 1, 0, 0]


def test_signs_are_those_of_zeros(device: torch.device) -> None:
    signs = torch.tensor([0.0, -0.0, 2.0, -2.0], device=device)
    assert torch.copysign(torch.ones(4, device=device), signs).tolist() == [1, -1, 1, -1]


def test_numbers_of_different_elements_are_counted(device: torch.device) -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    found = torch.cdist(x.to(device), x.flip(1).to(device), p=0.0)
    assert found.tolist() == torch.cdist(x, x.flip(1), p=0.0).tolist()


def test_they_are_computed_in_compiled_modules(image: torch.Tensor, device: torch.device) -> None:
    compiled = torch.compile(lambda x: F.glu(x, 1), backend="openxla")
    torch.testing.assert_close(compiled(image.to(device)).cpu(), F.glu(image, 1))


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("kind", [nn.ELU, nn.CELU, nn.SELU])
def test_elus_have_torchs_gradients(
    kind: type[nn.Module], inplace: bool, device: torch.device
) -> None:
    activation = kind(inplace=inplace) if kind is nn.SELU else kind(1.5, inplace=inplace)
    values = torch.linspace(-4, 4, 33)
    assert_computed_on_the_device(lambda x: activation(x * 1), values, device)


@pytest.fixture
def stock() -> Any:
    """torch_xla without the decompositions."""
    take_back(decompositions.__name__)
    yield
    decompositions.apply()


# torch_xla has kernels for these, and they are wrong: those of losses end the process.
WRONG = set(
    "_chunk_cat _pdist_forward count_nonzero max_pool2d max_pool3d nll_loss pixel_shuffle".split()
)


@pytest.mark.usefixtures("stock")
def test_torch_xla_has_no_kernel(image: torch.Tensor, device: torch.device) -> None:
    cases = {name: case for name, case in CASES.items() if name.split()[0] not in WRONG}
    without = {n.split()[0] for n, case in cases.items() if fallbacks(case, image.to(device))}
    assert without == OPERATIONS - WRONG


@pytest.mark.usefixtures("stock")
def test_gradients_of_pooling_have_no_gradients(device: torch.device) -> None:
    x = torch.ones(1, 1, 4, 4, device=device, requires_grad=True)
    gradient = torch.autograd.grad(F.max_pool2d(x * x, 2).sum(), x, create_graph=True)[0]
    assert torch.autograd.grad(gradient.sum(), x)[0].sum().item() == 8  # of x * x alone
    pooled = F.max_pool2d(x, 2).square().sum()
    assert not torch.autograd.grad(pooled, x, create_graph=True)[0].requires_grad


@pytest.mark.usefixtures("stock")
def test_elus_have_wrong_gradients(device: torch.device) -> None:
    x = torch.full((1,), -2.0, device=device, requires_grad=True)
    F.elu(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(-1.0)


@pytest.mark.usefixtures("stock")
def test_fact_3_72_torch_xla_counts_in_the_type_of_the_input(device: torch.device) -> None:
    assert torch.count_nonzero(torch.tensor([True, True], device=device)).item() is True
    assert torch.count_nonzero(torch.tensor([1.0, 2.0], device=device)).dtype == torch.float32


@pytest.mark.usefixtures("stock")
def test_fact_3_74_the_second_factor_is_ignored(device: torch.device) -> None:
    x = torch.arange(36.0, device=device).view(1, 36, 1, 1)
    assert F.pixel_shuffle(x, 2).shape == (1, 9, 2, 2)
    assert F.pixel_shuffle(x, 3).shape == (1, 9, 2, 2)


def test_fact_3_75_the_loss_of_one_sample_ends_the_process() -> None:
    program = """
import torch, torch_xla
x = torch.zeros(3, device="xla")
print("begins", flush=True)
torch.nn.functional.nll_loss(x, torch.tensor(1, device="xla"))
"""
    done = in_a_warm_process("target", program, PJRT_DEVICE="CPU")
    assert done.stdout == "begins\n"
    assert done.returncode < 0


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1), ()])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.bfloat16, torch.uint8])
def test_what_is_not_zero_is_counted_in_integers(
    dim: Any, dtype: torch.dtype, device: torch.device
) -> None:
    x = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0]]).to(dtype)
    expected, found = torch.count_nonzero(x, dim), torch.count_nonzero(x.to(device), dim)
    assert found.dtype == torch.int64
    assert found.tolist() == expected.tolist()
