"""Starting a command again and again, each time from its last whole checkpoint."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .checkpoints import Checkpoint, last_whole
from .children import Child, started

RESUME, RESTARTS = "XLA_MIGRATE_RESUME", "XLA_MIGRATE_RESTARTS"
LONGEST = 300.0  # seconds between two starts, at most


@dataclass(frozen=True)
class RetryOptions:
    """The command, and how often it is started.

    Attributes:
        command: program and arguments.
        retries: how often it is started again, at most.
        stuck: restarts in a row without a new checkpoint, at most.
        backoff: seconds before the first restart; twice that before each further one without progress.
        checkpoints: patterns of their paths.
        resume_option: words for the end of the command, with `{checkpoint}`; "" for none.
        go_on: begin from what an earlier training left, too.
    """

    command: list[str]
    retries: int = 3
    stuck: int = 3
    backoff: float = 5.0
    checkpoints: tuple[str, ...] = ()
    resume_option: str = ""
    go_on: bool = False


class Runner(Protocol):
    """The runner of a command (`Child`, or a test's)."""

    ended_by: int | None
    errors: str

    def run(self, words: Sequence[str], env: dict[str, str]) -> int:
        """The exit code."""

    def pause(self, seconds: float) -> None:
        """Wait."""


def retried(order: RetryOptions, child: Runner | None = None) -> int:
    """Run the command until it succeeds, is ended by the user, or has no retries left; return its exit code."""
    child = child or Child()
    since, resumes = _own_since(order)
    last = _looked_up(order, since) if resumes else None
    restarts = stuck = 0
    while True:
        begun = time.monotonic()
        code = child.run(words(order, last), environment(last, restarts))
        if code == 0 or child.ended_by is not None:
            return code
        _say(f"ended with {_exit_text(code)} after {time.monotonic() - begun:.0f} s")
        _explain(child.errors)
        if restarts == order.retries:
            return code
        before, last = last, _looked_up(order, since)
        stuck = stuck + 1 if last == before else 0
        if stuck > order.stuck:
            _say(f"no new checkpoint in {order.stuck} restarts: not started again")
            return code
        restarts += 1
        wait = min(order.backoff * 2 ** max(stuck - 1, 0), LONGEST)
        where = f"from {last.path}" if last else "from the beginning (no complete checkpoint)"
        _say(f"restart {restarts} of {order.retries} in {wait:g} s, {where}")
        child.pause(wait)
        if child.ended_by is not None:
            return 128 + child.ended_by


def words(order: RetryOptions, checkpoint: Checkpoint | None) -> list[str]:
    """The command, with the script's own option for resuming if there is a checkpoint."""
    if checkpoint is None:
        return order.command
    given = shlex.split(order.resume_option)
    return [*order.command, *(w.replace("{checkpoint}", checkpoint.path) for w in given)]


def environment(checkpoint: Checkpoint | None, restarts: int) -> dict[str, str]:
    """Return the environment of the command, with what the script can read."""
    env = {k: v for k, v in os.environ.items() if k != RESUME}
    env[RESTARTS] = str(restarts)
    if checkpoint is not None:
        env[RESUME] = os.path.abspath(checkpoint.path)
    return env


def _own_since(order: RetryOptions) -> tuple[float, bool]:
    """(from when on checkpoints are this training's, whether to begin from one).

    Below torchrun, which starts this command again, too, the training began when torchrun did.
    """
    if order.go_on:
        return 0.0, True
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0:
        return started(os.getppid()) - 1.0, True  # which is known to the second
    return time.time(), False


def _looked_up(order: RetryOptions, since: float) -> Checkpoint | None:
    found, problems = last_whole(order.checkpoints, since)
    for problem in problems:
        _say(f"not resumed from: {problem}")
    return found


def _exit_text(code: int) -> str:
    import signal

    known = {s.value: s.name for s in signal.Signals}
    return known.get(code - 128, f"exit code {code}") if code > 128 else f"exit code {code}"


def _explain(errors: str) -> None:
    from ...known_errors.explain import explained, last_known

    known = last_known(errors)
    if known is not None:
        _say(f"known error: {known.error.name}")
        print("\n".join(explained(known)), file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(f"xla-migrate run: {text}", file=sys.stderr, flush=True)
