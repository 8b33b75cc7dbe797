"""Arguments that other modules of a project pass to this module's functions: `criterion(model(x), y)` of a class in `losses.py`.

Only modules that train are searched, or all modules if this one trains. Other calls say little about a tensor's
device in a training step.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..index import Index
from ..inference.values import HOST, TENSOR, UNKNOWN, Value, for_others
from ..loops import scaled_by_name
from ..scopes import FunctionNode, Scope, resolve
from ..syntax import CALLED_AS_INSTANCE, argument_for, names_given
from .in_steps import (
    above,
    computing,
    is_beside_a_backward,
    is_in_a_step,
    on_elements,
    tensor_behind,
)
from .project import TRAINS, Project

_MODELS = ("def forward(",)
_BACKWARD = "backward("
_SCALES = "scaler("  # `loss_scaler(loss, optimizer)`, which goes backward and steps


class Call(NamedTuple):
    """A call in another module, with the scope that it stands in and the index of that module.

    `passes` has the arguments, if another call that it causes passes them.
    """

    node: ast.Call
    scope: Scope
    home: Index
    passes: ast.Call | None = None

    def argument(self, name: str, function: FunctionNode, owner: str) -> ast.expr | None:
        """Return what it passes for the parameter `name` of `function`, a method if `owner` is not empty."""
        call = self.passes or self.node
        return argument_for(name, function, call, skip_self=bool(owner))


class Callers:
    """The calls that other modules make of the functions of the one that `project` is seen from, each looked for once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.path = project.path
        self._calls: dict[tuple[str, str], list[Call]] = {}

    def handed(self, name: str, function: FunctionNode, owner: str) -> Iterator[Value]:
        """Yield the values that they pass for the parameter `name` of `function`, a method if `owner` is not empty."""
        for call in self.of(function, owner):
            argument = call.argument(name, function, owner)
            if argument is not None:
                yield for_others(call.home.inference.value(argument, call.scope))

    def of(self, function: FunctionNode, owner: str) -> list[Call]:
        """The calls of `function`."""
        key = owner, function.name
        if key not in self._calls:
            self._calls[key] = list(self._found(owner, function.name))
        return self._calls[key]

    def take_part_in_steps(self, function: FunctionNode, owner: str) -> bool:
        """True if one of them stands in a loop or function that computes gradients as well."""
        if any(is_beside_a_backward(c.node, c.home) for c in self.of(function, owner)):
            return True
        return bool(owner) and any(
            is_in_a_step(c.node, c.home) for c in self._of_objects(function.name, owner)
        )

    def are_in_a_model(self, function: ast.FunctionDef) -> bool:
        """True if one of them, of a function of the module, is a part of what a model computes."""
        models = self._importing(function.name, self.project.modules.having(_MODELS))
        return any(
            index.function(call.node) in computing(index)
            for other, index in models
            for call in self._calls_of(function.name, other, index)
        )

    def hand_a_tensor_for(self, read: ast.expr, function: FunctionNode, owner: str) -> bool:
        """True if one of them is in each step, and `read`, a parameter, or an attribute or an entry of one, is a tensor of
        its losses.
        """
        root = read.value if isinstance(read, (ast.Attribute, ast.Subscript)) else read
        if not isinstance(root, ast.Name):
            return False
        for call in self._in_steps(function, owner):
            argument = call.argument(root.id, function, owner)
            if argument is None:
                continue
            if isinstance(read, ast.Subscript):
                if _may_hold_a_loss(argument, read, call):
                    return True
            elif not isinstance(read, ast.Attribute):
                if _is_on_the_accelerator(argument, call):
                    return True
            elif f"{ast.unparse(argument)}.{read.attr}" in call.home.cached(_losses):
                return True
        return False

    def hand_tensors_in_steps(self, function: FunctionNode, owner: str) -> bool:
        """True if one of them is in each step, and hands over a tensor, or a dict of losses whose values are not known."""
        return any(map(_hands_a_tensor, self._in_steps(function, owner)))

    def hand_numbers_in_steps(self, function: FunctionNode, owner: str) -> bool:
        """True if one of them is in each step, and hands over what it reads of a tensor: `update(loss=loss.item())`."""
        return any(map(_hands_a_number, self._in_steps(function, owner)))

    def _in_steps(self, function: FunctionNode, owner: str) -> list[Call]:
        calls = self.of(function, owner)
        if owner and not calls:
            calls = list(self._of_objects(function.name, owner))
        return [call for call in calls if is_in_a_step(call.node, call.home)]

    def is_called_in_a_loop(self, function: FunctionNode, owner: str) -> bool:
        """True if another module calls `function` in each turn of a loop; a method of a class by its name.

        Also from a function that it calls in a loop itself.
        """
        if owner and function.name in CALLED_AS_INSTANCE:
            return any(_is_repeated(call.node, call.home) for call in self.of(function, owner))
        for other, index in self._importing(function.name):
            calls = (
                ((c, s) for c, s in index.calls_of(function.name) if _is_of_an_object(c, s))
                if owner
                else (
                    (call.node, call.scope) for call in self._calls_of(function.name, other, index)
                )
            )
            if any(_is_repeated(call, index) for call, _ in calls):
                return True
            if owner and any(_is_in_a_loop(c, index) for c in handed_to(function.name, index)):
                return True
        return False

    def _found(self, owner: str, function: str) -> Iterator[Call]:
        if owner and function != "__init__" and function not in CALLED_AS_INSTANCE:
            return
        for other, index in self._of_training(owner or function):
            made = self._calls_of(owner or function, other, index)
            if function in CALLED_AS_INSTANCE:
                for name in sorted(_instances(made)):
                    yield from (Call(node, scope, index) for node, scope in index.calls_of(name))
            else:
                yield from made

    def _of_objects(self, method: str, owner: str) -> Iterator[Call]:
        """Yield the calls of `method` on objects of the class `owner`, and on those whose class is not known."""
        yield from self._of_instances(method, owner)
        if not method.startswith("__"):
            yield from self._of_elements(method)

    def _of_elements(self, method: str) -> Iterator[Call]:
        """Yield `callback.on_batch_end(loss)` of `for callback in self.callbacks`, in other modules that train."""
        stepping = self.project.modules.having((_BACKWARD, _SCALES))
        for other in sorted(self.project.modules.with_word(method) & stepping):
            index = self.project.modules.whole(other) if other != self.path else None
            if index is not None:
                found = on_elements(method, index)
                yield from (Call(c.node, c.scope, index, c.passes) for c in found)

    def _of_instances(self, method: str, owner: str) -> Iterator[Call]:
        """Yield `logger.update(loss=loss)` if the same module has made `logger = Logger()`."""
        for other, index in self._of_training(owner):
            calls = index.calls_of(method)
            names = _instances(self._calls_of(owner, other, index)) if calls else ()
            for node, scope in calls if names else ():
                match node.func:
                    case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
                        if name in names:
                            yield Call(node, scope, index)

    def _of_training(self, name: str) -> Iterator[tuple[str, Index]]:
        """The modules that import this one and speak of `name`, where one of the two trains."""
        training = self.project.modules.having((*TRAINS, _SCALES))
        yield from self._importing(name, None if self.path in training else training)

    def _importing(
        self, name: str, among: Collection[str] | None = None
    ) -> Iterator[tuple[str, Index]]:
        """The modules, of those `among`, that import this one and speak of `name`."""
        for other in sorted(self.project.modules.graph.importers.get(self.path, ())):
            if other in self.project.modules.with_word(name) and (among is None or other in among):
                index = self.project.modules.whole(other)
                if index is not None:
                    yield other, index

    def _calls_of(self, name: str, other: str, index: Index) -> Iterator[Call]:
        """The calls in the module at `other` of what this module calls `name`."""
        imports = self.project.modules.imports(other)
        for local in sorted({name, *(found.local for found in imports if found.name == name)}):
            for node, scope in index.calls_of(local):
                dotted = resolve(node.func, scope)
                found = self.project.modules.defined(dotted, other) if dotted else None
                if found is not None and found[1] == self.path and _name(found[0]) == name:
                    yield Call(node, scope, index)


