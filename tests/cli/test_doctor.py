"""`xla-migrate doctor`: each fault is told, with what to do about it."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.cli import doctor_routes
from xla_migrate.cli.doctor import diagnose, lines
from xla_migrate.cli.doctor_checks import ANSWER, FAULT, NOTE, OK, DoctorCheck
from xla_migrate.known_errors.explain import find
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
) -> dict[str, DoctorCheck]:
    found = {k: v for k, v in {**GOOD, **changes}.items() if k not in without}
    return {
        check.name: check for check in diagnose(env or {}, 1.0, lambda env, timeout, heard: found)
    }


def test_a_machine_that_is_ready() -> None:
    checks = checked({"PJRT_DEVICE": "TPU"})
    assert {name: check.status for name, check in checks.items()} == {
        "versions": OK,
        "device": OK,
        "training step": OK,
        "collectives": OK,
        "compile cache": NOTE,
    }
    assert checks["device"].detail == "TPU, 4 of 8 devices here"
    assert lines(list(checks.values()))[-1] == "ready"


@pytest.mark.parametrize(
    ("versions", "detail", "advice"),
    [
        ({"torch": None}, "no torch", "pip install 'torch==2.9.*' 'torch_xla==2.9.*'"),
        ({"torch_xla": None}, "no torch_xla", "torch_xla==2.9.*"),
        ({"torch": "2.8.0"}, "torch 2.8.0 and torch_xla 2.9.0 do not match", "torch==2.9.*"),
    ],
)
def test_versions_have_to_match(versions: dict[str, Any], detail: str, advice: str) -> None:
    check = checked(versions={**VERSIONS, **versions}, without=("imported",))["versions"]
    assert check.status == FAULT
    assert detail in check.detail
    assert advice in check.advice


EAGER = {"backend": "eager", "why": "torch_xla is not installed", "absent": "", "native": True}
NATIVE_VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "torch_xla": None, "torch_tpu": "0.2.0"}


def test_a_native_backend_is_ready_without_torch_xla() -> None:
    """Its collectives are not tried, and torch_xla's cache is none of its."""
    checks = checked(
        versions=NATIVE_VERSIONS,
        backend={**EAGER, "device": "tpu"},
        device="tpu:0",
        device_type="tpu",
        all_devices=4,
    )
    assert {name: check.status for name, check in checks.items()} == {
        "versions": OK,
        "backend": OK,
        "route": OK,
        "device": OK,
        "training step": OK,
        "collectives": NOTE,
    }
    assert checks["backend"].detail == "eager on tpu: torch_xla is not installed"


def test_a_native_backend_without_its_device_is_the_one_fault() -> None:
    absent = "torch_tpu 0.2.0 is installed, but this host shows no TPU: training runs on the CPU"
    taken = {**EAGER, "device": "cpu", "native": False, "absent": absent}
    gone = ("imported", "device", "tpu_chips")
    checks = checked(versions=NATIVE_VERSIONS, backend=taken, without=gone)
    assert {name: check.status for name, check in checks.items()} == {
        "versions": OK,
        "backend": FAULT,
    }
    assert absent in checks["backend"].detail


def test_the_backend_is_a_line_with_its_reason() -> None:
    taken = {"backend": "torch_xla", "device": "xla", "why": "it is installed", "absent": ""}
    assert checked(backend={**taken, "native": False})["backend"].detail == (
        "torch_xla: it is installed"
    )
    eager = {**EAGER, "device": "cuda", "native": False}
    assert checked(backend=eager)["backend"].status == NOTE


XLA = {"backend": "torch_xla", "device": "xla", "why": "it is installed", "absent": ""}
XLA = {**XLA, "native": False}
NEURON_VERSIONS = {**VERSIONS, "torch": "2.13.0", "torch_xla": None, "torch-neuronx": "2.33.1"}
NEURON = {**EAGER, "device": "neuron"}


