"""The script's `logging.basicConfig` has an effect although torch_xla is imported before it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from xla_migrate.runtime.patches.host import log_handler

from ..test_processes import in_a_warm_process

CONFIGURED = """
logging.basicConfig(level=logging.INFO, format="script: %(message)s")
logging.info("begins")
"""


def test_torch_xla_leaves_a_log_handler_behind() -> None:
    script = """
import logging
import torch_xla  # as accelerate does
assert logging.getLogger().handlers
from xla_migrate import runtime as xla
"""
    result = in_a_warm_process("reference", script + CONFIGURED, PJRT_DEVICE="CPU")
    assert "script: begins" in result.stderr


def test_torch_xla_leaves_none_behind_after_the_runtime() -> None:
    script = """
import logging
from xla_migrate import runtime as xla
import torch_xla
assert not logging.getLogger().handlers
"""
    result = in_a_warm_process("reference", script + CONFIGURED)
    assert "script: begins" in result.stderr


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The root logger without handlers."""
    logger = logging.getLogger()
    monkeypatch.setattr(logging, "basicConfig", logging.basicConfig)
    monkeypatch.setitem(sys.modules, "torch_xla", sys)
    handlers, level = logger.handlers[:], logger.level
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize(
    "options", [{"level": logging.INFO}, {"format": "%(message)s"}, {"filename": "log.txt"}]
)
def test_handlers_that_the_script_configured_are_kept(
    root: logging.Logger,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("logs"))
    root.setLevel(logging.WARNING)
    logging.basicConfig(**options)  # type: ignore[arg-type]
    log_handler.apply()
    logging.basicConfig()
    assert len(root.handlers) == 1


def test_a_handler_that_nobody_configured_is_removed(root: logging.Logger) -> None:
    root.setLevel(logging.WARNING)
    logging.basicConfig()
    log_handler.apply()
    assert not root.handlers
    logging.warning("a record adds a handler, as without the patch")
    assert root.handlers
