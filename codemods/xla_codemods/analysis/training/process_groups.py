"""Process groups: their backends, and the collectives that the runtime has under the same names."""

from __future__ import annotations

import ast

from ..syntax import keyword


def is_host_backend(node: ast.expr | None) -> bool:
    """True if `node` names a backend that has nothing to do with CUDA."""
    return isinstance(node, ast.Constant) and node.value in {"gloo", "mpi", "ucc", "xla", "fake"}


# The runtime has these under the same names, with the same arguments: each with the place of its `group`.
COLLECTIVES = {
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_object": 2,
    "all_reduce": 2,
    "all_to_all": 2,
    "all_to_all_single": 4,
    "barrier": 0,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "gather": 3,
    "gather_object": 3,
    "new_group": None,
    "reduce": 3,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "scatter": 3,
    "scatter_object_list": 3,
}


def group_of(call: ast.Call, name: str) -> ast.expr | None:
    """The group among whose members the collective `name` is; None for that of all."""
    given = keyword(call, "group")
    place = COLLECTIVES.get(name)
    if given is None and place is not None and place < len(call.args):
        given = call.args[place]
    return None if given is None or _is_of_all(given) else given


def _is_of_all(group: ast.expr) -> bool:
    """`None`, `dist.group.WORLD`."""
    if isinstance(group, ast.Constant):
        return True
    return isinstance(group, ast.Attribute) and group.attr == "WORLD"
