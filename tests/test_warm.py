"""A run of a warm interpreter ends as a process of Python does."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from . import warm


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [warm.python("json"), "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_output_and_exit_code_are_the_scripts() -> None:
    done = run("import sys; print(sys.argv[1:], 'json' in sys.modules); sys.exit('no')", "é", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (1, "['é', 'b c'] True\n", "no\n")


def test_a_script_that_a_signal_ends() -> None:
    assert run("import os; os.kill(os.getpid(), 15)").returncode == -signal.SIGTERM


def test_what_a_script_has_started_ends_with_it() -> None:
    started = int(
        run("import os; p = os.fork(); p or os.execlp('sleep', 'sleep', '60'); print(p)").stdout
    )
    assert is_over(started)


def test_a_script_ends_with_the_process_that_wants_it(tmp_path: Path) -> None:
    code = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([warm.python("json"), "-c", code], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        script = int(client.stdout.readline())
        client.kill()
    assert is_over(script)


def is_over(process: int) -> bool:
    """Return whether the process ends within ten seconds; one that waits for its parent has ended."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_the_cause_is_shown_if_an_interpreter_does_not_start() -> None:
    with pytest.raises(AssertionError, match="No module named 'not_there'"):
        warm.python("not_there")
