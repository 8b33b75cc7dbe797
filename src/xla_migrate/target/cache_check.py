"""Start a command twice with an empty compile cache, and compare the starts: does the second one read the cache?"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .precompile import NotHere


class CacheStart(NamedTuple):
    """One start of a command.

    Attributes:
        code: the command's exit code.
        hits: graphs that were read from the cache; None if no process imported the runtime. On Neuron: 0 if any graph
            was compiled, because its compiler does not report single hits.
        misses: graphs that were compiled because the cache did not have them.
        unreadable: graphs that the cache has and that could not be read.
        first_step: seconds from the start to the end of the first optimizer step; None without two steps.
    """

    code: int
    hits: int | None = None
    misses: int | None = None
    unreadable: int = 0
    first_step: float | None = None


def two_starts(command: Sequence[str], env: Mapping[str, str]) -> tuple[CacheStart, CacheStart]:
    """Start `command` twice with the same cache, which is empty at first.

    Raises:
        NotHere: the command cannot be started.
    """
    with tempfile.TemporaryDirectory() as folder:
        return start(command, env, folder), start(command, env, folder)


def start(command: Sequence[str], env: Mapping[str, str], cache: str) -> CacheStart:
    """Run `command` with the compile cache in the folder `cache`, and add up what its processes counted.

    Raises:
        NotHere: the command cannot be started.
    """
    before = _neffs(cache)
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "XLA_PERSISTENT_CACHE_PATH": cache,
            "NEURON_COMPILE_CACHE_URL": cache,
            "XLA_MIGRATE_CACHE_REPORT": folder,
        }
        begun = time.time()
        try:
            code = subprocess.run(list(command), env={**env, **own}).returncode
        except OSError as error:
            raise NotHere(f"{command[0]} cannot be started: {error.strerror}") from None
        told = [_read(os.path.join(folder, name)) for name in os.listdir(folder)]
    if not told:
        return CacheStart(code)
    counts = {name: sum(int(one[name]) for one in told) for name in told[0] if name != "first_step"}
    steps = [one["first_step"] - begun for one in told if one["first_step"]]
    hits, misses = counts["PersistentCacheHit"], counts["PersistentCacheMiss"]
    if env.get("PJRT_DEVICE") == "NEURON":  # torch_xla does not count its compiler's cache
        misses = _neffs(cache) - before
        hits = 0 if misses else before
    return CacheStart(
        code, hits, misses, counts["PersistentCacheDeserializeFailure"], max(steps, default=None)
    )


def _neffs(cache: str) -> int:
    """Return how many compiled graphs are in a cache of Neuron's compiler."""
    return sum(1 for _ in Path(cache).rglob("*.neff"))


def _read(path: str) -> dict[str, float]:
    with open(path) as file:
        counted: dict[str, float] = json.load(file)
    return counted
