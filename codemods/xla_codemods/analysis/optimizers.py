"""Recognise optimizers and GradScalers: by value or, if the value is unknown, by name and use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..patterns import Pattern
from .inference.values import INSTANCE, OPTIMIZER, SCALER
from .loops import OPTIMIZER_NAME, gone_through, is_called_a_scaler
from .once import once
from .parsed_file import ParsedFile
from .syntax import unparsed

_OPTIMIZERS = Pattern(r"(?:^|[._])opt(?:im(?:izer)?)?s$", re.IGNORECASE)
_SCHEDULER_NAME = Pattern(r"sched|warmup|(?:^|_)lr", re.IGNORECASE)


def is_optimizer(file: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is a torch optimizer: known to be one, or unknown and used and named as one."""
    value = file.value(node)
    if value.has(OPTIMIZER):
        return True
    if value.kinds and not (value.kinds == {INSTANCE} and file.inherits_unknown(value)):
        return False
    dotted = file.dotted(node)
    if dotted is not None and not file.project.holds(dotted):
        return False
    if isinstance(node, ast.Attribute) and file.cached(_is_of_another_class, node.attr):
        return False
    text = unparsed(node)
    if text in file.cached(_called):
        return False  # `optim(params)`, as pyro's: torch's are not called
    last = text.rpartition(".")[2]
    if _SCHEDULER_NAME.search(last):
        return False
    through = _gone_through(file, node)
    if _SCHEDULER_NAME.search(through.rpartition(".")[2]):
        return False
    if (text, through) in file.cached(_zeroed) or _OPTIMIZERS.search(through):
        return True
    return OPTIMIZER_NAME.search(last.partition("[")[0]) is not None


def _zeroed(file: ParsedFile) -> frozenset[tuple[str, str]]:
    """What `.zero_grad()` is called on, as text, and what a loop goes through to name it; no models and engines.

    Those are called, or take the loss: `engine.backward(loss)`.
    """
    found = [
        (unparsed(call.func.value), call.func.value)
        for call, _ in file.index.calls_of("zero_grad")
        if isinstance(call.func, ast.Attribute)
    ]
    others = {
        unparsed(call.func.value)
        for call, _ in file.index.calls_of("backward")
        if isinstance(call.func, ast.Attribute) and call.args
    }
    names = {text.rpartition(".")[2] for text, _ in found}
    others |= {unparsed(call.func) for name in names for call, _ in file.index.calls_of(name)}
    return frozenset(
        (text, _gone_through(file, node)) for text, node in found if text not in others
    )


def _is_of_another_class(file: ParsedFile, field: str) -> bool:
    """Return True if a class of the program declares `field: Wrapper`, of a class without a base that has a step."""
    return any(_declared(file, field))


def _declared(file: ParsedFile, field: str) -> Iterator[bool]:
    """Yield for each declaration of `field` if its class has no base, and a step."""
    project = file.project
    if not OPTIMIZER_NAME.search(field):
        return
    modules = project.modules
    declaration = re.compile(rf"^[ \t]+{field}: *(?:Optional\[)?(\w+)", re.MULTILINE)
    for path in sorted(modules.with_word(field) & (project.programs | {project.path})):
        for name in set(declaration.findall(modules.text(path))):
            scope = modules.scope(path)
            dotted = scope.dotted(name) if scope is not None else None
            defined = modules.defined(dotted, path) if dotted else None
            if defined is not None and isinstance(defined[0], ast.ClassDef):
                names = [getattr(statement, "name", "") for statement in defined[0].body]
                yield not defined[0].bases and "step" in names


def _called(file: ParsedFile) -> frozenset[str]:
    """What is called for what it does, as text: a statement `optim(params)`."""
    if not file.source.mentions("optim"):
        return frozenset()
    return frozenset(
        unparsed(statement.value.func)
        for statement, _ in file.index.of(ast.Expr)
        if isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, (ast.Name, ast.Attribute))
        and OPTIMIZER_NAME.search(unparsed(statement.value.func).rpartition(".")[2])
    )


def _gone_through(file: ParsedFile, node: ast.expr) -> str:
    """`self.optimizers` for the `o` of `for k, o in self.optimizers.items()`; nothing for other names."""
    loops = [b for b in file.bindings(node) if b.how == "for"]
    around = dict.fromkeys(file.ancestors(node)) if loops else {}
    for binding in loops:
        loop = binding.node
        if (file.parent(loop) if isinstance(loop, ast.comprehension) else loop) in around:
            return gone_through(binding.value, binding.path[1:])
    return ""


def is_scaler(file: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is a GradScaler."""
    return file.value(node).has(SCALER) or _is_used_as_a_scaler(file, node)


def _is_used_as_a_scaler(file: ParsedFile, node: ast.expr) -> bool:
    """A parameter, attribute or entry of unknown origin whose `scale(...)` result is used for backward."""
    if file.value(node).kinds or not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    return unparsed(node) in scalers_by_use(file) and not _is_called(file, node)


def _is_called(file: ParsedFile, node: ast.expr) -> bool:
    """Return True if the variable `node` is called, `scaler(loss, optimizer)`, as no GradScaler is."""
    same = file.index.same(node) if isinstance(node, ast.Name) else [node]
    return any(isinstance(c := file.parent(use), ast.Call) and c.func is use for use in same)


@once
def scalers_by_use(file: ParsedFile) -> frozenset[str]:
    """What is used as only a GradScaler is, as text: `scale(loss).backward()`, `unscale_(optimizer)`, and
    `step(optimizer)` of what is called a scaler.
    """
    names = set()
    for call, _ in file.index.calls_of("backward"):
        match call.func:
            case ast.Attribute(
                value=ast.Call(func=ast.Attribute(value=scaler, attr="scale"), args=[_])
            ):
                names.add(unparsed(scaler))
    for call, _ in file.index.calls_of("unscale_"):
        match call:
            case ast.Call(func=ast.Attribute(value=scaler), args=[_]):
                names.add(unparsed(scaler))
    for call, _ in file.index.calls_of("step"):
        match call:
            case ast.Call(func=ast.Attribute(value=scaler), args=[optimizer, *_]):
                if is_called_a_scaler(scaler) and is_optimizer(file, optimizer):
                    names.add(unparsed(scaler))
    return frozenset(names)


def is_scaling_step(file: ParsedFile, call: ast.Call) -> bool:
    """`loss_scaler(loss, optimizer, ...)`, as timm and MAE have it: backward, clipping and step in one."""
    return is_called_a_scaler(call.func) and len(call.args) > 1 and is_optimizer(file, call.args[1])


@once
def scaling_steps(file: ParsedFile) -> list[ast.Call]:
    """The calls of the file that are such steps; found once."""
    if not file.source.mentions("scaler"):
        return []
    return [call for call, _ in file.index.of(ast.Call) if is_scaling_step(file, call)]
