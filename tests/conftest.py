"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest
from hypothesis import settings

from . import left_state, warm

# The same examples in every run: whether a change may land is no matter of luck. To look for new ones:
# `pytest tests/codemods/test_properties.py --hypothesis-profile explore`.
settings.register_profile("steady", derandomize=True, max_examples=100, deadline=None)
settings.register_profile("explore", max_examples=3000, deadline=None)
settings.load_profile("steady")

# Hundreds of processes import the same modules: compiled once, where the environment says never.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The garbage collector would look through all modules and tests again and again. It starts when they
# are collected, and then leaves them out (see `pytest_collection_finish`).
gc.disable()

# XLA:CPU's compiler without its optimizations is three to four times as fast. Results differ by rounding.
# `XLA_FLAGS=--xla_backend_optimization_level=3 pytest ...` compiles as it does for users.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # torch is imported later, in as many processes as there are cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
else:
    warm.share()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each of xdist's workers whole rooms (see `rooms`)."""
    from .rooms import Rooms

    return Rooms(config, log)


@pytest.hookimpl(trylast=True)  # when those that are not wanted are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from .rooms import longest_first

        longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    """End the run at a test that leaves torch changed: tests after it would fail, and it would not be blamed."""
    before = left_state.state()
    result = yield
    if changed := left_state.left(before, left_state.state()):
        raise pytest.UsageError(f"{item.nodeid} leaves torch changed: {changed}")
    return result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the garbage collector, and XLA's device if any test of this process computes on it.

    Autograd starts a thread for each device that exists at the first backward pass. After a backward
    pass on the CPU alone, backward on XLA fails until the process ends.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
    if "torch_xla" in sys.modules and not session.config.option.collectonly:
        from .runtime.rehearsal import start_device

        start_device()
