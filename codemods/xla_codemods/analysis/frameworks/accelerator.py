"""Whether Hugging Face accelerate or Lightning Fabric drives a file's devices."""

from __future__ import annotations

import ast

from ..once import once
from ..parsed_file import ParsedFile
from ..syntax import name_of

_CLASSES = (
    "accelerate.Accelerator",
    "accelerate.accelerator.Accelerator",
    "lightning.fabric.Fabric",
    "lightning_fabric.Fabric",
    "lightning.Fabric",
)

# Names of such objects that another file has made, and methods that only they have.
_GIVEN = ("accelerator", "fabric")
_METHODS = (
    "backward",
    "accumulate",
    "clip_grad_norm_",
    "clip_gradients",
    "gather_for_metrics",
    "no_backward_sync",
    "prepare",
    "setup_dataloaders",
    "unwrap_model",
)


@once
def uses_accelerate(file: ParsedFile) -> bool:
    """Return True if the file makes an `Accelerator` or a `Fabric`, or its functions receive one: both support XLA
    themselves. Found once for a file.
    """
    return _is_imported(file) or _is_given(file)


def _is_given(file: ParsedFile) -> bool:
    """Return True if functions of this file receive the accelerator that another file made."""
    if not any(f"{name}." in file.source.text for name in _GIVEN):
        return False
    return any(
        _is_asked_of_one(file, call, method)
        for method in _METHODS
        for call, _ in file.index.calls_of(method)
    )


def _is_asked_of_one(file: ParsedFile, call: ast.Call, method: str) -> bool:
    """True if `call` calls `method` of an unknown object that has the name of an accelerator."""
    func = call.func
    if not isinstance(func, ast.Attribute) or (method == "backward" and not call.args):
        return False
    owner = func.value
    last = name_of(owner)
    return last in _GIVEN and file.dotted(owner) is None and not file.value(owner).kinds


def _is_imported(file: ParsedFile) -> bool:
    if not file.source.mentions("accelerate", "fabric"):
        return False
    used = {node.id for node, _ in file.index.of(ast.Name)}
    for name in file.module.bindings:
        dotted = file.module.dotted(name) or ""
        if name in used and dotted.startswith(_CLASSES):
            return True
    for node, scope in file.index.of(ast.ImportFrom):  # an import inside a function
        if scope is not file.module and any(
            f"{node.module}.{alias.name}" in _CLASSES for alias in node.names
        ):
            return True
    return any(
        (file.dotted(call.func, scope) or "").startswith(_CLASSES)
        or (file.dotted(call.func, scope) or "").endswith(".Fabric")
        for name in ("Accelerator", "Fabric")
        for call, scope in file.index.calls_of(name)
    )
