"""Compiling many graphs in parallel processes. A process that the compiler ends takes only its graph with it."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .interpreter import WORKER

Request = dict[str, Any]
Reply = dict[str, Any]


def run(
    python: str,
    requests: Sequence[Request],
    jobs: int,
    timeout: float | None = None,
    done: Callable[[int, Reply], None] | None = None,
) -> list[Reply]:
    """The replies to the requests (see `worker`), in their order.

    Args:
        python: the interpreter with the compiler.
        requests: the longest first, if known, so that no long request runs alone at the end.
        jobs: processes at most.
        timeout: seconds for each.
        done: called with the index and the reply of each as it comes, from one thread at a time.
    """
    replies: list[Reply] = [{} for _ in requests]
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(requests)):
        waiting.put(i)
    lock = threading.Lock()
    workers: list[_Worker] = []

    def serve() -> None:
        with _Worker(python, timeout) as worker:
            workers.append(worker)
            while True:
                try:
                    i = waiting.get_nowait()
                except queue.Empty:
                    return
                reply = worker.ask(requests[i])
                with lock:
                    replies[i] = reply
                    if done is not None:
                        done(i, reply)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(jobs, len(requests)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.end()
    return replies


class _Worker:
    """A process that is started again after one that ended."""

    def __init__(self, python: str, timeout: float | None) -> None:
        self._python = python
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._over = False

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, request: Request) -> Reply:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def end_late() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._timeout, end_late) if self._timeout else None
        if timer is not None:
            timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            if timer is not None:
                timer.cancel()
        if line:
            reply: Reply = json.loads(line)
            return reply
        code = process.wait()
        self._process = None
        if late.is_set():
            return {
                "error": f"not compiled within {self._timeout:g} s (--timeout)",
                "passing": True,
            }
        if self._over:
            return {"error": "interrupted", "passing": True}
        return {
            "error": f"the compiler's process ended ({code}): {self._last_words()}",
            "passing": True,
        }

    def end(self) -> None:
        """End the process, if there is one."""
        self._over = True
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                start_new_session=True,
            )
        return self._process

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.startswith(("F", "jaxlib.", "E0"))]
        return lines[-1][:300] if lines else "it printed nothing"
