"""Weights that are split over two processes, on stand-ins for native backends: the CPU's losses, by the same scripts.

torch's `fully_shard` and `FullyShardedDataParallel`, and torch_xla's wrapper rewritten. They ask a device for streams, events and
collectives of its own.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_codemods.engine import Options, migrate

from ... import warm
from ...e2e.fixtures import ROOT
from ..rehearsal import free_port
from . import building

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
SCRIPTS = ROOT / "tests" / "e2e" / "scripts"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Path:
    return building.site(sys.executable, Path(request.config.cache.mkdir("standin")))  # type: ignore[union-attr]


def trained(site: Path, name: str, script: Path, *words: str) -> list[str]:
    """What two processes print of losses and weights; on the CPU where the name is ""."""
    own = {
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")]),
        "XLA_MIGRATE_BACKEND": "eager",
        "STANDIN_NAME": name,
        "STANDIN_DEVICES": "2",
        "STANDIN_SHARES_STREAM": "1",
        "OMP_NUM_THREADS": "1",
    }
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    done = subprocess.run(
        [warm.choosing(), *launcher, f"--master_port={free_port()}", str(script), *words],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if line.startswith(("loss", "weights"))]


def written(folder: Path, name: str, origin: str = "") -> Path:
    """A script of the end-to-end tests, migrated."""
    path = folder / name
    data = (SCRIPTS / name).read_bytes()
    path.write_bytes(migrate(data, Options(origin=origin)).data)
    return path


@functools.cache  # one run for all names
def fully_sharded_on_the_cpu(site: Path, options: tuple[str, ...]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "told.pt")
        trained(site, "", SCRIPTS / "fully_shard.py", str(path), *options)
        return torch.load(path)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["tpu", "neuron"])
@pytest.mark.parametrize("options", [(), ("meta", "loaded", "resumed", "list"), ("bf16", "meta")])
def test_fully_shard(site: Path, name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    script = SCRIPTS / "fully_shard.py"
    path = tmp_path / "told.pt"
    trained(site, name, script, str(path), *options)
    there, on_cpu = torch.load(path), fully_sharded_on_the_cpu(site, options)
    assert len(there["losses"]) == 16
    if (
        "bf16" in options
    ):  # attention is in one kernel on the CPU, and in several here, each of which rounds
        assert there["losses"] == pytest.approx(on_cpu["losses"], rel=0.005)
        return
    assert there["losses"] == pytest.approx(on_cpu["losses"], abs=1e-6)
    for key, value in on_cpu["saved"].items():
        assert there["saved"][key].device.type == "cpu"
        if key.endswith("in_proj_bias"):
            continue  # the keys' part has a gradient of rounding alone
        torch.testing.assert_close(there["saved"][key], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["tpu", "neuron"])
def test_fully_sharded_data_parallel(site: Path, name: str, tmp_path: Path) -> None:
    script = written(tmp_path, "fully_sharded.py")
    on_cpu, there = (
        [
            float(line.split()[1])
            for line in trained(site, kind, script, str(tmp_path / f"{kind}.pt"))
        ]
        for kind in ("", name)
    )
    assert len(there) == 24
    assert there == pytest.approx(on_cpu, rel=1e-6)
    states = [torch.load(tmp_path / f"{kind}.pt") for kind in ("", name)]
    assert {value.device.type for value in states[1].values()} == {"cpu"}
    for key, value in states[0].items():
        if not key.endswith("in_proj_bias"):
            torch.testing.assert_close(states[1][key], value, rtol=1e-5, atol=1e-4)


def test_torch_xlas_wrapper_rewritten(site: Path, tmp_path: Path) -> None:
    script = written(tmp_path, "by_hand_fsdp.py", "torch_xla")
    told = []
    for kind in ("", "neuron"):
        out = tmp_path / f"out-{kind}"
        out.mkdir()
        lines = [line.split() for line in trained(site, kind, script, str(out))]
        told.append([float(number) for line in lines for number in line[1:]])
    assert len(told[1]) == 13
    assert told[1] == pytest.approx(told[0], abs=2e-6)
