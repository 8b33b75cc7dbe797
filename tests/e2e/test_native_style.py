"""A script of `--style native` trains as the one with the runtime, to the last digit, where `xla_migrate` cannot be imported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.script_environment import free_port

from .. import warm
from .fixtures import ALL, Fixture, sources

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

# A device loader and reads that come later; and replicas with their averages and files.
TRAINED = [f for f in ALL if f.name in ("vae", "ddp_accum")]

# Found by every Python that starts below: losses are told, and our package cannot be imported where that is said.
WATCH = """
import json, os, sys
if os.environ.get("WITHOUT_US"):
    sys.modules["xla_migrate"] = sys.modules["xla_codemods"] = None
def watch():
    import atexit, torch
    losses, backward = [], torch.Tensor.backward
    def told(self, *args, **kwargs):
        losses.append(self.detach())
        return backward(self, *args, **kwargs)
    torch.Tensor.backward = told
    def tell():
        ours = [m for m in sys.modules if m.split(".")[0] == "xla_migrate" and sys.modules[m]]
        told = {"losses": [loss.item() for loss in losses], "ours": len(ours)}
        path = os.path.join(os.environ["TOLD"], os.environ.get("RANK", "0") + ".json")
        json.dump(told, open(path, "w"))
    atexit.register(tell)
"""
RUN = "import runpy, sys, watching; watching.watch(); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def train(fixture: Fixture, folder: Path, native: bool) -> list[dict[str, object]]:
    """What each replica told of its training."""
    told, out = folder / "told", folder / "out"
    told.mkdir()
    out.mkdir()
    (folder / "watching.py").write_text(WATCH)
    (folder / "sitecustomize.py").write_text("import watching\n")
    count, port = fixture.processes, str(free_port())
    env = {**os.environ, "PYTHONPATH": str(folder), "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    env |= {"TOLD": str(told)}
    env |= {"WITHOUT_US": "1"} if native else {}
    ranks: list[dict[str, str]] = [{}]
    if count > 1:
        env |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
        env |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
        ranks = [{"RANK": str(k), "LOCAL_RANK": str(k)} for k in range(count)]
    words = [
        warm.for_side("target"),
        "-c",
        RUN,
        str(folder / "train.py"),
        *fixture.args("float32", out),
    ]
    started = [
        subprocess.Popen(
            words,
            env={**env, **rank},
            cwd=folder,
            stdout=(folder / f"{k}.txt").open("wb"),
            stderr=subprocess.STDOUT,
        )
        for k, rank in enumerate(ranks)
    ]
    try:
        codes = [process.wait(300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert not any(codes), (folder / "0.txt").read_text()[-3000:]
    return [json.loads((told / f"{k}.json").read_text()) for k in range(count)]


@pytest.mark.parametrize("fixture", TRAINED, ids=lambda f: f.name)
def test_losses_are_the_runtimes(fixture: Fixture, tmp_path: Path) -> None:
    if missing := fixture.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    runs = {}
    for style in ("runtime", "native"):
        folder = tmp_path / style
        folder.mkdir()
        for name, data in sources(fixture, small=True).items():
            if name != fixture.hand.name:
                (folder / name).write_bytes(data)
        assert main(["--style", style, "-q", str(folder)]) in (0, 1)
        assert (folder / "xla_runtime").exists() == (style == "native")
        runs[style] = train(fixture, folder, style == "native")
    assert [told["ours"] for told in runs["native"]] == [0] * fixture.processes
    assert all(told["ours"] for told in runs["runtime"])
    losses = [told["losses"] for told in runs["native"]]
    assert losses == [told["losses"] for told in runs["runtime"]]
    assert all(len(of_one) >= fixture.steps // fixture.processes for of_one in losses)  # type: ignore[arg-type]
