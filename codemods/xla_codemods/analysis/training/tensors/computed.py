"""What the modules of a file compute: which functions run in it, and which modules give one tensor."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ...inference.values import MODULE, TENSOR
from ...scopes import Binding, FunctionNode, Scope
from ...syntax import walk_body

if TYPE_CHECKING:
    from ...script import Script

# Modules of torch.nn whose call gives something else than one tensor.
_OTHERS = frozenset(
    "AdaptiveLogSoftmaxWithLoss GRU GRUCell LSTM LSTMCell Module ModuleDict ModuleList MultiheadAttention ParameterDict "
    "ParameterList RNN DataParallel FractionalMaxPool2d".split()
)
_computing: WeakKeyDictionary[Script, frozenset[FunctionNode]] = WeakKeyDictionary()


def computing(script: Script) -> frozenset[FunctionNode | None]:
    """The `forward` methods of local modules, and the methods of the same class that they call."""
    found = _computing.get(script)
    if found is None:
        found = _computing[script] = (
            frozenset(_reached(script)) if script.is_trained else frozenset()
        )
    return found


def _reached(script: Script) -> set[FunctionNode]:
    reached: set[FunctionNode] = set()
    for definition, scope in script.index.of(ast.ClassDef):
        if MODULE not in script.inference.base_kind(definition, scope):
            continue
        methods = {
            m.name: m
            for m in definition.body
            if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        work = [methods["forward"]] if "forward" in methods else []
        while work:
            method = work.pop()
            reached.add(method)
            for node in walk_body(method.body):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                        name in methods and methods[name] not in reached
                    ):
                        work.append(methods[name])
    return reached


def gives_one_tensor(script: Script, func: ast.expr) -> bool:
    """True if calling the module `func` surely gives one tensor: most of torch.nn, or a local class by its `forward`."""
    definition = script.value(func).definition
    if isinstance(definition, ast.ClassDef):
        method = script.inference.method(definition, "forward")
        if method is None:
            return False
        returned = script.inference.returned(*method)
        return returned.kinds == {TENSOR} and not (returned.items or returned.fields)
    made = [_dotted(script, b, home) for b, home in _bindings(script, func)]
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
    if any(b.how == "buffer" for b, _ in made):
        return True  # what is assigned to its name later is a buffer, too
    return bool(made) and all(
        _dotted(script, b, home) in {"torch.nn.Parameter", "torch.nn.parameter.Parameter"}
        for b, home in made
    )


def _dotted(script: Script, binding: Binding, home: Scope) -> str | None:
    """Whose instance is bound, looking through `.to(...)` and `.cuda()`."""
    value = binding.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in {"to", "cuda", "train", "eval", "float"}:
            break
        value = value.func.value
    if isinstance(value, ast.Call) and not binding.path:
        return script.dotted(value.func, home)
    return None


def _bindings(script: Script, func: ast.expr) -> list[tuple[Binding, Scope]]:
    match func:
        case ast.Name(id=name):
            found = script.index.scope(func).find(name)
            return [(b, found[0]) for b in found[1]] if found else []
        case ast.Attribute(value=owner, attr=name):
            definition = script.value(owner).definition
            if isinstance(definition, ast.ClassDef):
                return script.inference.class_attributes(definition).get(name, [])
    return []
