"""Why a run failed, and whose fault it was."""

from __future__ import annotations

from typing import Any

import pytest

from xla_migrate.verify.judge.failures import Failure, Fault, lacks_torchrun, of_error, of_exit

PROJECT = "/tmp/copy"
HARNESS = "/lib/xla_migrate/verify"


def error(
    kind: str, message: str, chain: list[str] | None = None, innermost: str = f"{PROJECT}/data.py"
) -> dict[str, Any]:
    frames = [[f"{PROJECT}/train.py", 30, "main", "load()"], [innermost, 7, "load", "fetch(url)"]]
    return {"type": kind, "chain": chain or [kind], "message": message, "frames": frames}


@pytest.mark.parametrize(
    ("raised", "fault", "words"),
    [
        (error("ValueError", "no"), "script", "data.py:7: ValueError: no"),
        (error("URLError", "<urlopen error>", ["URLError", "OSError"]), "network", "--data-shim"),
        (error("RuntimeError", "Error downloading train-images"), "network", "--data-shim"),
        (
            error("RuntimeError", "Dataset not found. You can use download=True"),
            "network",
            "--data-shim",
        ),
        (error("OSError", "We couldn't connect to 'hub'"), "network", "--data-shim"),
        (
            error("OSError", "gone", ["OSError", "gaierror"]),
            "network",
            "download the data before you run verify",
        ),
        (
            error("ModuleNotFoundError", "No module named 'gym'"),
            "package",
            "install the package in the Python environment",
        ),
        (
            error("ImportError", "attempted relative import with no known parent package"),
            "script",
            "call verify from the folder above that package",
        ),
        (error("FileNotFoundError", "train.bin"), "file", "a copy of the project folder"),
        (error("RuntimeError", "can't allocate memory: you tried"), "memory", "a smaller batch"),
        (
            error("RuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating"),
            "memory",
            "smaller",
        ),
        (
            error("_ArrayMemoryError", "no", ["_ArrayMemoryError", "MemoryError"]),
            "memory",
            "smaller",
        ),
        (
            error("RuntimeError", "its data is not allocated yet ... allocate memory"),
            "script",
            "yet",
        ),
        (error("Unsupported", "graphs", ["Unsupported", "RuntimeError"]), "redirect", "graphs"),
        (
            error(
                "NeedsCudaError",
                "bitsandbytes.nn",
                ["NeedsCudaError", "NotImplementedError"],
                f"{HARNESS}/stubs/bitsandbytes/__init__.py",
            ),
            "redirect",
            "bitsandbytes.nn",
        ),
        (
            error("TypeError", "bad", innermost=f"{HARNESS}/observe/training/steps.py"),
            "harness",
            "a fault of xla-migrate verify",
        ),
        (
            error("ValueError", "bad", innermost=f"{HARNESS}/observe/training/steps.py"),
            "script",
            "train.py:30",
        ),
    ],
)
def test_faults(raised: dict[str, Any], fault: str, words: str) -> None:
    failure = of_error(raised, PROJECT, HARNESS)
    assert failure.fault == fault
    assert words in failure.message


def test_a_module_that_a_path_with_dots_finds_is_the_scripts_own() -> None:
    raised = error("ValueError", "no", innermost=f"{PROJECT}/tools/../lib/engine.py")
    assert of_error(raised, PROJECT, HARNESS).message.startswith("lib/engine.py:")


def test_the_traceback_has_the_scripts_own_frames_alone() -> None:
    raised = error("ValueError", "first line\nsecond line", innermost="/site-packages/torch/nn.py")
    failure = of_error(raised, PROJECT, HARNESS)
    assert failure.message == "train.py:30: ValueError: first line"
    assert failure.traceback.splitlines() == [
        "Traceback (the script's own frames):",
        '  File "train.py", line 30, in main',
        "    load()",
        "ValueError: first line",
        "second line",
    ]


@pytest.mark.parametrize(
    ("code", "steps", "output", "fault", "words"),
    [
        (
            2,
            0,
            "usage: train.py\ntrain.py: error: unrecognized arguments: --x\n",
            "script",
            "unrecognized arguments: --x",
        ),
        (-9, 3, "", "memory", "the run was killed"),
        (137, 3, "", "memory", "the run was killed"),
        (-11, 3, "Fatal\n", "script", "signal 11"),
        (3, 5, "done\n\n", "script", "exited with code 3; its last line: done"),
        (0, 0, "", "no step", "without an optimizer step"),
    ],
)
def test_exits(code: int, steps: int, output: str, fault: str, words: str) -> None:
    failure = of_exit(code, steps, output)
    assert failure is not None
    assert failure.fault == fault
    assert words in failure.message


def test_a_program_that_prints_its_own_account_of_an_error_is_quoted() -> None:
    account = [f"line {i}" for i in range(20)] + ["error: no driver", "", "set DEBUG=1 to see more"]
    failure = of_exit(1, 0, "\n".join(account))
    assert failure is not None
    shown = failure.traceback.splitlines()
    assert shown[0] == "The last lines of its output:"
    assert shown[-2:] == ["error: no driver", "set DEBUG=1 to see more"]
    assert len(shown) == 13


def test_a_run_that_trained_and_ended_is_no_failure() -> None:
    assert of_exit(0, 5, "") is None


WORKERS = f"""\
Epoch 1
Traceback (most recent call last):
  File "/lib/multiprocessing/process.py", line 314, in _bootstrap
    self.run()
  File "{PROJECT}/train.py", line 6, in work
    raise ValueError("no such batch")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no such batch
"""


def test_a_workers_traceback_is_read_off_what_it_printed() -> None:
    failure = of_exit(1, 0, WORKERS, PROJECT, HARNESS)
    assert failure is not None
    assert failure.message == "train.py:6: ValueError: no such batch"
    assert '  File "train.py", line 6, in work\n    raise ValueError' in failure.traceback
    assert "_bootstrap" not in failure.traceback


def test_a_traceback_that_never_comes_to_the_users_project_is_not_theirs() -> None:
    failure = of_exit(1, 0, WORKERS.replace(PROJECT, "/elsewhere"), PROJECT, HARNESS)
    assert failure is not None
    assert (
        failure.message == "the script exited with code 1; its last line: ValueError: no such batch"
    )


@pytest.mark.parametrize(
    ("message", "last_frame", "lacks"),
    [
        ("train.py:4: ValueError: Error initializing torch.distributed using env:// rendezvous:"
         " environment variable RANK expected, but not set", "", True),
        ("train.py:5: KeyError: 'LOCAL_RANK'", "", True),
        ("the script exited with code 1; its last line: start it with torchrun", "", True),
        ("train.py:6: TypeError: int() argument must be a string", 'rank = int(os.getenv("RANK"))', True),
        ("train.py:6: TypeError: int() argument must be a string", 'size = int(os.getenv("SIZE"))', False),
        ("train.py:7: KeyError: 'RANKED'", "", False),
        ("train.py:7: ValueError: too few batches", "", False),
    ],
)  # fmt: skip
def test_what_only_torchrun_sets(message: str, last_frame: str, lacks: bool) -> None:
    traceback = f"Traceback:\n    {last_frame}\n{message.partition(': ')[2]}" if last_frame else ""
    assert lacks_torchrun(Failure(Fault.SCRIPT, message, traceback)) == lacks
