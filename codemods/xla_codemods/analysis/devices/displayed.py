"""Values that code only displays: prints, logs, formats, or stores among other values that are."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...flow.closure import without_fault
from ...flow.edges import unpacked, uses
from ..parsed_file import ParsedFile
from ..syntax import name_of

_SHOWING = frozenset(
    "print info debug warning log write str format echo dumps add_text log_hyperparams log_params set_postfix"
    " update critical error exception log_param log_text pprint print_rank_0 secho set_description"
    " set_postfix_str summary warn add_hparams dump init_trackers log_dict log_table set_tags write_text writerow".split()
)
# Experiment trackers, whose `init` receives facts to show.
_TRACKERS = frozenset({"aim", "swanlab", "trackio", "wandb"})
# Functions and methods whose result has the value as text, or among others.
_KEEPING = frozenset(
    "asdict dict dumps getattr list map repr round sorted str tuple copy format get items join lower strip upper"
    " values".split()
)
# Modules whose functions compute although their names, as `math.log`, are those of displays.
_COMPUTING = frozenset({"cmath", "math", "np", "numpy", "torch"})
# What the runtime knows of each device.
_KNOWN = frozenset({"name", "total_memory"})


def is_display(node: ast.AST | None) -> bool:
    """Return True if `node` is a call that prints, logs or formats."""
    if not isinstance(node, ast.Call):
        return False
    name = name_of(node.func)
    owner = name_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    is_shown = name in _SHOWING and owner not in _COMPUTING
    return is_shown or (name == "init" and owner in _TRACKERS)


def is_known_fact(name: str) -> bool:
    """Return True for the properties that the runtime knows of each device."""
    return name in _KNOWN


def is_only_displayed(script: ParsedFile, value: ast.expr) -> bool:
    """Return True if all that the program does with `value`, and what is made of it, is to display it.

    Code may compute with the facts that the runtime knows of each device.
    """

    def step(node: ast.expr) -> Sequence[ast.expr] | None:
        is_known = isinstance(node, ast.Attribute) and is_known_fact(node.attr)
        return [] if is_known else _next(script, node)

    return without_fault([value], step)


def _next(script: ParsedFile, node: ast.expr) -> Sequence[ast.expr] | None:
    """Return the expressions that `node` becomes a part of; None if code computes or decides with it."""
    parent = script.parent(node)
    match parent:
        case ast.FormattedValue():
            text = script.parent(parent)
            return [text] if isinstance(text, ast.expr) else None
        case ast.Attribute(attr=name):
            call = script.parent(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                return [call] if name in _KEEPING else None
            return [parent]
        case ast.Subscript(value=owner):
            return [parent] if owner is node else None
        case ast.JoinedStr() | ast.Dict() | ast.List() | ast.Set() | ast.Tuple() | ast.Starred():
            return [parent]
        case ast.keyword() | ast.Call():
            return _passed(script, node, parent)
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())) | ast.BinOp(op=ast.Add()):
            return [parent]
        case ast.IfExp(test=test) if test is not node:
            return [parent]
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
            return [parent]
        case ast.Return():
            return uses(script, node) or None
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _assigned(script, node, target)
        case ast.For() | ast.comprehension():
            return [name for name, _ in unpacked(script, node)]
        case ast.Expr():
            return []
        case ast.Assert(msg=message) if message is node:
            return []
    return None


def _passed(
    script: ParsedFile, node: ast.expr, parent: ast.keyword | ast.Call
) -> Sequence[ast.expr] | None:
    call = parent if isinstance(parent, ast.Call) else script.parent(parent)
    if not isinstance(call, ast.Call) or call.func is node:
        return None
    name = name_of(call.func)
    if name in _KEEPING:
        return [call]
    if is_display(call):
        return []
    if isinstance(script.parent(call), ast.Raise):
        return []  # the message of an exception
    return uses(script, node) or None


def _assigned(script: ParsedFile, node: ast.expr, target: ast.expr) -> Sequence[ast.expr] | None:
    """Return the reads of what `node` is assigned to; of an entry, those of its container."""
    match target:
        case ast.Name(id=name) if script.is_imported_elsewhere(name):
            return None
        case ast.Attribute(attr=name) if script.project.uses_attribute(name):
            return None
        case ast.Subscript(value=ast.Name() as owner):
            return [n for n in script.index.same(owner) if isinstance(n.ctx, ast.Load)]
        case ast.Tuple() | ast.List():
            return [read for read, _ in unpacked(script, node)] or None
        case ast.Name() | ast.Attribute():
            return uses(script, node) or None
    return None
