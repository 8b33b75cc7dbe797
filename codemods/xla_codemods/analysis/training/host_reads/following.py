"""Follow a value read from the device through names, attributes, containers and calls to the code that uses it.

The read becomes `xla.item(loss)`, a deferred number, which resolves itself when Python needs its value. Calls that show
the value in every step run later (`xla.later`). Unknown code that needs Python's own number only now and then gets it
(`xla.arrived`). A value that decides what a step does, or that unknown code takes in every step, is kept as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ....flow.closure import reach
from ... import flow
from ...inference.values import ARRAY, TENSOR
from ...nodes import walk
from ...projects.handed_reads import tensor_behind
from ...scopes import FunctionNode, Scope
from ...syntax import returned, unparsed
from ..tensors.device_tensors import is_device_tensor
from ..tensors.handed_tensors import is_tested
from ..turns import Turn, evaluating, in_each_step, in_each_turn
from .blocked import Blocked
from .computing import number_around
from .deferral import Deferral
from .filling import fill
from .formatted import (
    is_a_number,
    is_container,
    is_formatted,
    is_only_formatted,
    is_text,
    leads_to,
    obstacle_of,
    reads_tensors,
)
from .functions import (
    called_function,
    extreme,
    is_caught,
    is_function_of_numbers,
    is_of_constants,
    is_property,
)
from .on_device import is_added_on_the_device
from .readers.callees import Taker, passed_to
from .readers.callers import callers_of
from .readers.cells import (
    attributes_read,
    class_of,
    home,
    is_owner,
    is_shown_in_steps,
    part_of,
    stores_and_loads,
    uses_in_other_modules,
)
from .showing import defer_condition, is_host_value, is_shown, log_later, logging_call, show_tensors
from .sinks import is_shown_on_a_console
from .texts import is_printed, text_around

if TYPE_CHECKING:
    from ...bindings import Binding
    from ...script import Script

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_FAILING = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_BOUND = frozenset({"assign", "augment", "parameter"})
_LITERALS = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
_ADDING = frozenset({"add", "append", "appendleft", "extend", "insert", "update"})
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_PARTS = frozenset({"items", "values"})
_IN_PLACE = frozenset({*_ADDING, "clear"})


class DeferredValue(NamedTuple):
    """An expression that gives the value, or a list, dict or tuple that holds it.

    `position` is where in a tuple, with its length. `is_holder`: the node is a name or attribute of a list or dict
    that holds it, and whatever else the list or dict goes by is followed.
    """

    script: Script
    node: ast.expr
    is_text: bool = False
    position: tuple[int, int] | None = None
    is_holder: bool = False


_Next = list[DeferredValue]


class Followed:
    """The uses of one value: each is visited once."""

    def __init__(self, deferral: Deferral) -> None:
        self.deferral = deferral
        self.script = deferral.script
        self._steps: dict[Script, set[ast.AST]] = {}

    def number(self, node: ast.expr) -> None:
        """Follow the number that `node` gives; raises `Blocked` if it cannot be deferred."""
        reach([DeferredValue(self.script, node)], self._next)

    def tensors(self, read: ast.AST, tensors: list[ast.expr]) -> None:
        """Follow what `read`, a call or a text, shows of `tensors`; raises `Blocked` if it cannot be deferred."""
        deferral, script = self.deferral, self.script
        if show_tensors(deferral, read, tensors):
            return
        texts: _Next | None = None
        if is_host_value(read, script) and (texts := self._text(script, read, [read])):
            deferral.read.add(read)
        elif tensors and is_a_number(script, read, tensors):
            texts = self._text(script, tensors[0], tensors)
        if texts is None:
            raise Blocked(obstacle_of(script, read, script.statement(read)))
        reach(texts, self._next)

    def _next(self, value: DeferredValue) -> _Next:
        try:
            return self._held(value) if value.is_holder else self._follow(value)
        except Blocked as blocked:
            if value.script is self.script or str(blocked).startswith("`"):
                raise
            raise Blocked(f"in `{value.script.path}` {blocked}") from blocked

    def _runs_in_steps(self, script: Script, node: ast.AST) -> bool:
        """Return True if `node` runs in every step."""
        return node in self._steps_of(script) or (
            script is self.script and node in self.deferral.always
        )

    def _steps_of(self, script: Script) -> set[ast.AST]:
        if script not in self._steps:
            found: set[ast.AST] = set()
            if script is not self.script:
                found.update(in_each_step(script), dict(in_each_turn(script, evaluating(script))))
            self._steps[script] = found
        return self._steps[script]

    def _refuse_elsewhere(self, script: Script, why: str) -> None:
        """Raise `Blocked` if an edit would be needed in another module."""
        if script is not self.script:
            raise Blocked(f"`{script.path}` {why}")

    # One use.

    def _follow(self, value: DeferredValue) -> _Next:
        script, origin, is_text_, index, _ = value
        in_steps = self._runs_in_steps(script, origin)
        inner = node = origin
        parent = script.parent(node)
        while True:
            match parent:
                case ast.BinOp(op=op, left=left) if isinstance(op, self._operators(is_text_)):
                    if node is not left and is_text(left):
                        break
                    if isinstance(op, _FAILING) and is_caught(script, parent):
                        return self._resolve(value, "what its arithmetic raises is caught")
                    if self._meets_a_tensor(script, parent.right if node is left else left):
                        return self._resolve(value, "it is computed with a tensor or array")
                case ast.Call() if in_steps and not is_text_ and self._is_computed(script, parent):
                    self._refuse_elsewhere(script, "computes with it in every step")
                    self.deferral.computed.add(parent)
                case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                    pass
                case ast.IfExp(test=test) if node is not test:
                    pass
                case _ if in_steps and isinstance(parent, _LITERALS):
                    index = _place(parent, node) if isinstance(parent, ast.Tuple) else None
                    node, parent = parent, script.parent(parent)
                    continue
                case _:
                    break
            inner = node = parent
            parent = script.parent(node)
        if node is origin and (elements := self._elements(value, parent)) is not None:
            return elements
        if in_steps:
            return self._in_steps(value._replace(position=index), inner, node, parent)
        return self._now_and_then(value, node, parent)

    def _operators(self, is_text: bool) -> tuple[type[ast.operator], ...]:
        return (ast.Add,) if is_text else _ARITHMETIC

    def _is_computed(self, script: Script, call: ast.Call) -> bool:
        """Return True for a function of numbers whose result is stored: `best = min(best, loss.item())`."""
        match script.statement(call):
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "update"))):
                pass
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return():
                pass
            case _:
                return False
        return is_function_of_numbers(script, call)

    def _meets_a_tensor(self, script: Script, other: ast.expr) -> bool:
        if is_of_constants(script, other):
            return False
        value = script.value(other)
        return value.has(TENSOR) or value.has(ARRAY) or is_device_tensor(script, other)

    def _elements(self, value: DeferredValue, parent: ast.AST | None) -> _Next | None:
        """Return what `parent` takes out of the container `value`; None if it does something else."""
        script, node, is_text_, index, _ = value
        match parent:
            case ast.Subscript(value=owner, slice=at) if owner is node:
                if not isinstance(parent.ctx, ast.Load):
                    return []
                if isinstance(at, ast.Slice):
                    return None
                found = at.value if isinstance(at, ast.Constant) else None
                is_other = index and isinstance(found, int) and found % index[1] != index[0]
                return [] if is_other else [DeferredValue(script, parent, is_text_)]
            case ast.Attribute(attr=name):
                call = script.parent(parent)
                if not isinstance(call, ast.Call) or call.func is not parent:
                    return None
                if name in {"get", "pop"}:
                    return [DeferredValue(script, call, is_text_)]
                is_changed = name in _IN_PLACE and isinstance(script.parent(call), ast.Expr)
                return [] if is_changed else None
            case ast.Call(func=ast.Name(id="len")) | ast.Expr():
                return []
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return []
        return None

    def _now_and_then(self, value: DeferredValue, node: ast.expr, parent: ast.AST | None) -> _Next:
        """A use outside of steps: showing resolves the number, unknown code gets Python's own."""
        script, origin, is_text_, position, _ = value
        if is_text_:
            is_free = is_printed(script, node)
        else:
            statement = script.statement(origin)
            call = statement.value if isinstance(statement, ast.Expr) else None
            is_free = is_formatted(script, node) or (
                isinstance(call, ast.Call)
                and leads_to(script, node, call)
                and is_shown_on_a_console(script, call)
                and is_only_formatted(script, node, call)
            )
        if is_free:
            return []
        match parent:
            case (
                ast.Assign(targets=[ast.Name() as target])
                | ast.AugAssign(target=ast.Name() as target)
            ) if not self._is_read_in_steps(script, target):
                return self._bind(script, target, is_text_)
            case ast.Assign(targets=[ast.Attribute(attr=name) as target]) if is_owner(
                target, script
            ):
                if not any(
                    self._runs_in_steps(script, read) for read in attributes_read(script, name)
                ):
                    return self._attribute(script, class_of(script, target), name, is_text_)
            case ast.Assign(targets=[ast.Tuple() as targets]) if position:
                named = part_of(targets, *position)
                if isinstance(named, ast.Name) and not self._is_read_in_steps(script, named):
                    return self._bind(script, named, is_text_)
            case ast.Return() if self._is_followed_to_callers(script, parent):
                return self._returned(value, parent)
        return self._resolve(value, "")

    def _is_followed_to_callers(self, script: Script, statement: ast.Return) -> bool:
        """Return True if the callers get Python's own number, and not this module's `return`."""
        if script is not self.script:
            return True
        function = script.function(statement)
        if function is None or not is_property(function):
            return False
        owner = script.parent(function)
        assert isinstance(owner, ast.ClassDef)
        return not any(uses_in_other_modules(script, script, owner, function.name))

    def _is_read_in_steps(self, script: Script, target: ast.Name) -> bool:
        scope, _, is_shared = home(script, target)
        return is_shared or any(
            self._runs_in_steps(script, load) for load in script.index.reads_of(scope, target.id)
        )

    def _resolve(self, value: DeferredValue, why: str) -> _Next:
        """Python's own number is needed: outside of steps the script may wait for it."""
        if self._runs_in_steps(value.script, value.node):
            raise Blocked(why)
        self._refuse_elsewhere(value.script, "needs Python's own number")
        self.deferral.arrived.add(value.node)
        return []

    # In every step.

    def _in_steps(
        self, value: DeferredValue, inner: ast.expr, node: ast.expr, parent: ast.AST | None
    ) -> _Next:
        script, origin, is_text_, _, _ = value
        match parent:
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if (
                parent.value is node
            ):
                return self._store(value, target)
            case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()) if (
                is_added_on_the_device(script, node, origin, target)
            ):
                self.deferral.on_device.add(origin)
                return []
            case ast.AugAssign(target=target, op=op) if isinstance(op, self._operators(is_text_)):
                return self._store(value, target)
            case ast.Return():
                return self._returned(value, parent)
            case ast.Yield():
                return self._yielded(value, parent)
            case ast.Compare() if not is_text_ and (found := extreme(script, parent)):
                self._refuse_elsewhere(script, "keeps an extreme of it in every step")
                self.deferral.extremes[found.statement] = found
                if isinstance(found.value, ast.Call):
                    self.deferral.read.add(found.value)
                kept = (found.target, *(t for s in found.beside for t in s.targets))
                names = [target for target in kept if isinstance(target, ast.Name)]
                return [each for name in names for each in self._bind(script, name, False)]
            case ast.Call(func=ast.Name(id="isinstance"), args=[first, kind]) if first is node:
                is_torchs = (script.dotted(kind) or "").startswith("torch.")
                if not is_torchs and (is_text_ or self.deferral.computed):
                    raise Blocked("its type is tested")
                return []
            case ast.For(iter=iterated) if iterated is node:
                return self._loop(value, parent, parent.target)
        for follow in (self._added, self._iterated, self._logged, self._passed):
            following = follow(value, node, parent)
            if following is not None:
                return following
        return self._show(value, inner, node)

    def _added(self, value: DeferredValue, node: ast.expr, parent: ast.AST | None) -> _Next | None:
        """Return the container of the file that takes `node`: `losses.append(loss.item())`."""
        match parent:
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if (
                name in _ADDING and parent.args[-1:] == [node]
            ):
                root = _root(owner)
                if passed_to(value.script, node) is None and is_owner(root, value.script):
                    if not self._is_container(value.script, root):
                        return None
                    if not isinstance(value.script.parent(parent), ast.Expr):
                        raise Blocked(f"a list's `{name}` is tested for existence")
                    return [DeferredValue(value.script, root, value.is_text, None, True)]
        return None

    def _is_container(self, script: Script, owner: ast.Name | ast.Attribute) -> bool:
        return all(
            is_container(made) or (isinstance(made, ast.Call) and called_function(script, made))
            for made in stores_and_loads(script, owner)[1]
        )

    def _iterated(
        self, value: DeferredValue, node: ast.expr, parent: ast.AST | None
    ) -> _Next | None:
        """Return what a loop over the container `node`, its items or values, binds."""
        script, child = value.script, node
        if isinstance(parent, ast.Attribute) and parent.attr in _PARTS:
            child = script.parents[parent]  # type: ignore[assignment]
        outer = script.parent(child)
        if isinstance(outer, ast.Call) and getattr(outer.func, "id", "") in {"enumerate", "list"}:
            child, outer = outer, script.parent(outer)
        if not isinstance(outer, ast.For) or outer.iter is not child or child is node:
            return None
        pair = isinstance(parent, ast.Attribute) and parent.attr == "items"
        pair = pair or getattr(getattr(child, "func", None), "id", "") == "enumerate"
        target = part_of(outer.target, 1, 2) if pair else outer.target
        if target is None:
            raise Blocked(f"`{ast.unparse(outer.target)}` takes it apart")
        return self._loop(value, outer, target)

    def _loop(self, value: DeferredValue, loop: ast.For, target: ast.expr) -> _Next:
        if not isinstance(target, ast.Name):
            raise Blocked(f"`{ast.unparse(target)}` takes it apart")
        return self._bind(value.script, target, value.is_text, loop)

    def _logged(self, value: DeferredValue, node: ast.expr, _: ast.AST | None) -> _Next | None:
        """Return [] if the call around `node` logs it, and runs later."""
        script, origin = value.script, value.node
        if script is not self.script or not (logging := logging_call(self.deferral, origin)):
            return None
        branch = Followed(Deferral(script, self.deferral.always))
        branch.deferral.shared |= self.deferral.shared
        try:
            following = branch._passed(value, node)
            if following is not None:
                reach(following, branch._next)
                self.deferral.add(branch.deferral)
                return []
        except Blocked:
            pass
        log_later(self.deferral, logging, [origin])
        return []

    def _passed(
        self, value: DeferredValue, node: ast.expr, _: ast.AST | None = None
    ) -> _Next | None:
        """Return the parameter of a function of the program that takes `node`."""
        found = passed_to(value.script, node)
        if found is None:
            return None
        if isinstance(found, Taker):
            script, function, name, owner = found
            if owner is not None and is_shown_in_steps(value.script, owner, self.deferral.always):
                raise Blocked(f"`{ast.unparse(owner)}` is shown or passed on in every step")
            return self._parameter(script, function, name, owner, value.is_text)
        attributes = (self._attribute(value.script, None, n, value.is_text) for n in found)
        return [each for following in attributes for each in following]

    def _parameter(
        self,
        script: Script,
        function: FunctionNode,
        name: str,
        owner: ast.expr | None,
        is_text: bool,
    ) -> _Next:
        scope = script.inference.scopes[function]
        self.deferral.shared.add((scope, name))
        self._also_in_steps(script, function, owner)
        bindings = scope.bindings.get(name, [])
        if function.args.kwarg is not None:
            return [
                DeferredValue(script, load, is_text) for load in script.index.reads_of(scope, name)
            ]
        return self._loads(script, (scope, bindings, False), name, bindings[:1], is_text)

    def _also_in_steps(
        self, script: Script, function: FunctionNode, owner: ast.expr | None
    ) -> None:
        """A function that steps call, and the methods of `owner` that they or it call."""
        steps = self._steps_of(script)
        called = {function.name}
        if owner is not None:
            text = unparsed(owner)
            for node in self.deferral.always:
                match node:
                    case ast.Attribute(value=object_, attr=name) if unparsed(object_) == text:
                        called.add(name)
                    case ast.Call(func=func) if unparsed(func) == text:
                        called.add("__call__")
        definition = script.parent(function)
        body = definition.body if isinstance(definition, ast.ClassDef) else [function]
        methods = {f.name: f for f in body if isinstance(f, ast.FunctionDef)}
        for name in reach(called, lambda name: _attributes(methods.get(name))):
            steps.update(walk(methods[name]) if name in methods else ())

    def _show(self, value: DeferredValue, inner: ast.expr, node: ast.expr) -> _Next:
        """What shows the value runs later; what decides on it, or is not known, blocks."""
        script, origin = value.script, value.node
        statement = script.statement(origin)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and leads_to(script, node, call) and is_shown(script, call):
            self._refuse_elsewhere(script, "shows it in every step")
            fields = script.value(origin).fields or {}
            if any(f.has(TENSOR) for f in fields.values()):
                raise Blocked(f"`{ast.unparse(origin)}` holds tensors, too")
            part = script.parent(origin)
            is_part = isinstance(part, ast.Subscript) and part.value is origin
            self.deferral.later.setdefault(call, set()).add(part if is_part and part else origin)
            return []
        if script is self.script and defer_condition(self.deferral, statement, [origin]):
            return []
        if origin is node and self._passes_the_tensor(script, origin):
            return []
        computed = number_around(script, origin)
        if computed is not None and self._runs_in_steps(script, computed):
            self._refuse_elsewhere(script, "computes with it in every step")
            self.deferral.texts.setdefault(computed, set()).add(origin)
            return [DeferredValue(script, computed)]
        texts = self._text(script, inner, [origin])
        if texts is None:
            raise Blocked(obstacle_of(script, inner, statement))
        return texts

    def _passes_the_tensor(self, script: Script, number: ast.expr) -> bool:
        """Return True if a method reads tensors itself and can be passed the tensor: `log.update(loss=loss.item())`."""
        parent = script.parent(number)
        call = script.parent(parent) if isinstance(parent, ast.keyword) else parent
        match call:
            case ast.Call(func=ast.Attribute() as func) if reads_tensors(script, func):
                tensor = tensor_behind(number, script.index.scope(number), script.index)
                if tensor is not None and is_device_tensor(script, tensor):
                    self._refuse_elsewhere(script, "reads it in every step")
                    self.deferral.passed[number] = tensor
                    return True
        return False

    def _text(self, script: Script, node: ast.AST, reads: Iterable[ast.AST]) -> _Next | None:
        """Return the text that `node` is formatted into in every step."""
        text = text_around(script, node)
        if text is None or not self._runs_in_steps(script, text):
            return None
        self._refuse_elsewhere(script, "formats it in every step")
        self.deferral.texts.setdefault(text, set()).update(reads)
        return [DeferredValue(script, text, True)]

    # Names, attributes, containers.

    def _store(self, value: DeferredValue, target: ast.expr) -> _Next:
        script, _, is_text_, index, _ = value
        match target:
            case ast.Name():
                return self._bind(script, target, is_text_)
            case ast.Tuple() | ast.List() if index and (part := part_of(target, *index)):
                return self._store(value._replace(position=None), part)
            case ast.Subscript(value=owner) if is_owner(root := _root(owner), script):
                if not script.value(owner).kinds & {TENSOR, ARRAY}:
                    return [DeferredValue(script, root, is_text_, None, True)]
                if script is not self.script or is_text_:
                    return self._resolve(value, f"it goes into the array `{ast.unparse(owner)}`")
                fill(self.deferral, target)
                return []
            case ast.Attribute(attr=name) if is_owner(target, script):
                return self._attribute(script, class_of(script, target), name, is_text_)
        return self._resolve(value, f"it is kept in `{ast.unparse(target)}`")

    def _bind(
        self, script: Script, target: ast.Name, is_text: bool, loop: ast.For | None = None
    ) -> _Next:
        """The name `target` is bound to it, by its statement or by `loop`."""
        cell = home(script, target)
        bound = loop or script.statement(target)
        self.deferral.shared.add((cell[0], target.id))
        values = [b for b in cell[1] if b.node is bound]
        known = _BOUND | {"for"} if is_tested(script, target) else _BOUND
        return self._loads(script, cell, target.id, values, is_text, known)

    def _loads(
        self,
        script: Script,
        cell: tuple[Scope, list[Binding], bool],
        name: str,
        values: list[Binding],
        is_text: bool,
        known: frozenset[str] = _BOUND,
    ) -> _Next:
        """Return the reads of a name that may see one of `values`; the others must be numbers."""
        scope, bindings, is_shared = cell
        found: _Next = []
        for load in script.index.reads_of(scope, name):
            reaching = bindings
            if not is_shared:
                reaching = flow.reaching(bindings, load, scope, script.parents)
            if any(binding in values for binding in reaching):
                if any(b not in values and b.how not in known for b in reaching):
                    raise Blocked(f"`{name}` is other things, too")
                found.append(DeferredValue(script, load, is_text))
        return found

    def _attribute(
        self, script: Script, definition: ast.ClassDef | None, name: str, is_text: bool
    ) -> _Next:
        """The attribute `name`, of a class or of anything."""
        self.deferral.shared.add(name)
        found = [(script, node) for node in attributes_read(script, name, definition)]
        used: list[tuple[Script, ast.expr]] = [*found]
        if definition is not None:
            used += uses_in_other_modules(self.script, script, definition, name)
        return [DeferredValue(other, node, is_text) for other, node in used]

    def _held(self, value: DeferredValue) -> _Next:
        """A list or dict holds it."""
        script, owner, is_text, _, _ = value
        assert isinstance(owner, (ast.Name, ast.Attribute))
        key, stored, read = stores_and_loads(script, owner)
        others = [made for made in stored if not is_container(made)]
        found = [each for made in others for each in self._made(script, owner, made, is_text)]
        if isinstance(owner, ast.Attribute):
            return found + self._attribute(script, class_of(script, owner), owner.attr, is_text)
        self.deferral.shared.add(key)
        return found + [DeferredValue(script, load, is_text) for load in read]

    def _made(
        self, script: Script, owner: ast.expr, made: ast.expr | None, is_text: bool
    ) -> Iterator[DeferredValue]:
        """`logs = self.losses()`: what the function returns is the same list or dict."""
        unknown = Blocked(
            f"`{ast.unparse(owner)}` may not be a list or dict that this code alone uses"
        )
        called = called_function(script, made) if isinstance(made, ast.Call) else None
        if called is None or made is None:
            raise unknown
        index = None
        match script.parent(made):
            case ast.Assign(targets=[ast.Tuple(elts=parts)]):
                names = [getattr(part, "id", "") for part in parts]
                index = names.index(getattr(owner, "id", "")), len(names)
        for value in returned(called):
            given = part_of(value, *index) if index else value
            if isinstance(given, ast.Name):
                yield DeferredValue(script, given, is_text, None, True)
            elif not (is_container(given) or called in self.deferral.shared):
                raise unknown

    # Functions.

    def _returned(self, value: DeferredValue, statement: ast.Return) -> _Next:
        script, _, is_text_, index, _ = value
        function = script.function(statement)
        if function is not None and is_property(function):
            owner = script.parent(function)
            assert isinstance(owner, ast.ClassDef)
            return self._attribute(script, owner, function.name, is_text_)
        if (
            function is None
            or function.decorator_list
            or isinstance(function, ast.AsyncFunctionDef)
        ):
            raise Blocked("it is returned")
        self.deferral.shared.add(function)
        in_steps = self._runs_in_steps(script, value.node)
        try:
            calls = callers_of(self.script, script, function)
        except Blocked:
            if in_steps or not isinstance(script.parent(function), ast.ClassDef):
                raise
            return []  # a method that nothing here calls: the number resolves itself
        for other, call in calls:
            if in_steps and other is not script and other is not self.script:
                self._steps_of(other).update(_turn_around(other, call))
        return [DeferredValue(other, call, is_text_, index) for other, call in calls]

    def _yielded(self, value: DeferredValue, statement: ast.Yield) -> _Next:
        """A loop over the generator binds it: `for step, loss in enumerate(losses(...)):`."""
        script = value.script
        function = script.function(statement)
        if function is None or function.decorator_list or not isinstance(function, ast.FunctionDef):
            raise Blocked("it is yielded")
        if not isinstance(script.parent(statement), ast.Expr):
            raise Blocked("it is yielded, to what sends something back")
        found: _Next = []
        for other, call in callers_of(self.script, script, function):
            outer = other.parent(call)
            is_counted = (
                isinstance(outer, ast.Call) and getattr(outer.func, "id", "") == "enumerate"
            )
            loop = other.parent(outer) if is_counted and outer is not None else outer
            if not isinstance(loop, ast.For) or loop.iter not in (call, outer):
                raise Blocked(f"`{function.name}` yields it, to what is not a loop of this file")
            steps = self._steps_of(other)
            steps.update(dict(in_each_turn(other, (Turn(loop, loop.body),))))
            target = part_of(loop.target, 1, 2) if is_counted else loop.target
            if target is not None and value.position:
                target = part_of(target, *value.position)
            if not isinstance(target, ast.Name):
                raise Blocked(f"`{function.name}` yields it, and the loop takes it apart")
            found += self._bind(other, target, value.is_text, loop)
        return found


def _turn_around(script: Script, call: ast.Call) -> Iterator[ast.AST]:
    """Yield what runs as often as `call`: in the loop around it, or in its function and the loops that call that."""
    turns: list[Turn] = []
    for ancestor in script.ancestors(call):
        if isinstance(ancestor, _LOOPS):
            turns.append(Turn(ancestor, ancestor.body))
            break
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            turns.append(Turn(ancestor, ancestor.body))
            for outer, _ in script.index.calls_of(ancestor.name):
                loops = (a for a in script.ancestors(outer) if isinstance(a, _LOOPS))
                turns += [Turn(loop, loop.body) for loop in [next(loops, None)] if loop]
            break
    for node, _ in in_each_turn(script, turns):
        yield node


def _attributes(function: ast.FunctionDef | None) -> set[str]:
    return {n.attr for n in walk(function) if isinstance(n, ast.Attribute)} if function else set()


def _root(owner: ast.expr) -> ast.expr:
    """Return `history` of `history["loss"]`."""
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return owner


def _place(literal: ast.Tuple, node: ast.expr) -> tuple[int, int] | None:
    if any(isinstance(part, ast.Starred) for part in literal.elts):
        return None
    return literal.elts.index(node), len(literal.elts)
