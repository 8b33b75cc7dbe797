"""Counters of torch_xla's persistent compile cache, written by each process at its end for `xla-migrate doctor --cache`."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from typing import Any

# torch_xla's counters: read from the cache, not there, there but not readable.
COUNTERS = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheDeserializeFailure")


def report_at_exit() -> None:
    """Write the counters into a file of the folder that XLA_MIGRATE_CACHE_REPORT names, if it names one.

    The file also has the time at which the second optimizer step began, when the graph of the first one was compiled.
    """
    folder = os.environ.get("XLA_MIGRATE_CACHE_REPORT")
    if not folder:
        return
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    begun: list[float] = []

    def note(*_: Any) -> None:
        if len(begun) < 2:
            begun.append(time.time())

    register_optimizer_step_pre_hook(note)
    atexit.register(_write, folder, os.getpid(), begun)


def _write(folder: str, pid: int, begun: list[float]) -> None:
    torch_xla = sys.modules.get("torch_xla")
    if torch_xla is None or os.getpid() != pid:
        return
    known = torch_xla._XLAC._xla_counter_value
    counted = {name: known(name) or 0 for name in COUNTERS}
    counted["first_step"] = begun[1] if len(begun) > 1 else None
    try:
        with open(os.path.join(folder, f"{pid}.json"), "w") as file:
            json.dump(counted, file)
    except OSError:
        return  # the folder is gone with the command that wanted it
