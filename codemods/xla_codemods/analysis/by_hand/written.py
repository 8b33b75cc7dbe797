"""Code that is written for torch_xla by hand: what it does, and calls that the runtime's own calls replace."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...edits import Edit, Replace
from ...finding import Finding
from ..frameworks.accelerator import uses_accelerate
from ..inference.library_types import RUNTIME, VENDORED
from ..once import once
from ..scopes import STAR_EXPORTS, Scope
from ..script import Script
from ..syntax import name_of, root_of, unparsed

# What computes, moves, steps, waits, launches, shards or saves on XLA devices. Metrics, profilers, seeds and versions are
# asked for in scripts for CUDA, too.
_XM, _XR, _XS = "torch_xla.core.xla_model", "torch_xla.runtime", "torch_xla.distributed.spmd"
_USED = {
    "torch_xla": "compile device devices launch step sync",
    _XM: "add_step_closure all_gather all_reduce all_to_all broadcast_master_param collective_broadcast get_ordinal "
    "get_xla_supported_devices mark_step mesh_reduce optimizer_step reduce_gradients reduce_scatter rendezvous save "
    "send_cpu_data_to_device xla_device xrt_world_size",
    _XR: "global_ordinal local_ordinal use_spmd world_size xla_device",
    _XS: "Mesh mark_sharding",
    "torch_xla.experimental.xla_sharding": "Mesh mark_sharding",
    "torch_xla.distributed.parallel_loader": "MpDeviceLoader ParallelLoader",
    "torch_xla.distributed.xla_multiprocessing": "MpModelWrapper MpSerialExecutor spawn",
    "torch_xla.distributed.fsdp": "XlaFullyShardedDataParallel",
    "torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel": "XlaFullyShardedDataParallel",
    "torch_xla.experimental.spmd_fully_sharded_data_parallel": "SpmdFullyShardedDataParallel",
}
_NAMES = frozenset(f"{home}.{name}" for home, names in _USED.items() for name in names.split())
_LAST_NAMES = frozenset(name for names in _USED.values() for name in names.split())

_NOTE = "XLA011"


@once
def is_written_by_hand(script: Script) -> bool:
    """True if the file trains on XLA devices by calls of torch_xla's own, and is not migrated.

    Branches count: `if use_tpu: xm.mark_step()`. Where accelerate or Fabric drives the devices, calls of torch_xla are
    no training of the file's own.
    """
    if not script.source.mentions("torch_xla") or "torch_xla" not in script.source.text:
        return False
    homes = _imports(script)
    if not homes or RUNTIME in homes.values():
        return False
    # A name that stands for one of these by itself may be another: `from torch_xla import sync as wait`.
    uses: list[ast.Attribute | ast.Name]
    uses = [n for home in homes for n, _ in script.index.names(home)]
    uses += (n for n, _ in script.index.of(ast.Attribute) if n.attr in _LAST_NAMES)
    return any(_dotted(n, homes) in _NAMES for n in uses) and not uses_accelerate(script)


@once
def undecided(script: Script) -> list[ast.Attribute | ast.Name]:
    """What looks like torch_xla's and may be something else, first of each name: `xm` is a class of the file's, too."""
    if not is_written_by_hand(script):
        return []
    homes = _imports(script)
    found: dict[str, ast.Attribute | ast.Name] = {}
    names: list[tuple[ast.Attribute | ast.Name, Scope]]
    names = [*script.index.of(ast.Attribute), *script.index.of(ast.Name)]
    for node, _ in names:
        if _dotted(node, homes) in _NAMES and script.dotted(node) is None:
            found.setdefault(name_of(root_of(node)), node)
    return list(found.values())


def as_written_by_hand(
    script: Script, found: list[Finding], of_any_training: frozenset[str]
) -> list[Finding]:
    """Return `found`; in a file written by hand, without findings that its author has handled (marks, averages, seeds, files),
    and without fixes unless `--from torch_xla` is given.

    Args:
        script: the file.
        found: its findings.
        of_any_training: codes of what is found in any training, whatever it runs on.
    """
    if not found or not is_written_by_hand(script):
        return found
    kept = [f for f in found if f.code not in of_any_training]
    if script.origin and not undecided(script):
        return kept
    if not script.trains and not any(f.edits for f in found):
        kept = [f for f in kept if f.code != _NOTE]  # nothing is withheld that it would explain
    return [f._replace(edits=(), safety=None) if f.edits else f for f in kept]


@once
def _imports(script: Script) -> dict[str, str]:
    """What the names that stand for parts of torch_xla, or for the runtime, stand for; imports at any depth count."""
    homes: dict[str, str] = {}
    index = script.index
    for alias in (alias for node, _ in index.of(ast.Import) for alias in node.names):
        if alias.name.partition(".")[0] == "torch_xla":
            homes[alias.asname or "torch_xla"] = alias.name if alias.asname else "torch_xla"
        elif alias.name == VENDORED:
            homes[alias.asname or VENDORED] = RUNTIME
    for node in (node for node, _ in index.of(ast.ImportFrom) if not node.level):
        if node.names[0].name == "*":
            brought = STAR_EXPORTS.get(node.module or "", ())
            homes.update((name, f"{node.module}.{name}") for name in brought)
            continue
        for alias in node.names:
            dotted = f"{node.module}.{alias.name}"
            if dotted.startswith("torch_xla.") or dotted == RUNTIME:
                homes[alias.asname or alias.name] = dotted
    for statement, _ in index.of(ast.Assign):
        if isinstance(statement.value, ast.Attribute):
            home = _dotted(statement.value, homes)  # `xm = torch_xla.core.xla_model`
            if home.rpartition(".")[2].islower():
                homes.update((t.id, home) for t in statement.targets if isinstance(t, ast.Name))
    return homes


def _dotted(node: ast.Attribute | ast.Name, homes: dict[str, str]) -> str:
    root = name_of(root_of(node))
    return homes[root] + unparsed(node)[len(root) :] if root in homes else ""


# The module of devices, steps and collectives.
XM = "torch_xla.core.xla_model"
# The module of ranks and of what the process has.
XR = "torch_xla.runtime"

# What stays works with torch_xla, and keeps the script from running anywhere else.
KEPT = "it is kept and needs torch_xla"


def renamed(script: Script, call: ast.Call, name: str) -> Edit:
    """The runtime's function `name` in the place of what is called."""
    return Replace(call.func, f"{script.xla}.{name}")


def given(call: ast.Call, order: Sequence[str]) -> dict[str, ast.expr] | None:
    """Return the arguments of `call` by name, positional ones in this `order`; None if that is unknown."""
    if len(call.args) > len(order) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    found = dict(zip(order, call.args))
    for argument in call.keywords:
        if argument.arg is None or argument.arg not in order:
            return None
        found[argument.arg] = argument.value
    return found


def is_refused(script: Script, call: ast.Call) -> bool:
    """Return True if torch_xla 2.9 no longer takes these arguments: the call is reported and kept."""
    from ...catalog.torch_xla import REMOVED_ARGUMENTS

    refused = REMOVED_ARGUMENTS.get(script.dotted(call.func) or "", {})
    first = (
        call.args[0] if call.args and "devkind" in refused else None
    )  # a kind, once; a number now
    of_kinds = first is not None and not isinstance(getattr(first, "value", None), int)
    return of_kinds or any(k.arg in refused for k in call.keywords)


def is_constant(node: ast.expr | None, *values: object) -> bool:
    """True if `node` is absent, or one of these constants."""
    if node is None:
        return True
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)
