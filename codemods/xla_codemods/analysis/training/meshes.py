"""Device meshes of one dimension that a script only passes to FSDP, which takes all devices without a mesh, too."""

from __future__ import annotations

import ast

from ...flow.calls import called
from ...flow.closure import ends, reach
from ...flow.edges import sources, uses
from ..inference.library_types import RUNTIME
from ..script import Script
from ..syntax import keyword, name_of, text_of

# The function that makes a mesh, as it ends, and by its dotted names.
FUNCTION = "init_device_mesh"
MAKING = tuple(f"torch.distributed.{home}{FUNCTION}" for home in ("", "device_mesh.", "tensor."))
# Arguments of FSDP that take a mesh.
ARGUMENTS = frozenset({"device_mesh", "mesh"})
_KNOWN = frozenset({"device_type", "mesh_dim_names", "mesh_shape"})


def is_over_all_devices(script: Script, node: ast.expr) -> bool:
    """Return True if `node` is `init_device_mesh("cuda", (n,))`, and nothing but FSDP gets the mesh."""
    if not (isinstance(node, ast.Call) and script.dotted(node.func) in MAKING):
        return False
    if any(each.arg not in _KNOWN for each in node.keywords) or len(node.args) > 2:
        return False
    device, shape = (
        device_of(node),
        node.args[1] if len(node.args) > 1 else keyword(node, "mesh_shape"),
    )
    if device is None or not _is_of_the_accelerator(script, device):
        return False
    if not (isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) == 1):
        return False
    start: list[ast.expr] = [node]
    return all(
        _is_kept_in_sight(script, use) for use in reach(start, lambda each: _uses(script, each))
    )


def device_of(call: ast.Call) -> ast.expr | None:
    """Return the argument of `init_device_mesh` that is the type of devices."""
    return call.args[0] if call.args else keyword(call, "device_type")


def _is_of_the_accelerator(script: Script, device: ast.expr) -> bool:
    """Return True for "cuda", the type that the runtime gives, and `device.type`."""
    found = ends([device], lambda each: sources(script, each))
    return bool(found) and all(
        text_of(each) == "cuda"
        or (isinstance(each, ast.Attribute) and each.attr == "type")
        or (isinstance(each, ast.Call) and script.dotted(each.func) == f"{RUNTIME}.device_type")
        for each in found
    )


def _uses(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what may have the value of `node`, or a dimension of it: `mesh["dp"]`."""
    around = script.parent(node)
    is_owner = isinstance(around, ast.Subscript) and around.value is node
    part = [around] if is_owner and isinstance(around, ast.expr) else []
    return [*uses(script, node), *part]


def _is_kept_in_sight(script: Script, use: ast.expr) -> bool:
    """Return True if the place of `use` binds a name, prints, or passes it to FSDP or to a function of the file."""
    around = script.parent(use)
    match around:
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Name) for target in targets)
        case ast.Subscript(value=owner, slice=key):
            return owner is use and text_of(key) is not None
        case ast.FormattedValue() | ast.Dict() | ast.Return():
            return True
        case ast.keyword(arg=name):
            call = script.parent(around)
            is_option = name in ARGUMENTS and _is_of_fsdp(script, call)
            return is_option or _is_of_the_file(script, call)
        case ast.Call():
            return name_of(around.func) == "print" or _is_of_the_file(script, around)
    return False


def _is_of_fsdp(script: Script, call: ast.AST | None) -> bool:
    """Return True for `fully_shard(...)`, `FSDP(...)` and the options of one: `dict(mesh=mesh)`."""
    if not isinstance(call, ast.Call):
        return False
    dotted = script.dotted(call.func) or name_of(call.func) or ""
    return dotted.rpartition(".")[2] in {"FullyShardedDataParallel", "dict", "fully_shard"}


def _is_of_the_file(script: Script, call: ast.AST | None) -> bool:
    return isinstance(call, ast.Call) and bool(called(script, call))
