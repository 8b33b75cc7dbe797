"""Code that fetches from the device, and the fetches that are deferred."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ....flow.calls import lambda_calls
from ...devices.specs import device_argument
from ...frameworks.accelerator import uses_accelerate
from ...frameworks.hooks import called_in_steps
from ...frameworks.lightning_modules import is_lightnings
from ...inference.library_types import HOST_TENSORS
from ...inference.values import ACCEL, ARRAY, DEVICE, HOST, NONE, SCHEDULER, TENSOR, UNKNOWN
from ...nodes import walk
from ...once import once
from ...script import Script
from ...syntax import is_literal, is_off, keyword, name_of, unparsed
from ..shapes.sizes import sizes_in
from ..tensors.device_tensors import holds_device_tensors, is_device_tensor, may_be_read
from ..tensors.given import is_one_number_of_what_is_given, is_reduced_from_what_is_given
from ..tensors.losses import is_handed_numbers_alone
from ..turns import evaluating, in_each_step, in_each_turn, of_frameworks
from .formatted import is_text
from .plan import Outcome, plan
from .tested import asks, elements_of, tests_each

# Methods that tensors alone have, and that fetch.
_METHODS = frozenset({"item", "tolist", "cpu"})
# Builtins that look at the value of a tensor.
_BUILTINS = frozenset("bool float format int print range repr round str".split())
_EXTREMES = frozenset({"max", "min"})  # of several values: each is compared
_MAPPED = frozenset(
    {"bool", "float", "int", "item", "str", "tolist"}
)  # `map(torch.Tensor.item, xs)`
_LOGGING = frozenset(
    "add_histogram add_image add_images add_scalar add_scalars critical debug error info log log_dict log_metric log_metrics log_scalar set_postfix warning".split()
)
_FETCHING = frozenset(
    {"torch.equal", "torch.allclose", "torch.multinomial", "torch.histc"}
    | {
        f"math.{name}"
        for name in ("ceil", "exp", "floor", "isfinite", "isinf", "isnan", "log", "sqrt")
    }
)
# Inverses of matrices, for which the host checks that the matrix has one.
_INVERSES = frozenset({"torch.inverse", "torch.linalg.inv"})
# What makes a tensor of a list, and reads each tensor in it.
LISTS_TO_TENSORS = frozenset({"torch.tensor", "torch.as_tensor", *HOST_TENSORS})


_THEIRS = Outcome(obstacle="a framework calls the function and marks its steps")
_LIGHTNINGS = Outcome(obstacle="Lightning runs the step")
# What may read a tensor from the device.
_TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert)
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Slice, ast.Subscript, ast.UnaryOp)
_READING = frozenset((*_TESTS, *_OPERATIONS, ast.FormattedValue, ast.comprehension))


class Fetch(NamedTuple):
    """A fetch in each turn: its description, and what becomes of it."""

    node: ast.AST
    description: str
    outcome: Outcome
    in_a_step: bool  # not only in an evaluation


@once
def reads_in_turns(script: Script) -> list[Fetch]:
    """What fetches from the device in every turn of the loops that train or evaluate, in a program that has one."""
    # A framework's own loop trains on whatever accelerator there is.
    led = bool(called_in_steps(script))
    if not (script.is_trained and (led or script.runs_accelerated or uses_accelerate(script))):
        return []
    steps = in_each_step(script)
    always = {**dict(in_each_turn(script, evaluating(script))), **steps}
    reads = [
        (node, description)
        for node in always
        if type(node) in _READING
        for description in reads_of(script, node)
        if not _is_no_tensor_there(script, node)
    ]
    fetching = {node for node, _ in reads}
    reads = [read for read in reads if not _is_fetched_around(script, read[0], fetching)]
    theirs = dict(in_each_turn(script, of_frameworks(script)))
    ours = {node: description for node, description in reads if node not in theirs}
    planned = plan(script, ours, always) if ours and script.reads_later else {}
    planned = {node: _unless_kept(script, node, outcome) for node, outcome in planned.items()}
    for node, _ in reads:
        if node in theirs:
            planned[node] = _LIGHTNINGS if is_lightnings(script, node) else _THEIRS
    found = [
        Fetch(node, description, planned.get(node, Outcome()), node in steps)
        for node, description in reads
    ]
    # A read at the source of the number is reported there, not here.
    return [f for f in found if f.outcome.edits or not is_handed_numbers_alone(script, f.node)]


def _is_fetched_around(script: Script, node: ast.AST, fetching: Collection[ast.AST]) -> bool:
    """Return True for the `x.cpu()` of `x.cpu().item()`, which is one read, and for the read that a lambda returns."""
    for child, around in script.upward(node):
        match around:
            case ast.Attribute(value=owner) if owner is child:
                continue
            case ast.Call(func=func) if func is child:
                if around in fetching:
                    return True
            case ast.Lambda():  # its calls are reported
                calls = lambda_calls(script, around)
                return any(_read_by_lambda(script, call) is not None for call in calls)
            case _:
                return False
    return False


def _is_no_tensor_there(script: Script, node: ast.AST) -> bool:
    """Return True for `float(v)` of `v.item() if torch.is_tensor(v) else float(v)`."""
    around = script.parent(node)
    if not isinstance(around, ast.IfExp):
        return False
    test, other = around.test, around.orelse
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, other = test.operand, around.body
    match node, test:
        case ast.Call(func=ast.Name(), args=[given, *_]), ast.Call(func=func, args=[v, *kind]):
            test_name = name_of(func)
            is_kind = test_name == "isinstance" and any("Tensor" in unparsed(k) for k in kind)
            return (
                other is node
                and (test_name == "is_tensor" or is_kind)
                and unparsed(v) == unparsed(given)
            )
    return False


def _unless_kept(script: Script, node: ast.AST, outcome: Outcome) -> Outcome:
    """`outcome`; none where a comment keeps the read, or another that has to be changed with it."""
    if outcome.edits and any(map(script.is_kept, (node, *(edit.node for edit in outcome.edits)))):
        return Outcome(obstacle="a comment suppresses a part of the change")
    return outcome


@once
def made_later(script: Script) -> frozenset[ast.AST]:
    """Those of them that are read behind the turn, and what is made behind it."""
    found = [read for read in reads_in_turns(script) if read.outcome.edits]
    inside = (node for read in found for made in read.outcome.later for node in walk(made))
    return frozenset((*(read.node for read in found), *inside))


def reads_of(script: Script, node: ast.AST) -> Iterator[str]:
    """What `node` fetches from the device, as the finding says it."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]) if (
            name in _METHODS
        ):
            given = is_reduced_from_what_is_given(script, owner)
            if may_be_read(script, owner) or given or is_one_number_of_what_is_given(script, owner):
                yield f"`.{name}()` reads from the device"
        case ast.Call(func=ast.Attribute(attr="inverse", value=owner), args=[], keywords=[]):
            if script.value(owner).has(TENSOR) and may_be_read(script, owner):
                yield "`.inverse()` reads from the device whether the matrix is singular"
        case ast.Call(func=ast.Attribute(attr="to", value=owner)) if _goes_to_the_host(
            script, node
        ):
            if may_be_read(script, owner):
                yield "`.to` the CPU reads from the device"
        case ast.Slice(lower=lower, upper=upper):
            if any(edge and is_device_tensor(script, edge) for edge in (lower, upper)):
                yield "a slice bound that is a tensor is read from the device"
        case ast.Subscript(value=owner, slice=index):
            if any(is_device_tensor(script, i) for i in _indices(index)) and _is_of_the_host(
                script, owner
            ):
                yield "an index that is a tensor is read from the device"
        case ast.comprehension(ifs=tests):
            if any(asks(script, test) for test in tests):
                yield "a condition on a tensor reads it from the device"
        case ast.BoolOp(values=values) if not _is_asked(script, node):
            if any(asks(script, value) for value in values[:-1]):
                yield "`and` or `or` with a tensor reads it from the device"
        case ast.UnaryOp(op=ast.Not(), operand=operand) if not _is_asked(script, node):
            if asks(script, operand):
                yield "`not` of a tensor reads it from the device"
        case ast.Compare(left=left, comparators=[*others, _]) if others and not _is_asked(
            script, node
        ):
            if any(is_device_tensor(script, side) for side in (left, *others)):
                yield "a chain of comparisons with a tensor reads each but the last from the device"
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            if is_device_tensor(script, left) or is_device_tensor(script, right):
                yield "`in` with a tensor reads it from the device"
        case ast.Call():
            yield from _of_call(script, node)
        case ast.FormattedValue(value=value) if is_device_tensor(script, value):
            yield "formatting a tensor reads it from the device"
        case ast.BinOp(left=left, op=ast.Mod(), right=right) if _is_text(left):
            if any(is_device_tensor(script, value) for value in _each(_shown(right))):
                yield "formatting a tensor reads it from the device"
        case (
            ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test)
        ):
            if asks(script, test):
                yield "a condition on a tensor reads it from the device"


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    """`x.to("cpu")`, `x.to(torch.device("cpu"))`."""
    device = device_argument(call)
    value = script.value(device) if device is not None else UNKNOWN
    return (
        value.has(DEVICE) and value.has(HOST) and not value.has(ACCEL)
    )  # not `cuda if ... else cpu`


