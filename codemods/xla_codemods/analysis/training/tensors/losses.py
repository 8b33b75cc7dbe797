"""Losses whose calls are unknown or in other modules, and what tensors are computed from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....flow.calls import callers
from ....flow.closure import reach
from ....flow.conditions import conditions
from ....flow.containers import dictionaries
from ....flow.iterables import iterable_of
from ...frameworks.accelerator import uses_accelerate
from ...frameworks.hooks import called_in_steps
from ...inference.library_types import is_tensor_function
from ...inference.values import ACCELERATOR, ARRAY, MODULE, TENSOR, UNKNOWN
from ...nodes import walk
from ...once import once
from ...optimizers import scaling_steps
from ...scopes import Binding, FunctionNode
from ...script import Script
from ...syntax import dict_entries, is_literal, unparsed
from ..training import BACKWARD
from .computed import computing

# Methods whose results live on the host.
_LEAVES = frozenset({"cpu", "item", "numpy", "tolist"})


def is_called_a_loss(script: Script, node: ast.Name) -> bool:
    """True if `node`, on which a method of tensors is called, is a loss of the training step, or one of a dict of them."""
    if not (script.runs_accelerated or uses_accelerate(script)):
        return False
    value = script.value(node)
    if value != UNKNOWN and value.kinds != {TENSOR}:  # a tensor whose place is not known
        return False
    function = script.function(node)
    if not script.cached(_computes_gradients, function):
        return False
    reaching = script.reaching(node)
    return bool(reaching) and all(_gives_a_loss(script, node.id, binding) for binding in reaching)


def _computes_gradients(script: Script, function: FunctionNode | None) -> bool:
    """Return True if `function` (None: the module) does so, or has a loop that does, also through functions that it calls;
    or if it is part of what a model computes.
    """
    if function in computing(script):
        return True
    if any(script.function(b) is function for b, _ in script.index.calls_of("backward")):
        return True
    if function is not None and BACKWARD in script.training.function_effects(function):
        return True
    return any(
        BACKWARD in loop.effects and script.function(loop.node) is function
        for loop in script.training.loops
    )


def _gives_a_loss(script: Script, name: str, binding: Binding) -> bool:
    match binding.how, binding.value:
        case "assign", ast.Call():
            return "loss" in name.lower()
        case "for", ast.expr() as iterated:
            match iterable_of(iterated, binding.path[1:]):
                case ast.Name() as walked, _:
                    return _are_losses(script, walked)
                case (ast.Call(func=ast.Attribute(value=ast.Name() as walked, attr=part)), path):
                    is_value = part == "values" or (part == "items" and path == (1,))
                    return is_value and (_are_losses(script, walked) or "loss" in name.lower())
    return False


def is_one_of_losses(script: Script, node: ast.Subscript) -> bool:
    """Return True for `losses[0]` if calls have given the list or dictionary in a function that computes gradients."""
    owner = node.value
    if not isinstance(owner, ast.Name) or script.value(node).kinds - {TENSOR}:
        return False
    if not (script.runs_accelerated or uses_accelerate(script)) or not _are_losses(script, owner):
        return False
    given = [binding.whole for binding in script.reaching(owner)]
    is_given = bool(given) and all(map(_is_of_calls, given))
    return is_given and script.cached(_computes_gradients, script.function(node))


def _is_of_calls(value: ast.expr | None) -> bool:
    """Return True for `criterion(out, y)`, `[loss(out, y) for loss in ...]` and `{"a": loss(out, y)}`."""
    match value:
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            return isinstance(part, ast.Call)
        case ast.List(elts=[_, *_] as parts) | ast.Dict(values=[_, *_] as parts):
            return all(isinstance(part, ast.Call) for part in parts)
    return isinstance(value, ast.Call)


def _are_losses(script: Script, node: ast.Name) -> bool:
    """True if `node` is called losses, and neither an array nor of what was brought to the host."""
    if "loss" not in node.id.lower() or script.value(node).has(ARRAY):
        return False
    return not any(_is_of_the_host(binding.value) for binding in script.reaching(node))


def _is_of_the_host(value: ast.expr | None) -> bool:
    """`loss(out).cpu()`, also in a list, a dict or a comprehension."""
    match value:
        case ast.ListComp(elt=part) | ast.DictComp(value=part):
            return _is_of_the_host(part)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return any(map(_is_of_the_host, parts))
        case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=given):
            named = any(is_literal(n, "cpu") for a in given for n in walk(a))
            return named or _is_of_the_host(owner)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name in _LEAVES or _is_of_the_host(owner)
    return False


# Methods whose results are on the host, or on another device than their tensor.
_DEVICE_LEAVES = frozenset({"cpu", "cuda", "item", "numpy", "size", "stride", "to", "tolist"})
# Methods that compute a tensor from the output of a model, whose class is not known.
_OF_OUTPUTS = frozenset(
    "abs all any argmax argmin clamp detach double eq exp flatten float gt log log_softmax long lt max mean min ne norm "
    "pow reshape sigmoid softmax sqrt squeeze std sum unsqueeze var view".split()
)
_OUTPUTS = frozenset({"logits", "loss", "last_hidden_state", "pooler_output"})


@once
def losses(script: Script) -> tuple[ast.expr, ...]:
    """Return what `backward` is called on: `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`,
    `engine.backward(loss)` of an engine that is called as the model, `loss_scaler(loss, optimizer)`.
    """
    return tuple(_losses(script))


def _losses(script: Script) -> Iterator[ast.expr]:
    for call in scaling_steps(script):
        yield call.args[0]
    for call, _ in script.index.calls_of("backward"):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="scale"), args=[loss]))
            ):
                yield loss
            case ast.Call(func=ast.Attribute(value=owner), args=[loss, *_]) if script.value(
                owner
            ).has(ACCELERATOR) or script.index.calls_spelled(unparsed(owner)):
                yield loss
            case ast.Call(func=ast.Attribute(value=owner)) if script.training.is_backward(call):
                yield owner


def returned_losses(script: Script, function: FunctionNode | None) -> list[ast.Name]:
    """Return the losses that `function` returns to a framework, or to a step of another module: `return loss, outputs`."""
    if not isinstance(function, ast.FunctionDef):
        return []
    is_led = function in called_in_steps(script) and function.name in _RETURNING
    is_asked = "loss" in function.name.lower() and script.is_part_of_training
    if not is_led and not (is_asked and script.callers.take_part_in_steps(function)):
        return []
    values = (node.value for node in walk(function) if isinstance(node, ast.Return))
    found = reach((value for value in values if value is not None), _first_parts)
    named = [loss for loss in found if isinstance(loss, ast.Name)]
    return [loss for loss in named if is_led or script.value(loss).has(TENSOR)]


_RETURNING = frozenset({"compute_loss", "training_step"})


def _first_parts(result: ast.expr) -> list[ast.expr]:
    """Return the expressions that may give the loss in what a function returns."""
    match result:
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Tuple(elts=[first, *_]):
            return [first]
        case ast.Dict():
            return [value for key, value in dict_entries(result) if key == "loss"]
    return []


def _leaves(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _DEVICE_LEAVES


def computed_from(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what an operation, a method of a tensor or a function of torch computes from."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand) if not isinstance(node.op, ast.Not):
            return [operand]
        case ast.Subscript(value=whole, slice=index):
            is_tensor = isinstance(index, (ast.Slice, ast.Tuple)) or script.value(node).has(TENSOR)
            return [whole] if is_tensor else []
        case ast.Attribute(value=output, attr=name) if name in _OUTPUTS:
            return [output]
        case ast.Call(func=func, args=args) if not _leaves(node):
            dotted = script.dotted(func)
            if dotted is not None:
                is_of_tensors = dotted.startswith("torch.") or is_tensor_function(dotted)
                return args if is_of_tensors else []
            if script.value(func).has(MODULE) or _is_called_a_loss(func):
                return args
            if isinstance(func, ast.Attribute) and (
                script.value(node).has(TENSOR) or func.attr in _OF_OUTPUTS
            ):
                return [func.value]
    return []


def _is_called_a_loss(func: ast.expr) -> bool:
    """`self.loss_fn`, `criterion`."""
    name = getattr(func, "attr", getattr(func, "id", ""))
    return name.endswith(("loss", "loss_fn", "loss_func", "loss_function", "criterion"))


_TENSORS = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.nn.Parameter"})


def is_loss_of_a_given_object(script: Script, node: ast.expr) -> bool:
    """Return True for `trainer.loss` and `self.trainer.loss` of a callback, if another module gives it the trainer and
    computes gradients of the loss.
    """
    match node:
        case ast.Attribute(value=ast.Name() as owner) if owner.id != "self":
            function = _called_by_others(script, node)
            if function is None or any(b.how != "parameter" for b in script.reaching(owner)):
                return False
            return script.callers.hand_a_tensor_for(node, function)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=holder), attr=loss):
            is_called = _called_by_others(script, node) is not None
            return is_called and script.callers.give_an_object_with_loss(holder, loss)
    return False


def is_handed_a_tensor(script: Script, node: ast.expr) -> bool:
    """True if `node` is a parameter, or an attribute or entry of one, that is a tensor in training steps of other modules.

    Where a test around `node` asks for a tensor, numbers that callers have read count too: they will pass the tensors.
    """
    if is_tested(script, node):
        return any(_handed(script, node))
    root = node.value if isinstance(node, (ast.Attribute, ast.Subscript)) else node
    function = _called_by_others(script, node)
    if is_loss_of_a_given_object(script, node):
        return True
    if not isinstance(root, ast.Name) or function is None:
        return False
    if isinstance(node, ast.Name) and _is_value_of_a_parameter(script, node, function):
        return True
    is_parameter = all(binding.how == "parameter" for binding in script.reaching(root))
    return is_parameter and script.callers.hand_a_tensor_for(node, function)


def _is_value_of_a_parameter(script: Script, node: ast.Name, function: FunctionNode) -> bool:
    """Return True for `v` of `for k, v in losses.items()` if calls in steps pass tensors in `losses`."""
    return any(
        isinstance(owner, ast.Name)
        and any(binding.how == "parameter" for binding in script.reaching(owner))
        and script.callers.hand_dictionaries_of_tensors(owner.id, function)
        for owner in dictionaries(script, node)
    )


def is_handed_numbers_alone(script: Script, read: ast.AST) -> bool:
    """True for the `v.item()` of a test, where other modules only hand numbers that they have read."""
    match read:
        case ast.Call(func=ast.Attribute(value=node)) if is_tested(script, node):
            return _handed(script, node) == (False, True)
    return False


def _handed(script: Script, node: ast.expr) -> tuple[bool, bool]:
    """Whether other modules hand over tensors in their steps, and numbers that they have read of some.

    They may call the function around `node`, or one that does: `update` of a group of meters calls that of each meter.
    """
    function = _called_by_others(script, node)
    if function is None:
        return False, False

    def calling(inner: FunctionNode) -> list[FunctionNode]:
        return [f for call in callers(script, inner) if (f := script.function(call)) is not None]

    functions, others = list(reach([function], calling)), script.callers
    return (
        any(map(others.hand_tensors_in_steps, functions)),
        any(map(others.hand_numbers_in_steps, functions)),
    )


def _called_by_others(script: Script, node: ast.expr) -> FunctionNode | None:
    """Return the function around `node` if the program is for an accelerator."""
    return script.function(node) if script.runs_accelerated else None


def is_tested(script: Script, node: ast.expr) -> bool:
    """True if a test around `node` says that it is a tensor."""
    tests = conditions(script, node, refusals=False)
    return any(needed and _asks(script, test, unparsed(node)) for test, needed in tests)


def _asks(script: Script, test: ast.expr, text: str) -> bool:
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_asks(script, value, text) for value in values)
        case ast.Call(func=ast.Name(id="isinstance"), args=[tested, kind]):
            kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
            return unparsed(tested) == text and all(script.dotted(k) in _TENSORS for k in kinds)
        case ast.Call(func=func, args=[tested]):
            return unparsed(tested) == text and script.dotted(func) == "torch.is_tensor"
    return False