@pytest.mark.parametrize(
    ("instance", "backend", "versions", "status", "words"),
    [
        ("trn1.32xlarge", XLA, VERSIONS, OK, "Trn1, torch_xla: torch 2.9, Neuron 2.29"),
        ("trn1n.32xlarge", NEURON, NEURON_VERSIONS, FAULT, "TorchNeuron does not support it"),
        ("trn2.48xlarge", XLA, VERSIONS, OK, "the other route is TorchNeuron"),
        ("trn2u.48xlarge", NEURON, NEURON_VERSIONS, OK, "torch.compile backend `neuron`"),
        ("trn3.48xlarge", XLA, VERSIONS, FAULT, "use TorchNeuron: torch 2.13 or 2.14"),
        ("", XLA, VERSIONS, NOTE, "Trainium of unknown type, torch_xla"),
        ("trn1.2xlarge", {**EAGER, "device": "cpu"}, {}, FAULT, "no backend is installed"),
    ],
)
def test_the_route_on_trainium(
    instance: str, backend: dict[str, Any], versions: dict[str, Any], status: str, words: str
) -> None:
    found = {"neuron_nodes": 16, "instance": instance, "tpu_chips": 0}
    check = checked(backend=backend, versions={"torch": "2.9.0", **versions}, **found)["route"]
    assert check.status == status
    assert words in f"{check.detail} {check.advice}"


def test_the_route_on_a_tpu() -> None:
    tpu = checked(backend=XLA)["route"]
    assert "PJRT_DEVICE=TPU torchrun" in tpu.detail
    assert "set_tpu_launch_env" in tpu.advice
    native = {"versions": NATIVE_VERSIONS, "backend": {**EAGER, "device": "tpu"}}
    without = checked(**native, tpu_nodes=4, without=("tpu_chips",))["route"]
    assert "set_tpu_launch_env" in without.detail
    assert "process group `tpu_dist`" in without.detail


def test_a_machine_without_an_accelerator_has_no_route() -> None:
    assert "route" not in checked(backend=XLA, tpu_chips=0, device_type="CPU")


@pytest.mark.parametrize(
    ("machine", "route"),
    [(m, route) for m in ("Trn1", "Trn2", "Trn3", "TPU") for route in doctor_routes.ROUTES[m]],
)
def test_routes_are_those_of_the_guide(machine: str, route: doctor_routes.Route) -> None:
    page = (Path(__file__).parents[2] / "docs/guides/my-machine.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| T")]
    row = next(row for row in rows if machine in row[1] and route.backend in row[2])
    assert all(version in f"{row[2]} {row[3]}" for version in route.versions.split(", "))
    assert f"`{route.group}`" in page
    assert all(f"`{part}`" in page for part in route.launch.split("` after `"))


def test_the_guide_has_no_other_routes() -> None:
    page = (Path(__file__).parents[2] / "docs/guides/my-machine.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| T")]
    listed = sum(len(row[1].replace("Trn1n", "").strip(" ,").split(",")) for row in rows)
    named = {name: routes for name, routes in doctor_routes.ROUTES.items() if " " not in name}
    assert listed == sum(len(routes) for routes in named.values())


def test_the_type_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("trn1.32xlarge\n")
    assert probe._instance(str(tmp_path / "name")) == "trn1.32xlarge"
    assert probe._instance(str(tmp_path / "none")) == ""


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
    assert "4 TPU chips are present, but torch_xla computes on the CPU" in check.detail
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
            "set PJRT_DEVICE to TPU, NEURON or CPU",
        ),
        ({"PJRT_DEVICE": "TPU"}, {"hung": 300.0}, "run this on every host"),
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
    assert check.detail.startswith(
        "TPU_ACCELERATOR_TYPE=v4-8, TPU_NAME=local: set as on a TPU machine"
    )
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
        ({"device_type": "CPU", "tpu_chips": 0}, NOTE),  # the cache is written, never read
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
    checks = diagnose({}, 1.0, lambda env, timeout, heard: {"code": 1, "stderr": "no module"})
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
        "backend": OK,
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


