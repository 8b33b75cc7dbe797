"""How a script uses its CUDA streams: what stands there goes, and what that leaves of the stream."""

from __future__ import annotations

import ast

from ....flow.calls import call_with
from ....flow.conditions import truth
from ....patterns import Pattern
from ...inference.values import CLASS, INSTANCE, STREAM
from ...nodes import walk
from ...once import once
from ...parsed_file import ParsedFile
from ...syntax import is_elif, parameter_for, unparsed

# What makes or gives a stream.
STREAMS = frozenset(
    {
        "torch.cuda.Stream",
        "torch.cuda.streams.Stream",
        "torch.cuda.current_stream",
        "torch.cuda.default_stream",
        "torch.accelerator.current_stream",
        "torch.Stream",
    }
)
# Contexts that run their body in a stream.
CONTEXTS = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext"})
# Functions that make a stream the current one.
SETTERS = frozenset({"torch.cuda.set_stream", "torch.accelerator.set_stream"})
# Methods whose names no other class of torch has; alone on a line they only order work.
ORDERING = frozenset({"wait_stream", "wait_event", "record_stream"})
_TAKING = frozenset({"wait_stream", "record_stream", "record", "wait"})
_BLOCKING = Pattern(r"(?:, )?non_blocking=[\w.]+")
_CALLED = frozenset({"wait_stream", "wait_event", "synchronize"})


def is_context(script: ParsedFile, node: ast.expr) -> bool:
    """`torch.cuda.stream(s)`, also where another branch is a context that does nothing."""
    if isinstance(node, ast.IfExp):
        return (is_context(script, node.body) and _is_idle(script, node.orelse)) or (
            is_context(script, node.orelse) and _is_idle(script, node.body)
        )
    return isinstance(node, ast.Call) and script.dotted(node.func) in CONTEXTS


def _is_idle(script: ParsedFile, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in _IDLE


_IDLE = frozenset({"contextlib.nullcontext", "contextlib.suppress", "contextlib.ExitStack"})


def is_ordering(script: ParsedFile, node: ast.AST) -> bool:
    """A call that only orders work among streams: `a.wait_stream(b)`, `x.record_stream(s)`, `set_stream(s)`."""
    if not isinstance(node, ast.Call):
        return False
    if script.dotted(node.func) in SETTERS:
        return True
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ORDERING:
        return False
    owner, method = node.func.value, node.func.attr
    kinds = script.value(owner).kinds
    return STREAM in kinds or (
        not kinds & {INSTANCE, CLASS} and not script.may_be_users_method(owner, method)
    )


def orders_streams(script: ParsedFile, call: ast.Call) -> bool:
    """True if the streams that `call` orders are known to be streams of this file."""
    if script.dotted(call.func) in SETTERS:
        return True
    arguments = [*call.args]
    if isinstance(call.func, ast.Attribute) and call.func.attr != "record_stream":
        arguments = [call.func.value]
    return all(STREAM in script.value(node).kinds for node in arguments)


def goes(script: ParsedFile, use: ast.expr) -> bool:
    """True if what is done with a stream at `use` goes, or needs no stream any more."""
    parent = script.parent(use)
    if isinstance(parent, ast.Attribute) and parent.attr in _CALLED:
        call = script.parent(parent)
        return isinstance(call, ast.Call) and call.func is parent
    if isinstance(parent, ast.keyword):
        parent = script.parent(parent)
    if isinstance(parent, ast.Call):
        func = parent.func
        if script.dotted(func) in SETTERS:
            return script.is_statement(parent)
        if is_context(script, parent) or binds_a_stream(script, parent):
            return True
        return isinstance(func, ast.Attribute) and func.attr in _TAKING
    test = parent if isinstance(parent, (ast.Compare, ast.UnaryOp)) else use
    return _guards_nothing(script, test)


def same_both_ways(script: ParsedFile, node: ast.If) -> str:
    """Return the remaining branch of `if stream is not None: ... else: ...` if both are equal without streams; else ""."""
    if not node.orelse or is_elif(node, script.parents):
        return ""
    result = _without_stream(script, node.test)
    if result is None:
        return ""
    one, other = (_without_streams(script, body) for body in (node.body, node.orelse))
    is_same = one == other or _computed(one) == _computed(other)
    return ("body" if result else "orelse") if is_same else ""


def _without_stream(script: ParsedFile, test: ast.expr) -> bool | None:
    """Return the result of a test of a stream that has become None; None if it tests something else."""

    def known(part: ast.expr) -> bool | None:
        match part:
            case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=None)]):
                if STREAM in script.value(left).kinds:
                    return isinstance(op, (ast.Is, ast.Eq))
            case ast.BoolOp() | ast.UnaryOp() | ast.Compare():
                return None
        return False if STREAM in script.value(part).kinds else None

    return truth(test, known)


