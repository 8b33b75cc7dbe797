"""Is this expression surely a tensor on the accelerator? Where it may be anything else, the answer is no."""

from __future__ import annotations

import ast
from functools import partial

from ....flow.calls import passed
from ....flow.closure import all_ends, ends
from ....flow.containers import elements, held
from ....flow.edges import known_sources
from ....flow.iterables import iterable_of
from ...frameworks.accelerator import uses_accelerate
from ...frameworks.hooks import called_in_steps
from ...inference.values import (
    ACCEL,
    ARRAY,
    BATCH,
    HOST,
    MODULE,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    UNKNOWN,
    WEIGHT,
    Value,
)
from ...loops import is_called_a_model
from ...nodes import walk
from ...scopes import Binding
from ...script import Script
from ...syntax import below, identifiers, name_of, returned, root_of, unparsed
from .beside_losses import is_computed_beside, is_computed_from_a_forward
from .computed import computing, gives_one_tensor, is_state
from .given import is_of_a_batch
from .losses import (
    is_called_a_loss,
    is_handed_a_tensor,
    is_loss_of_a_given_object,
    is_one_of_losses,
    is_tested,
    losses,
)
from .returned_tensors import tensor_arguments

# Attributes that are tensors, of tensors and of the outputs of models.
_TENSORS = frozenset(
    "T mT data grad real imag loss logits last_hidden_state pooler_output prediction_logits".split()
)
_OF_OUTPUTS = _TENSORS - {"T", "mT", "data", "grad"}
_PASSED_ON = frozenset(
    "abs argmax clone cpu detach exp flatten float log max mean min norm sigmoid sqrt square squeeze std sum".split()
)
_LEAVES = frozenset({"cpu", "item", "numpy", "to", "tolist"})  # the device
_OF_ONE = frozenset("abs all any detach isfinite isinf isnan max mean min norm sum".split())
_OTHERS = frozenset({ARRAY, MODULE, NONE, NUMBER, STRING})


def is_device_tensor(script: Script, node: ast.expr) -> bool:
    """True if `node` is a tensor on the accelerator, and nothing but that."""
    value = script.value(node)
    if value.has(TENSOR) and (value.has(ACCEL) or _is_computed(script, node, value)):
        is_one = not value.kinds & {*_OTHERS, BATCH} and not value.items and value.fields is None
        return is_one and _is_tensor_for_sure(script, node)
    if value.kinds & _OTHERS and not value.has(TENSOR):
        return False
    if value.kinds == {TENSOR} and is_computed_beside(script, node):
        return True
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _is_backwarded(script, node) or is_loss_of_a_given_object(script, node)
    reduced = _reduced(script, node)
    return reduced is not None and is_device_tensor(script, reduced)


def holds_device_tensors(script: Script, node: ast.expr) -> bool:
    """True if all elements of `node` are tensors on the accelerator: `losses.values()`. The elements of a dict are keys."""
    value = script.value(node)
    if value.element is None or value.fields is not None:
        return False
    return are_device_tensors(script, node, value.element)


def are_device_tensors(script: Script, node: ast.expr, value: Value) -> bool:
    """Return True if `value`, which `node` holds, is a tensor on the accelerator for sure."""
    if not value.has(TENSOR):
        return False
    is_there = value.has(ACCEL) or _is_computed(script, node, value)
    return is_there and not value.kinds & {*_OTHERS, BATCH} and not value.items


def _reduced(script: Script, node: ast.expr) -> ast.expr | None:
    """The tensor that `torch.isnan(x)`, `x.isfinite()` or `x.isnan().any()` computes of alone."""
    match node:
        case ast.Call(func=func, args=[argument], keywords=[]):
            home, _, name = (script.dotted(func) or "").rpartition(".")
            return argument if home == "torch" and name in _OF_ONE else None
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]):
            return owner if name in _OF_ONE else None
    return None


