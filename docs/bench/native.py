"""Every training fixture, migrated, on stand-ins for the native backends: are its losses the CPU's?

    python docs/bench/native.py [--torch 2.13.0] [--environment FOLDER] [--mode float32] [FIXTURE ...]

Makes a second environment with that torch (kept in the folder; by `venv` and pip, from whatever index pip uses),
builds the stand-in of tests/runtime/native for it, trains each fixture on the CPU and on the stand-in named `tpu` and
named `neuron`, and prints a table. The largest difference is that of two losses of one step, relative to the loss where
that is above 1. Needs g++, and libcst for the migration. Exit code 1 where losses are not equal to 1e-6.

`--python PATH` takes an environment that is there, whatever its torch is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import ALL, Fixture  # noqa: E402
from tests.runtime.native.building import site  # noqa: E402
from tests.runtime.native.training import (  # noqa: E402
    TOLERANCE,
    Environment,
    Training,
    difference,
    train,
)

BACKENDS = ("tpu", "neuron")
PACKAGES = ("numpy", "tqdm", "transformers", "timm", "accelerate")
_SHOW = "import torch; print(torch.__version__)"


def make(folder: Path, torch: str) -> str:
    """An environment with that torch; its Python."""
    python = folder / "bin" / "python"
    done = folder / f"torch-{torch}.installed"
    if done.exists():
        return str(python)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    vision = f"torchvision==0.{int(torch.split('.')[1]) + 15}.*"
    limits = folder / "limits.txt"
    limits.write_text(f"torch=={torch}\n")
    words = [
        "install",
        "--quiet",
        "--constraint",
        str(limits),
        f"torch=={torch}",
        vision,
        *PACKAGES,
    ]
    subprocess.run([str(python), "-m", "pip", *words], check=True)
    done.touch()
    return str(python)


def environment(python: str, cache: Path) -> Environment:
    cache.mkdir(parents=True, exist_ok=True)
    tried = [python, "-c", "import torchvision"]
    bare = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    loads = subprocess.run(tried, env=bare, capture_output=True).returncode == 0
    return Environment(python, site(python, cache), {} if loads else {"DECLARE_TORCHVISION": "1"})


def row(fixture: Fixture, mode: str, where: Environment) -> tuple[str, bool]:
    """A line of the table, and whether all of it is equal."""
    with tempfile.TemporaryDirectory() as folder:
        cpu = train(fixture, mode, "migrated", where, Path(folder, "cpu"))
        if cpu.failure:
            return f"| {fixture.name} | does not run on the CPU here: {cpu.failure} | | |", False
        cells, equal = [], True
        for name in BACKENDS:
            seen = train(fixture, mode, "migrated", where, Path(folder, name), name=name)
            text, same = verdict(seen, cpu, name)
            cells.append(text)
            equal &= same
        count = sum(map(len, cpu.losses))
        return f"| {fixture.name} | {count} | {' | '.join(cells)} |", equal


def verdict(seen: Training, cpu: Training, name: str) -> tuple[str, bool]:
    """A cell, and whether it says that the losses are equal."""
    if seen.failure:
        return seen.failure, False
    if seen.devices != {name}:
        return f"computed on {', '.join(sorted(seen.devices)) or 'nothing'}", False
    most = difference(seen, cpu)
    if most is None:
        return "another number of losses", False
    return f"{'equal' if most <= TOLERANCE else 'NOT equal'}, {most:.1e}", most <= TOLERANCE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default="2.13.0")
    parser.add_argument(
        "--environment", type=Path, default=Path(tempfile.gettempdir(), "xla-migrate-native")
    )
    parser.add_argument("--python", default="")
    parser.add_argument("--mode", default="float32", choices=("float32", "bf16", "dropout"))
    parser.add_argument("fixtures", nargs="*", metavar="FIXTURE")
    options = parser.parse_args()
    python = options.python or make(options.environment / options.torch, options.torch)
    where = environment(python, options.environment)
    version = subprocess.run([python, "-c", _SHOW], capture_output=True, text=True, check=True)
    print(f"torch {version.stdout.strip()}, {date.today()}, {options.mode}\n")
    print(f"| fixture | losses | {' | '.join(BACKENDS)} |")
    print(f"| --- | --- | {' | '.join('---' for _ in BACKENDS)} |", flush=True)
    all_equal = True
    for fixture in ALL:
        chosen = not options.fixtures or fixture.name in options.fixtures
        if chosen and options.mode in dict(fixture.modes):
            line, equal = row(fixture, options.mode, where)
            print(line, flush=True)
            all_equal &= equal
    raise SystemExit(int(not all_equal))


if __name__ == "__main__":
    main()
