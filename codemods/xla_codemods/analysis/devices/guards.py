"""Code that is only reached if a package is installed, so that its need for CUDA is no fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import walk

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile

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
}
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_ANY_ERROR = frozenset({"Exception", "BaseException", "AttributeError", "NameError", "OSError"})
_RAISED = frozenset({"Exception", "BaseException", "RuntimeError"})
_ONE = 2  # statements: an import, and the question
_ATTEMPT = 6  # statements in a `try` that is about one thing
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def is_guarded(script: ParsedFile, node: ast.AST, dotted: str) -> bool:
    """Return True if the code branches when the package of `dotted` is missing: `try: import x`, `if HAS_X:`.

    That is so where the use stands behind such a test, or the name was only imported behind one.
    """
    package = dotted.partition(".")[0]
    if package == "torch":
        return False
    said = re.compile(_NICKNAMES.get(package, re.escape(package)), re.IGNORECASE)
    return _stands_in_one(script, node, said) or _was_imported_in_one(script, node, said)


def _stands_in_one(script: ParsedFile, node: ast.AST, said: re.Pattern[str]) -> bool:
    child = node
    for ancestor in script.ancestors(node):
        match ancestor:
            case ast.Try(body=body, orelse=orelse) if child in body or child in orelse:
                attempt = child in body or any(said.search(ast.unparse(s)) for s in body)
                if attempt and any(_goes_on(handler, len(body)) for handler in ancestor.handlers):
                    return True
            case ast.If(test=test) | ast.IfExp(test=test):
                if child is not test and said.search(ast.unparse(test)):
                    return True
            case ast.BoolOp(values=[first, *_]):
                if child is not first and said.search(ast.unparse(first)):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if any(said.search(ast.unparse(d)) for d in ancestor.decorator_list):
                    return True
        child = ancestor
    return False


def is_caught(script: ParsedFile, node: ast.AST) -> bool:
    """True if what `node` raises is caught, and something else done or answered: `except Exception: return False`.

    In a `try` about this one thing: of a longer one the handler leaves more undone.
    """
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, _DEFINITIONS):
            return False
        if isinstance(ancestor, ast.Try) and child in ancestor.body and len(ancestor.body) <= _ONE:
            return any(
                set(_caught(h.type)) & _RAISED
                and _substitutes(h)
                and not any(isinstance(part, ast.Raise) for part in walk(h))
                for h in ancestor.handlers
            )
        child = ancestor
    return False


def _was_imported_in_one(script: ParsedFile, node: ast.AST, said: re.Pattern[str]) -> bool:
    """True if every import of the name has something put in its place, or is made under a test, elsewhere."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    bound = script.index.scope(node).find(node.id)
    imports = [b.node for b in bound[1] if b.how == "import"] if bound else []
    return bool(imports) and all(_is_optional(script, statement, said) for statement in imports)


def _is_optional(script: ParsedFile, statement: ast.AST, said: re.Pattern[str]) -> bool:
    child = statement
    for ancestor in script.ancestors(statement):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            return any(_substitutes(h) for h in ancestor.handlers if _goes_on(h, 1))
        if isinstance(ancestor, ast.Try) and child in ancestor.orelse:
            if any(said.search(ast.unparse(s)) for s in ancestor.body):
                return any(_goes_on(h, 1) for h in ancestor.handlers)
        if isinstance(ancestor, ast.If) and said.search(ast.unparse(ancestor.test)):
            return True
        child = ancestor
    return False


def _substitutes(handler: ast.ExceptHandler) -> bool:
    """True if `handler` puts something in the place of what could not be imported, clears a flag, or leaves."""
    kinds = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.Return, *_DEFINITIONS)
    return any(isinstance(statement, kinds) for statement in handler.body)


def _goes_on(handler: ast.ExceptHandler, statements: int) -> bool:
    """True if `handler` catches a failed import, of a package or of a shared library, and does not fail itself."""
    caught = set(_caught(handler.type))
    about_imports = bool(caught & _IMPORT_ERRORS)
    about_one_thing = bool(caught & _ANY_ERROR) and statements <= _ATTEMPT
    if not (about_imports or about_one_thing):
        return False
    return not any(isinstance(node, ast.Raise) for node in handler.body)


def _caught(kind: ast.expr | None) -> Iterator[str]:
    if kind is None:
        yield "Exception"
    else:
        yield from (n.id for n in walk(kind) if isinstance(n, ast.Name))
