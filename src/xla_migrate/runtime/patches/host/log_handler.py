"""The script's ``logging.basicConfig`` has an effect although torch_xla was imported before it.

The fault: torch_xla calls ``logging.basicConfig()`` at import, and accelerate and transformers import
torch_xla. The script's own call, with a level and a format, then does nothing: its log lines are lost.

To see it: ``import torch_xla, logging; logging.getLogger().handlers`` is not empty.
It can go when this fails: test_torch_xla_leaves_a_log_handler_behind.
"""

from __future__ import annotations

import logging

from .._versions import Versions

VERSIONS = Versions("torch_xla", "2.0")  # only if something has imported it before the runtime


def apply() -> None:
    """Remove the root logger's handler if it is as ``logging.basicConfig()`` makes one."""
    root = logging.getLogger()
    if root.level == logging.WARNING and len(root.handlers) == 1 and _is_default(root.handlers[0]):
        root.removeHandler(root.handlers[0])


def _is_default(handler: logging.Handler) -> bool:
    formatter = handler.formatter
    is_plain = type(handler) is logging.StreamHandler and handler.level == logging.NOTSET
    return is_plain and formatter is not None and formatter._fmt == logging.BASIC_FORMAT
