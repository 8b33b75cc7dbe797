"""``XlaFullyShardedDataParallel`` in a rehearsal: torch_xla takes each process on XLA:CPU for the only one (fact 3.10).

Every process holds all parameters in full, broadcast by the first process at the start, and gradients are averaged when
torch_xla would reduce them. So losses are the same as in a training on as many devices; memory use is not.
"""

from __future__ import annotations

from typing import Any

import torch_xla.distributed.fsdp

from .. import _gradients
from .._backend import backend


class XlaFullyShardedDataParallel(torch_xla.distributed.fsdp.XlaFullyShardedDataParallel):
    """torch_xla's own, whose gradients are averaged over the processes."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("auto_wrapper_callable", XlaFullyShardedDataParallel)
        super().__init__(module, *args, **kwargs)
        backend().broadcast([parameter.detach() for parameter in self.parameters()], 0)
        backend().mark_step()
        _gradients.look_after(self.parameters(), self)

    def _wait_for_post_backward(self) -> None:
        super()._wait_for_post_backward()
        if self._require_backward_grad_sync:
            trained = [p for p in self.parameters() if p.grad is not None]
            _gradients.average(trained, backend().replica()[2])

    def get_shard_metadata(self) -> Any:
        """Return metadata for as many files as there are processes, each with the whole state."""
        rank, _, size = backend().replica()
        own = super().get_shard_metadata()  # type: ignore[no-untyped-call]
        return {**own, "rank": rank, "world_size": size}
