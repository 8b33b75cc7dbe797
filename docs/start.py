"""Set up this checkout on a fresh machine, then run the demo or the tests.

    python3 docs/start.py          environment, installation, migration, training and proof of a bundled script
    python3 docs/start.py test     environment, installation and all tests

Needs Linux on x86-64, and Python 3.10 to 3.13 with pip. If `uv` is installed, it downloads and installs faster.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
SCRIPT = "fixtures/train/cnn_apex/train.py"
MIGRATED = "build/demo/train.py"
ARGUMENTS = ["--epochs", "3", "--train-size", "64", "--print-freq", "1"]
LAST_WORDS = """
Done. The migrated script is {migrated}.
Try your own script next: .venv/bin/xla-migrate --diff path/to/train.py
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("job", nargs="?", choices=["demo", "test"], default="demo")
    job = parser.parse_args().job
    if problem := unsupported():
        print(problem, file=sys.stderr)
        return 2
    try:
        create_environment()
        install([".[xla]"] if job == "demo" else ["-e", ".[test]"])
        if job == "test":
            return run_tests()
        demo()
    except subprocess.CalledProcessError as error:
        print(f"\nThis command failed: {shlex.join(error.cmd)}", file=sys.stderr)
        return 1
    return 0


def unsupported() -> str:
    """Return why PyTorch/XLA 2.9 cannot be installed here, or an empty string."""
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        found = ".".join(map(str, sys.version_info[:2]))
        return f"start.py needs Python 3.10 to 3.13; this is Python {found}"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return (
            "start.py needs Linux on x86-64, because PyTorch/XLA 2.9 has no packages for "
            f"{platform.system()} on {platform.machine()}. Use a container or a virtual machine."
        )
    return ""


def create_environment() -> None:
    """Create `.venv` with pip in it, unless it exists."""
    if PYTHON.is_file():
        return
    heading("1. Create the environment .venv")
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)])
    if done.returncode:
        uv = shutil.which("uv")
        if uv is None:
            print("Install Python's venv module (Debian, Ubuntu: apt install python3-venv).")
            done.check_returncode()
        run(uv or "", "venv", "--clear", "--seed", "--python", sys.executable, str(VENV))


def install(packages: list[str]) -> None:
    """Install `packages` into `.venv`, with the installer's own progress bars."""
    heading("2. Install xla-migrate, PyTorch 2.9 and PyTorch/XLA 2.9")
    print(
        "On Linux x86-64 a fresh environment downloads about 4.2 GB, because PyTorch's package\n"
        "depends on the CUDA libraries. The installer prints the size of each package.",
        flush=True,
    )
    uv = shutil.which("uv")
    if uv:
        run(uv, "pip", "install", "--python", str(PYTHON), *packages)
    else:
        run(str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *packages)


def run_tests() -> int:
    heading("3. Run all tests")
    # Tests that wait for processes leave a third of two cores idle.
    workers = str(min(4, (os.cpu_count() or 1) + 1))
    command = [str(PYTHON), "-m", "pytest", "-n", workers]
    print("$", shlex.join(command), flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


def demo() -> None:
    """Migrate, train and prove a CNN that needs apex and a GPU."""
    command = str(VENV / "bin" / "xla-migrate")
    heading(f"3. Migrate {SCRIPT}, a CNN in mixed precision that needs apex and a GPU")
    (ROOT / MIGRATED).parent.mkdir(parents=True, exist_ok=True)
    run(command, SCRIPT, "--output", MIGRATED)
    heading("4. Train the migrated script on XLA:CPU")
    print("The first steps are slow because XLA compiles them. Later steps reuse the result.")
    weights = str(Path(MIGRATED).with_name("weights.pth"))
    run(str(PYTHON), MIGRATED, *ARGUMENTS, "--save", weights, PJRT_DEVICE="CPU")
    heading("5. Prove it: run the original and the migrated script, and compare each step")
    run(command, "verify", SCRIPT, "--steps", "12", "--", *ARGUMENTS)
    print(LAST_WORDS.format(migrated=MIGRATED), end="")


def run(*command: str, **environment: str) -> None:
    """Print and run one command in the checkout. Raise CalledProcessError if it fails."""
    print("$", shlex.join(command), flush=True)
    start = time.monotonic()
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)
    print(f"({time.monotonic() - start:.0f} s)", flush=True)


def heading(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