def _is_asked(script: Script, node: ast.AST) -> bool:
    """True if `node` is the condition of a statement, or part of one: that is judged as a whole."""
    parent = script.parent(node)
    if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        return _is_asked(script, parent) or isinstance(parent, ast.BoolOp)
    return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node


def _is_text(node: ast.expr) -> bool:
    """`"%s"`, `"%10s" * 4 + "%8.3f"`."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return is_text(node)


def _shown(right: ast.expr) -> list[ast.expr]:
    """What `"%s: %.3f" % right` shows."""
    match right:
        case ast.Tuple(elts=values) | ast.Dict(values=values):
            return values
        case ast.Call(func=ast.Name(id="tuple"), args=[values_of]):
            return [values_of]
    return [right]


def _each(nodes: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """`nodes`, those below a star included."""
    for node in nodes:
        yield node.value if isinstance(node, ast.Starred) else node


def _is_converted(script: Script, function: str, node: ast.expr) -> bool:
    """True if `node` is a tensor on the device; for `float`, which takes no None, it may be None elsewhere."""
    kinds = script.value(node).kinds - {NONE}
    return is_device_tensor(script, node) or (
        function in {"float", "int"} and kinds == {TENSOR, ACCEL}
    )


def _of_call(script: Script, call: ast.Call) -> Iterator[str]:
    func = call.func
    scope = script.index.scope(call)
    dotted = script.dotted(func)
    if dotted == "torch.nn.utils.clip_grad_norm_":
        given = keyword(call, "error_if_nonfinite")
        if is_literal(given, True):
            yield "`error_if_nonfinite` reads the norm from the device"
    elif dotted in LISTS_TO_TENSORS:
        if call.args and any(is_device_tensor(script, e) for e in elements_of(call.args[0])):
            yield f"`{dotted}` of a list of tensors reads each of them from the device"
    elif dotted in _INVERSES:
        if call.args and may_be_read(script, call.args[0]):
            yield f"`{dotted}` reads from the device whether the matrix is singular"
    elif dotted in _FETCHING and not _draws_on_the_device(dotted, call):
        read = may_be_read if dotted.startswith("torch.") else is_device_tensor
        if any(read(script, argument) for argument in call.args):
            yield f"`{dotted}` reads from the device"
    elif (fetched := _read_by_lambda(script, call)) is not None:
        if may_be_read(script, fetched):
            yield f"`{unparsed(func)}` reads from the device"
    elif tests_each(script, call):
        yield f"`{name_of(func)}` of tensors reads each of them from the device"
    elif _has_a_size_on_the_device(script, call, dotted):
        yield "a size that is a tensor is read from the device"
    elif isinstance(func, ast.Name) and scope.find(func.id) is None:
        match call:
            case ast.Call(func=ast.Name(id="map"), args=[called, several]):
                parts = elements_of(several)
                if name_of(called) in _MAPPED and (
                    any(is_device_tensor(script, part) for part in parts)
                    or holds_device_tensors(script, several)
                ):
                    yield f"`map({unparsed(called)}, ...)` reads each tensor from the device"
        is_value = func.id in _BUILTINS or (func.id in _EXTREMES and len(call.args) > 1)
        if is_value and any(_is_converted(script, func.id, value) for value in _each(call.args)):
            yield f"`{func.id}` of a tensor reads it from the device"
    elif isinstance(func, ast.Attribute):
        if func.attr == "format" and isinstance(func.value, ast.Constant):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "formatting a tensor reads it from the device"
        elif func.attr == "clip_gradients" and uses_accelerate(script):  # Fabric's
            given = keyword(call, "error_if_nonfinite")
            if keyword(call, "max_norm") is not None and not is_off(given):
                yield "`error_if_nonfinite`, which is Fabric's default, reads the norm from the device"
        elif func.attr in _LOGGING and not (dotted or "").startswith("torch."):  # torch.log
            own = script.local_method(func) is not None or _keeps(script, func)
            if not own and any(_shows(script, a) for a in _given(call)):
                yield "logging a tensor reads it from the device"
        elif func.attr == "step" and script.value(func.value).has(SCHEDULER):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "this scheduler reads the value that it is given from the device"


def _has_a_size_on_the_device(script: Script, call: ast.Call, dotted: str | None) -> bool:
    """Return True for `torch.zeros(mask.sum())`, and `x.expand(n, 3)` of a tensor `x`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or not (dotted or script.value(owner).has(TENSOR)):
        return False
    if name_of(call.func) == "repeat_interleave":
        return False  # with `output_size` it reads nothing; without it its shape depends on data
    return any(is_device_tensor(script, size) for size in sizes_in(script, call))


