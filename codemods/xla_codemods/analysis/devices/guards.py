"""Code that is only reached if a package or an accelerator is available, so that its need for CUDA is no fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from ...flow.conditions import conditions, truth
from ..nodes import NAMED, walk
from ..parsed_file import ParsedFile
from ..syntax import caught, root_of, texts_of
from .availability import AVAILABLE
from .cuda_only.kernels import chooses_kernels

# What a package is called in the names of flags: `HAS_FLASH`, `is_bnb_available`.
_NICKNAMES = {
    "flash_attn": "flash",
    "flash_attn_interface": "flash",
    "flash_attn_2_cuda": "flash",
    "bitsandbytes": "bnb|bitsandbytes|8bit|4bit",
    "transformer_engine": "transformer_?engine|te_|_te\\b|fp8",
    "pynvml": "nvml",
    "horovod": "horovod|hvd",
    "causal_conv1d": "causal_conv",
    "mamba_ssm": "mamba|selective",
    "liger_kernel": "liger",
    "msamp": "msamp|ms_amp|fp8",
    "nvidia": "dali",
    "kernels": r"kernels_available|ha(?:s|ve)_kernels\b|find_spec\(.kernels",
}
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_ANY_ERROR = frozenset({"Exception", "BaseException", "AttributeError", "NameError", "OSError"})
_RAISED = frozenset({"Exception", "BaseException", "RuntimeError"})
_ONE = 2  # statements: an import, and the question
_ATTEMPT = 6  # statements in a `try` that is about one thing


def is_guarded(script: ParsedFile, node: ast.AST, dotted: str) -> bool:
    """Return True if the code branches when the package of `dotted` is missing: `if HAS_X:`.

    That is so if such a test decides whether `node` runs, or whether its name is imported.
    """
    package = dotted.partition(".")[0]
    if package == "torch":
        return False
    named = re.compile(_NICKNAMES.get(package, re.escape(package)), re.IGNORECASE)
    if _is_optional(script, node, named):
        return True
    root = root_of(node) if isinstance(node, ast.expr) else node
    imports = [b.node for b in script.bindings(root) if b.how == "import"]
    return bool(imports) and all(
        _is_optional(script, each, named, is_import=True) for each in imports
    )


def _is_optional(
    script: ParsedFile, node: ast.AST, named: re.Pattern[str], *, is_import: bool = False
) -> bool:
    """Return True if a test or an attempt to import the package decides whether `node` runs."""

    def installed(part: ast.expr) -> bool | None:
        match part:
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare(comparators=[ast.Constant(value=None)]):
                return None
            case ast.Compare(ops=[op]) if _mention([part], named):
                return not isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot))
        return True if _mention([part], named) else None

    for test, needed in conditions(script, node, refusals=False):
        if _mention([test], named) and truth(test, installed) is not (not needed):
            return True
    for child, around in script.upward(node):
        decorators = getattr(around, "decorator_list", ())
        if child not in decorators and _mention(decorators, named):
            return True  # as `@require_apex`
        if isinstance(around, ast.Try) and (child in around.body or child in around.orelse):
            tries = child in around.body
            size = 1 if is_import else len(around.body)
            handlers = [h for h in around.handlers if _goes_on(h, size)]
            if is_import and tries:
                handlers = [handler for handler in handlers if _substitutes(handler)]
            if handlers and (tries or _mention(around.body, named)):
                return True
    return False


def _mention(nodes: Iterable[ast.AST], named: re.Pattern[str]) -> bool:
    return any(named.search(ast.unparse(node)) for node in nodes)


def is_caught(script: ParsedFile, node: ast.AST) -> bool:
    """True if what `node` raises is caught, and something else done or answered: `except Exception: return False`.

    In a `try` about this one thing: of a longer one the handler leaves more undone.
    """
    for child, ancestor in script.upward(node):
        if isinstance(ancestor, NAMED):
            return False
        if isinstance(ancestor, ast.Try) and child in ancestor.body and _is_of_one(ancestor.body):
            return any(
                caught(h) & _RAISED
                and _substitutes(h)
                and not any(isinstance(part, ast.Raise) for part in walk(h))
                for h in ancestor.handlers
            )
    return False


def _is_of_one(body: list[ast.stmt]) -> bool:
    """Return True if `body` does one thing, besides imports and flags: `HAS_KERNEL = True`."""
    imports = (ast.Import, ast.ImportFrom)
    flags = (s for s in body if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant))
    done = len(body) - len([*flags]) - sum(isinstance(s, imports) for s in body)
    return len(body) <= _ONE or done <= 1


def _substitutes(handler: ast.ExceptHandler) -> bool:
    """True if `handler` puts something in the place of what could not be imported, clears a flag, or leaves."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.Return, *NAMED)
    return any(isinstance(statement, kinds) for statement in handler.body)


def _goes_on(handler: ast.ExceptHandler, statements: int) -> bool:
    """True if `handler` catches a failed import, of a package or of a shared library, and does not fail itself."""
    kinds = caught(handler) if statements <= _ATTEMPT else caught(handler) - _ANY_ERROR
    if kinds.isdisjoint(_IMPORT_ERRORS | _ANY_ERROR):
        return False
    return not any(isinstance(node, ast.Raise) for node in handler.body)


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
    return all(text.partition(":")[0] in _DEVICES for text in texts_of(elements))


def _tests_availability(script: ParsedFile, test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Call)
        and script.dotted(test.func) in AVAILABLE
        and not chooses_kernels(script, test)
    )
