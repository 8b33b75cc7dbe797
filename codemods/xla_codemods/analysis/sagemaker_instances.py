"""SageMaker's GPU instances, and the Trainium instance that takes the place of each.

One GPU becomes ml.trn1.2xlarge (one chip: two devices), several become ml.trn1.32xlarge (16 chips: 32 devices), GPUs of
the P5 and P6 families ml.trn2.48xlarge (16 chips: 64 devices). Sources: AWS's pages of these instance types; that
ml.trn1.32xlarge stands for ml.p4d.24xlarge is a published comparison (same batch, data and hyperparameters).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..edits import AddArgument, Edit, Replace
from .nodes import walk
from .parsed_file import ParsedFile
from .syntax import text_of

_GPU = re.compile(r"ml\.(?P<family>p[2-9]\w*|g[4-9]\w*)\.(?P<size>\w+)")
_ONE_GPU = {
    "p2": {"xlarge"},
    "p3": {"2xlarge"},
    "p5": {"4xlarge"},
    "g": {"xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"},
}
# The variable that names the image, if the SDK knows no current image for Trainium.
IMAGE = "TRAINIUM_IMAGE"
_GPU_IMAGE = re.compile(r"gpu|cu1\d\d|cuda", re.IGNORECASE)


def instead_of(instance: str) -> str:
    """The Trainium instance for a GPU instance; empty for any other."""
    found = _GPU.fullmatch(instance)
    if found is None:
        return ""
    family, size = found["family"], found["size"]
    if size in _ONE_GPU.get("g" if family.startswith("g") else family, ()):
        return "ml.trn1.2xlarge"
    return "ml.trn2.48xlarge" if re.match(r"p[5-9]", family) else "ml.trn1.32xlarge"


def constant(script: ParsedFile, node: ast.expr | None) -> ast.Constant | None:
    """The string that `node` surely is: itself, or what the only binding of a name holds."""
    node = script.only_value(node) if isinstance(node, ast.Name) else node
    return node if isinstance(node, ast.Constant) and text_of(node) is not None else None


def instance_edit(script: ParsedFile, node: ast.expr) -> tuple[Edit, str, str] | None:
    """The edit that makes the instance type `node` a Trainium one, with the old type and the new; None for no GPU.

    The value of a variable is changed at its assignment, if the variable is not read elsewhere.
    """
    held = constant(script, node)
    new = instead_of(held.value) if held is not None else ""  # type: ignore[arg-type]
    if held is None or not new:
        return None
    place: ast.expr = node
    # A statement on whose lines nothing of interest stands may not have been walked: it has no parents.
    if (
        isinstance(node, ast.Name)
        and script.parent(held) is not None
        and _reads(script, node.id) == 1
    ):
        place = held
    return Replace(place, f'"{new}"'), str(held.value), new


def _reads(script: ParsedFile, name: str) -> int:
    return sum(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
        for n in walk(script.source.tree)
    )


def image_edits(
    script: ParsedFile, call: ast.Call, name: str, given: ast.expr | None
) -> Iterator[Edit]:
    """The edits that give `call` an image for Trainium as its argument `name`, from the user's environment."""
    if given is not None:
        held = constant(script, given)
        if held is None or not _GPU_IMAGE.search(str(held.value)):
            return
    os_name = next((n for n in script.module.bindings if script.module.dotted(n) == "os"), "")
    text = f'{os_name or "os"}.environ["{IMAGE}"]'
    if not os_name:
        script.needed.add("os")
    yield Replace(given, text) if given is not None else AddArgument(call, f"{name}={text}")
