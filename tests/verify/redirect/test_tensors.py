"""Every spelling in which scripts put tensors and modules on CUDA."""

from __future__ import annotations

import copy
import threading
from types import FunctionType

import pytest
import torch

from xla_migrate.verify.redirect.devices import state

from ...each import each

pytestmark = pytest.mark.usefixtures("cuda")
CUDA = torch.device("cuda", 0)


def line_of(function: FunctionType) -> str:
    return f"line {function.__code__.co_firstlineno}"


@each(
    "move",
    [
        lambda x: x.cuda(),
        lambda x: x.cuda(0),
        lambda x: x.cuda(device="cuda:0", non_blocking=True),
        lambda x: x.to("cuda"),
        lambda x: x.to("cuda:0", non_blocking=True),
        lambda x: x.to(0),
        lambda x: x.to(torch.device("cuda")),
        lambda x: x.to(device="cuda"),
        lambda x: x.to("cuda", torch.float64).to(torch.float32),
        lambda x: x.to("cuda", None),
        lambda x: x.to(torch.zeros(1, device="cuda")),
        lambda x: x.to(other=torch.zeros(1, device="cuda")),
        lambda x: x.to("cuda", dtype=torch.float32, copy=True),
        lambda x: x.type("torch.cuda.FloatTensor"),
        lambda x: x.type(torch.cuda.FloatTensor),
        lambda x: x.type_as(torch.zeros(1, device="cuda")),
        lambda x: x.pin_memory().to("cuda", non_blocking=True),
        lambda x: torch.as_tensor(x, device="cuda"),
        lambda x: torch.asarray(x, device="cuda"),
        lambda x: torch.tensor(x.tolist(), device="cuda"),
        lambda x: torch.cuda.FloatTensor(x.tolist()),
        lambda x: torch.nn.Parameter(x).to("cuda").detach(),
    ],
    ids=line_of,
)
def test_tensors_move_in_every_spelling(move) -> None:
    x = torch.arange(3.0)
    y = move(x)
    assert y.is_cuda
    assert not y.is_cpu
    assert y.device == CUDA
    assert str(y.device) == "cuda:0"
    assert y.device.type == "cuda"
    assert y.get_device() == 0
    assert y.type() == "torch.cuda.FloatTensor"
    assert "device='cuda:0'" in repr(y)
    assert y.tolist() == [0.0, 1.0, 2.0]
    assert not x.is_cuda
    assert x.device == torch.device("cpu")
    y += 1  # on a GPU this is other memory
    assert x.tolist() == [0.0, 1.0, 2.0]


@each(
    "move",
    [
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.to(torch.device("cpu")),
        lambda x: x.to(device="cpu", dtype=torch.float32),
        lambda x: x.type(torch.FloatTensor),
        lambda x: x.type("torch.FloatTensor"),
        lambda x: x.detach().cpu(),
        lambda x: torch.from_numpy(x.cpu().numpy()),
        lambda x: torch.zeros_like(x, device="cpu"),
        lambda x: x.new_zeros(3, device="cpu"),
        lambda x: torch.asarray(x, device="cpu"),
    ],
    ids=line_of,
)
def test_tensors_come_back(move) -> None:
    x = torch.arange(3.0, device="cuda")
    y = move(x)
    assert not y.is_cuda
    assert y.device == torch.device("cpu")
    assert x.is_cuda
    y += 1
    assert x.tolist() == [0.0, 1.0, 2.0]


@each(
    "make",
    [
        lambda d: torch.zeros(2, device=d),
        lambda d: torch.ones((2,), device=d, dtype=torch.int64),
        lambda d: torch.empty(2, device=d, pin_memory=False),
        lambda d: torch.full((2,), 1.0, device=d),
        lambda d: torch.arange(2, device=d),
        lambda d: torch.linspace(0, 1, 2, device=d),
        lambda d: torch.eye(2, device=d),
        lambda d: torch.tensor([1, 2], device=d),
        lambda d: torch.rand(2, device=d),
        lambda d: torch.randn(2, device=d),
        lambda d: torch.randint(3, (2,), device=d),
        lambda d: torch.randperm(2, device=d),
        lambda d: torch.normal(0.0, 1.0, (2,), device=d),
        lambda d: torch.zeros_like(torch.ones(2), device=d),
        lambda d: torch.rand_like(torch.ones(2), device=d),
        lambda d: torch.hann_window(2, device=d),
        lambda d: torch.fft.fftfreq(2, device=d),
        lambda d: torch.tril_indices(2, 2, device=d),
        lambda d: torch.scalar_tensor(1.0, device=d),
        lambda d: torch.ones(2).new_zeros(2, device=d),
        lambda d: torch.ones(2).new_tensor([1.0], device=d),
        lambda d: torch.ones(2).new_full((2,), 1.0, device=d),
        lambda d: torch.sparse_coo_tensor([[0]], [1.0], (2,), device=d),
        lambda d: torch.nn.Linear(2, 2, device=d).weight,
        lambda d: torch.nn.Linear(2, 2).to(d).weight,
        lambda d: torch.nn.BatchNorm1d(2).to(d).running_mean,
        lambda d: torch.nn.Linear(2, 2, device="meta").to_empty(device=d).weight,
    ],
    ids=line_of,
)
def test_every_factory_takes_every_device(make) -> None:
    for spec in ("cuda", "cuda:0", 0, torch.device("cuda"), CUDA):
        assert make(spec).device == CUDA, spec


