"""`xla-migrate check` beside other linters, over the same files in one run.

    python -m venv PEERS && PEERS/bin/pip install torchfix fixit ruff
    python docs/bench/peers.py PEERS TREE [ROUNDS]

The Python files of TREE are copied, so that no linter leaves them out for where they lie, and each linter is run over
the copy from process start, without a cache, with its default rules, in turns; the least times count. Ruff and
ours use every core, or one with `--jobs 1`; torchfix and Fixit are given the same number. They look for different
things: what can be compared is what it costs to look at every file.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# What the installed console script does: it is the program, so the interpreter need not take everything apart.
START = "import sys; from xla_migrate.cli import main; sys.exit(main())"


class Peer(NamedTuple):
    """A linter: its name, its command, and the other packages in its environment."""

    name: str
    command: list[str]
    environment: dict[str, str]


class Result(NamedTuple):
    """Seconds on the clock and of processors' time, and how much it printed, to tell that it did something."""

    wall: float
    cpu: float
    lines: int
    code: int


def copy(tree: Path, folder: Path) -> tuple[int, int]:
    """Copy the Python files of `tree`; their number and lines."""
    files = lines = 0
    for path in sorted(tree.rglob("*.py")):
        target = folder / path.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        target.write_bytes(data)
        files, lines = files + 1, lines + data.count(b"\n")
    return files, lines


def peers(folder: Path, tree: str) -> list[Peer]:
    """The linters, with all cores."""
    bin_ = folder / "bin"
    jobs = str(os.cpu_count() or 1)
    ours = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "codemods")])}
    check = [sys.executable, "-c", START, "check", "--no-cache", tree]
    ruff = [
        str(bin_ / "ruff"),
        "check",
        "--no-cache",
        "--isolated",
        "--output-format=concise",
        tree,
    ]
    return [
        Peer("ruff", ruff, {"RAYON_NUM_THREADS": jobs}),
        Peer("xla-migrate check", check, ours),
        Peer("xla-migrate check --jobs 1", [*check, "--jobs", "1"], ours),
        Peer("torchfix", [str(bin_ / "torchfix"), "-j", jobs, tree], {}),
        Peer("Fixit", [str(bin_ / "fixit"), "lint", tree], {}),
    ]


def run(peer: Peer) -> Result:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        peer.command, env={**os.environ, **peer.environment}, capture_output=True, check=False
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(wall, cpu, done.stdout.count(b"\n"), done.returncode)


def version(folder: Path, package: str) -> str:
    done = subprocess.run(
        [str(folder / "bin" / "pip"), "show", package], capture_output=True, text=True, check=True
    )
    found = re.search(r"^Version: (.*)$", done.stdout, re.MULTILINE)
    return found[1] if found else "?"


def machine() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    name = model[1] if model else platform.processor()
    return f"{os.cpu_count()} cores ({name}), Python {platform.python_version()}"


def main() -> None:
    folder, tree = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    versions = ", ".join(
        f"{name} {version(folder, name)}" for name in ("ruff", "torchfix", "fixit")
    )
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place, tree.name)
        files, lines = copy(tree, copied)
        shutil.copy(ROOT / "LICENSE", place)  # a root for those that look for one
        print(f"{tree.name}: {files} files, {lines} lines; {machine()}; {versions}\n")
        best: dict[str, Result] = {}
        every = peers(folder, str(copied))
        for _ in range(rounds):
            for peer in every:
                result = run(peer)
                old = best.get(peer.name, result)
                best[peer.name] = result._replace(
                    wall=min(old.wall, result.wall), cpu=min(old.cpu, result.cpu)
                )
    ours = best["xla-migrate check"]
    print(
        "| linter | clock, s | processors, s | files/s | processors' time against ours | lines printed |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (wall, cpu, printed, code) in best.items():
        failed = "" if code in (0, 1) else f" (exit code {code})"
        print(
            f"| {name} | {wall:.2f} | {cpu:.2f} | {files / wall:.0f} | {cpu / ours.cpu:.2f} "
            f"| {printed}{failed} |"
        )


if __name__ == "__main__":
    main()
