"""Native backends, as far as it needs no device: which is taken, and what is asked of it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime import _choice
from xla_migrate.runtime.eager import backend as _eager
from xla_migrate.runtime.eager import native as _native

from .test_processes import in_a_warm_process

ABSENT = "torch_tpu 9.9 is installed, but this host shows no TPU: training runs on the CPU"


def install(site: Path, name: str, version: str, code: str = "") -> None:
    """A package that brings a device to torch, as far as torch sees at its import."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(code + "\ndef load():\n    pass\n")
    told = site / f"{name}-{version}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (told / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {name}:load\n")


def put_card(bus: Path, place: str, vendor: str, device: str) -> None:
    (bus / place).mkdir(parents=True)
    (bus / place / "vendor").write_text(vendor + "\n")
    (bus / place / "device").write_text(device + "\n")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host without an accelerator, and with nothing on its bus."""
    for name in ("LOCAL_RANK", "TPU_SKIP_MDS_QUERY", "XLA_MIGRATE_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_choice, "_kind", lambda: "cpu")
    monkeypatch.setattr(_choice, "_PCI", tmp_path / "bus")
    monkeypatch.setattr(_choice, "_DEV", tmp_path / "dev")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_nothing_is_said_where_nothing_is_installed(host: Path) -> None:
    assert _choice.absent() == ""


def test_a_package_without_its_device_is_named(host: Path) -> None:
    install(host, "torch_tpu", "9.9")
    assert _choice.absent() == ABSENT


def test_a_network_card_of_googles_is_no_tpu(host: Path) -> None:
    install(host, "torch_tpu", "9.9")
    put_card(host / "bus", "0000:00:04.0", "0x1ae0", "0x0042")
    put_card(host / "bus", "0000:00:05.0", "0x8086", "0x0063")
    assert _choice.absent() == ABSENT
    put_card(host / "bus", "0000:00:06.0", "0x1ae0", "0x0063")
    assert "1 of this host's TPUs did not become a torch device" in _choice.absent()


def test_neuron_devices_are_counted_by_their_nodes(host: Path) -> None:
    install(host, "torch_neuronx", "2.0")
    assert "shows no Neuron device" in _choice.absent()
    (host / "dev").mkdir()
    for name in ("neuron0", "neuron1", "neuron_link"):
        (host / "dev" / name).touch()
    assert "2 of this host's Neuron devices" in _choice.absent()


def test_a_machine_with_an_accelerator_has_nothing_to_say(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(host, "torch_tpu", "9.9")
    monkeypatch.setattr(_choice, "_kind", lambda: "cuda")
    assert _choice.absent() == ""


@pytest.mark.parametrize("rank", ["0", "1"])
def test_it_is_said_once_on_a_host_and_libtpu_is_kept_from_asking(
    host: Path, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord], rank: str
) -> None:
    install(host, "torch_tpu", "9.9")
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "")  # so that it is put back
    del os.environ["TPU_SKIP_MDS_QUERY"]
    _choice.warn_if_absent()
    assert os.environ["TPU_SKIP_MDS_QUERY"] == "1"
    assert [record.getMessage() for record in logged] == ([ABSENT] if rank == "0" else [])


@pytest.mark.parametrize(
    ("value", "said"), [("1", True), ("true", True), ("0", False), ("", False)]
)
def test_float32_that_torch_xla_would_round_is_named(
    monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord], value: str, said: bool
) -> None:
    monkeypatch.setenv("XLA_DOWNCAST_BF16", value)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    _choice.warn_of_precision()
    assert any("XLA_DOWNCAST_BF16" in record.getMessage() for record in logged) == said


def test_a_tpus_host_asks_its_metadata(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(host, "torch_tpu", "9.9")
    put_card(host / "bus", "0000:00:06.0", "0x1ae0", "0x0063")
    _choice.warn_if_absent()
    assert "TPU_SKIP_MDS_QUERY" not in os.environ


def test_torch_tpu_without_a_tpu_neither_hangs_nor_aborts(tmp_path: Path) -> None:
    """As with torch_tpu 0.2.0, whose `synchronize` aborts the process there."""
    install(tmp_path, "torch_tpu", "9.9")
    script = """
