"""`xla-migrate doctor`: each fault is told, with what to do about it."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.cli.doctor import FAULT, NOTE, OK, Check, diagnose, lines
from xla_migrate.cli.doctor_checks import ANSWER
from xla_migrate.verify import probe

from .conftest import Runner

VERSIONS = {"python": "3.11.7", "torch": "2.9.0+cpu", "torch_xla": "2.9.0", "libtpu": None}
GOOD: dict[str, Any] = {
    "versions": VERSIONS,
    "neuron_nodes": 0,
    "cache": "/cache",
    "cache_writable": True,
    "cache_entries": 3,
    "imported": True,
    "tpu_chips": 4,
    "device": "xla:0",
    "device_type": "TPU",
    "local_devices": 4,
    "all_devices": 8,
    "step": ANSWER,
    "step_seconds": 0.5,
    "together_reduced": 36.0,
    "together_replicas": 8,
    "code": 0,
}


def checked(
    env: dict[str, str] | None = None, without: tuple[str, ...] = (), **changes: Any
) -> dict[str, Check]:
    found = {k: v for k, v in {**GOOD, **changes}.items() if k not in without}
    return {check.name: check for check in diagnose(env or {}, 1.0, lambda env, timeout: found)}


def test_a_machine_that_is_ready() -> None:
    checks = checked({"PJRT_DEVICE": "TPU"})
    assert {name: check.status for name, check in checks.items()} == {
        "versions": OK,
        "device": OK,
        "training step": OK,
        "collectives": OK,
        "compile cache": OK,
    }
    assert checks["device"].detail == "TPU, 4 of 8 devices here"
    assert lines(list(checks.values()))[-1] == "ready"


@pytest.mark.parametrize(
    ("versions", "detail", "advice"),
    [
        ({"torch": None}, "no torch", "pip install 'xla-migrate[xla]'"),
        ({"torch_xla": None}, "no torch_xla", "torch_xla==2.9.*"),
        ({"torch": "2.8.0"}, "torch 2.8.0 and torch_xla 2.9.0 do not match", "torch==2.9.*"),
    ],
)
def test_versions_have_to_match(versions: dict[str, Any], detail: str, advice: str) -> None:
    check = checked(versions={**VERSIONS, **versions}, without=("imported",))["versions"]
    assert check.status == FAULT
    assert detail in check.detail
    assert advice in check.advice


def test_torch_xla_that_cannot_be_imported() -> None:
    checks = checked(
        without=("imported", "device"),
        failed="import_torch_xla",
        error="ImportError: undefined symbol",
    )
    assert checks["torch_xla"].status == FAULT
    assert "undefined symbol" in checks["torch_xla"].detail
    assert "device" not in checks


@pytest.mark.parametrize("env", [{}, {"PJRT_DEVICE": "CPU"}])
def test_fact_1_11_a_tpu_machine_that_fell_back_to_the_cpu_is_a_fault(env: dict[str, str]) -> None:
    check = checked(env, device_type="CPU", local_devices=1, all_devices=1)["device"]
    assert check.status == FAULT
    assert "4 TPU chips are here, but torch_xla computes on the CPU" in check.detail
    assert check.advice.startswith("export PJRT_DEVICE=TPU")


def test_neuron_devices_that_are_not_used_are_a_fault() -> None:
    check = checked(device_type="CPU", tpu_chips=0, neuron_nodes=16)["device"]
    assert check.status == FAULT
    assert check.advice.startswith("export PJRT_DEVICE=NEURON")


def test_another_device_than_was_asked_for_is_a_fault() -> None:
    assert checked({"PJRT_DEVICE": "NEURON"})["device"].status == FAULT


def test_the_cpu_is_fine_where_there_is_nothing_else() -> None:
    assert checked({"PJRT_DEVICE": "CPU"}, device_type="CPU", tpu_chips=0)["device"].status == OK
    assert checked({}, device_type="CPU", tpu_chips=0)["device"].status == NOTE


@pytest.mark.parametrize(
    ("env", "changes", "advice"),
    [
        (
            {"PJRT_DEVICE": "TPU"},
            {"error": "OSError: libtpu not found"},
            "pip install 'torch_xla[tpu]'",
        ),
        (
            {"PJRT_DEVICE": "GPU"},
            {"error": "RuntimeError: bad"},
            "PJRT_DEVICE is TPU, NEURON or CPU",
        ),
        ({"PJRT_DEVICE": "TPU"}, {"hung": 300.0}, "run on every host"),
        (
            {"PJRT_DEVICE": "TPU"},
            {"code": -6, "stderr": "F0000 aborted"},
            "another process may hold the device",
        ),
    ],
)
def test_no_device(env: dict[str, str], changes: dict[str, Any], advice: str) -> None:
    check = checked(env, without=("device", "device_type", "step"), **changes)["device"]
    assert check.status == FAULT
    assert advice in check.advice


def test_a_tpus_environment_without_a_chip_is_a_fault() -> None:
    env = {"TPU_ACCELERATOR_TYPE": "v4-8", "TPU_NAME": "local"}
    check = checked(env, device_type="CPU", tpu_chips=0)["device"]
    assert check.status == FAULT
    assert check.detail.startswith("TPU_ACCELERATOR_TYPE=v4-8, TPU_NAME=local: the environment is")
    meant = checked({**env, "PJRT_DEVICE": "CPU"}, device_type="CPU", tpu_chips=0)["device"]
    assert meant.status == OK


def test_wrong_numbers_are_named() -> None:
    check = checked(step=[13.25, 2.9375, 1.0, 0.5])["training step"]
    assert check.status == FAULT
    assert check.detail == "wrong numbers: bias 0.5, not 1.34375"


def test_nan_is_a_wrong_number() -> None:
    assert checked(step=[float("nan"), *ANSWER[1:]])["training step"].status == FAULT


def test_a_step_that_crashed() -> None:
    check = checked(without=("step",), code=-11, stderr="Fatal Python error")["training step"]
    assert check.status == FAULT
    assert "Fatal Python error (exit code -11)" in check.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"together_reduced": 4.0},
        {"together_reduced": None, "together_replicas": None, "together_hung": 300.0},
    ],
)
def test_collectives_that_fail(changes: dict[str, Any]) -> None:
    assert checked(**changes)["collectives"].status == FAULT


def test_fact_5_7_the_cpu_has_no_collectives() -> None:
    check = checked({"PJRT_DEVICE": "CPU"}, device_type="CPU", tpu_chips=0, local_devices=2)[
        "collectives"
    ]
    assert check.status == NOTE


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"cache": None}, NOTE),
        ({"cache_writable": False}, FAULT),
        ({"device_type": "CPU", "tpu_chips": 0}, NOTE),  # fact 1.60: written, never read
    ],
)
def test_compile_cache(changes: dict[str, Any], status: str) -> None:
    assert checked({}, **changes)["compile cache"].status == status


@pytest.mark.parametrize("place", ["/proc/nowhere", "file"])
def test_a_cache_that_cannot_be_written_is_left_out_of_the_rest(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = place if place.startswith("/") else str(tmp_path / place)
    monkeypatch.setenv("XLA_PERSISTENT_CACHE_PATH", path)
    probe.cache()
    found = json.loads(capsys.readouterr().out)
    assert (found["cache"], found["cache_writable"]) == (path, False)
    assert "XLA_PERSISTENT_CACHE_PATH" not in os.environ
    assert checked({}, **found)["compile cache"].status == FAULT


def test_a_cache_that_is_not_there_yet_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XLA_PERSISTENT_CACHE_PATH", str(tmp_path / "new" / "cache"))
    probe.cache()
    assert json.loads(capsys.readouterr().out)["cache_writable"]
    assert list(tmp_path.iterdir()) == []


def test_a_probe_that_said_nothing() -> None:
    checks = diagnose({}, 1.0, lambda env, timeout: {"code": 1, "stderr": "no module"})
    assert [(c.name, c.status) for c in checks] == [("versions", FAULT)]
    assert "no module" in checks[0].detail


@pytest.mark.parametrize(
    "words", [["x"], ["--output-format", "xml"], ["--timeout", "soon"], ["--timeout"]]
)
def test_wrong_usage(run: Runner, words: list[str]) -> None:
    assert run("doctor", *words).code == 2


def test_every_fault_has_advice() -> None:
    for changes in ({"step": [0.0] * 4}, {"cache_writable": False}, {"together_reduced": 1.0}):
        for check in checked(**changes).values():
            assert check.status != FAULT or check.advice


def shadow(place: Path, name: str, version: str = "", code: str = "") -> None:
    """A distribution, or a package, that is found before the one that is installed."""
    if version:
        (place / f"{name}-{version}.dist-info").mkdir()
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (place / f"{name}-{version}.dist-info" / "METADATA").write_text(told)
    if code:
        (place / name).mkdir()
        (place / name / "__init__.py").write_text(code)


def examined(run: Runner, monkeypatch: pytest.MonkeyPatch, **env: str) -> dict[str, dict[str, str]]:
    """The checks of this machine, with this environment, by processes of their own."""
    for name in (*_TPUS, "PJRT_DEVICE", "XLA_PERSISTENT_CACHE_PATH", "CPU_NUM_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    result = run("doctor", "--output-format=json")
    checks = {c["name"]: c for c in json.loads(result.out)["checks"]}
    assert result.code == int(any(c["status"] == FAULT for c in checks.values()))
    return checks


_TPUS = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "TPU_WORKER_HOSTNAMES")


@pytest.mark.e2e
def test_real_faults_of_one_machine(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch_xla")
    shadow(tmp_path, "torch_xla", version="1.13.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cache").write_text("a file in the folder's place")
    cache = str(tmp_path / "cache")
    checks = examined(run, monkeypatch, XLA_PERSISTENT_CACHE_PATH=cache, CPU_NUM_DEVICES="2")
    assert {name: check["status"] for name, check in checks.items()} == {
        "versions": FAULT,
        "device": NOTE,
        "training step": OK,
        "collectives": NOTE,
        "compile cache": FAULT,
    }
    assert "torch_xla 1.13.0 do not match" in checks["versions"]["detail"]
    assert checks["device"]["detail"].startswith("CPU, 2 of 2 devices")
    assert "CPU_NUM_DEVICES" in checks["collectives"]["advice"]


@pytest.mark.e2e
def test_a_device_whose_library_is_missing(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_xla")
    if importlib.util.find_spec("libneuronxla") is not None:
        pytest.skip("its library is here")
    check = examined(run, monkeypatch, PJRT_DEVICE="NEURON")["device"]
    assert check["status"] == FAULT
    assert "libneuronxla" in check["detail"]
    assert "torch-neuronx" in check["advice"]


@pytest.mark.e2e
def test_a_torch_xla_that_does_not_load(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch_xla")
    code = "raise ImportError('libxla.so.9: cannot open shared object file')"
    shadow(tmp_path, "torch_xla", code=code)
    monkeypatch.syspath_prepend(str(tmp_path))
    check = examined(run, monkeypatch)["torch_xla"]
    assert check["status"] == FAULT
    assert "libxla.so.9" in check["detail"]
