"""Names of devices that a test for CUDA puts into lists: `if torch.cuda.is_available(): found.append("cuda")`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ....flow.conditions import conditions
from ..availability import AVAILABLE
from ..cuda_only.kernels import chooses_kernels

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_ADDS = frozenset({"append", "add", "insert"})
_DEVICES = frozenset({"cpu", "cuda", "meta", "mps", "xpu"})
_LISTS = (ast.List, ast.Set, ast.Tuple)


def is_listed_if_available(script: ParsedFile, name: ast.expr) -> bool:
    """Return True if `name` is put into a list if CUDA is available, by a test that is rewritten."""
    around = script.parent(name)
    adds = isinstance(around, ast.Call) and getattr(around.func, "attr", "") in _ADDS
    if not adds and not (isinstance(around, _LISTS) and _are_devices(around.elts)):
        return False
    tests = conditions(script, name, refusals=False)
    return any(needed and _tests_availability(script, test) for test, needed in tests)


def _are_devices(elements: list[ast.expr]) -> bool:
    """Return True unless a text among `elements` is no device: `["cuda", "cudnn"]`."""
    texts = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    return all(text.partition(":")[0] in _DEVICES for text in texts)


def _tests_availability(script: ParsedFile, test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Call)
        and script.dotted(test.func) in AVAILABLE
        and not chooses_kernels(script, test)
    )
