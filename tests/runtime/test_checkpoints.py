"""Checkpoint files between devices, and copies in memory."""

from __future__ import annotations

import copy
import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla.core.xla_model as xm
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend, checkpoints
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.bare = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.first(x)))


def trained(device: torch.device) -> tuple[Net, torch.optim.AdamW]:
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    train(model, optimizer, device)
    return model, optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    optimizer.zero_grad()
    model(torch.randn(5, 3).to(device)).square().sum().backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()


def devices_in(obj: Any) -> set[str]:
    return {tensor.device.type for tensor in checkpoints.tensors_in(obj)}


def as_if_from_cuda(path: Path) -> Path:
    """The file, with its storages tagged as CUDA's: what torch.save writes on a GPU."""
    tagged = path.with_name("cuda_" + path.name)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tagged, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("data.pkl"):
                assert b"X\x03\x00\x00\x00cpu" in content
                content = content.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            target.writestr(entry, content)
    return tagged


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    return {"w": torch.arange(4.0), "n": torch.tensor(3)}


@pytest.fixture
def cuda_file(tmp_path: Path, state: dict[str, torch.Tensor]) -> Path:
    torch.save(state, tmp_path / "state.pt")
    return as_if_from_cuda(tmp_path / "state.pt")


# Saving


def test_fact_1_42_xm_save_changes_types_and_leaves_parameters_on_xla(
    device: torch.device, tmp_path: Path
) -> None:
    model = nn.Linear(2, 2).to(device)
    xm.save({"state": model.state_dict(), "p": model.weight}, tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", weights_only=False)
    assert type(loaded["state"]) is dict
    assert loaded["p"].device.type == "xla"


def test_fact_1_42_everything_is_saved_on_the_cpu_with_its_type(
    device: torch.device, tmp_path: Path
) -> None:
    model, optimizer = trained(device)
    saved = {
        "state": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": model.first.weight,
        "module": model,
        "whole optimizer": optimizer,
        "nest": [(torch.ones(1, device=device), {"x": torch.zeros(1, device=device).bool()})],
        "epoch": 3,
    }
    xla.save(saved, tmp_path / "all.pt")
    loaded = torch.load(tmp_path / "all.pt", weights_only=False)  # Plain torch, no map_location.
    assert type(loaded["state"]) is OrderedDict
    assert loaded["state"]._metadata == model.state_dict()._metadata  # type: ignore[attr-defined]
    assert type(loaded["parameter"]) is nn.Parameter
    assert loaded["parameter"].requires_grad
    assert loaded["epoch"] == 3
    module = loaded["module"]
    held = [*module.parameters(), *module.buffers(), module.bare]
    held += loaded["whole optimizer"].param_groups[0]["params"]
    assert devices_in([loaded, held]) == {"cpu"}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.cpu(), loaded["state"][name])
    assert loaded["nest"][0][1]["x"].dtype is torch.bool
    assert model.first.weight.device == device, "the original stays where it is"


def test_what_is_shared_in_the_object_is_shared_in_the_file(
    device: torch.device, tmp_path: Path
) -> None:
    model, optimizer = trained(device)
    xla.save({"model": model, "optimizer": optimizer}, tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", weights_only=False)
    assert loaded["optimizer"].param_groups[0]["params"][0] is loaded["model"].first.weight


def test_subclasses_and_attributes_of_tensors_are_saved(
    device: torch.device, tmp_path: Path
) -> None:
    tensor = torch.ones(2, device=device).as_subclass(Marked)
    tensor.note = "kept"  # type: ignore[attr-defined]
    xla.save(tensor, tmp_path / "t.pt")
    loaded = torch.load(tmp_path / "t.pt", weights_only=False)
    assert type(loaded) is Marked
    assert (loaded.device.type, loaded.note) == ("cpu", "kept")  # type: ignore[attr-defined]


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "kwargs", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}]
)
def test_torch_saves_arguments_are_taken(
    device: torch.device, tmp_path: Path, kwargs: dict[str, Any]
) -> None:
    xla.save({"x": torch.ones(2, device=device)}, tmp_path / "x.pt", **kwargs)
    assert devices_in(torch.load(tmp_path / "x.pt", weights_only=False)) == {"cpu"}


