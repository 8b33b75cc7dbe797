"""What ends the training where a value is not as it should be is asked behind the step."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ....helpers import migrated
from .scripts import SCRIPT


def after_migration(line: str, last: str = "pass") -> list[str]:
    """The lines of the script, whose function is called once."""
    source = SCRIPT.format(line=line.replace("\n", "\n        "), last=last)
    text = migrated(f"{source}\n\ntrain(*sys.argv[1:])\n")
    return [found.strip() for found in text.splitlines()]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "value = loss.item()\nif not math.isfinite(value):\n    print('Loss is {}'.format(value))\n    sys.exit(1)\nmeter.update(value)",
            "xla.later(lambda value=value: (print('Loss is {}'.format(value)), sys.exit(1)) if not math.isfinite(value) else None)",
        ),
        (
            "value = loss.item()\nif math.isnan(value) or math.isinf(value): exit()",
            "xla.later(lambda value=value: exit() if math.isnan(value) or math.isinf(value) else None)",
        ),
        (
            "import os\nif loss.item() > 100: os._exit(3)",
            "xla.later(lambda loss=loss: os._exit(3) if loss.item() > 100 else None)",
        ),
        (
            "if torch.isnan(loss): raise ValueError(f'{loss.item()} at {step}')",
            "xla.later(lambda loss=loss, step=step, isnan_loss=torch.isnan(loss): xla.stop(ValueError(f'{loss.item()} at {step}')) if isnan_loss else None)",
        ),
        (
            "if not torch.isfinite(loss).all():\n    logger.error('step %d', step)\n    raise FloatingPointError",
            "xla.later(lambda step=step, value=torch.isfinite(loss).all(): (logger.error('step %d', step), xla.stop(FloatingPointError)) if not value else None)",
        ),
        (
            "assert torch.isfinite(loss), f'step {step}'",
            "xla.later(lambda step=step, isfinite_loss=torch.isfinite(loss): None if isfinite_loss else xla.stop(AssertionError(f'step {step}')))",
        ),
        (
            "assert not loss.isnan()",
            "xla.later(lambda isnan=loss.isnan(): None if not isnan else xla.stop(AssertionError()))",
        ),
        (
            "best = min(best, loss.item())\nif best < 0.1: sys.exit()",
            "xla.later(lambda best=best: sys.exit() if best < 0.1 else None)",
        ),
        (
            "if torch.isnan(loss):\n    print('nan', step)\n    print('it goes on')",
            "xla.later(lambda step=step, isnan_loss=torch.isnan(loss): (print('nan', step), print('it goes on')) if isnan_loss else None)",
        ),
        (
            "parts = reduced({'a': loss})\nlosses = sum(p for p in parts.values())\nvalue = losses.item()\nif value > 9:\n    print(parts)\n    sys.exit(1)",
            "xla.later(lambda value=value, parts=parts: (print(parts), sys.exit(1)) if value > 9 else None)",
        ),
    ],
)  # fmt: skip
def test_it_ends_behind_the_step(line: str, text: str) -> None:
    assert text in after_migration(line)


@pytest.mark.parametrize(
    ("around", "is_deferred"),
    [
        ("with torch.autocast('cuda'):", True),
        ("with torch.autocast('cuda'), torch.enable_grad():", True),
        ("with contextlib.suppress(ValueError):", False),
        ("with torch.no_grad():\n    with suppress(ValueError):", False),
        ("if step > 3:", False),
    ],
)
def test_a_value_that_is_assigned_in_a_block(around: str, is_deferred: bool) -> None:
    last = around.rpartition("\n")[2]
    inside = " " * (4 + len(last) - len(last.lstrip()))
    line = f"{around}\n{inside}parts = reduced(step)\nif loss.item() > 9:\n    print(parts)\n    sys.exit(1)"
    assert any("parts=parts" in text for text in after_migration(line)) is is_deferred


def test_what_waits_is_waited_for_behind_a_loop_that_is_left() -> None:
    stop = "if torch.isnan(loss): raise ValueError"
    found = after_migration(f"{stop}\nif step > 9: break", "print('done')")
    assert found[found.index("print('done')") - 1] == "xla.flush()"
    assert "xla.flush()" not in after_migration(stop)


def test_one_wait_behind_a_loop_with_several_ends() -> None:
    stop = "if torch.isnan(loss): raise ValueError\nassert loss < 9\nif step > 9: break"
    assert after_migration(stop).count("xla.flush()") == 1


@pytest.mark.parametrize(
    "line",
    [
        "try:\n    if torch.isnan(loss): raise ValueError\nexcept ValueError: names.append(step)",
        "with contextlib.suppress(ValueError):\n    if torch.isnan(loss): raise ValueError",
        "if torch.isnan(loss): break",
        "if torch.isnan(loss): return",
        "if torch.isnan(loss): raise ValueError from error",
        "if torch.isnan(loss):\n    torch.save(model, 'last')\n    raise ValueError",
        "if step == 3: pass\nelif torch.isnan(loss): raise ValueError",
        "if torch.isnan(loss): raise ValueError\nelse: names.append(step)",
        "if torch.isnan(loss): raise ValueError(get(step))",
        "if torch.isnan(loss): raise ValueError\nif step > 9: return",
        "if x is not None and torch.isnan(x).any(): raise ValueError",
        "if torch.isnan(loss): raise ValueError\nif step > 9: yield loss",
        "for k in range(3):\n    def inner():\n        if torch.isnan(loss): raise ValueError\n    inner()",
        "if torch.isnan(loss): raise ValueError\ntorch.distributed.checkpoint.save({'model': model.state_dict()})",
    ],
)
def test_it_stays_where_others_look_at_it(line: str) -> None:
    text = "\n".join(after_migration(line))
    assert "xla.stop" not in text
    assert "isnan(" in text


LOOP = """
import sys
import torch
from torch.utils.data import DataLoader


