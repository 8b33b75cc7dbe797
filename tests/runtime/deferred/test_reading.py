"""Numbers on their way and calls that wait for them: order, exactness, and every way out of a loop."""

from __future__ import annotations

import copy
import json
import logging
import math
import numbers
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.deferred import waiting
from xla_migrate.runtime.deferred.number import Number

from ... import warm


def _reads() -> int:
    return xla.metrics()["host_reads"] or 0


def test_a_sum_is_pythons_own(device: torch.device) -> None:
    """In double precision, in order: to the last bit what `.item()` gives."""
    values = torch.rand(200, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    on_device = values.to(device)
    xla.mark_step()
    deferred_sum, expected = 0.0, 0.0
    for k in range(200):
        deferred_sum += xla.item(on_device[k]) * 7 / 3
        expected += values[k].item() * 7 / 3
    assert type(deferred_sum) is Number
    assert xla.arrived(deferred_sum) == expected
    assert type(xla.arrived(deferred_sum)) is float


def test_counts_stay_integers(device: torch.device) -> None:
    correct = 0
    for _ in range(3):
        correct += xla.item(torch.ones(4, device=device).eq(1).sum())
    assert f"{correct}/{12}" == "12/12"
    assert type(xla.arrived(correct)) is int
    assert list(range(3))[xla.item(torch.tensor(1, device=device))] == 1


def test_sixteen_steps_are_one_read(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SECONDS", 1000.0)
    weight = torch.ones(2, device=device)
    running = 0.0
    xla.mark_step()
    before = _reads()
    for k in range(64):
        running += xla.item((weight * k).sum())
        xla.mark_step()
    assert _reads() - before <= 5
    assert running == sum(2.0 * k for k in range(64))


def test_without_marks_graphs_stay_small(device: torch.device) -> None:
    """Loops that nothing marks: 3.20."""
    weight = torch.ones(2, device=device)
    xla.mark_step()
    before = _reads()
    for _ in range(200):
        weight = weight * 1.01
        xla.item(weight.sum())
    assert _reads() - before == 3


def test_slow_steps_are_read_in_time(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last one, which the device may still be at."""
    monkeypatch.setattr(waiting, "SECONDS", -1.0)
    seen: list[int] = []
    for k in range(4):
        value = torch.ones((), device=device) * k
        xla.later(lambda k=k, value=value: seen.append(k))
        xla.mark_step()
        assert seen == list(range(k))


def test_what_a_tensor_is_now_counts(device: torch.device) -> None:
    value = torch.ones((), device=device)
    number = xla.item(value)
    seen: list[float] = []
    xla.later(lambda value=value: seen.append(value.item()))
    value.add_(41)
    xla.mark_step()
    value.add_(1)
    xla.mark_step()
    xla.flush()
    assert (number, seen, value.item()) == (1.0, [1.0], 43.0)


def test_lists_and_dicts_are_what_they_are_now(device: torch.device) -> None:
    parts, other = {"a": [torch.ones((), device=device)]}, [1]
    seen: list[str] = []
    xla.later(lambda parts=parts, other=other: seen.append(f"{parts['a'][0].item()} {other}"))
    parts["a"][0] = torch.zeros((), device=device)
    other.append(2)
    xla.flush()
    assert seen == ["1.0 [1]"]
    assert other == [1, 2]


def test_other_containers_are_what_they_are_now(device: torch.device) -> None:
    loss = torch.ones((), device=device)
    window, counts, kinds = deque([1], maxlen=2), defaultdict(list, a=[1]), {"x"}
    letters = Counter("aab")
    seen: list[str] = []
    xla.later(
        lambda loss=loss, window=window, counts=counts, kinds=kinds, letters=letters: seen.append(
            f"{loss.item()} {list(window)} {dict(counts)} {kinds} {letters}"
        )
    )
    letters.update("bbb")
    window.append(2)
    counts["a"].append(2)
    counts["b"] = []
    kinds.clear()
    xla.flush()
    assert seen == ["1.0 [1] {'a': [1]} {'x'} Counter({'a': 2, 'b': 1})"]
    assert (list(window), dict(counts)) == ([1, 2], {"a": [1, 2], "b": []})


def test_calls_come_in_order_and_other_output_in_its_place(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    for k in range(3):
        value = torch.ones((), device=device) * k
        xla.later(lambda k=k, value=value: print(f"step {k} {value.item():.2f}"))
        xla.mark_step()
        if k == 1:
            print("between")
        xla.later(lambda: print("no value"))
    print("end")
    assert capsys.readouterr().out.splitlines() == (
        "step 0 0.00|no value|step 1 1.00|between|no value|step 2 2.00|no value|end".split("|")
    )


def test_a_call_that_waits_for_what_came_later_is_not_overtaken(device: torch.device) -> None:
    seen: list[Any] = []
    losses: list[Any] = []

    def first(value: torch.Tensor) -> None:
        seen.append(xla.arrived(losses)[0])
        seen.append(value.item())

    value = torch.ones((), device=device)
    xla.later(lambda value=value: first(value))
    losses.append(xla.item(value * 2))
    xla.later(lambda value=value: seen.append(value.item() * 3))
    xla.flush()
    assert seen == [2.0, 1.0, 3.0]


def test_logged_lines_keep_their_order_in_a_file(device: torch.device, tmp_path: Path) -> None:
    logger = logging.getLogger("test_deferred")
    handler = logging.FileHandler(tmp_path / "log")
    logger.addHandler(handler)
    value = torch.ones((), device=device)
    xla.later(lambda value=value: logger.warning("value %.1f", value.item()))
    logger.warning("after")
    logger.removeHandler(handler)
    handler.close()
    assert (tmp_path / "log").read_text().split("\n") == ["value 1.0", "after", ""]


def test_the_end_of_a_loader_is_the_end_of_waiting(device: torch.device) -> None:
    seen: list[float] = []
    for x in xla.MpDeviceLoader(torch.arange(6.0).split(2)):
        total = x.sum()
        xla.later(lambda total=total: seen.append(total.item()))
    assert seen == [1.0, 5.0, 9.0]


def test_an_exception_is_raised_where_the_call_is_made(device: torch.device) -> None:
    value = torch.ones((), device=device)
    xla.later(lambda value=value: value.item() / 0)
    xla.later(lambda value=value: done.append(value.item()))
    done: list[float] = []
    with pytest.raises(ZeroDivisionError):
        xla.flush()
    xla.flush()
    assert done == [], "the program would not have come to it"


def test_arithmetic_fails_where_the_number_is_used(device: torch.device) -> None:
    ratio = 1 / xla.item(torch.zeros((), device=device))
    after = xla.item(torch.ones((), device=device))
    assert after == 1
    with pytest.raises(ZeroDivisionError):
        print(ratio)
    with pytest.raises(ZeroDivisionError):
        print(ratio + 1)


def test_a_number_is_a_number_to_everybody(device: torch.device) -> None:
    def number() -> Number:
        made = xla.item(torch.full((), 2.5, device=device))
        assert type(made) is Number
        return made

    assert isinstance(number(), numbers.Number)
    assert math.isfinite(number())
    text = "%.1f %s"
    assert text % (number(), number()) == "2.5 2.5"
    assert f"{number():>6.2f}{number()!r}" == "  2.502.5"
    assert str(number()) == "2.5"
    assert (round(number(), 1), int(number()), math.floor(number())) == (2.5, 2, 2)
    assert number() < 3
    assert number() >= 2.5
    assert max(number(), 1) == 2.5
    assert bool(number())
    assert {2.5: "found"}[number()] == "found"
    assert np.array([number(), number()]).dtype == np.float64
    assert np.float64(1) + number() == 3.5
    assert (-number(), abs(-number()), divmod(number(), 2)) == (-2.5, 2.5, (1.0, 0.5))
    assert number().is_integer() is False
    assert (torch.ones(1) * number()).item() == 2.5
    assert (number() * torch.ones(1, device=device)).item() == 2.5
    assert type(pickle.loads(pickle.dumps(number()))) is float
    assert copy.deepcopy([number()]) == [2.5]
    assert json.dumps(xla.arrived({"loss": [number()]})) == '{"loss": [2.5]}'
    assert xla.arrived((number(), "x")) == (2.5, "x")
    assert json.dumps(number()) == "2.5"


@pytest.mark.parametrize("made", [list, deque, tuple, lambda part: dict(enumerate(part))])
def test_what_holds_many_is_one_read(device: torch.device, made: Any) -> None:
    several = []
    for k in range(6):
        several.append(xla.item(torch.ones(2, device=device).sum() + k))
        xla.mark_step()
    before = _reads()
    found = xla.arrived(made(several))
    assert list(found.values() if isinstance(found, dict) else found) == [2, 3, 4, 5, 6, 7]
    assert _reads() == before + 1


def test_a_step_is_one_read(device: torch.device) -> None:
    """What was read in a step comes together; the steps behind it are not waited for, nor are their lines made."""
    steps = []
    made: list[int] = []
    for k in range(4):
        x = torch.ones(2, device=device) * k
        steps.append((xla.item(x.sum()), xla.item(x.max())))
        xla.later(lambda k=k, x=x: made.append(k))
        xla.mark_step()
    before = _reads()
    assert steps[1][0] == 2
    assert steps[1][1] == 1
    assert made == [0, 1]
    assert _reads() == before + 1


def test_a_call_that_waits_for_a_number_leaves_the_next_behind_itself(device: torch.device) -> None:
    made: list[Any] = []
    x = torch.ones(2, device=device)
    later_number: list[Any] = []
    xla.later(lambda x=x: made.append(("first", float(later_number[0]))))
    later_number.append(xla.item(x.sum()))
    xla.later(lambda x=x: made.append("second"))
    xla.mark_step()
    xla.flush()
    assert made == [("first", 2.0), "second"]


def test_lists_are_filled_in(device: torch.device) -> None:
    losses = [xla.item(torch.ones((), device=device)), 3]
    assert xla.arrived(losses) is losses
    assert [type(loss) for loss in losses] == [float, int]


def test_what_is_no_tensor_of_the_device_is_read_at_once() -> None:
    assert type(xla.item(torch.ones(()))) is float
    assert type(xla.item(np.float32(2))) is float
    seen: list[int] = []
    xla.later(lambda: seen.append(1))
    assert seen == [1]


def test_other_threads_get_the_number_too(device: torch.device) -> None:
    first = xla.item(torch.ones((), device=device))
    total = first
    for _ in range(2000):  # as deep as a sum of many steps
        total = total + first
    doubled = total + total
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend([float(doubled), f"{total + 1:.1f}"]))
    thread.start()
    thread.join()
    assert found == [4002.0, "2002.0"]
    assert doubled == 4002


def test_logged_records_are_of_where_and_when_they_were_written(
    device: torch.device, logged: list[logging.LogRecord]
) -> None:
    logging.root.setLevel(logging.INFO)
    value = torch.ones((), device=device)
    before = time.time()
    xla.later(lambda value=value: logging.info("deferred %g", value.item()))
    after = time.time()
    time.sleep(0.05)
    logging.info("at once")
    deferred, at_once = logged
    assert deferred.getMessage() == "deferred 1"
    assert deferred.funcName == at_once.funcName == _test_name()
    assert before <= deferred.created <= after < at_once.created
    assert at_once.relativeCreated - deferred.relativeCreated >= 40


def _test_name() -> str:
    return sys._getframe(1).f_code.co_name


def test_several_elements_are_refused_at_once(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="Scalar"):
        xla.item(torch.ones(2, device=device))


SCRIPT = """
import os, sys
import torch
from xla_migrate import runtime as xla

device = xla.xla_device()

def step(k):
    value = torch.ones((), device=device) * k
    xla.later(lambda k=k, value=value: print("step", k, value.item(), flush=True))
    xla.mark_step()

{body}
"""


def _output(body: str, python: str = "", **environment: str) -> tuple[str, str, int]:
    done = subprocess.run(
        [python or warm.for_side("target"), "-c", SCRIPT.format(body=textwrap.dedent(body))],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    return done.stdout, done.stderr, done.returncode


@pytest.mark.e2e
def test_nothing_is_lost_at_the_end_of_the_process() -> None:
    """In Python itself: a warm interpreter does not finalize."""
    assert _output("step(0); step(1)", sys.executable)[0] == "step 0 0.0\nstep 1 1.0\n"


@pytest.mark.e2e
def test_nothing_is_lost_at_exit_or_at_an_exception() -> None:
    assert _output("step(0); sys.exit(3)")[::2] == ("step 0 0.0\n", 3)
    body = """
    sys.stderr = sys.stdout
    step(0)
    raise ValueError("bad")
    """
    out, _, status = _output(body)
    assert out.startswith("step 0 0.0\nTraceback")
    assert status == 1


@pytest.mark.e2e
def test_nothing_is_lost_at_control_c() -> None:
    body = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # `nohup` has it ignored
    try:
        step(0)
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("Exiting early")
    step(1)
    """
    assert _output(body)[0] == "step 0 0.0\nExiting early\nstep 1 1.0\n"


@pytest.mark.e2e
def test_forked_workers_leave_it_alone() -> None:
    body = """
    step(0)
    if os.fork() == 0:
        print("child", flush=True)
        os._exit(0)
    os.wait()
    step(1)
    """
    assert _output(body)[0] == "step 0 0.0\nchild\nstep 1 1.0\n"


@pytest.mark.e2e
@pytest.mark.parametrize(
    "leaving", ["os._exit(4)", "os.execv('/bin/sh', ['sh', '-c', 'echo new; exit 4'])"]
)
def test_nothing_is_lost_where_the_process_is_left_at_once(leaving: str) -> None:
    out, _, status = _output(f"step(0); step(1); {leaving}")
    assert out.removesuffix("new\n") == "step 0 0.0\nstep 1 1.0\n"
    assert status == 4


@pytest.mark.e2e
def test_nothing_is_lost_where_the_thread_ends() -> None:
    body = """
    import threading
    thread = threading.Thread(target=lambda: (step(0), step(1)))
    thread.start()
    thread.join()
    print("joined")
    step(2)
    """
    assert _output(body)[0] == "step 0 0.0\nstep 1 1.0\njoined\nstep 2 2.0\n"


@pytest.mark.e2e
def test_other_programs_write_behind_what_waits() -> None:
    body = """
    import subprocess
    step(0)
    subprocess.run(["echo", "run"])
    step(1)
    os.system("echo system")
    step(2)
    print(subprocess.check_output(["echo", "kept"], text=True), end="", flush=True)
    """
    expected = "step 0 0.0\nrun\nstep 1 1.0\nsystem\nstep 2 2.0\nkept\n"
    assert _output(body)[0] == expected


@pytest.mark.e2e
def test_eager_backends_do_at_once_what_they_are_asked_to() -> None:
    body = """
    step(0)
    print(type(xla.item(torch.ones(()))).__name__)
    """
    assert _output(body, XLA_MIGRATE_BACKEND="eager")[0] == "step 0 0.0\nfloat\n"


def test_texts_are_on_their_way(device: torch.device) -> None:
    """What they are made of now counts; joined by `+`, formatted, compared and kept they are what the text is."""
    weight, lines = torch.ones(2, device=device), []
    before = _reads()
    for step in range(3):
        loss = (weight * step).sum()
        text = xla.computed(lambda step=step, loss=loss: f"{step} {loss.item():.1f}")
        text += "!"
        lines.append(xla.computed(lambda text=text: f"<{text}>"))
        weight.add_(0.0)
        xla.mark_step()
    assert _reads() == before
    assert " ".join(xla.arrived(lines)) == "<0 0.0!> <1 2.0!> <2 4.0!>"
    assert (f"{text}", text == "2 4.0!", "a " + text, type(xla.arrived(text))) == (
        "2 4.0!",
        True,
        "a 2 4.0!",
        str,
    )
    assert _reads() == before + 1
    bad = xla.computed(lambda loss=loss: f"{loss.item():d}")
    with pytest.raises(ValueError, match="format code 'd'"):
        str(bad)


def test_texts_are_made_in_other_threads_too(device: torch.device) -> None:
    loss = torch.ones(2, device=device).sum()
    text = xla.computed(lambda loss=loss: f"{loss.item():.1f}")
    made: list[str] = []
    thread = threading.Thread(target=lambda: made.append(f"{text} at {text}"))
    thread.start()
    thread.join()
    assert made == ["2.0 at 2.0"]


@pytest.mark.parametrize(
    ("made", "kind", "waits"),
    [
        (lambda x: xla.item(x), float, True),
        (lambda x: 2 * xla.item(x) + 1, float, False),
        (lambda x: xla.item(x) * 3, float, True),
        (lambda x: 0.5 + xla.item(x.int()), float, True),
        (lambda x: xla.item((x > 0).sum()), int, True),
        (lambda x: xla.item((x > 0).sum()) + 1, int, False),
        (lambda x: xla.item(x > 0), bool, False),
        (lambda x: xla.computed(lambda x=x: f"{x.item()}"), str, False),
    ],
)
def test_a_number_is_of_the_type_that_it_will_have(
    made: Callable[[torch.Tensor], Any], kind: type, waits: bool, device: torch.device
) -> None:
    number = made(torch.ones((), device=device))
    assert isinstance(number, kind)
    assert not isinstance(number, (torch.Tensor, list))
    if waits and type(number) is Number:
        assert number.waits  # still
    assert type(xla.arrived(number)) is kind


def test_numbers_of_numpy_leave_arithmetic_to_it(device: torch.device) -> None:
    for made in (lambda n: n / np.log(10.0), lambda n: np.float64(3) * n, lambda n: 3 - n):
        number = made(xla.item(torch.ones((), device=device)))
        assert number == made(1.0)
        assert type(xla.arrived(number)) is type(made(1.0))


@pytest.mark.parametrize("made", [np.zeros, torch.zeros])
def test_elements_of_arrays_are_filled_in_order(made: Any, device: torch.device) -> None:
    curve = made(4)
    for step in range(3):
        xla.fill(curve, step, xla.item(torch.ones((), device=device) * step) / 2)
        xla.fill(curve, 0, 5.0)
        xla.fill(curve, 3, step)
        xla.mark_step()
    assert list(xla.arrived(curve)) == [5.0, 0.5, 1.0, 2.0]
    xla.fill(curve, 0, xla.item(torch.ones((), device=device)))
    seen: list[Any] = []
    xla.later(lambda curve=curve: seen.append(curve[0]))
    xla.flush()
    assert seen == [1.0]
    assert xla.arrived(curve) is curve


def test_a_file_that_is_opened_during_a_transfer_makes_no_second_one(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A warning during the transfer shows its source line, and so opens a file."""
    from xla_migrate.runtime.torch_xla import transfers

    def fetch(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        (tmp_path / "source.py").write_text("")
        xla.flush()
        with open(tmp_path / "source.py"):
            return real(tensors)

    real = transfers.fetch
    monkeypatch.setattr(transfers, "fetch", fetch)
    told: list[float] = []
    for k in range(3):
        value = xla.item(torch.full((2,), float(k), device=device).sum())
        xla.later(lambda value=value: told.append(float(value)))
    xla.flush()
    assert told == [0, 2, 4]
