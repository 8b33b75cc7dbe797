"""The script's ``logging.basicConfig`` has an effect although torch_xla is imported before it.

The fault: torch_xla calls ``logging.basicConfig()`` at import, and accelerate and transformers import
torch_xla. The script's own call, with a level and a format, then does nothing: its log lines are lost.

To see it: ``import torch_xla, logging; logging.getLogger().handlers`` is not empty.
It can go when this fails: test_torch_xla_leaves_a_log_handler_behind.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from typing import Any

from .._versions import Versions

VERSIONS = Versions("torch", "2.0")


def apply() -> None:
    """Ignore torch_xla's calls of ``logging.basicConfig``, and remove the handler of an earlier one."""
    root, configure = logging.getLogger(), logging.basicConfig
    if "torch_xla" in sys.modules and root.level == logging.WARNING and len(root.handlers) == 1:
        if _is_default(root.handlers[0]):
            root.removeHandler(root.handlers[0])

    @functools.wraps(configure)
    def configured(**options: Any) -> None:
        if options or not _is_called_by_torch_xla():
            configure(**options)

    logging.basicConfig = configured


def _is_default(handler: logging.Handler) -> bool:
    formatter = handler.formatter
    is_plain = type(handler) is logging.StreamHandler and handler.level == logging.NOTSET
    return is_plain and formatter is not None and formatter._fmt == logging.BASIC_FORMAT


def _is_called_by_torch_xla() -> bool:
    """Return True if torch_xla called ``basicConfig``, or ``logging.warning``, which does."""
    frame = inspect.currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in (__name__, "logging"):
            return name.partition(".")[0] == "torch_xla"
        frame = frame.f_back
    return False