def train(model, batches: DataLoader, optimizer):
    for step, x in enumerate(batches):
        loss = model(x.cuda()).mean()
        {stop}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(model, data, optimizer):
{calls}


main(torch.nn.Linear(2, 2).cuda(), torch.randn(4, 2), None)
"""
RAISE = "if torch.isnan(loss): raise ValueError"
EXIT = "if torch.isnan(loss): sys.exit(1)"


@pytest.mark.parametrize(
    ("handler", "stop", "moves"),
    [
        ("except KeyboardInterrupt: print('stopped')", RAISE, True),
        ("except ImportError: print('stopped')", RAISE, True),
        ("except ValueError: print('once more')", RAISE, False),
        ("except Exception: print('once more')", RAISE, False),
        ("except: print('once more')", RAISE, False),
        ("except (KeyError, ArithmeticError): print('once more')", RAISE, True),
        ("except Mine: print('once more')", RAISE, True),
        ("except Mine: print('once more')", RAISE.replace("ValueError", "Mine"), False),
        ("except RuntimeError: print('once more')", RAISE.replace("ValueError", "Mine"), False),
        ("except Exception: print('once more')", EXIT, True),
        ("finally: print('over')", RAISE, True),
        ("finally: torch.save(model, 'last')", RAISE, False),
    ],
)
def test_errors_that_callers_catch_stay(handler: str, stop: str, moves: bool) -> None:
    calls = f"    try:\n        train(model, DataLoader(data), optimizer)\n    {handler}"
    text = migrated(LOOP.format(stop=stop, calls=calls))
    assert ("xla.later" in text) is moves


@pytest.mark.parametrize(
    ("beside", "stop", "moves"),
    [
        ("try: print(step)\n        except: pass", RAISE, False),
        ("try: print(step)\n        except ValueError: pass", RAISE, False),
        ("try: print(step)\n        except KeyError: pass", RAISE, True),
        ("try: print(step)\n        except Exception: pass", EXIT, True),
        ("try: print(step)\n        except: pass", EXIT, False),
        ("try: print(step)\n        except OSError: pass", RAISE.replace("ValueError", "IOError"), False),
        ("try: print(step)\n        except KeyError: pass", RAISE.replace("ValueError", "NotFinite"), True),
        ("try: print(step)\n        except ArithmeticError: pass", RAISE.replace("ValueError", "NotFinite"), False),
        ("try: print(step)\n        except KeyError: pass", RAISE.replace("ValueError", "Unknown"), False),
    ],
)  # fmt: skip
def test_what_is_shown_in_a_try_would_raise_it_there(beside: str, stop: str, moves: bool) -> None:
    calls = "    train(model, DataLoader(data), optimizer)"
    text = LOOP.format(stop=f"{stop}\n        {beside}", calls=calls)
    text += "\n\nclass NotFinite(ArithmeticError): pass\n"
    assert ("xla.later" in migrated(text)) is moves


def test_errors_that_go_to_callers_in_other_modules_stay() -> None:
    def of(main: str) -> bool:
        text = LOOP.format(stop=RAISE, calls="    pass")
        files = {"steps.py": text.encode(), "main.py": main.encode()}
        project = Project(Modules(files), "steps.py")
        return b"xla.stop" in migrate(files["steps.py"], Options(), "steps.py", project).data

    call = "from steps import train\n\ndef main(a, b, c):\n"
    assert not of(f"{call}    train(a, b, c)\n\nmain(1, 2, 3)\n")
    assert not of(
        f"{call}    try: train(a, b, c)\n    except Exception: print('no')\n\nmain(1, 2, 3)\n"
    )
    assert not of("from steps import train\nrun(train)\n")


def test_each_of_several_tests_is_computed_on_the_device() -> None:
    line = "if torch.isnan(loss) or torch.isinf(loss): sys.exit(1)"
    text = "lambda isnan_loss=torch.isnan(loss), isinf_loss=torch.isinf(loss): sys.exit(1) if isnan_loss or isinf_loss else None"
    assert f"xla.later({text})" in after_migration(line)
    line = "assert x.min() >= 0 and x.max() <= 1"
    text = "lambda value=x.min() >= 0, value_2=x.max() <= 1: None if value and value_2 else xla.stop(AssertionError())"
    assert f"xla.later({text})" in after_migration(line)


TRAINER = """
import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer

    def _step(self, x):
        loss = self.model(x).mean()
        if torch.isnan(loss):
            raise ValueError("not finite")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def fit(self, data):
        for step, x in enumerate(DataLoader(data)):
            {call}
        return step