def _instances(made: Iterable[Call]) -> set[str]:
    """What the objects that these calls make are bound to."""
    return {name for call in made for name in names_given(call.node, call.home.parents.get)}


def handed_to(method: str, index: Index) -> Iterator[ast.Call]:
    """Yield the calls that receive `method` of an object to call it: `retry(trainer.train_step, batch)`."""
    for node, scope in index.of(ast.Attribute):
        call = index.parents.get(node) if node.attr == method else None
        if isinstance(call, ast.Call) and node in call.args and resolve(node, scope) is None:
            yield call


def _is_of_an_object(call: ast.Call, scope: Scope) -> bool:
    """`trainer.train_step(batch)`, which is no function of a library."""
    return isinstance(call.func, ast.Attribute) and resolve(call.func, scope) is None


def _is_in_a_loop(node: ast.AST, index: Index) -> bool:
    """True if `node` runs in each turn of a loop; a function that is only made there does not."""
    return any(
        isinstance(a, (ast.For, ast.AsyncFor, ast.While)) and c in a.body
        for c, a in above(node, index)
    )


def _is_repeated(call: ast.AST, index: Index) -> bool:
    """True if `call` runs in each turn of a loop, or of one that calls the function around it."""
    if _is_in_a_loop(call, index):
        return True
    around = index.function(call)
    return around is not None and any(
        _is_in_a_loop(outer, index) for outer, _ in index.calls_of(around.name)
    )