def may_be_read(script: Script, node: ast.expr) -> bool:
    """True if `node`, on which a method of tensors alone is called, is on the accelerator."""
    found: dict[ast.expr, bool | list[ast.expr]] = {}

    def step(each: ast.expr) -> list[ast.expr]:
        decided = found[each] = _is_read(script, each)
        return decided if isinstance(decided, list) else []

    reached = ends([node], step)
    # Callers may pass numbers to code that tests for tensors.
    every = any if is_tested(script, node) else all
    return bool(reached) and every(found[end] is True for end in reached)


def _is_read(script: Script, node: ast.expr) -> bool | list[ast.expr]:
    """Return True or False, or the expressions that decide: all of them have to be on the accelerator."""
    value = script.value(node)
    if value.has(TENSOR) and value.kinds & {ACCEL, HOST}:
        return value.has(ACCEL)
    others = value.kinds & _OTHERS - {NUMBER}  # `count = 0`, then `count += mask.sum()`
    if value.has(TENSOR) and not others and _is_computed(script, node, value):
        return True
    if value.kinds <= {TENSOR} and is_computed_beside(script, node):
        return True
    if value.kinds == {TENSOR, BATCH} and uses_accelerate(script):
        return True  # of a loader that accelerate prepared
    if not value.kinds and is_of_a_batch(script, node):
        return True
    if value.kinds <= {TENSOR} and (arguments := tensor_arguments(script, node)):
        tensors = [a for a in arguments if not script.value(a).kinds & _OTHERS]
        return [part for a in tensors for part in _taken_out(script, node, a)] or False
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _PASSED_ON:
            return [inner]
        case ast.Attribute(value=inner, attr="data"):
            return [inner]
        case ast.BinOp(left=left, right=right) if not value.kinds:
            operands = (e for e in (left, right) if script.value(e).kinds != {NUMBER})
            return [*operands] or False
        case ast.Attribute(attr=name) if name in _OF_OUTPUTS:
            return (
                _is_backwarded(script, node)
                or (not value.kinds and script.function(node) in called_in_steps(script))
                or is_handed_a_tensor(script, node)
            )
        case ast.Name() | ast.Attribute():
            return (
                _is_backwarded(script, node)
                or (isinstance(node, ast.Name) and is_called_a_loss(script, node))
                or is_handed_a_tensor(script, node)
                or (isinstance(node, ast.Name) and elements(script, node))
                or _assigned_in_a_hook(script, node, value)
                or _computed_of_what_is_handed(script, node, value)
            )
        case ast.Call(func=ast.Attribute(attr="compute_loss" | "training_step")):
            return script.function(node) in called_in_steps(script)
        case ast.Subscript(value=ast.Name() as owner, slice=ast.Constant(value=str(key))):
            if others:
                return False
            named = "loss" in key or key in _TENSORS
            given = script.function(node) in called_in_steps(script) or (
                (script.runs_accelerated or uses_accelerate(script))
                and is_computed_from_a_forward(script, owner)
            )
            if _is_backwarded(script, node) or (named and given):
                return True
            if "loss" in key and is_handed_a_tensor(script, node):
                return True
            return is_one_of_losses(script, node) or held(script, owner, key)
        case ast.Subscript():
            return not value.kinds & _OTHERS and is_one_of_losses(script, node)
    return False