def test_names_of_torchs_arguments_are_taken(device: torch.device, tmp_path: Path) -> None:
    """A script passes `torch.save` on, and calls it by another name."""
    write, read, path = xla.save, xla.load, tmp_path / "x.pt"
    write(obj={"x": torch.ones(2, device=device)}, f=path)
    assert read(f=path, map_location="cpu")["x"].sum() == 2


def test_a_pickler_of_the_users_own_is_used(device: torch.device, tmp_path: Path) -> None:
    class Module:
        """A pickle module whose pickler writes odd things."""

        class Pickler(pickle._Pickler):  # type: ignore[name-defined]
            def reducer_override(self, obj: Any) -> Any:
                return (str, ("odd",)) if isinstance(obj, Odd) else NotImplemented

        dumps = staticmethod(pickle.dumps)
        __name__ = "pickle"

    xla.save(
        {"x": torch.ones(1, device=device), "o": Odd()}, tmp_path / "x.pt", pickle_module=Module
    )
    loaded = torch.load(tmp_path / "x.pt", weights_only=False)
    assert loaded["o"] == "odd"
    assert devices_in(loaded) == {"cpu"}


class Odd:
    pass


def test_file_objects_and_strings(device: torch.device, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    xla.save(torch.ones(2, device=device), buffer)
    buffer.seek(0)
    assert xla.load(buffer).tolist() == [1, 1]
    xla.save(torch.ones(2, device=device), str(tmp_path / "x.pt"))
    with open(tmp_path / "x.pt", "rb") as file:
        assert xla.load(file).tolist() == [1, 1]


def test_a_failed_save_leaves_the_old_file(device: torch.device, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    xla.save({"x": 1}, path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        xla.save({"x": lambda: 1}, path)
    assert xla.load(path) == {"x": 1}
    assert os.listdir(tmp_path) == ["x.pt"]


def test_links_modes_and_devices_are_respected(device: torch.device, tmp_path: Path) -> None:
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    xla.save({"x": 1}, real)
    real.chmod(0o640)
    link.symlink_to(real)
    xla.save({"x": 2}, link)
    assert link.is_symlink()
    assert xla.load(real) == {"x": 2}
    assert real.stat().st_mode & 0o777 == 0o640
    xla.save({"x": 3}, "/dev/null")
    assert not Path("/dev/null").is_file()


def test_a_missing_folder_is_named(device: torch.device, tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, OSError), match="missing"):
        xla.save({"x": 1}, tmp_path / "missing" / "x.pt")


def test_fact_1_41_every_replica_launches_and_the_master_alone_writes(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "is_master", lambda: False)
    pending = torch.ones(2, device=device) * 3
    before = xla.metrics()["launches"]
    xla.save({"x": pending}, tmp_path / "x.pt")
    assert xla.metrics()["launches"] == (before or 0) + 1
    assert not (tmp_path / "x.pt").exists()


def test_a_file_that_a_replica_has_opened_is_not_left_empty(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`with open(cache, "wb") as f: torch.save(features.cpu(), f)`, a cache of each process."""
    monkeypatch.setattr(checkpoints, "is_master", lambda: False)
    with (tmp_path / "x.pt").open("wb") as file:
        xla.save({"x": torch.ones(2, device=device)}, file)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as folder, folder.open("x", "w") as entry:
        xla.save({"x": torch.ones(2, device=device)}, entry)
    buffer = io.BytesIO()
    xla.save({"x": torch.ones(2, device=device)}, buffer)
    assert torch.load(tmp_path / "x.pt")["x"].tolist() == [1, 1]
    assert zipfile.ZipFile(tmp_path / "x.zip").getinfo("x").file_size > 0
    assert torch.load(io.BytesIO(buffer.getvalue()))["x"].tolist() == [1, 1]


def test_fact_1_40_the_master_is_one_among_all_hosts(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch_xla's own `save` writes on every host, to the same file where they share a disk."""
    monkeypatch.setattr(torch_xla_backend, "replica", lambda: (4, 0, 8))
    xla.save({"x": 1}, tmp_path / "of the second host.pt")
    xla.save({"x": 1}, tmp_path / "asked for.pt", master_only=False)
    monkeypatch.setattr(torch_xla_backend, "replica", lambda: (0, 0, 8))
    xla.save({"x": 1}, tmp_path / "of the first.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked for.pt", "of the first.pt"]


# Loading


def test_fact_1_43_and_1_44_torch_cannot_load_to_xla(device: torch.device, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2, device=device)}, tmp_path / "xla.pt")
    with pytest.raises(RuntimeError, match="Callable map_location not supported"):
        torch.load(tmp_path / "xla.pt", map_location=lambda storage, location: storage)
    torch.save({"x": torch.ones(2)}, tmp_path / "cpu.pt")
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        torch.load(tmp_path / "cpu.pt", map_location=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with CUDA can load these")
def test_fact_1_44_torch_cannot_load_cuda_files_without_cuda(cuda_file: Path) -> None:
    for map_location in (None, "cuda"):
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
            torch.load(cuda_file, map_location=map_location)


def _kept(storage: Any, location: str) -> Any:
    return storage


def _on_gpu(storage: Any, location: str) -> Any:
    return storage.cuda(0)


def _named(value: Any) -> str:
    """A test's name without an address in it, so that all of xdist's workers have the same ones."""
    return getattr(value, "__name__", str(value))


MAP_LOCATIONS: list[Any] = [
    None,
    "cpu",
    "cuda",
    "cuda:3",
    "xla",
    torch.device("cpu"),
    torch.device("cuda", 1),
    {"cuda:0": "cpu"},
    {"cuda:0": "cuda:1"},
    {},
    _kept,
    _on_gpu,
]


@pytest.mark.parametrize("map_location", [*MAP_LOCATIONS, "the device"], ids=_named)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("origin", ["cpu", "cuda", "xla", "ours"])
def test_fact_1_44_state_dicts_load_with_every_map_location(
    device: torch.device,
    tmp_path: Path,
    state: dict[str, torch.Tensor],
    cuda_file: Path,
    map_location: Any,
    weights_only: bool,
    origin: str,
) -> None:
    path = tmp_path / "state.pt"
    if origin == "cuda":
        path = cuda_file
    elif origin != "cpu":
        on_device = {name: tensor.to(device) for name, tensor in state.items()}
        (torch.save if origin == "xla" else xla.save)(on_device, path)
    if map_location == "the device":
        map_location = device
    loaded = xla.load(path, map_location, weights_only=weights_only)
    hosts: list[Any] = [None, "cpu", torch.device("cpu"), {"cuda:0": "cpu"}, {}, _kept]
    # Names such as "w" are no module's: they go where map_location says.
    assert devices_in(loaded) == {"cpu" if map_location in hosts else "xla"}
    assert all(torch.equal(loaded[name].cpu(), state[name]) for name in state)


def test_fact_1_45_and_mmap(device: torch.device, cuda_file: Path) -> None:
    loaded = xla.load(str(cuda_file), {"cuda:0": "cpu"}, mmap=True)
    assert loaded["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("map_location", "place"),
    [
        (None, "xla"),
        ("cuda:0", "xla"),
        (_on_gpu, "xla"),
        ({"cuda:0": "cuda:1"}, "xla"),
        ("cpu", "cpu"),
        (_kept, "cpu"),
        ({"cuda:0": "cpu"}, "cpu"),
    ],
    ids=_named,
)
def test_whole_modules_go_where_the_script_would_have_them(
    device: torch.device, tmp_path: Path, map_location: Any, place: str
) -> None:
    model, _ = trained(device)
    xla.save({"model": model, "epoch": 1}, tmp_path / "m.pt")
    loaded = xla.load(tmp_path / "m.pt", map_location, weights_only=False)["model"]
    assert {p.device.type for p in [*loaded.parameters(), *loaded.buffers()]} == {place}
    x = torch.ones(2, 3)
    there = xla.xla_device(place)
    assert torch.allclose(loaded.eval()(x.to(there)).cpu(), model.eval()(x.to(device)).cpu())


@pytest.mark.parametrize(
    ("map_location", "place"), [(None, "cpu"), ("cuda", "xla"), ("cpu", "cpu")]
)
def test_bare_tensors_go_where_map_location_says(
    device: torch.device, tmp_path: Path, map_location: Any, place: str
) -> None:
    xla.save(torch.ones(2, device=device), tmp_path / "x.pt")
    assert xla.load(tmp_path / "x.pt", map_location).device.type == place


def test_meta_is_honoured(device: torch.device, cuda_file: Path) -> None:
    assert xla.load(cuda_file, "meta")["w"].is_meta


def test_unsafe_files_are_refused_by_default(device: torch.device, tmp_path: Path) -> None:
    xla.save(Net(), tmp_path / "m.pt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        xla.load(tmp_path / "m.pt")


def test_training_goes_on_from_a_checkpoint_and_fact_3_28(
    device: torch.device, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, optimizer = trained(device)
    xla.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "c.pt")
    torch.manual_seed(1)
    train(model, optimizer, device)
    expected = [p.detach().cpu() for p in model.parameters()]

    again = Net().to(device)
    optimizer = torch.optim.AdamW(again.parameters(), lr=0.1)
    checkpoint = xla.load(tmp_path / "c.pt", map_location=device)
    again.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    states = [optimizer.state[p] for p in again.parameters()]
    assert {state["step"].device.type for state in states} == {"cpu"}, "reading it costs no sync"
    assert {state["exp_avg"].device.type for state in states} == {"xla"}
    torch.manual_seed(1)
    xla.mark_step()
    reads = xla.metrics()["host_reads"]
    train(again, optimizer, device)
    assert xla.metrics()["host_reads"] == reads
    for a, b in zip(expected, again.parameters(), strict=True):
        assert torch.allclose(a, b.detach().cpu())


def _reads(save: Callable[[], Any]) -> int:
    xm.wait_device_ops()
    before = xla.metrics()["host_reads"]
    save()
    after = xla.metrics()["host_reads"]
    assert before is not None
    assert after is not None
    return after - before


def test_all_tensors_of_a_checkpoint_come_in_one_transfer(
    device: torch.device, tmp_path: Path
) -> None:
    model, optimizer = trained(device)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
    assert _reads(lambda: xla.save(state, tmp_path / "state.pt")) == 1
    assert _reads(lambda: xla.save([model, optimizer], tmp_path / "whole.pt")) == 1
    again = torch.load(tmp_path / "state.pt")
    whole, its_optimizer = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert devices_in([again, whole, its_optimizer]) == {"cpu"}
    for name, value in model.state_dict().items():
        assert torch.equal(again["model"][name], value.cpu())
        assert torch.equal(whole.state_dict()[name], value.cpu())
    taken = whole.first.weight
    assert isinstance(taken, nn.Parameter)
    assert taken.requires_grad
    assert its_optimizer.param_groups[0]["params"][0] is taken


def test_large_checkpoints_come_in_pieces(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_AT_ONCE", 100)
    tensors = [torch.full((n,), float(n), device=device) for n in (20, 5, 40, 5, 5)]
    xla.mark_step()
    # 80 and 20 bytes; 160 by itself; 20 and 20.
    assert _reads(lambda: xla.save(tensors, tmp_path / "x.pt")) == 3
    loaded = torch.load(tmp_path / "x.pt")
    assert all(torch.equal(a, b.cpu()) for a, b in zip(loaded, tensors, strict=True))


def test_tensors_in_objects_of_the_scripts_own_are_fetched_when_they_are_written(
    device: torch.device, tmp_path: Path
) -> None:
    model = trained(device)[0]
    model.bare = torch.ones(2, device=device)
    xla.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert loaded.bare.device.type == "cpu"
    assert loaded.bare.tolist() == [1, 1]


# Copies in memory (3.12)


def _train_on(model: nn.Module, device: torch.device) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        train(model, optimizer, device)


def _sync_target(model: nn.Module, target: nn.Module, clone: Callable[[Any], Any]) -> None:
    target.load_state_dict(clone(model.state_dict()))


def _values(state: Any) -> list[list[float]]:
    return [tensor.flatten().tolist() for tensor in state.values()]


def test_fact_3_12_copies_share_a_buffer_and_lose_it(device: torch.device) -> None:
    model, target = nn.Linear(3, 2).to(device), nn.Linear(3, 2).to(device)
    _sync_target(model, target, lambda state: state)
    xla.mark_step()

    def go_on() -> None:
        for _ in range(3):
            _train_on(model, device)
            _values(target.state_dict())

    with pytest.raises(RuntimeError, match=r"IsDeleted|async operation is in flight"):
        go_on()


def test_fact_3_12_a_target_network_by_clone_state(device: torch.device) -> None:
    model, target = Net().to(device), Net().to(device)
    for _ in range(3):
        _sync_target(model, target, xla.clone_state)
        expected = _values(model.state_dict())
        xla.mark_step()
        _train_on(model, device)
        assert _values(target.state_dict()) == expected


def test_fact_3_12_the_best_weights_are_kept_and_restored_again_and_again(
    device: torch.device,
) -> None:
    model = Net().to(device)
    best = xla.clone_state(model.state_dict())
    expected = _values(best)
    for _ in range(3):
        _train_on(model, device)
        assert _values(model.state_dict()) != expected
        model.load_state_dict(xla.clone_state(best))
        xla.mark_step()
        assert _values(model.state_dict()) == _values(best) == expected


def test_fact_3_12_two_models_from_one_file(device: torch.device, tmp_path: Path) -> None:
    """The usual start of a teacher or an EMA."""
    xla.save(Net().to(device).state_dict(), tmp_path / "m.pt")
    loaded = xla.load(tmp_path / "m.pt", map_location="cuda")
    model, teacher = Net().to(device), Net().to(device)
    model.load_state_dict(loaded)
    teacher.load_state_dict(loaded)
    _train_on(model, device)
    assert _values(teacher.state_dict()) == _values(loaded)


@pytest.mark.parametrize("order", ["state, model", "model, state"])
def test_move_state_of_what_was_loaded_before_the_model_moved(
    device: torch.device, order: str
) -> None:
    """In either order; fact 3.28: the step counts stay."""
    before, saved = trained(torch.device("cpu"))
    model = copy.deepcopy(before)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    optimizer.load_state_dict(copy.deepcopy(saved.state_dict()))
    if order == "state, model":
        xla.move_state(optimizer)
    model.to(device)
    if order == "model, state":
        xla.move_state(optimizer, "cuda:0")
    places = {n: v.device for s in optimizer.state.values() for n, v in s.items()}
    assert places == {"exp_avg": device, "exp_avg_sq": device, "step": torch.device("cpu")}
    torch.manual_seed(0)
    train(model, optimizer, device)
    torch.manual_seed(0)
    train(before, saved, torch.device("cpu"))
    torch.testing.assert_close(model.first.weight.cpu(), before.first.weight)
    xla.move_state(optimizer, "cpu")
    assert all(v.device.type == "cpu" for s in optimizer.state.values() for v in s.values())


def test_clone_state_keeps_types_and_bits(device: torch.device) -> None:
    model = Net().to(device)
    state = model.state_dict()
    clone = xla.clone_state(state)
    assert type(clone) is OrderedDict
    assert clone._metadata == state._metadata  # type: ignore[attr-defined]
    nest = {
        "negative zero": torch.tensor([-0.0, float("nan")], device=device),
        "bool": torch.tensor([True, False], device=device),
        "uint8": torch.tensor([255], dtype=torch.uint8, device=device),
        "int64": torch.tensor([2**40 + 1], device=device),
        "bfloat16": torch.ones(2, device=device).bfloat16(),
        "cpu": torch.ones(2),
        "parameter": nn.Parameter(torch.ones(1, device=device), requires_grad=False),
        "plain": [1, "x", {"lr": 0.1}],
    }
    copied = xla.clone_state(nest)
    assert copied["plain"] == nest["plain"]
    assert copied["plain"] is not nest["plain"]
    assert type(copied["parameter"]) is nn.Parameter
    for name in list(nest)[:-1]:
        one, other = nest[name], copied[name]
        assert other is not one
        assert (other.dtype, other.device) == (one.dtype, one.device)  # type: ignore[attr-defined]
        raw = [t.detach().cpu().view(torch.uint8).tolist() for t in (one, other)]  # type: ignore[attr-defined]
        assert raw[0] == raw[1]


def test_clone_state_of_an_optimizer(device: torch.device) -> None:
    model, optimizer = trained(device)
    kept = xla.clone_state(optimizer.state_dict())
    expected = kept["state"][0]["exp_avg"].cpu()
    train(model, optimizer, device)
    assert torch.equal(kept["state"][0]["exp_avg"].cpu(), expected)
    assert kept["state"][0]["step"].item() == 1
    assert kept["param_groups"] == optimizer.state_dict()["param_groups"]


def test_clone_state_leaves_the_graph_of_the_original_alone(device: torch.device) -> None:
    weight = nn.Parameter(torch.ones(2, device=device))
    clone = xla.clone_state({"w": weight})["w"]
    (weight * 2).sum().backward()
    assert weight.grad is not None
    assert clone.grad is None
    assert copy.deepcopy(clone).tolist() == [1, 1]


def test_eager_round_trip(eager: None, tmp_path: Path, cuda_file: Path) -> None:
    model = Net()
    xla.save({"model": model, "state": model.state_dict()}, tmp_path / "m.pt")
    loaded = xla.load(tmp_path / "m.pt", map_location="cuda:0", weights_only=False)
    assert torch.equal(loaded["model"].first.weight, model.first.weight)
    if not torch.cuda.is_available():
        assert xla.load(cuda_file)["w"].tolist() == [0, 1, 2, 3]
    clone = xla.clone_state(model.state_dict())
    clone["first.weight"].zero_()
    assert model.first.weight.abs().sum() > 0


def test_on_cuda_map_location_is_torchs_with_files_from_xla_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spelled for the native path, with the CPU in the part of the GPU."""

    class Cuda:
        def device(self, index: int | None = None) -> torch.device:
            return torch.device("cuda", index or 0)

    monkeypatch.setattr(_backend, "_chosen", Cuda())
    assert checkpoints._native("cuda:1") == torch.device("cuda", 1)
    assert checkpoints._native("cpu") == torch.device("cpu")
    assert checkpoints._native(_kept) is _kept
    assert checkpoints._native(None)["xla:0"] == "cuda:0"
    mapped = checkpoints._native({"cuda:0": "cuda:1"})
    assert (mapped["xla:0"], mapped["cuda:0"]) == ("cuda:0", "cuda:1")


def test_tensors_that_are_no_state_go_where_map_location_says(
    device: torch.device, tmp_path: Path
) -> None:
    """A data set kept in one file, beside states, which stay on the CPU (3.12, 3.28)."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    shared = torch.arange(3)
    checkpoint = {
        "images": torch.ones(3, 2),
        "labels": shared,
        "again": [shared, ("x", shared)],
        "model": model.state_dict(),
        "plain": dict(model.state_dict()),
        "one": dict(nn.Linear(2, 2).state_dict()),
        "optimizer": optimizer.state_dict(),
        "rng_state": torch.get_rng_state(),
        "epoch": 3,
    }
    torch.save(checkpoint, tmp_path / "c.pt")
    loaded = xla.load(tmp_path / "c.pt", map_location=device)
    assert loaded["images"].device == loaded["labels"].device == device
    assert loaded["again"][0] is loaded["labels"]
    assert loaded["again"][1] == ("x", loaded["labels"])
    states = [loaded["model"], loaded["plain"], loaded["one"], loaded["optimizer"]["state"][0]]
    assert {t.device.type for state in states for t in state.values()} == {"cpu"}
    assert loaded["rng_state"].device.type == "cpu"
    assert loaded["epoch"] == 3
    model.to(device).load_state_dict(loaded["plain"])
    norm = nn.BatchNorm1d(2).to(device)
    assert norm(loaded["images"]).device == device
    for where in ("cpu", None):
        loaded = xla.load(tmp_path / "c.pt", map_location=where)
        assert loaded["images"].device.type == "cpu"
    batches = xla.load(tmp_path / "c.pt", "cuda:0")["again"]
    assert batches[0].device == device