import os
import torch
torch.accelerator.synchronize = os.abort
from xla_migrate import runtime as xla
if torch.accelerator.is_available():
    raise SystemExit(3)
model = torch.nn.Linear(2, 2).to(xla.xla_device("cuda"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
xla.optimizer_step(optimizer)
xla.synchronize()
xla.memory_info()
print(xla.device_type(), os.environ["TPU_SKIP_MDS_QUERY"])
"""
    source = Path(__file__).parents[2] / "src"
    done = in_a_warm_process(
        "reference",
        script,
        PYTHONPATH=f"{source}{os.pathsep}{tmp_path}",
        XLA_MIGRATE_BACKEND="eager",
    )
    if done.returncode == 3:
        pytest.skip("this machine has an accelerator")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["cpu", "1"]
    assert done.stderr.strip() == ABSENT


@pytest.mark.parametrize(
    ("asked", "installed", "kind", "expected"),
    [
        ("", True, "cpu", ("torch_xla", "xla", "it is installed")),
        ("", True, "neuron", ("torch_xla", "xla", "XLA_MIGRATE_BACKEND=eager takes the 'neuron'")),
        ("", False, "tpu", ("eager", "tpu", "torch_xla is not installed")),
        ("eager", True, "cuda", ("eager", "cuda", "XLA_MIGRATE_BACKEND=eager")),
    ],
)
def test_which_backend_is_taken_and_why(
    host: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    installed: bool,
    kind: str,
    expected: tuple[str, str, str],
) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", asked)
    monkeypatch.setattr(_choice, "_kind", lambda: kind)
    monkeypatch.setattr(
        _choice, "uses_torch_xla", lambda: asked == "torch_xla" or (installed and not asked)
    )
    taken = _choice.choice()
    assert (taken.backend, taken.device) == expected[:2]
    assert expected[2] in taken.why


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"backend": "tpu", "dynamic": False}),
        (
            {"mode": "max-autotune", "fullgraph": True},
            {"backend": "tpu", "fullgraph": True, "dynamic": False},
        ),
        ({"backend": "inductor", "options": {"a": 1}}, {"backend": "tpu", "dynamic": False}),
        ({"backend": "cudagraphs", "dynamic": True}, {"backend": "tpu", "dynamic": False}),
        ({"backend": "aot_eager", "dynamic": True}, {"backend": "aot_eager", "dynamic": True}),
    ],
)
def test_a_device_is_compiled_for_by_its_own_compiler(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(torch._dynamo, "list_backends", lambda exclude: ["inductor", "tpu"])
    monkeypatch.setattr(torch, "compile", lambda function, **options: seen.append(options))
    _native.compile("tpu", len, given)
    assert seen == [expected]


def test_without_a_compiler_of_its_own_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._dynamo, "list_backends", lambda exclude: ["inductor"])
    assert _native.compile("neuron", len, {"mode": "max-autotune"}) is len


@pytest.mark.parametrize(("kind", "index"), [("tpu", 2), ("neuron", 1)])
def test_a_process_of_torch_tpu_has_its_own_device(
    eager: None, monkeypatch: pytest.MonkeyPatch, kind: str, index: int
) -> None:
    """torch_tpu 0.2.0: another index is refused, and so is choosing one."""
    chosen: list[int] = []
    monkeypatch.setattr(_eager, "_chosen", True)
    monkeypatch.setattr(_eager, "device_type", lambda: kind)
    monkeypatch.setattr(torch, "device", lambda kind, index: (kind, index))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    assert _eager.device(1) == (kind, index)  # type: ignore[comparison-overlap]
    _eager.set_device(1)
    assert chosen == ([] if kind == "tpu" else [1])


def test_replicas_of_a_rehearsal_on_the_cpu(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_eager, "device_type", lambda: "cpu")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert xla.device_count() == 2
    assert len(xla.get_rng_state_all()) == 1, "the processes have one stream each"
