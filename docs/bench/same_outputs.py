"""Do two versions of xla-migrate say and write the same? Their JSON findings and rewritten bytes, file by file.

    python docs/bench/same_outputs.py record OUT.json PATH... [--checkout DIR] [--rewrite]
    python docs/bench/same_outputs.py compare BEFORE.json AFTER.json [--ignore-messages]

`record` runs the command of a checkout (this one if not given) with this interpreter, over all Python files and
notebooks below the paths, without its cache. For each file it keeps the findings and, with `--rewrite`, the diff that
a run would make. `compare` prints each difference, and exits with 1 if there is one. Use it before and after a change
of structure; with `--ignore-messages` where only the words changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the sub-command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("out", type=Path)
    record.add_argument("paths", nargs="+", type=Path)
    record.add_argument("--checkout", type=Path, default=Path(__file__).parents[2])
    record.add_argument("--rewrite", action="store_true")
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--ignore-messages", action="store_true")
    given = parser.parse_args()
    if given.command == "compare":
        before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
        return _compare(before, after, given.ignore_messages)
    recorded = _record(given.checkout.resolve(), given.paths, given.rewrite)
    given.out.write_text(json.dumps(recorded, indent=0, sort_keys=True))
    print(f"{given.out}: {len(recorded)} files with findings, errors or edits")
    return 0


def _record(checkout: Path, roots: list[Path], rewrite: bool) -> dict[str, dict[str, object]]:
    """What this checkout says of each file: `findings`, and with `rewrite` the digest of its `diff`."""
    result: dict[str, dict[str, object]] = {}
    for root in roots:
        # One run for the whole folder: what other modules of a project say has a part in the findings.
        report = json.loads(_run(checkout, ["check", "--output-format", "json", str(root)]))
        for key in ("findings", "errors"):
            for row in report.get(key, []):
                result.setdefault(row["path"], {}).setdefault(key, []).append(row)  # type: ignore[attr-defined]
        if rewrite:
            for path, diff in _split(_run(checkout, ["--diff", "--quiet", str(root)])).items():
                digest = hashlib.sha256(diff.encode()).hexdigest()
                result.setdefault(path, {})["diff"] = digest
    return result


def _run(checkout: Path, words: list[str]) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{checkout}/src{os.pathsep}{checkout}/codemods",
    }
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", *words, "--no-cache"],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
    )
    if not done.stdout:
        raise SystemExit(f"no output of {words}: {done.stderr[-2000:]}")
    return done.stdout


def _split(diffs: str) -> dict[str, str]:
    """The diffs of several files, by path."""
    found: dict[str, list[str]] = {}
    path = ""
    for line in diffs.splitlines(keepends=True):
        if line.startswith("--- "):
            path = line[4:].split("\t")[0].strip()
        found.setdefault(path, []).append(line)
    return {path: "".join(lines) for path, lines in found.items()}


def _compare(before: dict[str, dict], after: dict[str, dict], ignore_messages: bool) -> int:  # type: ignore[type-arg]
    different = 0
    for path in sorted(before.keys() | after.keys()):
        for key in ("errors", "findings", "diff"):
            old, new = (
                _plain(side.get(path, {}).get(key), ignore_messages) for side in (before, after)
            )
            if old == new:
                continue
            different += 1
            if isinstance(old, list) and isinstance(new, list):
                for sign, mine, other in (("-", old, new), ("+", new, old)):
                    for row in mine:
                        if row not in other:
                            print(f"{sign} {path}: {json.dumps(row, sort_keys=True)}")
            else:
                print(f"! {path}: another {key}")
    print(f"{len(before | after)} files compared, {different} differences")
    return 1 if different else 0


def _plain(value: object, ignore_messages: bool) -> object:
    if not isinstance(value, list):
        return value if value is not None else []
    dropped = {"path", "url", *(("message",) if ignore_messages else ())}
    return [{k: v for k, v in row.items() if k not in dropped} for row in value]


if __name__ == "__main__":
    raise SystemExit(main())
