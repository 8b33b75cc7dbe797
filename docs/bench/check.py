"""What `xla-migrate check` costs: process start, against `ast.parse`, files without a trigger word, a repeated run.

    python docs/bench/check.py [TREE]

TREE (default: what is installed beside this Python) gives the files. Times are the least of several runs, taken in
turns, and ratios are of processors' time, so that they hold on a machine that is busy with other things as well.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "train"
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "codemods")]),
}
# What the installed console script does.
START = "import sys; from xla_migrate.cli import main; sys.exit(main())"


class Seconds(NamedTuple):
    """How long a call took: on the clock, and of processors' time, its child processes included."""

    wall: float
    cpu: float


def processors() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def least(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, Seconds]:
    """The least time that each call took in `rounds` rounds, each calling all of them in turn."""
    best = dict.fromkeys(calls, Seconds(float("inf"), float("inf")))
    for _ in range(rounds):
        for name, call in calls.items():
            start, before = time.perf_counter(), processors()
            call()
            wall, cpu = time.perf_counter() - start, processors() - before
            best[name] = Seconds(min(best[name].wall, wall), min(best[name].cpu, cpu))
    return best


def python(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run(
        [sys.executable, *words], env=ENVIRONMENT, capture_output=True, close_fds=False
    )


def command(*words: str) -> Callable[[], object]:
    return python("-c", START, *words)


def script_of(lines: int) -> str:
    """A training script of about that many lines: the functions of our fixtures, one behind the other."""
    text = ""
    for path in sorted(FIXTURES.glob("*/train.py")):
        text += path.read_text()
        if text.count("\n") >= lines:
            break
    return "\n".join(text.split("\n")[:lines]) + "\n"


def parsable(text: str) -> str:
    """`text` without the lines at its end that make no sense by themselves."""
    lines = text.split("\n")
    while True:
        try:
            ast.parse("\n".join(lines))
            return "\n".join(lines) + "\n"
        except SyntaxError:
            lines.pop()


def report(what: str, value: str, goal: str = "") -> None:
    print(f"{what:<58} {value:>24}   {goal}")


def start_up(folder: str) -> None:
    """One file of 500 lines, from process start."""
    script, clean = os.path.join(folder, "script.py"), os.path.join(folder, "clean.py")
    text = parsable(script_of(500))
    Path(script).write_text(text)
    Path(clean).write_text("def f(x):\n    return x\n" * 250)
    os.environ["XLA_MIGRATE_CACHE_DIR"] = ENVIRONMENT["XLA_MIGRATE_CACHE_DIR"] = folder + "/cache"
    command("check", script)()
    time.sleep(0.1)
    times = least(
        {
            "start": python("-c", "pass"),
            "engine": python("-c", "import xla_codemods.engine"),
            "check": command("check", "--no-cache", script),
            "cached": command("check", script),
            "clean": command("check", "--no-cache", clean),
            "diff": command("--diff", "--no-cache", script),
            "libcst": python(
                "-c", "import libcst, sys; libcst.parse_module(open(sys.argv[1]).read())", script
            ),
        },
        25,
    )
    lines = text.count("\n")
    ms = {k: f"{1000 * t.wall:.1f} ms ({1000 * t.cpu:.1f} cpu)" for k, t in times.items()}
    report("python -c pass", ms["start"])
    report("import of the engine and all rules, with that", ms["engine"])
    report(f"check of a training script of {lines} lines, process start", ms["check"], "goal 80 ms")
    report("the same, found in the cache", ms["cached"])
    report(f"check of {lines} lines without a trigger word", ms["clean"])
    report("--diff of the script, process start", ms["diff"], "goal 350 ms")
    report("import libcst, and parse it", ms["libcst"])
    report("  --diff / that", f"{times['diff'].cpu / times['libcst'].cpu:.2f}", "goal 1.4")


def against_parse(files: list[Path]) -> None:
    """The engine, against ast.parse of the same sources."""
    from xla_codemods.engine import check
    from xla_codemods.prefilter import concerns
    from xla_codemods.source import SourceError

    sources = [data for data in (path.read_bytes() for path in files) if concerns(data)][:400]
    training = [data for data in sources if b".backward(" in data]
    ours = [path.read_bytes() for path in FIXTURES.glob("*/*.py")]

    def judge(data: bytes) -> None:
        with contextlib.suppress(SourceError):
            check(data)

    def parse(data: bytes) -> None:
        with contextlib.suppress(SyntaxError, ValueError):
            ast.parse(data)

    def over(group: list[bytes], call: Callable[[bytes], None]) -> Callable[[], object]:
        def run() -> None:
            for data in group:
                call(data)
            gc.collect()

        return run

    warnings.simplefilter("ignore")
    gc.disable()
    groups = [("flagged files of the tree", sources), ("of these, files that train", training)]
    for name, group in (*groups, ("our fixtures", ours)):
        if group:
            times = least({"check": over(group, judge), "parse": over(group, parse)}, 3)
            lines = sum(data.count(b"\n") for data in group)
            ratio = times["check"].cpu / times["parse"].cpu
            goal = "goal 2" if group is sources else "goal 3"
            report(f"check / ast.parse, {len(group)} {name}", f"{ratio:.2f}", goal)
            report("  kLOC/s", f"{lines / times['check'].cpu / 1000:.0f}")
    gc.enable()


def without_trigger(tree: Path, clean: Path) -> float:
    """Copies the files of `tree` and of the standard library without a trigger word to `clean`; their megabytes."""
    from xla_codemods.prefilter import concerns

    standard = Path(sysconfig.get_paths()["stdlib"])
    theirs = [p for p in standard.rglob("*.py") if "site-packages" not in p.parts]
    size = 0
    for k, path in enumerate([*theirs, *tree.rglob("*.py")]):
        data = path.read_bytes()
        if not concerns(data) and b"\0" not in data:
            place = clean / path.parent.name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{k}.py").write_bytes(data)
            size += len(data)
    return size / 1e6


def trees(tree: Path, folder: str) -> None:
    """Whole runs, from process start: files without a trigger word, and the tree."""
    clean = Path(folder, "clean")
    megabytes = without_trigger(tree, clean)
    for name, root in ((f"clean files ({megabytes:.0f} MB)", clean), ("the tree", tree)):
        count = sum(1 for _ in root.rglob("*.py"))
        for words in (["--jobs", "1"], []):
            times = least({"run": command("check", "--no-cache", "-q", *words, str(root))}, 3)
            goal = "goal 20,000" if root is clean else ""
            report(
                f"check of {name}, {count} {' '.join(words)}",
                f"{count / times['run'].wall:.0f} files/s",
                goal,
            )
        command("check", "-q", str(root))()
        times = least({"run": command("check", "-q", str(root))}, 5)
        report("  again, unchanged", f"{1000 * times['run'].wall:.0f} ms")


def main() -> None:
    tree = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_paths()["purelib"])
    files = sorted(tree.rglob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        start_up(folder)
        against_parse(files)
        trees(tree, folder)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "codemods")]
    main()
