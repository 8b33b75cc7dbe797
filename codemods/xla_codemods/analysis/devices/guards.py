"""Code that is only reached where a package is installed: it is no fault that the package needs CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..nodes import walk
from ..syntax import is_elif, is_pure

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from ..scopes import Binding, Scope

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
    """True if the code goes another way where the package of `dotted` is missing: `try: import x`, `if HAS_X:`.

    That is so where the use stands behind such a test, or the name was only imported behind one.
    """
    package = dotted.partition(".")[0]
    if package == "torch":
        return False
    said = re.compile(_NICKNAMES.get(package, re.escape(package)), re.IGNORECASE)
    return _stands_in_one(script, node, said) or _was_imported_in_one(script, node, said)


def complaints(script: ParsedFile, package: str) -> Iterator[ast.If | ast.Assert]:
    """Statements that do nothing but raise where `package` is missing, by a flag: `if fp16 and not HAS_APEX: raise ...`."""
    for node, scope in script.index.of(ast.Name):
        if not isinstance(node.ctx, ast.Load):
            continue
        name: ast.expr = node
        if not _is_flag(script, scope.find(node.id), package):
            asked = _asked_by_name(script, node, scope, package)
            if asked is None:
                continue
            name = asked
        statement = script.statement(name)
        match statement:
            case ast.Assert(test=test) if _asks_for(test, name):
                yield statement
            case ast.If(test=test, body=[ast.Raise()], orelse=[]) if _asks_whether_not(test, name):
                if not is_elif(statement, script.parents):
                    yield statement


def _asked_by_name(
    script: ParsedFile, node: ast.Name, scope: Scope, package: str
) -> ast.expr | None:
    """The question whether there is `package`, which another module answers: `is_apex_available()`, `has_apex`."""
    if package not in node.id.lower():
        return None
    found = scope.find(node.id)
    elsewhere = found is None or all(b.how == "import" for b in found[1])
    call = script.parent(node)
    if isinstance(call, ast.Call) and call.func is node:
        return call if elsewhere and not call.args and _QUESTION.search(node.id) else None
    if elsewhere and _FLAG.search(node.id):
        return node
    values = [b.value for b in found[1]] if found is not None else []
    asks = [isinstance(v, ast.Call) and _asks_for_package(v, package) for v in values]
    return node if asks and all(asks) else None


_QUESTION = re.compile(r"^(?:is|has)_\w+_(?:available|installed)$")
_FLAG = re.compile(r"^_?(?:has|is|have)_|_(?:available|installed)$", re.IGNORECASE)


def _asks_for_package(call: ast.Call, package: str) -> bool:
    """`is_apex_available()`, `bool(importlib.util.find_spec("apex"))`."""
    last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if not call.args:
        return package in last and _QUESTION.search(last) is not None
    match call.args:
        case [ast.Constant(value=value)]:
            return last == "find_spec" and value == package
        case [ast.Call() as inner]:
            return last == "bool" and _asks_for_package(inner, package)
    return False


def _is_flag(script: ParsedFile, found: tuple[Scope, list[Binding]] | None, package: str) -> bool:
    """True if the name is True behind an import of `package` that may fail, and False or None otherwise."""
    if found is None:
        return False
    given: list[object] = []
    for binding in found[1]:
        if not isinstance(binding.value, ast.Constant) or binding.path:
            return False
        if binding.value.value is True and not _is_behind_import(script, binding.node, package):
            return False
        given.append(binding.value.value)
    return given.count(True) == 1 and all(value in {True, False, None} for value in given)


def _is_behind_import(script: ParsedFile, node: ast.AST, package: str) -> bool:
    statement = script.statement(node)
    attempt = script.parent(statement)
    return (
        isinstance(attempt, ast.Try)
        and statement in (*attempt.body, *attempt.orelse)
        and any(_goes_on(handler, len(attempt.body)) for handler in attempt.handlers)
        and any(_imports(part, package) for part in attempt.body)
    )


def _imports(statement: ast.stmt, package: str) -> bool:
    match statement:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] == package for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.partition(".")[0] == package
    return False


def _asks_for(test: ast.expr, name: ast.expr, denied: frozenset[str] = frozenset()) -> bool:
    """True if `test` holds wherever the flag does: `HAS_APEX`, `not fp16 or HAS_APEX`, `not fp16 or fp16 and HAS_APEX`.

    `denied`: what is asked beside an `or`, whether it is not so.
    """
    match test:
        case ast.Compare(
            left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=True)]
        ):
            return left is name
        case ast.BoolOp(op=ast.Or(), values=values) if is_pure(test):
            noes = [v.operand for v in values if isinstance(v, ast.UnaryOp)]
            denied |= {ast.unparse(no) for no in noes}
            return any(_asks_for(value, name, denied) for value in values)
        case ast.BoolOp(op=ast.And(), values=values) if is_pure(test):
            return all(ast.unparse(v) in denied or _asks_for(v, name, denied) for v in values)
    return test is name


def _asks_whether_not(test: ast.expr, name: ast.expr) -> bool:
    """`not HAS_APEX`, alone or joined by `and` with what only asks."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return is_pure(test) and any(_asks_whether_not(value, name) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand is name
        case ast.Compare(
            left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=False)]
        ):
            return left is name
    return False


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
