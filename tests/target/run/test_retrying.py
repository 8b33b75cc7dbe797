"""`xla-migrate run`: what is started, when, from where, and how it ends."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.target.run import checkpoints
from xla_migrate.target.run.retrying import RESTARTS, RESUME, RetryOptions, retried

from ... import warm

SCRIPT = Path(__file__).parent / "scripts" / "train.py"


class Fake:
    """Ends with these codes in turn; before each end it may write a checkpoint."""

    def __init__(self, codes: Sequence[int], writes: Sequence[Path | None] = ()) -> None:
        self.codes, self.writes = list(codes), list(writes)
        self.ended_by: int | None = None
        self.errors = ""
        self.commands: list[list[str]] = []
        self.envs: list[dict[str, str]] = []
        self.pauses: list[float] = []

    def run(self, words: Sequence[str], env: dict[str, str]) -> int:
        self.commands.append(list(words))
        self.envs.append(env)
        written = self.writes.pop(0) if self.writes else None
        if written is not None:
            _safetensors(written)
            later = time.time() + 60 + len(self.commands)
            os.utime(written, (later, later))
        return self.codes.pop(0)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def _safetensors(path: Path, cut: int = 0) -> None:
    header = b'{"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}'
    content = len(header).to_bytes(8, "little") + header + b"abcd"
    path.write_bytes(content[: len(content) - cut])


def _order(tmp_path: Path, **more: object) -> RetryOptions:
    pattern = str(tmp_path / "*.safetensors")
    return RetryOptions(
        ["train"],
        checkpoints=(pattern,),
        resume_option="--resume {checkpoint}",
        **more,  # type: ignore[arg-type]
    )


def test_what_ends_well_is_not_started_again(tmp_path: Path) -> None:
    child = Fake([0])
    assert retried(_order(tmp_path), child) == 0
    assert child.commands == [["train"]]
    assert child.envs[0][RESTARTS] == "0"
    assert RESUME not in child.envs[0]


def test_a_restart_goes_on_from_the_checkpoint_written_last(tmp_path: Path) -> None:
    written = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    child = Fake([1, 1, 0], written)
    assert retried(_order(tmp_path), child) == 0
    assert child.commands == [["train"], *(["train", "--resume", str(p)] for p in written)]
    assert [env.get(RESUME) for env in child.envs] == [None, *map(str, written)]
    assert [env[RESTARTS] for env in child.envs] == ["0", "1", "2"]
    assert child.pauses == [5.0, 5.0]


def test_without_progress_it_waits_longer_and_gives_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = Fake([7] * 9)
    assert retried(_order(tmp_path, retries=9, stuck=4), child) == 7
    assert child.pauses == [5.0, 10.0, 20.0, 40.0]
    assert "no new checkpoint in 4 restarts" in capsys.readouterr().err


def test_the_number_of_retries_is_a_limit_with_progress_too(tmp_path: Path) -> None:
    child = Fake([3] * 9, [tmp_path / f"{n}.safetensors" for n in range(9)])
    assert retried(_order(tmp_path, retries=2), child) == 3
    assert len(child.commands) == 3


def test_a_checkpoint_that_is_cut_short_is_passed_over_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    child = Fake([1, 0], [whole])
    _safetensors(cut, cut=2)
    os.utime(cut, (time.time() + 900,) * 2)
    assert retried(_order(tmp_path), child) == 0
    assert child.commands[1][-1] == str(whole)
    assert f"not resumed from: {cut}: truncated" in capsys.readouterr().err


def test_an_earlier_training_s_checkpoints_are_used_only_when_asked(tmp_path: Path) -> None:
    old = tmp_path / "old.safetensors"
    _safetensors(old)
    os.utime(old, (time.time() - 900,) * 2)
    child = Fake([1, 0])
    assert retried(_order(tmp_path), child) == 0
    assert child.commands == [["train"], ["train"]]
    child = Fake([0])
    assert retried(_order(tmp_path, go_on=True), child) == 0
    assert child.commands == [["train", "--resume", str(old)]]


def test_folders_are_checkpoints_when_all_in_them_is_whole(tmp_path: Path) -> None:
    for name, cut in (("checkpoint-1", 0), ("checkpoint-2", 3)):
        (tmp_path / name).mkdir()
        _safetensors(tmp_path / name / "model.safetensors", cut)
        (tmp_path / name / "config.json").write_text("{}")
        os.utime(tmp_path / name / "model.safetensors", (time.time() + int(name[-1]),) * 2)
    (tmp_path / "checkpoint-3").mkdir()
    child = Fake([1, 0])
    order = RetryOptions(
        ["train"], checkpoints=(str(tmp_path / "checkpoint-*"),), resume_option="{checkpoint}"
    )
    assert retried(order, child) == 0
    assert child.commands[1] == ["train", str(tmp_path / "checkpoint-1")]


def test_what_is_gone_or_cannot_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1.safetensors").symlink_to(tmp_path / "nothing")
    whole, shut = tmp_path / "2.safetensors", tmp_path / "3.safetensors"
    child = Fake([1, 0], [whole])
    _safetensors(shut)
    os.utime(shut, (time.time() + 900,) * 2)
    plain = checkpoints._problem_of_safetensors

    def problem(path: str) -> str:
        if path == str(shut):
            raise PermissionError(13, "Permission denied")
        return plain(path)

    monkeypatch.setattr(checkpoints, "_problem_of_safetensors", problem)
    assert retried(_order(tmp_path), child) == 0
    assert child.commands[1][-1] == str(whole)


def test_who_is_told_to_end_is_not_started_again(tmp_path: Path) -> None:
    child = Fake([143])
    child.ended_by = signal.SIGTERM
    assert retried(_order(tmp_path), child) == 143
    assert len(child.commands) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--retries", "2"],
        ["--resume-option", "--resume", "--checkpoints", "x", "--", "true"],
        ["--resume-option=--resume {checkpoint}", "--", "true"],
        ["--retries", "-1", "--", "true"],
        ["--", "/no/such/command"],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    assert main(["run", *words]) == 2


# Real processes


def _run(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "xla_migrate", "run", "--backoff", "0", *words],
        env={**os.environ, "PJRT_DEVICE": "CPU", **(env or {})},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_exit_code_is_the_command_s() -> None:
    child = _run("--retries", "1", "--", sys.executable, "-c", "raise SystemExit(7)")
    _, told = child.communicate(timeout=60)
    assert child.returncode == 7
    assert "restart 1 of 1" in told
    child = _run("--retries", "0", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    _, told = child.communicate(timeout=60)
    assert child.returncode == 137
    assert "SIGKILL" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on_and_end_it(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import signal, sys, time\n"
        "def end(number, frame):\n    print('told', number, flush=True); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end)\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    child = _run("--", sys.executable, str(script))
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    out, told = child.communicate(timeout=60)
    assert out == f"told {number.value}\n"
    assert child.returncode == 5
    assert "restart" not in told


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux only")
def test_nothing_of_the_command_is_left_running(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(left.pid, flush=True)\nos._exit(1)\n"
    )
    child = _run("--retries", "0", "--", sys.executable, str(script))
    out, _ = child.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


def _losses(path: Path) -> dict[int, str]:
    return {int(s): loss for s, loss in (line.split() for line in path.read_text().splitlines())}


def _trained(folder: Path, name: str, env: dict[str, str], *more: str) -> tuple[Path, str]:
    out = folder / name
    out.mkdir()
    losses = folder / f"{name}.losses"
    python = warm.for_side("target" if "--xla" in more else "reference")
    command = [python, str(SCRIPT), "--out", str(out), "--losses", str(losses), *more]
    resume = ("--checkpoints", str(out / "*.pt"), "--resume-option", "--resume {checkpoint}")
    child = _run(*resume, "--", *command, env=env)
    _, told = child.communicate(timeout=300)
    assert child.returncode == 0, told
    return losses, told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The losses of an uninterrupted run."""
    losses, told = _trained(tmp_path_factory.mktemp("whole"), "whole", {})
    assert told == ""
    return losses


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["kill", "raise", "write"])
def test_losses_after_a_resume_equal_the_uninterrupted_run_s(
    how: str, whole: Path, tmp_path: Path
) -> None:
    at = random.randrange(5, 28)
    env = {"KILL_AT": str(at), "KILL_HOW": how}
    resumed, told = _trained(tmp_path, "resumed", env)
    assert told.count("restart 1 of 3") == 1, (at, told)
    assert ("truncated" in told) == (how == "write")
    lines = resumed.read_text().splitlines()
    assert len(lines) > 30 or at % 4 == 0, at  # some steps were done twice
    assert len(lines) < 30 + at, at  # it did not begin anew
    assert _losses(resumed) == _losses(whole), at