def _taken_out(script: Script, node: ast.expr, given: ast.expr) -> list[ast.expr]:
    """Return what `node` has of the dictionary `given`: what is under its key; `given` if that is no dictionary."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return held(script, given, key) or [given]
    return [given]


def _assigned_in_a_hook(script: Script, node: ast.expr, value: Value) -> list[ast.expr]:
    """Return what `node` is assigned, where a framework trains: `loss = outputs.loss`; nothing if it may be another value."""
    if value.kinds or script.function(node) not in called_in_steps(script):
        return []
    assigned = known_sources(script, node) if isinstance(node, ast.Name) else []
    return [] if any(map(_is_on_host, assigned)) else assigned


def _computed_of_what_is_handed(script: Script, node: ast.expr, value: Value) -> list[ast.expr]:
    """Return what the name `node` is computed from by an operator: `priorities = errors.abs() + 1e-5`."""
    known = known_sources(script, node) if isinstance(node, ast.Name) and not value.kinds else []
    parts = [part for each in known for part in walk(each) if isinstance(part, ast.expr)]
    is_computed = all(isinstance(each, (ast.BinOp, ast.Call)) for each in known)
    return known if is_computed and not any(map(_is_on_host, parts)) else []


def _is_on_host(node: ast.expr) -> bool:
    """Return True for `x.cpu()` and `x.tolist()`."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_method and name_of(node.func) in _LEAVES - {"to"}  # type: ignore[attr-defined]


def _is_computed(script: Script, node: ast.expr, value: Value) -> bool:
    """True if `node`, a tensor, is of a model that trains, or computed by a module of this file as it trains, or where a
    framework trains: on the device of the model then.
    """
    if value.kinds & {ACCEL, HOST}:
        return False
    if script.function(node) in called_in_steps(script):
        return True  # the framework has moved the module and its batches
    if not script.runs_accelerated:
        return False
    if value.has(WEIGHT) or _is_of_a_state(script, node):
        return script.is_trained
    return script.function(node) in computing(script) or is_computed_from_a_forward(script, node)


def _is_of_a_state(script: Script, node: ast.expr) -> bool:
    """Return True for buffers and their entries: `self.queue_ptr`, `self.targets[-1]`.

    A buffer that is assigned to itself, as in `self.mean = self.mean.cpu()`, is moved and not read.
    """
    statement = script.statement(node)
    if isinstance(statement, ast.Assign) and unparsed(node) in map(unparsed, statement.targets):
        return False
    node = root_of(node, ast.Subscript)
    return isinstance(node, ast.Attribute) and is_state(script, node)


def _is_tensor_for_sure(script: Script, node: ast.expr) -> bool:
    """Not an attribute of something like a tensor, nor a part of what a model has returned."""
    match node:
        case ast.Attribute(attr=name, value=owner):
            if is_state(script, node):
                return True
            return name in _TENSORS and (name != "data" or _is_tensor_for_sure(script, owner))
        case ast.Subscript(value=owner):
            return not _may_be_a_tuple(script, owner)
        case ast.Call(func=func) if _is_a_model(script, func):
            return gives_one_tensor(script, func)
        case ast.Call(func=ast.Attribute(value=owner)):
            return script.dotted(node.func) is not None or not script.value(owner).has(MODULE)
        case ast.Name():
            return _is_bound_to_tensors(script, node)
    return True


def _is_bound_to_tensors(script: Script, node: ast.Name) -> bool:
    """True if what reaches `node` are whole values that are tensors for sure."""
    for binding in script.reaching(node):
        if binding.how == "parameter":
            given = filter(None, passed(script, script.function(node), node.id))
            if any(_may_be_a_tuple(script, value) for value in given):
                return _is_backwarded(script, node)
        if _is_an_element(script, binding, of_it=True):
            return False
        if binding.how in {"augment", "parameter", "with"}:
            continue
        if binding.value is None:
            return False
        if binding.path and binding.how == "assign":
            if not isinstance(binding.value, (ast.Tuple, ast.List)) and _may_be_a_tuple(
                script, binding.value
            ):
                return _is_backwarded(script, node)
        elif not binding.path and not _is_tensor_for_sure(script, binding.value):
            return _is_backwarded(script, node)
    return True


def _is_an_element(script: Script, binding: Binding, of_it: bool = False) -> bool:
    """Return True for an element of a batch, or of a list whose elements are only known to be moved; `of_it`: only for a part of one."""
    if binding.how != "for" or binding.value is None:
        return False
    iterable, rest = iterable_of(binding.value, binding.path[1:])
    value = script.value(iterable)
    is_loose = value.element is not None and value.element.items is None
    return (is_loose or value.has(BATCH)) and bool(rest) >= of_it


