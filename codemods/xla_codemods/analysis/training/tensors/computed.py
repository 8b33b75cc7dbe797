"""What the modules of a file compute: which functions run in it, and which modules give one tensor."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...inference.values import TENSOR
from ...once import once
from ...projects import in_steps
from ...scopes import Binding, FunctionNode
from ...script import Script

# Modules of torch.nn whose call gives something else than one tensor.
_OTHERS = frozenset(
    "AdaptiveLogSoftmaxWithLoss GRU GRUCell LSTM LSTMCell Module ModuleDict ModuleList MultiheadAttention ParameterDict "
    "ParameterList RNN DataParallel FractionalMaxPool2d".split()
)


@once
def computing(script: Script) -> Collection[FunctionNode]:
    """What runs when a model computes, of this file or of another module that calls functions of this file."""
    if not script.is_trained:
        return ()
    own = in_steps.computing(script.index)
    others = (f for f, _ in script.index.of(ast.FunctionDef) if f not in own)
    return dict.fromkeys((*own, *filter(script.callers.are_in_a_model, others))).keys()


def gives_one_tensor(script: Script, func: ast.expr) -> bool:
    """True if calling the module `func` surely gives one tensor: most of torch.nn, or a local class by its `forward`."""
    definition = script.value(func).definition
    if isinstance(definition, ast.ClassDef):
        method = script.inference.method(definition, "forward")
        if method is None:
            return False
        returned = script.inference.returned(*method)
        return returned.kinds == {TENSOR} and not (returned.items or returned.fields)
    made = [_dotted(script, binding) for binding in _bindings(script, func)]
    return bool(made) and all(
        dotted is not None
        and dotted.startswith("torch.nn.")
        and dotted.count(".") == 2
        and dotted.rpartition(".")[2] not in _OTHERS
        for dotted in made
    )


def is_state(script: Script, node: ast.Attribute) -> bool:
    """True if `node` is a parameter or a buffer that its module has made: `self.queue_ptr`."""
    made = _bindings(script, node)
    if any(binding.how == "buffer" for binding in made):
        return True  # what is assigned to its name later is a buffer, too
    if not made and _registers_by_name(script, node):
        return True
    return bool(made) and all(
        _dotted(script, binding) in {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}
        for binding in made
    )


def _registers_by_name(script: Script, node: ast.Attribute) -> bool:
    """Return True if the class of `node` registers its buffers in a loop: `self.register_buffer(name, value)`."""
    definition = script.value(node.value).definition
    calls = [call for call, _ in script.index.calls_of("register_buffer")]
    return isinstance(definition, ast.ClassDef) and any(
        definition in script.ancestors(call)
        and not isinstance(call.args[0] if call.args else None, ast.Constant)
        for call in calls
    )


def _dotted(script: Script, binding: Binding) -> str | None:
    """Whose instance is bound, looking through `.to(...)` and `.cuda()`."""
    value = binding.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in {"to", "cuda", "train", "eval", "float"}:
            break
        value = value.func.value
    if isinstance(value, ast.Call) and not binding.path:
        return script.dotted(value.func)
    return None


def _bindings(script: Script, func: ast.expr) -> list[Binding]:
    match func:
        case ast.Attribute(value=owner, attr=name):
            definition = script.value(owner).definition
            if isinstance(definition, ast.ClassDef):
                attributes = script.inference.class_attributes(definition)
                return [binding for binding, _ in attributes.get(name, ())]
    return script.bindings(func)
