"""Is the number of graphs that `compile --max-graphs` predicts the number that torch_xla compiles?

    python docs/bench/graph_counts.py --fixtures [--causes] [NAME ...]
    python docs/bench/graph_counts.py EXAMPLES [--causes] [NAME ...]

EXAMPLES is a checkout of github.com/pytorch/examples. Its scripts run on made-up data, with the arguments of `printed.py`;
`--fixtures` runs the scripts of fixtures/train that have one process. Each script is migrated in a copy of its folder. A
rehearsal of a few batches gives the prediction. The whole run on XLA:CPU gives the counter `UncachedCompile`. Prints a
line for each script; if the numbers differ, the rehearsal runs again with computed values. The exit code is the number
of scripts that differ then too. `--causes` also prints the causes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from printed import SHIM, TIMEOUT, chosen_scripts, migrated, output_of

from xla_codemods.engine import Options
from xla_migrate.target.compile import tracing
from xla_migrate.verify.judge import graph_count

EXAMPLES = "mnist mnist_rnn vae dcgan word_language_model gcn snli siamese_network".split()
BATCHES = 3  # of each pass in a rehearsal: the first, one like most, and the last
# Executes what makes up the data and then the script, as if it alone ran. Each run is seeded alike.
_LAUNCH = """import os, random, runpy, sys
import numpy, torch
del sys.argv[0]
if "{shim}":
    exec(compile(open("{shim}").read(), "made_up_data.py", "exec"), {{"__name__": "shim"}})
for seed in (random.seed, numpy.random.seed, torch.manual_seed):
    seed(0)
sys.path.insert(0, os.getcwd())
sys.argv[0] = os.path.abspath(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Writes torch_xla's counter when everything else has ended.
_COUNT = """import atexit, os
def write():
    import torch_xla.debug.metrics as metrics
    with open({file!r}, "w") as file:
        file.write(str(metrics.counter_value("UncachedCompile") or 0))
atexit.register(write)
"""


def rehearsed(folder: Path, words: list[str], place: Path, execute: bool) -> tracing.Tracing:
    """Return the rehearsal of the script; with `execute`, what it reads is computed.

    Raises:
        RuntimeError: it did not come to its end.
    """
    here = Path.cwd()
    os.chdir(folder)
    try:
        found = tracing.trace(
            folder / "launch.py",
            words,
            place,
            explain=True,
            execute=execute,
            steps=BATCHES,
            timeout=TIMEOUT,
        )
    finally:
        os.chdir(here)
    if found.problem:
        raise RuntimeError(f"rehearsal: {found.problem}")
    return found


def counted(folder: Path, words: list[str], place: Path) -> int:
    """Return the number of graphs that a whole run compiles.

    Raises:
        RuntimeError: the run failed.
    """
    number = place / "number.txt"
    counting = folder / "count.py"
    counting.write_text(
        _COUNT.format(file=str(number)) + (folder / "launch.py").read_text(), encoding="utf-8"
    )
    output_of(["count.py", *words], folder, "run", PJRT_DEVICE="CPU", MPLBACKEND="Agg")
    return int(number.read_text())


def prediction(traced: tracing.Tracing) -> int:
    """Return the number of graphs that a rehearsal predicts."""
    causes = graph_count.groups(traced.causes, traced.steps)
    return graph_count.predicted(causes, traced.left_out)


def compared(
    folder: Path, script: str, arguments: list[str], place: Path, shim: str
) -> tuple[tracing.Tracing, int, str]:
    """Return the rehearsal, the number of graphs that the whole run compiles, and the verdict."""

    def prepared(name: str) -> tuple[Path, list[str]]:
        copy, written = place / name / folder.name, place / f"{name}-writes"
        shutil.copytree(folder, copy)
        written.mkdir()
        for path, data in migrated(folder, Options()).items():
            (copy / path).write_bytes(data)
        (copy / "launch.py").write_text(_LAUNCH.format(shim=shim), encoding="utf-8")
        return copy, [script, *(word.replace("{place}", str(written)) for word in arguments)]

    traced = rehearsed(*prepared("short"), place / "rehearsal", execute=False)
    count = counted(*prepared("whole"), place)
    if prediction(traced) == count:
        return traced, count, "equal"
    traced = rehearsed(*prepared("executed"), place / "execution", execute=True)
    if prediction(traced) == count:
        return traced, count, "equal only with --execute-on-cpu"
    return traced, count, "DIFFERENT"


def main() -> int:
    """Return the number of scripts of which prediction and counter differ."""
    words = [word for word in sys.argv[1:] if word != "--causes"]
    is_fixtures = words[0] == "--fixtures"
    chosen = words if is_fixtures or words[1:] else [*words, *EXAMPLES]
    differing = 0
    for name, (folder, script, arguments) in chosen_scripts(chosen).items():
        with tempfile.TemporaryDirectory(prefix="graph-counts-") as place:
            shim = "" if is_fixtures else str(SHIM)
            try:
                traced, count, verdict = compared(
                    folder, Path(script).name, arguments, Path(place), shim
                )
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                print(f"{name:20} not run: {error}", flush=True)
                differing += 1
                continue
        differing += verdict == "DIFFERENT"
        print(
            f"{name:20} predicted {prediction(traced):3}, compiled {count:3}: {verdict}", flush=True
        )
        if "--causes" in sys.argv:
            for group in graph_count.groups(traced.causes, traced.steps):
                print(f"    {graph_count.shown(group)}", flush=True)
            for place, branch in traced.unreached.items():
                print(f"    not reached: {branch} ({place})", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main())
