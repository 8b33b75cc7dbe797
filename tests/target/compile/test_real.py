"""With the real TPU compiler: it runs here for chips that are not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.target.compile import fit, interpreter, judge, pool
from xla_migrate.target.compile.topologies import topology
from xla_migrate.target.compile.tracing import Traced

SCRIPT = Path(__file__).parent / "scripts" / "transformer.py"
SMALL = ["--layers=1", "--width=32", "--length=32"]


def _compiler() -> tuple[interpreter.Compiler | None, str]:
    try:
        return interpreter.find(), ""
    except interpreter.NoCompiler as error:
        return None, str(error)


COMPILER, WHY = _compiler()
pytestmark = [pytest.mark.target, pytest.mark.e2e, pytest.mark.skipif(COMPILER is None, reason=WHY)]


def matmul(rows: int) -> str:
    return f"""module @m {{
  func.func @main(%arg0: tensor<{rows}x512xf32> {{jax.buffer_donor = true}}, %arg1: tensor<512x512xf32>) -> (tensor<{rows}x512xf32>) {{
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<{rows}x512xf32>, tensor<512x512xf32>) -> tensor<{rows}x512xf32>
    return %0 : tensor<{rows}x512xf32>
  }}
}}
"""


def ask(tmp_path: Path, texts: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The replies to (topology, text) pairs."""
    assert COMPILER is not None
    requests = []
    for i, (name, text) in enumerate(texts):
        (tmp_path / f"{i}.mlir").write_text(text)
        plain = topology(name).plain()
        requests.append(
            {"text": str(tmp_path / f"{i}.mlir"), "topology": plain, "devices": 1, "level": "O1"}
        )
    return pool.run(COMPILER.python, requests, 1, timeout=120)


def test_every_chip_compiles_and_tells_its_memory(tmp_path: Path) -> None:
    names = ["v4", "v5e", "v5p", "v6e"]
    replies = ask(tmp_path, [(n, t) for n in names for t in (matmul(512), judge.TOO_LARGE_FOR_ANY)])
    assert [judge.size(judge.capacity(r["error"])) for r in replies[1::2]] == [
        "31.75 GiB",
        "15.75 GiB",
        "95.74 GiB",
        "31.25 GiB",
    ]
    for reply in replies[::2]:
        assert reply["memory"]["arguments"] == 2 << 20
        assert reply["memory"]["aliased"] == 1 << 20  # the donor's memory takes the result
        assert reply["cost"]["flops"] == pytest.approx(2 * 512**3, rel=0.01)


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    text = matmul(512).replace("stablehlo.dot_general", "stablehlo.no_such_operation")
    (reply,) = ask(tmp_path, [("v5e", text)])
    assert "no_such_operation" in reply["error"]
    assert not reply.get("passing")


def run(args: list[str], *more: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "xla_migrate", "compile", str(SCRIPT), "--as-is"]
    command += ["--optimization", "O1", "--output-format", "json", *more, "--", *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SCRIPT.parent, timeout=600)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if COMPILER is not None:
        monkeypatch.setenv(interpreter.VARIABLE, COMPILER.python)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_program_for_four_chips_reduces_between_them() -> None:
    code, said = run(["--spmd", *SMALL], "--for", "v5e:2x2")
    assert code == 0, said
    assert all(graph["spmd"] for graph in said["graphs"])
    assert all(graph["collectives"].get("all-reduce", 0) > 0 for graph in said["graphs"])
    code, again = run(["--spmd", *SMALL], "--for", "v5e:2x2")
    assert all(graph["cached"] for graph in again["graphs"])
    assert os.listdir(os.path.join(os.environ["XDG_CACHE_HOME"], "xla-migrate", "compiled"))


def test_the_largest_batch_that_fits_is_named(tmp_path: Path) -> None:
    def fits(rows: int) -> bool:
        graph = Traced(matmul(rows).replace("{jax.buffer_donor = true}", ""), "", "", [])
        text, probe = ask(tmp_path, [("v5e", graph.text), ("v5e", judge.TOO_LARGE_FOR_ANY)])
        return judge.verdict(graph, text, judge.capacity(probe["error"])).status == judge.FITS

    found = fit.search(fit.parse("rows=1048576..16777216"), fits)
    # Arguments and results of 2 KiB a row, and a chip of 15.75 GiB.
    assert (found.largest, found.too_large) == (2097152, 4194304)
