"""What three choices cost, each beside its alternative: the prefilter, chunks, and the catalog as Python.

    python docs/bench/choices.py [TREE]

- `check` with the file filter, and without: every file is parsed and indexed.
- Rewriting with only the touched lines parsed by libcst (`rewriting/chunks.py`), and with the whole file.
- Loading the catalog's modules, and the same rows from one JSON file; in separate processes, with bytecode cached.

Both sides run in turns in one process, and what is compared is its processors' time, so that the ratios hold on a
machine that is busy with other things. A ratio is the median over the rounds. TREE (default: the installed torch's
`distributed` and `optim`) gives library files; training scripts are our fixtures.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "codemods")]


from xla_codemods import catalog  # noqa: E402
from xla_codemods.edits import Edit  # noqa: E402
from xla_codemods.engine import Options, check, migrate  # noqa: E402
from xla_codemods.prefilter import concerns  # noqa: E402
from xla_codemods.rewriting import rewrite as rewriting  # noqa: E402
from xla_codemods.rewriting.chunks import Chunk  # noqa: E402
from xla_codemods.source import Source, SourceError  # noqa: E402

ROUNDS = 7
STARTS = 15


def whole_file(source: Source, edits: list[Edit], parents: Any) -> list[Chunk]:
    """One chunk that is the file."""
    edits = list(edits)
    return [Chunk(1, len(source.lines), tuple(source.tree.body), False, edits)] if edits else []


@contextlib.contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    old = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, old)


def ratios(ours: Callable[[], object], other: Callable[[], object]) -> tuple[float, float, float]:
    """Median seconds of `ours`, of `other`, and the median of `other / ours`, of processors' time."""
    ours(), other()  # what is imported or compiled at first use
    times: list[tuple[float, float]] = []
    for turn in range(ROUNDS):
        pair = [0.0, 0.0]
        for side in (0, 1) if turn % 2 else (1, 0):
            gc.collect()
            start = time.process_time()
            (ours, other)[side]()
            pair[side] = time.process_time() - start
        times.append((pair[0], pair[1]))
    return (
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(b / a for a, b in times),
    )


def report(what: str, found: tuple[float, float, float]) -> None:
    ours, other, ratio = found
    print(f"{what:<66} {1000 * ours:>9.1f} ms {1000 * other:>9.1f} ms {ratio:>7.2f}")


def sources(files: list[Path]) -> list[bytes]:
    found = []
    for path in files:
        data = path.read_bytes()
        with contextlib.suppress(SyntaxError, ValueError):
            ast.parse(data)
            found.append(data)
    return found


def judge(files: list[bytes], *, filtered: bool) -> None:
    for data in files:
        if not filtered or concerns(data):
            with contextlib.suppress(SourceError):
                check(data)


def rewrite_all(files: list[bytes]) -> None:
    for data in files:
        migrate(data, Options(unsafe=True))


def rewrite_whole(files: list[bytes]) -> None:
    with replaced(rewriting, "chunks", whole_file):
        rewrite_all(files)


def file_filter(groups: dict[str, list[bytes]]) -> None:
    print("\ncheck: with the filter, without, without / with")
    for name, files in groups.items():
        others = [data for data in files if not concerns(data)]
        if others:
            report(
                f"the file filter, {len(others)} {name} without a trigger word",
                ratios(
                    lambda files=others: judge(files, filtered=True),
                    lambda files=others: judge(files, filtered=False),
                ),
            )


def chunks(scripts: list[bytes]) -> None:
    print("\nrewrite: chunks, the whole file, whole / chunks (libcst is imported already)")
    changed = [data for data in scripts if migrate(data, Options(unsafe=True)).data != data]
    same = 0
    for data in changed:
        with replaced(rewriting, "chunks", whole_file):
            whole = migrate(data, Options(unsafe=True))
        same += whole.data == migrate(data, Options(unsafe=True)).data
    print(f"{same} of {len(changed)} scripts come out the same")
    by_size = sorted(changed, key=len)
    thirds = [by_size[k * len(by_size) // 3 : (k + 1) * len(by_size) // 3] for k in range(3)]
    for name, group in [("all", changed), *zip(("small", "middle", "large"), thirds, strict=True)]:
        lines = sum(data.count(b"\n") for data in group) // max(len(group), 1)
        report(
            f"{len(group)} scripts, {name}, {lines} lines each",
            ratios(
                lambda files=group: rewrite_all(files),
                lambda files=group: rewrite_whole(files),
            ),
        )


_START = "import sys, time; import xla_codemods.engine; from xla_codemods import catalog; start = time.process_time(); "
_END = "; print(time.process_time() - start)"
_LOADS = {
    "both rooms": "catalog.table()",
    "torch's rows alone": "catalog._rows(catalog._OF_TORCH)",
    "JSON": "import json; rows = {row[0]: catalog.Row(*row) for row in json.load(open(sys.argv[1], 'rb'))}",
}


def catalog_file(folder: str) -> None:
    print("\nthe catalog, loaded: median of starts, of processors' time")
    file = os.path.join(folder, "catalog.json")
    Path(file).write_text(json.dumps([list(row) for row in catalog.table().values()]))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = folder
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "codemods")])
    times: dict[str, list[float]] = {name: [] for name in _LOADS}
    for _ in range(STARTS + 1):
        for name, load in _LOADS.items():
            done = subprocess.run(
                [sys.executable, "-c", _START + load + _END, file],
                env=environment,
                capture_output=True,
                check=True,
                text=True,
            )
            times[name].append(float(done.stdout))
    for name, found in times.items():
        print(f"{name:<66} {1000 * statistics.median(found[1:]):>9.1f} ms")


def main() -> None:
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        tree = [Path(sys.argv[1])]
    else:
        import torch

        tree = [Path(torch.__file__).parent / name for name in ("distributed", "optim")]
    library = sources(sorted(path for root in tree for path in root.rglob("*.py"))[:400])
    ours = sources(sorted((ROOT / "fixtures" / "train").glob("*/*.py")))
    file_filter({"library files": library, "files of training fixtures": ours})
    chunks(ours)
    with tempfile.TemporaryDirectory() as folder:
        catalog_file(folder)


if __name__ == "__main__":
    main()
