"""Process groups: their backends, and the collectives that the runtime has under the same names."""

from __future__ import annotations

import ast


def is_host_backend(node: ast.expr | None) -> bool:
    """True if `node` names a backend that has nothing to do with CUDA."""
    return isinstance(node, ast.Constant) and node.value in {"gloo", "mpi", "ucc", "xla", "fake"}


# The runtime has these under the same names, with the same arguments.
COLLECTIVES = frozenset(
    (
        "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single barrier "
        "broadcast broadcast_object_list gather gather_object new_group reduce reduce_scatter "
        "reduce_scatter_tensor scatter scatter_object_list"
    ).split()
)
