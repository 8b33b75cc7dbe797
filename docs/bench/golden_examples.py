"""Golden recordings of eight scripts of pytorch/examples: record them again, or check the migrated scripts against them.

    python docs/bench/golden_examples.py EXAMPLES record [NAME ...]
    python docs/bench/golden_examples.py EXAMPLES check [NAME ...]

EXAMPLES is a checkout of github.com/pytorch/examples at COMMIT; the scripts are not part of this repository, so no test
runs this. The recordings are in `tests/data/recordings/examples`. Without a GPU the CPU stand-in records them, into files
of another name. The data are made up (`made_up_data.py`), with the arguments of `printed.py`. Each script runs in a copy
of its folder. Prints a line for each: the size of the recording, and the largest relative difference of the losses.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from printed import PROCESSES, ROOT, SCRIPTS, SHIM
from tests.e2e.golden import SUFFIXES

from xla_migrate.verify.recordings.recording import load

COMMIT = "77f55b912142e11fcfdf5b530231fb9c52f181e8"
FOLDER = ROOT / "tests" / "data" / "recordings" / "examples"
NAMES = "mnist mnist_rnn vae dcgan word_language_model gcn snli multinode".split()
STEPS = "8"
LIMIT = 900  # seconds of one run


def verify(folder: Path, *words: str) -> str:
    """Return what the command prints, run in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", "verify", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )
    if done.returncode == 2:
        sys.exit(f"{folder.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def record(name: str, project: Path) -> str:
    """Record the script; return the line about it."""
    _, script, arguments = SCRIPTS[name]
    processes = str(PROCESSES.get(name, 1))
    options = ("--steps", STEPS, "--nproc", processes, "--data-shim", SHIM.name)
    shutil.copy(SHIM, project)
    verify(project, script, "--record", "new.rec", *options, "--", *arguments.split())
    about = load(project / "new.rec").about
    file = FOLDER / f"{name}{SUFFIXES[about.kind]}"
    shutil.move(project / "new.rec", file)
    return f"{file.name}: {file.stat().st_size / 1e3:.0f} kB ({about})"


def check(name: str, project: Path) -> str:
    """Check the migrated script against each recording of it; return the lines about it."""
    shutil.copy(SHIM, project)
    options = ("--data-shim", SHIM.name, "--output-format", "json", "--no-report")
    lines = []
    for file in sorted(FOLDER.glob(f"{name}.*.rec")):
        found: dict[str, Any] = json.loads(
            verify(project, SCRIPTS[name][1], "--reference", str(file), *options)
        )
        worst = max(row["difference"] or 0.0 for row in found["steps"])
        failed = ", ".join(v["name"] for v in found["verdicts"] if v["status"] == "failed")
        size = f"{file.stat().st_size / 1e3:.0f} kB, {len(found['steps'])} steps"
        lines.append(f"{file.name}: {size}, losses within {worst:.1e}, {failed or 'proven'}")
    return "\n".join(lines) or f"{name}: no recording"


def main() -> None:
    """Do it for each script."""
    checkout, what, *names = sys.argv[1:]
    head = ["git", "-C", checkout, "rev-parse", "HEAD"]
    if subprocess.run(head, capture_output=True, text=True).stdout.strip() != COMMIT:
        sys.exit(f"{checkout}: not a checkout of pytorch/examples at {COMMIT}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as place:
            project = Path(place) / name
            shutil.copytree(Path(checkout) / SCRIPTS[name][0], project)
            print({"record": record, "check": check}[what](name, project), flush=True)


if __name__ == "__main__":
    main()