def _is_a_model(script: Script, func: ast.expr) -> bool:
    """True if `func` is a module, or unknown and called a model."""
    value = script.value(func)
    return value.has(MODULE) or (value == UNKNOWN and is_called_a_model(func))


def _may_be_a_tuple(script: Script, node: ast.expr) -> bool:
    """Return True for what a model's call returned and for elements of batches: tuples or objects, with numbers in them."""
    root = root_of(node, ast.Subscript)
    bound = script.reaching(root) if isinstance(root, ast.Name) else []
    values = (root, *(b.value for b in bound))
    names = (each for each in values if isinstance(each, ast.Name))
    if any(_is_an_element(script, b) for name in names for b in script.reaching(name)):
        return True
    calls = (value for value in values if isinstance(value, ast.Call))
    return any(_is_a_model(script, c.func) and not gives_one_tensor(script, c.func) for c in calls)


def _is_backwarded(script: Script, node: ast.expr) -> bool:
    """True if gradients of `node` are computed in its function, or the one that calls it: a tensor then, on the device."""
    given, is_here = partial(_given_losses, script), partial(_is_backwarded_here, script)
    return is_here(node) or all_ends(given(node), given, is_here)


def _is_backwarded_here(script: Script, node: ast.expr) -> bool:
    if not (script.runs_accelerated or uses_accelerate(script)):
        return False
    if isinstance(node, ast.Name) and _has_become_a_number(script, node):
        return False
    function, text = script.function(node), unparsed(node)
    return any(unparsed(n) == text and script.function(n) is function for n in losses(script))


def _given_losses(script: Script, node: ast.expr) -> list[ast.expr]:
    """Return what all calls pass for the parameter `node`, or what `node = optimizer.step(closure)` computes gradients of."""
    if not isinstance(node, ast.Name) or _is_backwarded_here(script, node):
        return []
    if not (script.runs_accelerated or uses_accelerate(script)) or _has_become_a_number(
        script, node
    ):
        return []
    found = [_losses_in(script, below(value)) for value in known_sources(script, node)]
    return [loss for several in found for loss in several] if all(found) else []


def _losses_in(script: Script, step: ast.expr) -> list[ast.expr]:
    """Return a name itself; of `optimizer.step(closure)` what the closure returns, which is what the step returns."""
    if isinstance(step, (ast.Name, ast.Attribute)):
        return [step]
    if not isinstance(step, ast.Call):
        return []
    if script.training.step(step) is None:
        return []
    for given in (*step.args, *(k.value for k in step.keywords)):
        match given:
            case (ast.Name() as called) | ast.Lambda(body=ast.Call(func=ast.Name() as called)):
                function = script.value(called).definition
            case _:
                continue
        if isinstance(function, ast.FunctionDef):
            values = [below(value) for value in returned(function)]
            known = [v for v in values if isinstance(v, (ast.Name, ast.Attribute))]
            return [*known] if len(known) == len(values) else []
    return []


def _has_become_a_number(script: Script, node: ast.Name) -> bool:
    """True if the loss has been read into its own name: `loss = loss.item() if loss is not None else None`."""
    reaching = script.reaching(node)
    values = [b.value for b in reaching if b.how == "assign" and not b.path]
    return any(_is_a_number_of(value, node.id) for value in values if value is not None)


def _is_a_number_of(value: ast.expr, name: str) -> bool:
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return _is_a_number_of(body, name) or _is_a_number_of(orelse, name)
        case (
            ast.Call(func=ast.Name(id="float"), args=[read])
            | ast.Call(func=ast.Attribute(value=read, attr="item" | "tolist"), args=[])
        ):
            return name in identifiers(read)
    return False
