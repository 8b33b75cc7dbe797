"""What `fully_shard` offers, on two devices of SPMD, beside torch's own in two processes of the CPU."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_migrate.script_environment import free_port

from .. import warm
from ..runtime.rehearsal import environment

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = str(Path(__file__).parent / "scripts" / "fully_shard.py")


def told(env: dict[str, str], side: str, ranks: int, *options: str) -> dict[str, Any]:
    """What the script saved."""
    with tempfile.TemporaryDirectory() as folder:
        path, port = str(Path(folder, "told.pt")), free_port()
        started = [
            subprocess.Popen(
                [warm.for_side(side), SCRIPT, path, *options],
                env={**environment(rank, ranks, port), **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(ranks)
        ]
        outputs = [process.communicate(timeout=300)[0] for process in started]
        assert not any(process.returncode for process in started), "\n".join(outputs)[-4000:]
        found: dict[str, Any] = torch.load(path)
        return found


def on_devices(*options: str) -> dict[str, Any]:
    return told({"CPU_NUM_DEVICES": "2"}, "target", 1, *options)


@functools.cache
def in_processes(*options: str) -> dict[str, Any]:
    return told({"XLA_MIGRATE_BACKEND": "eager"}, "reference", 2, *options)


def assert_same(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    assert len(expected["losses"]) == 16
    assert found["losses"] == pytest.approx(expected["losses"], rel=tolerance)
    assert found["losses"][-1] < 0.96 * found["losses"][0]
    assert found["saved"].keys() == expected["saved"].keys()
    split = found["split"]
    assert split.keys() == expected["saved"].keys()
    assert all("devices=[" in spec for spec in split.values()), split


@pytest.mark.parametrize(
    "options",
    [("meta",), ("meta", "list", "accumulated"), ("checkpointed",), ("meta", "loaded", "resumed")],
)
def test_training_is_torch_s(options: tuple[str, ...]) -> None:
    found, expected = (
        on_devices(*options),
        in_processes(*(o for o in options if o == "accumulated")),
    )
    assert_same(found, expected, 1e-5)
    for name, tensor in expected["saved"].items():
        # XLA:CPU rounds by the processor that it runs on. The keys' part of a bias has a gradient of rounding alone.
        if not name.endswith("in_proj_bias"):
            torch.testing.assert_close(found["saved"][name], tensor, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [("bf16", "meta"), ("bf16", "list", "checkpointed")])
def test_mixed_precision_is_torch_s(options: tuple[str, ...]) -> None:
    found, expected = on_devices(*options), in_processes("bf16")
    assert_same(found, expected, 0.005)
    exact = in_processes()["losses"]
    assert found["losses"] != pytest.approx(exact, rel=1e-5), "not in float32"