Trainer(torch.nn.Linear(2, 2), None).fit(torch.randn(4, 2))
"""


@pytest.mark.parametrize(
    ("call", "moves"),
    [
        ("self._step(x.cuda())", True),
        ("self._step(x.cuda())\n            if step > 3: break", True),
        ("try: self._step(x.cuda())\n            except ValueError: continue", False),
        ("try: self._step(x.cuda())\n            finally: self.optimizer.zero_grad()", False),
        ("self._step(x.cuda())\n            if step > 3: return step", False),
        ("self._step(x.cuda())\n            yield step", False),
        ("call(self._step, x.cuda())", False),
    ],
)
def test_a_method_that_makes_the_step(call: str, moves: bool) -> None:
    text = migrated(TRAINER.format(call=call))
    assert ("xla.stop" in text) is moves
    assert ("xla.flush()\n        return step" in text) is (moves and "break" in call)


def test_a_kernel_of_a_notebook_goes_on() -> None:
    text = LOOP.format(stop=RAISE, calls="    train(model, DataLoader(data), optimizer)").encode()
    assert b"xla.stop" in migrate(text, Options(), "a.py").data
    assert b"xla.stop" not in migrate(text, Options(), "a.ipynb").data


@pytest.mark.parametrize(
    ("stop", "calls", "why"),
    [
        (RAISE, "study.optimize(train)", "unknown callers may continue"),
        (RAISE, "try: train(model, data, optimizer)\n    except ValueError: pass", "line 17 may catch the exception"),
        ("try:\n            " + RAISE + "\n        except ValueError: pass", "train(model, data, optimizer)", "a `try` statement contains it"),
        (RAISE + "\n        if step > 9: return", "train(model, data, optimizer)", "`return`, `else` or `yield` leaves the loop"),
        (RAISE + "\n        torch.distributed.checkpoint.save({}, 'a')", "train(model, data, optimizer)", "may save weights before that"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_said(stop: str, calls: str, why: str) -> None:
    source = LOOP.format(stop=stop, calls=f"    {calls}")
    assert "xla.stop" not in migrated(source)
    (message,) = [f.message for f in check(source.encode()) if f.code == "XLA503"]
    assert "the check ends the training, and" in message
    assert why in message
    assert "check it every n-th step" in message