def _is_on_the_accelerator(argument: ast.expr, call: Call) -> bool:
    value = call.home.inference.value(argument, call.scope)
    if value.has(HOST):
        return False
    return value.has(TENSOR) or ast.unparse(argument) in call.home.cached(_losses)


def _may_hold_a_loss(argument: ast.expr, read: ast.Subscript, call: Call) -> bool:
    """True if `argument` is a dict with a tensor under the key of `read`, or nothing is known of it: `outputs["loss"]`."""
    value = call.home.inference.value(argument, call.scope)
    key = read.slice.value if isinstance(read.slice, ast.Constant) else None
    if value.fields is None or not isinstance(key, str):
        return value == UNKNOWN
    field = value.fields.get(key, UNKNOWN)
    return field == UNKNOWN or (field.has(TENSOR) and not field.has(HOST))


def _losses(home: Index) -> set[str]:
    """What gradients are computed of, as text."""
    functions = [backward.func for backward, _ in home.calls_of("backward")]
    losses = {ast.unparse(f.value) for f in functions if isinstance(f, ast.Attribute)}
    scaled = (scaled_by_name(other) for other, _ in home.of(ast.Call))
    return losses | {ast.unparse(loss) for loss in scaled if loss is not None}


def _hands_a_tensor(call: Call) -> bool:
    value = call.home.inference.value
    losses = call.home.cached(_losses)
    for argument in (*call.node.args, *(k.value for k in call.node.keywords if k.arg)):
        if value(argument, call.scope).has(TENSOR) or ast.unparse(argument) in losses:
            return True
    spread = [k.value for k in call.node.keywords if k.arg is None]
    return any(_speaks_of_losses(s, call) and not value(s, call.scope).fields for s in spread)


def _speaks_of_losses(spread: ast.expr, call: Call) -> bool:
    """`loss_dict`, or a name that is given `reduce_dict(loss_dict)`."""
    texts = [ast.unparse(spread)]
    if isinstance(spread, ast.Name):
        found = call.scope.find(spread.id)
        texts += [ast.unparse(b.value) for b in (found[1] if found else ()) if b.value is not None]
    return any("loss" in text for text in texts)


def _hands_a_number(call: Call) -> bool:
    """True for `update(loss=loss.item())`, also by way of a name."""
    given = (*call.node.args, *(k.value for k in call.node.keywords if k.arg))
    return any(tensor_behind(argument, call.scope, call.home) for argument in given)


def _name(node: ast.AST) -> str:
    return getattr(node, "name", "")
