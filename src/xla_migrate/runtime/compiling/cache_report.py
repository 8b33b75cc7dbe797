"""What torch_xla's persistent compile cache knew, told by each process at its end: for `xla-migrate precompile`."""

from __future__ import annotations

import atexit
import json
import os
import sys

# torch_xla's counters: read from the cache, not there, there but not readable.
COUNTERS = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheDeserializeFailure")


def report_at_exit() -> None:
    """Write the counters into a file of the folder that XLA_MIGRATE_CACHE_REPORT names, if it names one."""
    folder = os.environ.get("XLA_MIGRATE_CACHE_REPORT")
    if folder:
        atexit.register(_write, folder, os.getpid())


def _write(folder: str, pid: int) -> None:
    torch_xla = sys.modules.get("torch_xla")
    if torch_xla is None or os.getpid() != pid:
        return
    known = torch_xla._XLAC._xla_counter_value
    counted = {name: known(name) or 0 for name in COUNTERS}
    try:
        with open(os.path.join(folder, f"{pid}.json"), "w") as file:
            json.dump(counted, file)
    except OSError:
        return  # the folder is gone with the command that wanted it