def _read_by_lambda(script: Script, call: ast.Call) -> ast.expr | None:
    """Return `loss` of `to_np(loss)`, where `to_np = lambda x: x.detach().cpu().numpy()`."""
    made = script.only_value(call.func) if isinstance(call.func, ast.Name) else None
    match call.args, made:
        case [given], ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
            is_read = False
            while isinstance(body, (ast.Attribute, ast.Call)):
                is_read |= isinstance(body, ast.Attribute) and body.attr in _METHODS
                body = body.func if isinstance(body, ast.Call) else body.value
            return given if is_read and name_of(body) == name else None
    return None


def _keeps(script: Script, func: ast.Attribute) -> bool:
    """`self.log("loss", loss)` of a LightningModule, which reads now and then."""
    named = isinstance(func.value, ast.Name) and func.value.id == "self"
    return named and func.attr in {"log", "log_dict"} and is_lightnings(script, func)


def _indices(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _is_of_the_host(script: Script, owner: ast.expr) -> bool:
    """True if `owner` is a tensor of the host, an array or a list, which ask an index for its number."""
    value = script.value(owner)
    if value.has(TENSOR) or value.has(ARRAY):
        return not value.has(ACCEL) and (value.has(ARRAY) or value.has(HOST))
    made = [b.part for b in script.reaching(owner)] if isinstance(owner, ast.Name) else []
    made = [m.left if isinstance(m, ast.BinOp) else m for m in made]  # [0] * n
    return bool(made) and all(isinstance(m, (ast.List, ast.ListComp)) for m in made)


def _draws_on_the_device(dotted: str, call: ast.Call) -> bool:
    """`torch.multinomial` of one sample, or with replacement: only others have no kernel."""
    if dotted != "torch.multinomial":
        return False
    number = keyword(call, "num_samples") or next(iter(call.args[1:2]), None)
    again = keyword(call, "replacement") or next(iter(call.args[2:3]), None)
    return any(
        isinstance(given, ast.Constant) and given.value == 1 for given in (number, again)
    )  # True is 1


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments, and the values of dicts among them."""
    for argument in _each((*call.args, *(k.value for k in call.keywords))):
        if isinstance(argument, ast.Dict):
            yield from argument.values
        elif isinstance(argument, ast.Call) and getattr(argument.func, "id", "") == "dict":
            yield from (k.value for k in argument.keywords)
        else:
            yield argument


def _shows(script: Script, node: ast.expr) -> bool:
    """True if `node` is a tensor of the device, or a dict that holds one."""
    if is_device_tensor(script, node):
        return True
    fields = script.value(node).fields if isinstance(node, ast.Name) else None
    return any(field.kinds == {TENSOR, ACCEL} for field in (fields or {}).values())
