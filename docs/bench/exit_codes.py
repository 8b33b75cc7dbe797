"""How many files of real projects end with exit code 0, and what is left in each of the others.

    python docs/bench/exit_codes.py FOLDER...

Each folder is copied, and the copy rewritten with default settings, as one project; each of its .py files counts, also
those that nothing had to be done to. Two shares: where findings about speed alone end with 0, as is the default, and with
`--fail-on speed`. Measured were pytorch/examples and accelerate's examples.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any


def left(folder: Path) -> list[dict[str, Any]]:
    """What a run leaves in `folder`, which it rewrites."""
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", str(folder), "--no-cache", "--format", "json"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def main() -> None:
    """Print a line for each finding of the files that do not end with 0, and the shares."""
    files, slow, wrong = 0, 0, 0
    for root in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / root.resolve().name
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git"))
            by_file = defaultdict(list)
            files += len(list(copy.rglob("*.py")))
            for row in left(copy):
                if row["path"].endswith(".py") and row["severity"] != "info":
                    by_file[(copy / row["path"]).relative_to(copy)].append(row)
        for path, rows in sorted(by_file.items()):
            is_slow = all(r["about"] == "speed" and r["severity"] != "error" for r in rows)
            slow, wrong = slow + is_slow, wrong + (not is_slow)
            print(f"{root / path}{' (speed only)' if is_slow else ''}")
            for code, message in sorted({(r["code"], r["message"]) for r in rows}):
                print(f"    {code} {message}")
    strict = 1 - (wrong + slow) / files
    print(f"{files} files: {1 - wrong / files:.1%} end with 0; {strict:.1%} with --fail-on speed")


if __name__ == "__main__":
    main()
