"""Each script that is written for torch_xla by hand, rewritten to the runtime, trains as before: the same losses to the
last digit, and the same graphs and launches in every step.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xla_codemods.engine import Options, check, migrate
from xla_codemods.rules import rules_from

from .. import warm
from ..each import each
from .fixtures import ALL, SINGLE, Fixture, rewritten
from .observed import by_hand_and_rewritten

pytestmark = pytest.mark.e2e

TORCH_XLA = Options(origin="torch_xla")
# lbfgs has no marks by hand. With the mark that the migration adds, what the taps of verify compute is launched by itself, once
# in each step, and so this one is counted without them.
TRAINED = [fixture for fixture in SINGLE if fixture.name != "lbfgs"]
# What the rewritten scripts still need torch_xla for.
LEFT = {
    "gpt": ["import", "import"],  # the script hands "xla" to a function
}


@pytest.mark.parametrize("fixture", TRAINED, ids=lambda f: f.name)
def test_losses_compiles_and_launches_stay(fixture: Fixture, tmp_path: Path) -> None:
    pytest.importorskip("torch_xla")
    if missing := fixture.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    hand, ours = by_hand_and_rewritten(fixture, tmp_path)
    assert hand.failure is None, hand.output[-3000:]
    assert len(hand.losses) >= fixture.steps
    assert ours.losses == hand.losses
    # Without the first step, which may also count what came before it, and the last.
    compiles, launches = (
        [[step.counts[counted] for step in run.steps[1:-1]] for run in (hand, ours)]
        for counted in ("compiles", "launches")
    )
    assert launches[0] == launches[1]
    assert all(by_us <= by_hand for by_hand, by_us in zip(*compiles, strict=True)), compiles


COUNTED = """
import runpy, sys
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
import torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
xm.wait_device_ops()  # a launch is counted when it has ended
print("counted", *(met.metric_data(name)[0] for name in ("CompileTime", "ExecuteTime")))
"""


def test_without_taps_lbfgs_prints_compiles_and_launches_as_before(tmp_path: Path) -> None:
    pytest.importorskip("torch_xla")
    fixture = next(fixture for fixture in SINGLE if fixture.name == "lbfgs")
    (tmp_path / "hand.py").write_bytes(fixture.hand.read_bytes())
    (tmp_path / "rewritten.py").write_bytes(rewritten(fixture))

    def told(name: str) -> list[str]:
        command = [
            warm.for_side("target"),
            "-c",
            COUNTED,
            name,
            "--num-steps=3",
            "--max-iter=2",
            "--size=12",
        ]
        env = {
            **os.environ,
            "PJRT_DEVICE": "CPU",
            "OMP_NUM_THREADS": "1",
        }
        ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-3000:]
        return [line for line in ran.stdout.splitlines() if "evaluations in" not in line]

    with ThreadPoolExecutor(2) as pool:
        hand, ours = pool.map(told, ("hand.py", "rewritten.py"))
    assert ours == hand
    assert len(hand) > 5


SPLIT = Path(__file__).parent / "scripts" / "by_hand_fsdp.py"


def test_weights_that_are_split_over_processes_train_alike(tmp_path: Path) -> None:
    """By torch_xla in one process, by two of a rehearsal, and by two without torch_xla, checkpoints of parts included."""
    pytest.importorskip("torch_xla")
    (tmp_path / "hand.py").write_bytes(SPLIT.read_bytes())
    (tmp_path / "rewritten.py").write_bytes(migrate(SPLIT.read_bytes(), TORCH_XLA).data)

    def told(name: str, **how: str) -> list[str]:
        out = tmp_path / f"{name}{len(how)}"
        out.mkdir()
        env = {**os.environ, "PJRT_DEVICE": "CPU", **how}
        ran = subprocess.run(
            [warm.choosing(), f"{name}.py", str(out)],  # its processes are spawned
            cwd=tmp_path,
            env={**env, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        return [line for line in ran.stdout.splitlines() if line.startswith(("loss", "weights"))]

    with ThreadPoolExecutor(3) as pool:
        waiting = [
            pool.submit(told, "hand"),
            pool.submit(told, "rewritten", CPU_NUM_DEVICES="2"),
            pool.submit(told, "rewritten", XLA_MIGRATE_BACKEND="eager", LOCAL_WORLD_SIZE="2"),
        ]
        hand, *ours = ([line.split() for line in future.result()] for future in waiting)
    assert [line[0] for line in hand] == ["loss"] * 6 + ["weights"]
    for lines in ours:
        assert [line[0] for line in lines] == [line[0] for line in hand]
        numbers = [[float(n) for n in line[1:]] for line in lines]
        assert numbers == [pytest.approx([float(n) for n in line[1:]], abs=2e-6) for line in hand]


@each("fixture", ALL)
def test_in_the_native_style_torch_xlas_calls_are_no_finding(fixture: Fixture) -> None:
    native = TORCH_XLA._replace(style="native")
    first = migrate(fixture.hand.read_bytes(), native, str(fixture.hand))
    assert b"import xla_runtime as xla" in first.data
    codes = {rule.code for rule in rules_from("torch_xla")}
    assert not codes.intersection(f.code for f in first.left)
    for options in (native, TORCH_XLA):
        assert migrate(first.data, options, str(fixture.hand)).data == first.data


@pytest.mark.parametrize("fixture", ALL, ids=lambda f: f.name)
def test_the_scripts_are_left_unless_it_is_asked(fixture: Fixture) -> None:
    data = fixture.hand.read_bytes()
    assert migrate(data, Options(unsafe=True), str(fixture.hand)).data == data
    assert "XLA011" in {finding.code for finding in check(data, path=str(fixture.hand))}


@pytest.mark.parametrize("fixture", ALL, ids=lambda f: f.name)
def test_what_is_left_is_named_and_a_second_run_changes_nothing(fixture: Fixture) -> None:
    """Reads stay where they are; to read them later is left to a run without `--from`."""
    first = migrate(fixture.hand.read_bytes(), TORCH_XLA, str(fixture.hand))
    for options in (TORCH_XLA, Options(ignore=("XLA503",))):
        assert migrate(first.data, options, str(fixture.hand)).data == first.data
    codes = {rule.code for rule in rules_from("torch_xla")}
    named = [f for f in first.left if f.code in codes]
    wanted = LEFT.get(fixture.name, [])
    assert len(named) == len(wanted)
    assert all(name in f.message for name, f in zip(wanted, named, strict=True))
    assert (b"import torch_xla" in first.data) == bool(wanted)
