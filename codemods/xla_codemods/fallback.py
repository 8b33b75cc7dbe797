"""Shared by rules about CUDA-only names: uses that no other rule reports, and the catalog's advice about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .analysis.cuda_names import Import, Use, is_missing_package
from .analysis.devices.cuda_only.presence import SysModules
from .analysis.devices.guards import is_caught, is_guarded
from .analysis.nodes import NAMED
from .analysis.script import Script
from .analysis.syntax import imported_as, used_names
from .catalog import CATCH_ALL, HARMLESS, RAISES, SILENT, SLOW, STAYS, Row, covering
from .catalog.families import is_cuda_only
from .catalog.row import OF_A_MODULE
from .edits import DropAlias, Edit, remove
from .finding import ERROR, INFO, LOW, MEDIUM, WARNING, Finding
from .rule import Rule, Unhandled

_FOR_EFFECT = frozenset({"unsloth"})  # importing it changes other packages
_MANY = 9
# What computes on the CPU as well as on CUDA devices, and on no others.
_OF_THE_HOST_TOO = ("horovod", "torch.distributed.rpc", "warpctc_pytorch", "warprnnt_pytorch")
# What starts processes, shards and steps by itself.
_ENGINES = frozenset({"bmtrain", "colossalai", "megatron"})
_INSTEAD_OF_ENGINES = (
    "write the training loop with the model, and shard with SPMD (`xla.use_spmd`) instead"
)
_SEVERITIES = {RAISES: ERROR, SILENT: ERROR, SLOW: WARNING, HARMLESS: INFO}


def leftovers(
    rule: Rule, script: Script, unhandled: Unhandled, effort: str = MEDIUM
) -> Iterator[Finding]:
    """Yield findings of `rule` at the uses that the catalog assigns to it; for the last rule, at all unassigned uses."""
    engines: dict[str, list[Finding]] = {}
    for use in unhandled.uses:
        row = covering(use.dotted)
        if row is None or row.fate == STAYS or _is_looked_for(script, use.node):
            continue
        if use.dotted.endswith(".__version__") and is_guarded(script, use.node, use.dotted):
            continue
        is_cudnn = use.dotted == row.name == "torch.backends.cudnn"
        if is_cudnn and _is_idle_name(use) and not use.unclear:
            continue  # `import torch.backends.cudnn as cudnn`, of which nothing is used
        if row.rule == rule.code or (rule.code == CATCH_ALL and row.rule not in unhandled.codes):
            finding = found(rule, script, use, row, effort)
            if row.name in _ENGINES and not finding.edits:
                engines.setdefault(row.name, []).append(finding)
            else:
                yield finding
    for name, findings in engines.items():
        yield _of_an_engine(name, findings)


def _of_an_engine(name: str, findings: list[Finding]) -> Finding:
    """Return one finding for all uses: they do not fail separately, and are replaced together."""
    first = next((f for f in findings if f.severity != INFO), findings[0])
    return first._replace(message=f"`{name}` trains only on CUDA devices: {_INSTEAD_OF_ENGINES}")


def found(rule: Rule, script: Script, use: Use, row: Row, effort: str) -> Finding:
    """The finding that says of `use` what its row says."""
    severity = _SEVERITIES[row.left]
    if is_missing_package(script, use) and not is_guarded(script, use.node, use.dotted):
        edits = _without(script, use)
        if edits:
            text = f"importing `{use.dotted}` fails on an XLA host: remove the import, which is not used"
            return rule.finding(script, use.node, text, *edits, effort=LOW)
    guarded = is_guarded(script, use.node, use.dotted) or is_caught(script, use.node)
    if guarded or _is_asked_for(script, use) or _is_idle_name(use):
        severity, effort = INFO, LOW
    return rule.finding(
        script, use.node, message(use.dotted, row), severity=severity, effort=effort
    )


def _without(script: Script, use: Use) -> list[Edit]:
    """Return edits that remove the import; none if it may have an effect, or other modules may import from it."""
    statement = use.node
    assert isinstance(statement, Import)
    if use.dotted.partition(".")[0] in _FOR_EFFECT or _is_required(script, statement):
        return []
    used = used_names(script.tree)
    modules = SysModules(script.tree, script)
    gone = [
        a
        for a in statement.names
        if _is_idle(statement, a, used)
        and not script.is_imported_elsewhere(a.asname or a.name)
        and not modules.looks_for(statement, a)
    ]
    if len(gone) == len(statement.names):
        return [remove(statement)]
    return [DropAlias(statement, alias) for alias in gone]


def _is_required(script: Script, statement: Import) -> bool:
    """Return True if the import only finds out if the package is there, and the script ends without it."""
    around = script.parent(statement)
    return isinstance(around, ast.Try) and any(
        isinstance(handler.body[-1], ast.Raise) for handler in around.handlers
    )


def _is_idle(statement: Import, alias: ast.alias, used: set[str]) -> bool:
    home = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
    dotted = f"{home}.{alias.name}" if home else alias.name
    return alias.name != "*" and imported_as(alias) not in used and is_cuda_only(dotted)


def _is_asked_for(script: Script, use: Use) -> bool:
    """`isinstance(m, bnb.nn.Linear4bit)`: False without the library."""
    parent = script.parent(use.node)
    if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        around = script.parent(parent)
        if isinstance(around, ast.comprehension) and around.iter is parent:
            return _asks_for_each(script, around)
        if isinstance(parent, ast.Tuple):
            parent = around
    match parent:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[first, _]):
            return first is not use.node
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):  # whose no is the right answer
            return use.dotted.startswith("torch.")
        case ast.Call() if parent is not use.node and _is_a_decorator(script, parent):
            return use.dotted.startswith(
                "torch."
            )  # `@register(nn.DataParallel)`: what is done with such
        case ast.Dict(keys=keys) if use.node in keys:
            return use.dotted.startswith("torch.")
        case ast.Set() | ast.List():  # one of many that are listed
            return use.dotted.startswith("torch.") and len(parent.elts) > _MANY
    return False


def _is_a_decorator(script: Script, call: ast.Call) -> bool:
    around = script.parent(call)
    return isinstance(around, NAMED) and call in around.decorator_list


def _asks_for_each(script: Script, generator: ast.comprehension) -> bool:
    """`any(isinstance(model, kind) for kind in [DataParallel, ...])`."""
    match script.parent(generator):
        case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
            match elt:
                case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                    return ast.unparse(kind) == ast.unparse(generator.target)
    return False


def _is_idle_name(use: Use) -> bool:
    """`from torch.cuda import Stream`, of which the file uses nothing: torch has it, CUDA or not."""
    return (
        isinstance(use.node, Import)
        and use.dotted.startswith("torch.")
        and use.node.names[0].name != "*"
    )


def _is_looked_for(script: Script, node: ast.AST) -> bool:
    """`hasattr(torch.cuda.amp, "autocast")`, `if getattr(torch.cuda.amp, "autocast", None):`: is there such a name?"""
    parent = script.parent(node)
    match parent:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, _]):
            return owner is node
    call = node if isinstance(node, ast.Call) else parent
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, *_]) if node in (call, owner):
            around = script.parent(call)
            if isinstance(around, ast.Compare):
                return all(isinstance(op, (ast.Is, ast.IsNot)) for op in around.ops)
            return isinstance(around, (ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp)) and (
                getattr(around, "test", call) is call
            )
    return False


# The first words of notes that tell what to do, and do not only say why.
_TO_DO = frozenset(
    "use call train write load save shard run choose set give keep move do compute profile pad build count seed read "
    "remove replace iterate concatenate".split()
)


def message(dotted: str, row: Row) -> str:
    """What is wrong with `dotted`, and what to do."""
    text = {
        RAISES: f"`{dotted}` fails without CUDA",
        SILENT: f"`{dotted}` silently does the wrong thing without CUDA",
        SLOW: f"`{dotted}` is slow on XLA",
        HARMLESS: f"`{dotted}` has no effect on XLA",
    }[row.left]
    if dotted.startswith(_OF_THE_HOST_TOO):
        text = f"`{dotted}` fails on XLA tensors"
    advice = [f"use `{row.instead}`"] if row.instead and "`" not in row.instead else []
    if _is_private(dotted, row):
        text = f"`{dotted}` is internal to torch's CUDA support"
        advice = ["remove it, because XLA has no equivalent"]
    elif row.note == OF_A_MODULE and dotted != row.name:
        text, advice = f"`{dotted}` has no equivalent on XLA", ["remove it"]
    elif row.note:
        note = row.note.partition(" (fact ")[0]
        reason, _, rest = note.partition(": ")
        if advice and not rest.startswith(("use ", "write ")):
            advice.append(rest or note)
        elif note.partition(" ")[0] in _TO_DO:
            advice = [note]
        elif rest.partition(" ")[0] in _TO_DO:
            text, advice = f"{text} ({reason})", advice or [rest]
        else:
            text = f"{text} ({note})"
    return f"{text}: {'; '.join(advice) or 'remove it'}"


def _is_private(dotted: str, row: Row) -> bool:
    """Return True if `dotted` has no row except its module's."""
    rest = dotted[len(row.name) :]
    return rest.startswith("._") and not rest.startswith(".__")