def _without_streams(script: ParsedFile, body: list[ast.stmt]) -> list[str]:
    """Return the statements without the calls on streams."""
    left: list[str] = []
    for statement in body:
        match statement:
            case ast.With(items=items, body=inner):
                if all(is_context(script, item.context_expr) for item in items):
                    left += _without_streams(script, inner)
                    continue
            case ast.Expr(value=call) if is_ordering(script, call) or _waits(script, call):
                continue
            case ast.Import(names=[ast.alias(name="contextlib")]):
                continue
            case ast.Assign(targets=[kept], value=value) if _is_entered_for_nothing(script, value):
                left.append(f"{ast.unparse(kept)} = nothing")
                continue
            case ast.If(body=inner, orelse=[]) | ast.For(body=inner, orelse=[]):
                if not _without_streams(script, inner):
                    continue
        left.append(_BLOCKING.sub("", ast.unparse(statement)))
    return left


def _is_entered_for_nothing(script: ParsedFile, node: ast.expr) -> bool:
    """`torch.cuda.stream(s)`, `partial(torch.cuda.stream, s)`, and the contexts in their place that do nothing."""
    if is_context(script, node) or binds_a_stream(script, node) or _is_idle(script, node):
        return True
    return script.dotted(node) in _IDLE


def _waits(script: ParsedFile, node: ast.expr) -> bool:
    """`stream.synchronize()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="synchronize", value=owner), args=[]):
            return STREAM in script.value(owner).kinds
    return False


def _computed(statements: list[str]) -> list[str]:
    """All that they call and compute, whatever they keep it in."""
    nodes = (node for text in statements for node in walk(ast.parse(text)))
    kinds = (ast.Call, ast.BinOp, ast.AugAssign, ast.Subscript)
    found = sorted(ast.unparse(node) for node in nodes if isinstance(node, kinds))
    return found or statements


def is_default(script: ParsedFile, statement: ast.Assign, name: str) -> bool:
    """Return True if `statement` sets a missing stream `name`: `if stream is None: stream = torch.cuda.Stream()`."""
    around = script.parent(statement)
    match statement:
        case ast.Assign(targets=[target], value=ast.Call(func=func)):
            is_made = unparsed(target) == name and script.dotted(func) in STREAMS
            if not is_made or not isinstance(around, ast.If) or around.body != [statement]:
                return False
            return _is_missing(around.test, name)
    return False


def _is_missing(test: ast.expr, name: str) -> bool:
    match test:
        case (
            ast.Compare(
                left=tested, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]
            )
            | ast.UnaryOp(op=ast.Not(), operand=tested)
        ):
            return unparsed(tested) == name
    return False


def binds_a_stream(script: ParsedFile, node: ast.AST | None) -> bool:
    """`partial(torch.cuda.stream, stream)`."""
    return (
        isinstance(node, ast.Call)
        and script.dotted(node.func) == "functools.partial"
        and len(node.args) + len(node.keywords) == 2
        and bool(node.args)
        and script.dotted(node.args[0]) in CONTEXTS
    )


def _guards_nothing(script: ParsedFile, test: ast.expr) -> bool:
    """Return True if `if stream:` holds nothing but what is removed."""
    match script.parent(test):
        case ast.IfExp() as choice if choice.test is test:
            return is_context(script, choice)  # `torch.cuda.stream(s) if s else nullcontext()`
        case ast.If(body=body, orelse=[]) if not isinstance(test, ast.UnaryOp):
            return all(isinstance(s, ast.Expr) and is_ordering(script, s.value) for s in body)
        case ast.If() as branch:
            return bool(same_both_ways(script, branch))
    return False


_CAPTURES = frozenset(
    f"torch.cuda.{name}"
    for name in ("CUDAGraph", "graph", "graphs.CUDAGraph", "graphs.graph", "make_graphed_callables")
)


@once
def stay(script: ParsedFile) -> bool:
    """Return True if all stream code stays: a stream cannot be removed, or a CUDA graph captures what runs on it."""
    return any(
        script.dotted(call.func) in _CAPTURES
        or (
            script.dotted(call.func) in STREAMS
            and not goes(script, call)
            and is_needed(script, call)
        )
        or (is_ordering(script, call) and not orders_streams(script, call))
        for call, _ in script.index.of(ast.Call)
    )


def is_needed(script: ParsedFile, call: ast.Call) -> bool:
    """Return True if a stream that is kept under a name is needed by one of its uses."""
    chosen: ast.expr = call
    parent = script.parent(call)
    if isinstance(parent, ast.IfExp) and parent.test is not call:
        chosen, parent = parent, script.parent(parent)
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return any(not _may_be_none(script, use) for use in uses_left(script, chosen, target))
        case ast.Attribute() | ast.Compare() | ast.FormattedValue() | ast.Assign():
            return True
        case ast.Call() | ast.keyword():
            return _needs_it(script, chosen)
    return False


def uses_of(script: ParsedFile, value: ast.expr, target: ast.expr) -> list[ast.expr]:
    """Return the reads of the stream `value` after an assignment to `target`."""
    return [
        node
        for node in script.index.spelled(target)
        if isinstance(getattr(node, "ctx", None), ast.Load)
        and not any(around is value for around in script.ancestors(node))
    ]


def uses_left(script: ParsedFile, value: ast.expr, target: ast.expr) -> list[ast.expr]:
    """Return the uses that remain when the stream is removed with everything that only orders work."""
    text = ast.unparse(target)
    uses = uses_of(script, value, target)
    return [use for use in uses if not goes(script, use) and not asks_for_it(script, use, text)]


def asks_for_it(script: ParsedFile, use: ast.expr, name: str) -> bool:
    """`if stream is None: stream = torch.cuda.Stream()`."""
    parent = script.parent(use)
    while isinstance(parent, (ast.Compare, ast.UnaryOp)):
        parent = script.parent(parent)
    return isinstance(parent, ast.If) and all(
        isinstance(s, ast.Assign) and is_default(script, s, name) for s in parent.body
    )


def _may_be_none(script: ParsedFile, use: ast.expr) -> bool:
    """Return True if None will do at `use`: it is passed, but neither asked for an attribute nor tested."""
    parent = script.parent(use)
    if not isinstance(
        parent, (ast.Call, ast.keyword, ast.Assign, ast.Return, ast.Tuple, ast.List, ast.Dict)
    ):
        return False
    return not _needs_it(script, use)


def _needs_it(script: ParsedFile, given: ast.expr) -> bool:
    """Return True if a function of another module of the project, which gets the stream, reads an attribute of it."""
    call = call_with(script, given)
    function = script.project.function(script.dotted(call.func) or "") if call is not None else None
    if call is None or function is None:
        return False
    name = parameter_for(given, function, call, skip_self=False)
    return any(
        isinstance(use, ast.Attribute) and isinstance(use.value, ast.Name) and use.value.id == name
        for use in walk(function)
    )