def told(*results: dict[str, Any]) -> list[str]:
    """Return the lines that doctor has printed when each of the probe's results arrives, and at the end."""
    seen: list[DoctorCheck] = []

    def probe(env: dict[str, str], timeout: float, heard: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for result in results:
            found |= result
            heard(dict(found))
            seen.append(DoctorCheck("", "", ""))
        return found

    diagnose({"PJRT_DEVICE": "TPU"}, 1.0, probe, seen.append)
    return [check.name for check in seen]


def test_each_check_is_told_as_soon_as_it_is_made() -> None:
    devices = ("device", "device_type", "local_devices", "all_devices")
    assert told(
        {"versions": VERSIONS},
        {"backend": XLA, "tpu_nodes": 4, "cache": None},
        {"imported": True, "tpu_chips": 4, **{name: GOOD[name] for name in devices}},
        {"step": ANSWER, "step_seconds": 0.5},
        {"together_reduced": 36.0, "together_replicas": 8},
    ) == [
        "",
        *("route", "versions", "backend", ""),
        *("device", ""),
        *("training step", "", ""),
        *("collectives", "compile cache"),
    ]


def test_a_native_backend_is_no_fault_before_it_is_known() -> None:
    """The versions were told before the backend, as "no torch_xla"."""
    seen: list[DoctorCheck] = []

    def probe(env: dict[str, str], timeout: float, heard: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"versions": NATIVE_VERSIONS}
        heard(dict(found))
        found |= {"backend": {**EAGER, "device": "tpu"}, "tpu_nodes": 4}
        heard(dict(found))
        return found

    diagnose({}, 1.0, probe, seen.append)
    assert [(c.name, c.status) for c in seen[:3]] == [
        ("route", OK),
        ("versions", OK),
        ("backend", OK),
    ]


PROBE = """
import json, time
print(json.dumps({"versions": {"python": "3", "torch": "2.9.0", "torch_xla": "2.9.0"}}), flush=True)
time.sleep(60)
"""


@pytest.mark.e2e  # waits
def test_a_probe_that_hangs_has_told_what_it_knew(
    run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import subprocess

    (tmp_path / "probe.py").write_text(PROBE)
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda words, **kwargs: real([words[0], str(tmp_path / "probe.py")], **kwargs),
    )
    result = run("doctor", "--timeout", "2")
    assert result.code == 1
    assert result.out.startswith("ok    versions: python 3, torch 2.9.0, torch_xla 2.9.0\n")
    assert "no answer for 2 s" in result.out


def test_wrong_values_are_one_line(run: Runner) -> None:
    assert (
        run("doctor", "--timeout", "x").err == "xla-migrate: --timeout: must be a number, not 'x'\n"
    )
    assert run("doctor", "now").err.startswith("xla-migrate: doctor has no argument now")
    assert "did you mean `json`?" in run("doctor", "--format", "jsn").err


@pytest.mark.parametrize(
    ("env", "changes", "words"),
    [
        ({}, {"cache_bytes": 3 << 20, "cache_file_system": "nfs4"}, "3.0 MiB, on nfs4: shared"),
        ({}, {"cache_bytes": 0, "cache_file_system": "ext4"}, "on ext4: this host's own"),
        ({}, {"device_type": "NEURON", "cache": None}, "/var/tmp/neuron-compile-cache, "),
        (
            {"NEURON_COMPILE_CACHE_URL": "s3://b/c"},
            {"device_type": "NEURON", "cache": None},
            "s3://b/c, shared with everyone",
        ),
        (
            {"NEURON_CC_FLAGS": "-O1 --no_cache"},
            {"device_type": "NEURON", "cache": None},
            "turned off: every start compiles again",
        ),
        (
            {"NEURON_CC_FLAGS": "--cache_dir=/a", "NEURON_COMPILE_CACHE_URL": "/b"},
            {"device_type": "NEURON", "cache": None},
            "/a, 0 files, 0.0 MiB",
        ),
    ],
)
def test_where_the_compile_cache_is_and_who_shares_it(
    env: dict[str, str], changes: dict[str, Any], words: str
) -> None:
    assert words in checked(env, **changes)["compile cache"].detail


def test_a_known_error_of_the_probe_is_explained() -> None:
    words = "undefined symbol: _ZN5torch4lazy9SomethingE"
    known = find([words])[0].error
    check = checked({}, imported=False, code=1, stderr=f"ImportError: {words}\n")["torch_xla"]
    assert check.advice == f"{known.cause} {known.fix}"
    other = checked({}, imported=False, code=1, stderr="OSError: of no known kind\n")["torch_xla"]
    assert other.advice.startswith("reinstall torch")
