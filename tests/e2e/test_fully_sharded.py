"""A script for torch's FSDP, migrated, on four devices of the CPU beside the same training in one plain process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_codemods.engine import migrate

from .. import warm
from ..runtime.rehearsal import SOURCE

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

ORIGINAL = (Path(__file__).parent / "scripts" / "fully_sharded.py").read_text()
WRAPPED = ORIGINAL[ORIGINAL.index("    model = FSDP(\n") : ORIGINAL.index("    optimizer =")]
ALONE = 'dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)'
FSDP2 = """    model = Model()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model, reshard_after_forward=False)
"""
# Put before the end of a migrated script: how everything is split.
SPLIT = """
    import json, torch_xla
    from torch_xla.distributed.spmd import wrap_if_sharded
    spec = torch_xla._XLAC._get_xla_sharding_spec
    state = optimizer.state[model.blocks[0].mlp[0].weight]
    print("SPLIT", json.dumps({
        "parameters": {name: spec(p) for name, p in model.named_parameters()},
        "moments": [list(s.data.shape) for s in wrap_if_sharded(state["exp_avg"]).local_shards],
        "compiles": xla.metrics()["compiles"],
    }))
"""


def plain(source: str) -> str:
    """The same training without FSDP and CUDA, on the batch of all four devices."""
    for old, new in (
        (WRAPPED, "    model = Model()\n"),
        ('dist.init_process_group("nccl")', ALONE),
        ("    torch.cuda.set_device(local_rank)\n", ""),
        (".cuda()", ""),
        ("model.clip_grad_norm_(1.0)", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ("batch_size=2", "batch_size=8"),
    ):
        assert old in source
        source = source.replace(old, new)
    return source


def migrated(source: str) -> str:
    result = migrate(source.encode())
    assert not [f for f in result.left if f.severity == "error"]
    return result.data.decode().replace("    states = model", SPLIT + "    states = model")


def run(source: str, folder: Path, name: str) -> dict[str, Any]:
    """Losses, the saved state and what else was printed."""
    script, saved = folder / f"{name}.py", folder / f"{name}.pt"
    script.write_text(source)
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"}
    if name == "plain":
        env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    ended = subprocess.run(
        [warm.for_side("reference" if name == "plain" else "target"), str(script), str(saved)],
        env=env,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    lines = [line.partition(" ") for line in ended.stdout.splitlines()]
    return {
        "losses": [float(rest) for word, _, rest in lines if word == "loss"],
        "saved": torch.load(saved),
        **next((json.loads(rest) for word, _, rest in lines if word == "SPLIT"), {}),
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(plain(ORIGINAL), tmp_path_factory.mktemp("plain"), "plain")


def with_fully_shard(source: str) -> str:
    for old, new in (
        (WRAPPED, FSDP2),
        ("import FullyShardedDataParallel as FSDP", "import fully_shard"),
        ("model.clip_grad_norm_(1.0)", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    ):
        assert old in source
        source = source.replace(old, new)
    return source


# Behind an epoch: saved by torch's distributed checkpoints, spoiled, and loaded again.
RESUMED = """        states = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
        dcp.save(states, checkpoint_id=f"{path}.{epoch}")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            for state in optimizer.state.values():
                state["exp_avg"].zero_()
        states = {"model": model.state_dict(), "optim": FSDP.optim_state_dict(model, optimizer)}
        dcp.load(states, checkpoint_id=f"{path}.{epoch}")
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, states["optim"]))
"""


def with_sharded_checkpoints(source: str) -> str:
    for old, new in (
        ("FULL_STATE_DICT, whole", "SHARDED_STATE_DICT"),
        ("import torch\n", "import torch\nimport torch.distributed.checkpoint as dcp\n"),
        ("    states = model", f"{RESUMED}    states = model"),
    ):
        assert old in source
        source = source.replace(old, new, 1)
    return source


@pytest.mark.parametrize(
    "style",
    [str, with_fully_shard, with_sharded_checkpoints],
    ids=["FSDP", "fully_shard", "sharded checkpoints"],
)
def test_losses_are_those_of_one_process(
    alone: dict[str, Any], style: Callable[[str], str], tmp_path: Path
) -> None:
    sharded = run(migrated(style(ORIGINAL)), tmp_path, "sharded")
    assert len(alone["losses"]) == 12
    assert sharded["losses"] == pytest.approx(alone["losses"], rel=1e-5)
    assert sharded["losses"][-1] < sharded["losses"][0]
    # zeroing, and putting what was loaded in its place, are graphs of their own
    assert_split(sharded, compiles=5 if style is with_sharded_checkpoints else 3)
    assert sharded["saved"].keys() == alone["saved"].keys()
    for name, tensor in alone["saved"].items():
        if not name.endswith("in_proj_bias"):  # The keys' part has a gradient of rounding alone.
            torch.testing.assert_close(sharded["saved"][name], tensor, atol=1e-5, rtol=1e-4)


def assert_split(sharded: dict[str, Any], compiles: int = 3) -> None:
    """Each device holds a quarter of every parameter, and of what the optimizer keeps."""
    specs = sharded["parameters"]
    assert "words.weight" in specs
    assert all("devices=[" in spec and "4" in spec for spec in specs.values()), specs
    assert sharded["moments"] == [[16, 32]] * 4, "of 64 by 32"
    assert sharded["compiles"] <= compiles


def test_mixed_precision_computes_in_bfloat16(alone: dict[str, Any], tmp_path: Path) -> None:
    source = ORIGINAL.replace(
        "        auto_wrap_policy=policy,",
        "        auto_wrap_policy=policy,\n"
        "        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),",
    ).replace("FullStateDictConfig, Sha", "FullStateDictConfig, MixedPrecision, Sha")
    assert source.count("MixedPrecision") == 2
    sharded = run(migrated(source), tmp_path, "sharded")
    assert sharded["losses"] == pytest.approx(alone["losses"], rel=0.02)
    assert sharded["losses"] != pytest.approx(alone["losses"], rel=1e-5), "not in float32"
    assert all(tensor.dtype == torch.float32 for tensor in sharded["saved"].values())
    assert_split(sharded)