def test_results_are_where_their_arguments_are() -> None:
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    cpu = torch.ones(2, 3)
    assert all(
        t.is_cuda for t in (x + 1, x[0], x.T, x.sum(), x.new_zeros(1), x * torch.tensor(2.0))
    )
    assert all(t.is_cuda for t in torch.cat([x, x]).split(2))
    assert x.max(dim=1).values.is_cuda
    assert torch.nn.functional.relu(x).is_cuda
    assert not (cpu + 1).is_cuda
    assert not cpu.copy_(x.detach()).is_cuda
    x.square().sum().backward()
    assert x.grad.is_cuda
    assert x.detach().data.is_cuda
    assert copy.deepcopy(x).is_cuda


def test_results_of_transformed_functions_are_where_their_arguments_are() -> None:
    seen = []

    def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        seen.append(weight.is_cuda and x.is_cuda)
        return (weight * x).sum().square()

    w, x = torch.ones(3, device="cuda"), torch.ones(4, 3, device="cuda")
    per_sample = torch.func.vmap(torch.func.grad_and_value(loss), in_dims=(None, 0))
    gradients, losses = per_sample(w, x)
    assert seen == [True]
    assert gradients.is_cuda
    assert losses.is_cuda
    assert not torch.func.vmap(torch.sum)(torch.ones(4, 3)).is_cuda


def test_marks_reach_threads() -> None:
    x, seen = torch.ones(1, device="cuda"), []
    thread = threading.Thread(target=lambda: seen.append((x + 1).is_cuda))
    thread.start()
    thread.join()
    assert seen == [True]


def test_modules_keep_parameters_and_ties() -> None:
    """On CUDA `.to()` keeps Parameter objects; on XLA it does not (facts 3.1, 3.2)."""
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    before = model["a"].weight
    for moved in (model.to("cuda"), model.cuda(), model.to(0), model.to(device=0)):
        assert moved["a"].weight is before
        assert moved["b"].weight is before
    assert before.is_cuda
    assert not model.cpu()["a"].weight.is_cuda
    assert model.type(torch.cuda.DoubleTensor)["a"].weight.dtype == torch.float64


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_devices_and_contexts() -> None:
    with torch.device("cuda"):
        assert torch.zeros(1).is_cuda
        assert torch.nn.Linear(1, 1).weight.is_cuda
        assert not torch.zeros(1, device="cpu").is_cuda
        assert torch.as_tensor([1.0]).is_cuda
    assert not torch.zeros(1).is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.tensor([1.0]).is_cuda
        assert torch.get_default_device() == CUDA
        assert not torch.zeros(1, device="cpu").is_cuda
    finally:
        torch.set_default_device("cpu")
    assert not torch.zeros(1).is_cuda
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        assert torch.zeros(1).is_cuda
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.zeros(1).is_cuda


def test_typed_tensors() -> None:
    assert isinstance(torch.zeros(1, device="cuda"), torch.cuda.FloatTensor)
    assert not isinstance(torch.zeros(1), torch.cuda.FloatTensor)
    assert not isinstance(torch.zeros(1, device="cuda"), torch.cuda.LongTensor)
    assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
    assert torch.cuda.HalfTensor(2, 3).shape == (2, 3)


def test_pinned_memory() -> None:
    x = torch.ones(2)
    assert not x.is_pinned()
    assert x.pin_memory().is_pinned()
    assert torch.empty(2, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()
    x.cuda().record_stream(torch.cuda.current_stream())


def test_loader_pins_in_its_thread() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    for (batch,) in loader:
        assert batch.is_pinned()
        assert not batch.is_cuda


def test_one_device_stands_for_every_index() -> None:
    x = torch.ones(4, 2).cuda(1)
    assert x.device == torch.device("cuda:1")
    assert torch.cuda.device_count() == 1
    model = torch.nn.DataParallel(torch.nn.Linear(2, 3), device_ids=[1, 2]).to("cuda:1")
    assert (model(x) + torch.ones(3, device="cuda:2")).shape == (4, 3)


def test_of_several_devices_an_index_that_none_has_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "count", 2)
    assert torch.zeros(1, device="cuda:1").get_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1, device="cuda:2")


def test_meta_tensors_cannot_be_moved() -> None:
    meta = torch.zeros(2, device="meta")
    assert meta.device.type == "meta"
    with pytest.raises(NotImplementedError, match="meta"):
        meta.cuda()


def test_generators() -> None:
    g = torch.Generator(device="cuda").manual_seed(3)
    assert g.device == CUDA
    first = torch.randn(2, generator=g, device="cuda")
    assert torch.equal(first, torch.randn(2, generator=g.manual_seed(3), device="cuda"))
    assert isinstance(g, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device.type == "cpu"


def test_scripted_functions_still_compile() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(2)

    assert torch.jit.script(fn)(torch.ones(2)).tolist() == [1.0, 1.0]
