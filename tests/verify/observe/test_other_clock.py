"""A clock of another rate, for the script and not for what waits by the clock."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import queue
import time
from xla_migrate.verify.observe.process import other_clock

other_clock.install(10_000)


class Timer:
    now = time.perf_counter

    def elapsed(self):
        return self.now()


start, first, since = time.time(), time.perf_counter_ns(), Timer().elapsed()
try:
    queue.Queue().get(timeout=0.05)
except queue.Empty:
    pass
print(50 < time.time() - start < 50_000, time.perf_counter_ns() - first > 50e9, Timer().elapsed() - since > 50)
print(time.localtime(0).tm_year, time.strftime("%Y", time.localtime(0)), len(time.strftime("%H%M%S")))
"""


def test_the_scripts_clocks_run_fast_and_timeouts_do_not() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "True True True"
    assert second in ("1970 1970 6", "1969 1969 6")  # by the time zone
