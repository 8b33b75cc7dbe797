"""Calls in other modules of a program of this module's functions: `criterion(model(x), y)` of a class in `losses.py`.

Only modules that train or define models are searched, or all modules if this one trains. Other calls say little about
a tensor's device in a training step. What a caller passes may come from its own callers: `train.py` calls a loss in
`losses.py`, and the loss calls `match` in `boxes.py`. Values are followed over two modules, no further.

Calls are found by what names mean, never by values as in `passed_arguments`, since values depend on what calls pass.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from ...flow.containers import ANY, elements, held
from ...patterns import Pattern
from ..index import Index
from ..inference.values import ACCEL, HOST, TENSOR, UNKNOWN, Value, for_others
from ..loops import scaled_by_name
from ..scopes import FunctionNode, Scope, resolve
from ..syntax import CALLED_AS_INSTANCE, argument_for, name_of, names_given, unparsed
from .in_steps import (
    Call,
    computing,
    is_beside_a_backward,
    is_in_a_step,
    is_repeated,
    on_elements,
    passes_method,
    tensor_behind,
)
from .project import COMPUTES_GRADIENTS, SCALES, TRAINS, Project

_MODELS = ("def forward(",)
# Parameters that a loss or a metric compares.
_COMPARED = Pattern(
    r"^(?:y|(?:y_?)?(?:gt|hat|pred|true)|(?:label|logit|output|pred|prediction|score|target)s?)$"
)
# Names of dictionaries with the losses of a step.
_LOSSES = Pattern(r"loss|log\b|logs\b|log_vars|metrics|outputs|stats")


class Callers:
    """The calls of the functions of one module in the others, each found once.

    follows: True if the callers of those modules determine what their parameters are.
    """

    def __init__(self, project: Project, index: Index, follows: bool = True) -> None:
        self.project, self.index, self._follows = project, index, follows
        self._calls: dict[FunctionNode, list[Call]] = {}
        self._names: dict[str, tuple[set[str], frozenset[str]]] = {}

    def passed(self, name: str, function: FunctionNode) -> Iterator[Value]:
        """Yield the values that the calls pass for the parameter `name` of `function`.

        A tensor that a module has on the host says little if neither that module nor this one trains: others may pass
        one on the device.
        """
        for call in self.of(function):
            argument = self._argument(call, name, function)
            if argument is not None:
                value = for_others(self._with_callers(call.home).value(argument))
                if self._is_a_test(call):
                    value = value._replace(kinds=value.kinds - {ACCEL, HOST})
                if HOST not in value.kinds or self._training & {self.project.path, call.home.path}:
                    yield value

    def _is_a_test(self, call: Call) -> bool:
        """Return True if a test calls, which says what a program passes, but not on which device."""
        tests = self.project.modules.tests
        return call.home.path in tests and self.project.path not in tests

    def _with_callers(self, home: Index) -> Index:
        """Return the module `home` with parameters that are what its own callers pass."""
        modules = self.project.modules
        if not self._follows or not modules.graph.importers.get(home.path):
            return home

        def followed() -> Index:
            index, project = home.with_own_values(), Project(modules, home.path)
            project.inform(index.inference)
            index.inference.passed = Callers(project, index, follows=False).passed
            return index

        return modules.remembered(("module with callers", home.path), followed)

    def of(self, function: FunctionNode) -> list[Call]:
        """Return the calls of `function`, except of methods other than `__init__`, `__call__` and `forward`."""
        if function not in self._calls:
            self._calls[function] = list(self._found(function))
        return self._calls[function]

    def arguments(self, name: str, function: FunctionNode) -> list[ast.expr | None] | None:
        """Return what each call passes for the parameter `name`, or None; None if some calls may be unknown."""
        owner = self._owner(function)
        if owner is None or (owner and function.name not in {"__init__", *CALLED_AS_INSTANCE}):
            return None if owner and any(self._importing(function.name)) else []
        return [self._argument(call, name, function) for call in self.of(function)]

    def are_for_a_device(self, function: FunctionNode) -> bool:
        """Return True if there are calls of the method on objects of its class, all for the accelerator: `rollouts.to(device)`."""
        calls = list(self._on_objects(function))
        values = (call.home.value(each) for call in calls for each in _arguments(call.node))
        return bool(calls) and all(value.has(ACCEL) or not value.has(HOST) for value in values)

    def take_part_in_steps(self, function: FunctionNode) -> bool:
        """Return True if a loop or function that computes gradients calls `function`, or a hook that such a loop calls."""
        if self._is_called_in_steps(function):
            return True
        return any(map(self._is_in_a_hook, self._of_attributes(function)))

    def _is_called_in_steps(self, function: FunctionNode) -> bool:
        calls = (*self.of(function), *self._of_heirs(function))
        return any(is_beside_a_backward(call.node, call.home) for call in calls) or any(
            is_in_a_step(call.node, call.home) for call in self._of_objects(function)
        )

    def are_in_a_model(self, function: FunctionNode) -> bool:
        """Return True if a model calls `function` of the module to compute its result, or a loss or metric is chosen by name."""
        if self._owner(function) != "":
            return False
        if self._are_chosen_by_name(function):
            return True
        models = self._importing(function.name, self.project.modules.having(_MODELS))
        return any(
            index.function(call) in computing(index)
            for other, index in models
            for call in self._calls_of(function.name, other, index)
        )

    def _are_chosen_by_name(self, function: FunctionNode) -> bool:
        """Return True if `getattr(metrics, name)` in another module may give `function`, and it takes outputs and targets."""
        taken = [each.arg for each in function.args.args if _COMPARED.search(each.arg)]
        modules = self.project.modules
        return len(taken) > 1 and any(
            modules.locate(resolve(call.args[0], scope) or "", other) == (self.project.path, [])
            for other, index in self._importing("getattr")
            for call, scope in index.calls_of("getattr")
            if len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
        )

    def hand_a_tensor_for(self, read: ast.expr, function: FunctionNode) -> bool:
        """Return True if a call in each step passes a tensor for `read`: a parameter, or an attribute or entry of one."""
        root = read.value if isinstance(read, (ast.Attribute, ast.Subscript)) else read
        return any(
            _is_a_tensor(argument, read, call.home)
            for call in self._in_steps(function)
            if (argument := self._argument(call, name_of(root), function)) is not None
        )

    def give_an_object_with_loss(self, holder: str, loss: str) -> bool:
        """Return True if gradients of the attribute `loss` are computed of the object that other modules give to `self.<holder>`."""
        objects = (*self._stored_as(holder), *self._passed_to_store(holder))
        return any(f"{unparsed(given)}.{loss}" in home.cached(_losses) for given, home in objects)

    def _stored_as(self, holder: str) -> Iterator[tuple[ast.expr, Index]]:
        """Yield what other modules store as `holder` in objects: `callback.learner = self`."""
        modules = self.project.modules
        for other in sorted(modules.with_word(holder) & modules.having(COMPUTES_GRADIENTS)):
            index = modules.whole(other) if other != self.project.path else None
            for target in index.stores(holder) if index is not None else ():
                statement = index.parent(target) if index is not None else None
                if isinstance(statement, ast.Assign) and index is not None:
                    yield statement.value, index

    def _passed_to_store(self, holder: str) -> Iterator[tuple[ast.expr, Index]]:
        """Yield what other modules pass to methods of this one that store it: `callback.set_learner(self)`."""
        for target in self.index.stores(holder):
            statement, function = self.index.parent(target), self.index.function(target)
            if function is not None and isinstance(statement, ast.Assign):
                for call in self._of_objects(function) if self._owner(function) else ():
                    given = self._argument(call, name_of(statement.value), function)
                    if given is not None:
                        yield given, call.home

    def hand_dictionaries_of_tensors(self, name: str, function: FunctionNode) -> bool:
        """Return True if a call in each step passes a dictionary with a tensor for the parameter `name`."""
        return any(
            _is_a_tensor(value, value, call.home)
            for call in self._in_steps(function)
            if (argument := self._argument(call, name, function)) is not None
            for value in held(call.home, argument, ANY)
        )

    def hand_tensors_in_steps(self, function: FunctionNode) -> bool:
        """Return True if a call in each step passes a tensor, or a dict of losses whose values are not known."""
        return any(map(_hands_a_tensor, self._in_steps(function)))

    def hand_numbers_in_steps(self, function: FunctionNode) -> bool:
        """Return True if a call in each step passes a number read from a tensor: `update(loss=loss.item())`."""
        return any(
            tensor_behind(argument, call.home)
            for call in self._in_steps(function)
            for argument in _arguments(call.node)
        )

    def call_in_a_loop(self, function: FunctionNode) -> bool:
        """Return True if a loop of another module calls `function`; a method of a class by its name."""
        name, owner = function.name, self._owner(function)
        if owner and name in CALLED_AS_INSTANCE:
            return any(is_repeated([call.node], call.home) for call in self.of(function))
        for other, index in self._importing(name) if owner is not None else ():
            calls = self._calls_of(name, other, index)
            if owner:
                calls = [
                    call for call, scope in index.calls_of(name) if _is_of_an_object(call, scope)
                ]
            if is_repeated([*calls, *(passes_method(name, index) if owner else ())], index):
                return True
        return False

    def _owner(self, function: FunctionNode) -> str | None:
        """Return the name of the class of `function`, "" for a function of the module, None for an inner one."""
        around = self.index.parent(function)
        if isinstance(around, ast.Module):
            return ""
        return around.name if isinstance(around, ast.ClassDef) else None

    def _argument(self, call: Call, name: str, function: FunctionNode) -> ast.expr | None:
        return argument_for(name, function, call.passes, skip_self=bool(self._owner(function)))

    def _in_steps(self, function: FunctionNode) -> list[Call]:
        calls = self.of(function) or self._of_objects(function)
        heirs = (c for c in self._of_heirs(function) if is_beside_a_backward(c.node, c.home))
        in_hooks = (c for c in self._of_attributes(function) if self._is_in_a_hook(c))
        return [*(c for c in calls if is_in_a_step(c.node, c.home)), *heirs, *in_hooks]

    def _found(self, function: FunctionNode) -> Iterator[Call]:
        name, owner = function.name, self._owner(function)
        if owner is None or (owner and name not in {"__init__", *CALLED_AS_INSTANCE}):
            return
        for other, index in self._of_training(owner or name):
            calls = self._calls_of(owner or name, other, index)
            if name in CALLED_AS_INSTANCE:
                names = sorted(_instances(calls, index))
                calls = [call for each in names for call, _ in index.calls_of(each)]
            yield from (Call(call, index, call) for call in calls)

    def _of_objects(self, function: FunctionNode) -> Iterator[Call]:
        """Yield the calls of a method on objects of its class, and on those whose class is not known."""
        name = function.name
        yield from self._on_objects(function)
        if self._owner(function) and not name.startswith("__"):
            modules, start = self.project.modules, name.partition("_")[0]
            stepping = modules.having(COMPUTES_GRADIENTS) - {self.project.path}
            called = modules.with_word(name) | modules.having((f"{start}_{{",))  # f"after_{event}"
            for other in sorted(called & stepping):
                found = modules.whole(other)
                yield from on_elements(name, found) if found is not None else ()

    def _on_objects(self, function: FunctionNode) -> Iterator[Call]:
        owner = self._owner(function)
        for other, index in self._of_training(owner) if owner else ():
            calls = index.calls_of(function.name)
            made = self._calls_of(str(owner), other, index) if calls else []
            names = _instances(made, index)
            for call, _ in calls:
                whole = getattr(call.func, "value", None)
                if whole in made or (whole is not None and name_of(whole) in names):
                    yield Call(call, index, call)

    def _of_attributes(self, function: FunctionNode) -> Iterator[Call]:
        """Yield the calls of a method on an attribute that holds its object, in any module.

        `trainer.meters.update(loss=loss)` of a hook, where another module assigns `self.meters = Meters()`.
        """
        owner, modules = self._owner(function), self.project.modules
        if not owner or function.name.startswith("__"):
            return
        names, having = self._held_as(owner)
        for other in sorted(having & modules.with_word(function.name)):
            index = modules.whole(other)
            for call, _ in index.calls_of(function.name) if index is not None else ():
                if index and isinstance(call.func, ast.Attribute):
                    bound = index.bindings(call.func.value)  # meters = trainer.meters
                    places = [call.func.value, *(b.whole for b in bound if b.whole is not None)]
                    if any(isinstance(p, ast.Attribute) and p.attr in names for p in places):
                        yield Call(call, index, call)

    def _held_as(self, owner: str) -> tuple[set[str], frozenset[str]]:
        """Return the names that objects of the class `owner` are bound to in other modules, and the modules with these names."""
        if owner not in self._names:
            names = {
                name
                for other, index in self._of_training(owner)
                for name in _instances(self._calls_of(owner, other, index), index)
            }
            with_word = self.project.modules.with_word
            self._names[owner] = names, frozenset[str]().union(*map(with_word, names))
        return self._names[owner]

    def _is_in_a_hook(self, call: Call) -> bool:
        """Return True if the method around `call` takes training steps, or those of another module call it."""
        around, modules = call.home.function(call.node), self.project.modules
        path = call.home.path
        if around is None or path == self.project.path:
            return False
        if is_in_a_step(call.node, call.home):
            return True
        others = modules.remembered(
            ("callers", path), lambda: Callers(Project(modules, path), call.home, follows=False)
        )
        return others._is_called_in_steps(around)

    def _of_heirs(self, function: FunctionNode) -> Iterator[Call]:
        """Yield the calls of a method by `self` in classes of other modules that derive from its class."""
        owner = self._owner(function)
        for other, index in self._of_training(owner) if owner else ():
            for call, _ in index.calls_of(function.name):
                if isinstance(call.func, ast.Attribute) and name_of(call.func.value) == "self":
                    around = index.class_around(call)
                    lineage = index.inference.lineage(around) if around is not None else ()
                    bases = (base for definition in lineage for base in definition.bases)
                    if any(self._is_ours(base, str(owner), other, index) for base in bases):
                        yield Call(call, index, call)

    def _of_training(self, name: str) -> Iterator[tuple[str, Index]]:
        """Yield the modules that import this one and contain `name`, if one of the two trains."""
        is_trained = self.project.path in self._training
        yield from self._importing(name, None if is_trained else self._training | self._models)

    @cached_property
    def _models(self) -> frozenset[str]:
        """Return the modules, except tests, that define models."""
        return self.project.modules.having(_MODELS) - self.project.modules.tests

    @cached_property
    def _training(self) -> frozenset[str]:
        return self.project.modules.having((*TRAINS, SCALES))

    def _importing(
        self, name: str, among: Collection[str] | None = None
    ) -> Iterator[tuple[str, Index]]:
        """Yield the modules, of those `among`, that import this one and contain `name`."""
        modules = self.project.modules
        for other in sorted(modules.graph.users(self.project.path) & modules.with_word(name)):
            if among is None or other in among:
                index = modules.whole(other)
                if index is not None:
                    yield other, index

    def _calls_of(self, name: str, other: str, index: Index) -> list[ast.Call]:
        """Return the calls in the module at `other` of what this module calls `name`."""
        names = sorted({name, *self.project.modules.local_names(name, other)})
        calls = (call for local in names for call, _ in index.calls_of(local))
        return [call for call in calls if self._is_ours(call.func, name, other, index)]

    def _is_ours(self, node: ast.expr, name: str, other: str, index: Index) -> bool:
        """Return True if `node` in the module at `other` is what this module calls `name`."""
        dotted = index.dotted(node)
        defined = self.project.modules.defined(dotted, other) if dotted else None
        is_here = defined is not None and defined[1] == self.project.path
        return defined is not None and is_here and getattr(defined[0], "name", "") == name


def _instances(made: Iterable[ast.Call], home: Index) -> set[str]:
    """Return the names that the objects which these calls make are bound to."""
    return {name for call in made for name in names_given(call, home.parent)}


def _is_of_an_object(call: ast.Call, scope: Scope) -> bool:
    """Return True for `trainer.train_step(batch)`, and False for a function of a library."""
    return isinstance(call.func, ast.Attribute) and resolve(call.func, scope) is None


def _is_a_tensor(argument: ast.expr, read: ast.expr, home: Index) -> bool:
    """Return True if `read` is a tensor when its parameter is `argument`."""
    value, losses = home.value(argument), home.cached(_losses)
    match read:
        case ast.Attribute(attr=name):
            return f"{ast.unparse(argument)}.{name}" in losses
        case ast.Subscript(slice=ast.Constant(value=str(key))) if value.fields is not None:
            field = value.fields.get(key, UNKNOWN)
            return field == UNKNOWN or (field.has(TENSOR) and not field.has(HOST))
        case ast.Subscript():
            return value == UNKNOWN
    is_known = value.has(TENSOR) or ast.unparse(argument) in losses
    return is_known and not value.has(HOST)


def _losses(home: Index) -> set[str]:
    """Return the expressions, as text, that gradients are computed of."""
    calls = [call for call, _ in home.calls_of("backward")]
    losses = {ast.unparse(c.func.value) for c in calls if isinstance(c.func, ast.Attribute)}
    losses |= {ast.unparse(call.args[0]) for call in calls if call.args}  # accelerator.backward(x)
    scaled = (scaled_by_name(other) for other, _ in home.of(ast.Call))
    return losses | {ast.unparse(loss) for loss in scaled if loss is not None}


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from (*call.args, *(k.value for k in call.keywords if k.arg))


def _hands_a_tensor(call: Call) -> bool:
    home = call.home
    for argument in _arguments(call.node):
        if home.value(argument).has(TENSOR) or ast.unparse(argument) in home.cached(_losses):
            return True
        if isinstance(argument, (ast.Attribute, ast.Subscript)):
            if home.value(argument) == UNKNOWN and _last_part(argument) == "loss":
                return True
    spread = [k.value for k in call.node.keywords if k.arg is None]
    return any(_has_tensors(s, home) for s in spread)


def _last_part(node: ast.Attribute | ast.Subscript) -> str:
    """Return `loss` of `trainer.loss` and `outputs["loss"]`."""
    return node.attr if isinstance(node, ast.Attribute) else unparsed(node.slice).strip("'")


def _has_tensors(spread: ast.expr, home: Index) -> bool:
    """Return True if a value of the dictionary `spread` is a tensor, or if it is called losses and nothing is known."""
    value = home.value(spread)
    if home.inference.stored(spread).has(TENSOR):
        return True
    values = spread.values if isinstance(spread, ast.Dict) else []
    names = [value for value in values if isinstance(value, ast.Name)]
    entries = [each for name in names for each in (name, *elements(home, name))] or [spread]
    return not value.fields and any(_is_called_losses(each, home) for each in entries)


def _is_called_losses(spread: ast.expr, home: Index) -> bool:
    """Return True for `loss_dict`, `outputs["log"]`, and for a name that `reduce_dict(loss_dict)` is assigned to."""
    values = (b.value for b in home.bindings(spread) if b.value is not None)
    return any(_LOSSES.search(unparsed(node)) for node in (spread, *values))
