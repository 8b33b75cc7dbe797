"""apex.multi_tensor_apply."""

from __future__ import annotations

from typing import Any


class MultiTensorApply:
    """Calls one kernel on lists of tensors."""

    available = True
    warned = False

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def __call__(self, op: Any, noop_flag_buffer: Any, tensor_lists: Any, *args: Any) -> Any:
        """`op(chunk_size, flag, lists, *args)`."""
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)


multi_tensor_applier = MultiTensorApply(2048 * 32)