@pytest.mark.e2e
def test_losses_on_xla_too(tmp_path: Path) -> None:
    whole, _ = _trained(tmp_path, "whole", {}, "--xla", "--steps", "14")
    resumed, told = _trained(tmp_path, "resumed", {"KILL_AT": "10"}, "--xla", "--steps", "14")
    assert "restart 1 of 3 in 0 s, from" in told
    assert _losses(resumed) == _losses(whole)


@pytest.mark.e2e
def test_below_torchrun_s_elastic_restarts(whole: Path, tmp_path: Path) -> None:
    out, losses = tmp_path / "out", tmp_path / "losses"
    out.mkdir()
    old = out / "step_28.pt"  # of an earlier training
    old.write_bytes(b"")
    os.utime(old, (time.time() - 900,) * 2)
    worker = ["-m", "xla_migrate", "run", "--retries", "0", "--checkpoints", str(out / "*.pt")]
    worker += ["--resume-option", "--resume {checkpoint}", "--", warm.for_side("reference")]
    worker += [str(SCRIPT), "--out", str(out), "--losses", str(losses)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=2"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node=1", "--no-python", sys.executable, *worker],
        env={**os.environ, "KILL_AT": "15"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert _losses(losses) == _losses(whole)
    assert 30 < len(losses.read_text().splitlines()) < 45


FAILS = """
import sys
print("terminal" if sys.stderr.isatty() else "no terminal", file=sys.stderr)
raise RuntimeError("Runtime is already initialized. Do not use the XLA device before calling xmp.spawn.")
"""


def test_a_known_error_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    child = _run("--retries", "0", "--", sys.executable, str(script))
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "no terminal" in errors  # what the command writes is still shown
    assert "xla-migrate run: known error: " in errors
    assert re.search(r"^  fix    ", errors, re.MULTILINE)


def test_standard_error_stays_a_terminal(tmp_path: Path) -> None:
    import pty

    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    words = [sys.executable, "-m", "xla_migrate", "run", "--retries", "0", "--"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*words, sys.executable, str(script)], stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:  # the terminal's end
        pass
    assert process.wait() == 1
    assert written.startswith(b"terminal\r\n")
    assert b"known error" in written
