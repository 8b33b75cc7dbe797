"""Fill Neuron's compile cache with the graphs of a training, before the training."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NEURON_CACHE = "/var/tmp/neuron-compile-cache"
# What `neuron_parallel_compile` prints at its end, and its cache for each graph that it has (its manual, Neuron 2.32).
_TOTALS = {
    "graphs": re.compile(r"Total graphs: (\d+)"),
    "compiled": re.compile(r"Total successful compilations: (\d+)"),
    "failed": re.compile(r"Total failed compilations: (\d+)"),
}
_CACHED = re.compile(r"Using a cached neff")


class PrecompileOutcome(NamedTuple):
    """The outcome: counts of graphs, None if unknown; `code` is the command's exit code."""

    code: int
    hits: int | None = None
    misses: int | None = None
    failed: int | None = None


class NotHere(Exception):
    """It cannot be done on this machine: one line."""


def on_neuron(command: Sequence[str], env: Mapping[str, str]) -> PrecompileOutcome:
    """Run `command` as `neuron_parallel_compile` does: graphs are collected, then compiled in parallel into the cache.

    Raises:
        NotHere: there is no `neuron_parallel_compile`.
    """
    tool = shutil.which("neuron_parallel_compile", path=env.get("PATH"))
    if tool is None:
        raise NotHere("neuron_parallel_compile is not installed: it is part of torch-neuronx")
    counts: dict[str, int] = {}
    hits = 0
    process = subprocess.Popen(
        [tool, *command],
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        hits += bool(_CACHED.search(line))
        for name, form in _TOTALS.items():
            found = form.search(line)
            if found:
                counts[name] = int(found[1])
    code = process.wait()
    return PrecompileOutcome(code, hits, counts.get("compiled"), counts.get("failed"))


def size_of(place: str) -> tuple[int, int]:
    """Files below `place`, and their bytes; zeros for a bucket and for what is not there."""
    files = size = 0
    for parent, _, names in os.walk(place):
        for name in names:
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
            files += 1
    return files, size
