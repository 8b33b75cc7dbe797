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
from ...scopes import FunctionNode
from ...syntax import unparsed, walk_body
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
    loads,
    part_of,
    stores_and_loads,
    uses_in_other_modules,
)
from .showing import defer_condition, is_host_value, is_shown, log_later, logging_call, show_tensors
from .sinks import is_shown_on_a_console
from .texts import is_printed, text_around

if TYPE_CHECKING:
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

    `position` is where in a tuple, with its length.
    """

    script: Script
    node: ast.expr
    is_text: bool = False
    position: tuple[int, int] | None = None


class Followed:
    """The uses of one value: each is visited once."""

    def __init__(self, deferral: Deferral) -> None:
        self.deferral = deferral
        self.script = deferral.script
        self._seen: set[object] = set()
        self._work: list[DeferredValue] = []
        self._steps: dict[Script, set[ast.AST]] = {}

    def number(self, node: ast.expr) -> None:
        """Follow the number that `node` gives; raises `Blocked` if it cannot be deferred."""
        self._push(DeferredValue(self.script, node))
        self._run()

    def tensors(self, read: ast.AST, tensors: list[ast.expr]) -> None:
        """Follow what `read`, a call or a text, shows of `tensors`; raises `Blocked` if it cannot be deferred."""
        deferral, script = self.deferral, self.script
        if show_tensors(deferral, read, tensors):
            return
        if is_host_value(read, script) and self._put_into_a_text(script, read, [read]):
            deferral.read.add(read)
        elif not (
            tensors
            and is_a_number(script, read, tensors)
            and self._put_into_a_text(script, tensors[0], tensors)
        ):
            raise Blocked(obstacle_of(script, read, script.statement(read)))
        self._run()

    def _push(self, *values: DeferredValue) -> None:
        for value in values:
            if value not in self._seen:
                self._seen.add(value)
                self._work.append(value)

    def _run(self) -> None:
        while self._work:
            value = self._work.pop()
            try:
                self._follow(value)
            except Blocked as blocked:
                if value.script is self.script or str(blocked).startswith("`"):
                    raise
                raise Blocked(f"in `{value.script.path}` {blocked}") from blocked

    def _is_new(self, key: object) -> bool:
        """Return True if the name or attribute `key` is reached for the first time."""
        self.deferral.shared.add(key)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

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

    def _follow(self, value: DeferredValue) -> None:
        script, origin, is_text_, index = value
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
        if node is origin and self._is_element(value, parent):
            return
        if in_steps:
            self._in_steps(DeferredValue(script, origin, is_text_, index), inner, node, parent)
        else:
            self._now_and_then(value, node, parent)

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

    def _is_element(self, value: DeferredValue, parent: ast.AST | None) -> bool:
        """Return True if `parent` takes something out of the container `value`, or changes it."""
        script, node, is_text_, index = value
        match parent:
            case ast.Subscript(value=owner, slice=at) if owner is node:
                if not isinstance(parent.ctx, ast.Load):
                    return True
                if isinstance(at, ast.Slice):
                    return False
                found = at.value if isinstance(at, ast.Constant) else None
                if index is None or not isinstance(found, int) or found % index[1] == index[0]:
                    self._push(DeferredValue(script, parent, is_text_))
                return True
            case ast.Attribute(attr=name):
                call = script.parent(parent)
                if not isinstance(call, ast.Call) or call.func is not parent:
                    return False
                if name in {"get", "pop"}:
                    self._push(DeferredValue(script, call, is_text_))
                    return True
                return name in _IN_PLACE and isinstance(script.parent(call), ast.Expr)
            case ast.Call(func=ast.Name(id="len")) | ast.Expr():
                return True
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return True
        return False

    def _now_and_then(self, value: DeferredValue, node: ast.expr, parent: ast.AST | None) -> None:
        """A use outside of steps: showing resolves the number, unknown code gets Python's own."""
        script, origin, is_text_, position = value
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
            return
        match parent:
            case (
                ast.Assign(targets=[ast.Name() as target])
                | ast.AugAssign(target=ast.Name() as target)
            ) if not self._is_read_in_steps(script, target):
                self._bind(script, target, is_text_)
                return
            case ast.Assign(targets=[ast.Attribute(attr=name) as target]) if is_owner(
                target, script
            ):
                if not any(
                    self._runs_in_steps(script, read) for read in attributes_read(script, name)
                ):
                    self._attribute(script, class_of(script, target), name, is_text_)
                    return
            case ast.Assign(targets=[ast.Tuple() as targets]) if position:
                named = part_of(targets, *position)
                if isinstance(named, ast.Name) and not self._is_read_in_steps(script, named):
                    self._bind(script, named, is_text_)
                    return
            case ast.Return() if self._is_followed_to_callers(script, parent):
                return self._returned(value, parent)
        self._resolve(value, "")

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
            self._runs_in_steps(script, load) for load in loads(script, scope, target.id)
        )

    def _resolve(self, value: DeferredValue, why: str) -> None:
        """Python's own number is needed: outside of steps the script may wait for it."""
        if self._runs_in_steps(value.script, value.node):
            raise Blocked(why)
        self._refuse_elsewhere(value.script, "needs Python's own number")
        self.deferral.arrived.add(value.node)

    # In every step.

    def _in_steps(
        self, value: DeferredValue, inner: ast.expr, node: ast.expr, parent: ast.AST | None
    ) -> None:
        script, origin, is_text_, _ = value
        match parent:
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if (
                parent.value is node
            ):
                return self._store(value, target)
            case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()) if (
                is_added_on_the_device(script, node, origin, target)
            ):
                self.deferral.on_device.add(origin)
                return None
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
                for target in (found.target, *(t for s in found.beside for t in s.targets)):
                    assert isinstance(target, ast.Name)
                    self._bind(script, target, False)
                return None
            case ast.Call(func=ast.Name(id="isinstance"), args=[first, kind]) if first is node:
                is_torchs = (script.dotted(kind) or "").startswith("torch.")
                if not is_torchs and (is_text_ or self.deferral.computed):
                    raise Blocked("its type is tested")
                return None
            case ast.For(iter=iterated) if iterated is node:
                return self._loop(value, parent, parent.target)
        if self._is_kept(value, node, parent) or self._is_iterated(value, node, parent):
            return None
        if not self._is_logged(value, node) and not self._is_passed(value, node):
            self._show(value, inner, node)
        return None

    def _is_kept(self, value: DeferredValue, node: ast.expr, parent: ast.AST | None) -> bool:
        """Return True if a container of the file takes `node`: `losses.append(loss.item())`."""
        match parent:
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if (
                name in _ADDING and parent.args[-1:] == [node]
            ):
                root = _root(owner)
                if passed_to(value.script, node) is None and is_owner(root, value.script):
                    if not self._is_container(value.script, root):
                        return False
                    if not isinstance(value.script.parent(parent), ast.Expr):
                        raise Blocked(f"a list's `{name}` is tested for existence")
                    self._keep(value.script, root, value.is_text)
                    return True
        return False

    def _is_container(self, script: Script, owner: ast.Name | ast.Attribute) -> bool:
        return all(
            is_container(made) or (isinstance(made, ast.Call) and called_function(script, made))
            for made in stores_and_loads(script, owner)[1]
        )

    def _is_iterated(self, value: DeferredValue, node: ast.expr, parent: ast.AST | None) -> bool:
        """Return True for a loop over the container `node`, its items or values."""
        script, child = value.script, node
        if isinstance(parent, ast.Attribute) and parent.attr in _PARTS:
            child = script.parents[parent]  # type: ignore[assignment]
        outer = script.parent(child)
        if isinstance(outer, ast.Call) and getattr(outer.func, "id", "") in {"enumerate", "list"}:
            child, outer = outer, script.parent(outer)
        if not isinstance(outer, ast.For) or outer.iter is not child or child is node:
            return False
        pair = isinstance(parent, ast.Attribute) and parent.attr == "items"
        pair = pair or getattr(getattr(child, "func", None), "id", "") == "enumerate"
        target = part_of(outer.target, 1, 2) if pair else outer.target
        if target is None:
            raise Blocked(f"`{ast.unparse(outer.target)}` takes it apart")
        self._loop(value, outer, target)
        return True

    def _loop(self, value: DeferredValue, loop: ast.For, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            raise Blocked(f"`{ast.unparse(target)}` takes it apart")
        self._bind(value.script, target, value.is_text, loop)

    def _is_logged(self, value: DeferredValue, node: ast.expr) -> bool:
        """Return True if the call around `node` logs it, and runs later."""
        script, origin = value.script, value.node
        if script is not self.script or not (logging := logging_call(self.deferral, origin)):
            return False
        if passed_to(script, node) is not None:
            branch = Followed(Deferral(script, self.deferral.always))
            branch._seen = set(self._seen)
            try:
                if branch._is_passed(value, node):
                    branch._run()
                    self.deferral.add(branch.deferral)
                    self._seen |= branch._seen
                    return True
            except Blocked:
                pass
        log_later(self.deferral, logging, [origin])
        return True

    def _is_passed(self, value: DeferredValue, node: ast.expr) -> bool:
        """Return True if a function of the program takes `node`, and it is followed there."""
        found = passed_to(value.script, node)
        if found is None:
            return False
        if isinstance(found, Taker):
            script, function, name, owner = found
            if owner is not None and is_shown_in_steps(value.script, owner, self.deferral.always):
                raise Blocked(f"`{ast.unparse(owner)}` is shown or passed on in every step")
            self._parameter(script, function, name, owner, value.is_text)
        else:
            for name in found:
                self._attribute(value.script, None, name, value.is_text)
        return True

    def _parameter(
        self,
        script: Script,
        function: FunctionNode,
        name: str,
        owner: ast.expr | None,
        is_text: bool,
    ) -> None:
        scope = script.inference.scopes[function]
        if not self._is_new((scope, name)):
            return
        self._also_in_steps(script, function, owner)
        if function.args.kwarg is not None or len(scope.bindings.get(name, ())) == 1:
            self._push(
                *(DeferredValue(script, load, is_text) for load in loads(script, scope, name))
            )
            return
        known = scope.bindings[name][0]
        for load in loads(script, scope, name):
            reaching = flow.reaching(scope.bindings[name], load, scope, script.parents)
            if known in reaching:
                if any(b.how not in _BOUND for b in reaching):
                    raise Blocked(f"`{name}` is other things, too")
                self._push(DeferredValue(script, load, is_text))

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

    def _show(self, value: DeferredValue, inner: ast.expr, node: ast.expr) -> None:
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
            return
        if script is self.script and defer_condition(self.deferral, statement, [origin]):
            return
        if origin is node and self._passes_the_tensor(script, origin):
            return
        computed = number_around(script, origin)
        if computed is not None and self._runs_in_steps(script, computed):
            self._refuse_elsewhere(script, "computes with it in every step")
            self.deferral.texts.setdefault(computed, set()).add(origin)
            self._push(DeferredValue(script, computed))
            return
        if not self._put_into_a_text(script, inner, [origin]):
            raise Blocked(obstacle_of(script, inner, statement))

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

    def _put_into_a_text(self, script: Script, node: ast.AST, reads: Iterable[ast.AST]) -> bool:
        """Return True if `node` is formatted into a text in every step, which is followed."""
        text = text_around(script, node)
        if text is None or not self._runs_in_steps(script, text):
            return False
        self._refuse_elsewhere(script, "formats it in every step")
        self.deferral.texts.setdefault(text, set()).update(reads)
        self._push(DeferredValue(script, text, True))
        return True

    # Names, attributes, containers.

    def _store(self, value: DeferredValue, target: ast.expr) -> None:
        script, origin, is_text_, index = value
        match target:
            case ast.Name():
                self._bind(script, target, is_text_)
            case ast.Tuple() | ast.List() if index and (part := part_of(target, *index)):
                self._store(DeferredValue(script, origin, is_text_), part)
            case ast.Subscript(value=owner) if is_owner(root := _root(owner), script):
                if not script.value(owner).kinds & {TENSOR, ARRAY}:
                    self._keep(script, root, is_text_)
                elif script is self.script and not is_text_:
                    fill(self.deferral, target)
                else:
                    self._resolve(value, f"it goes into the array `{ast.unparse(owner)}`")
            case ast.Attribute(attr=name) if is_owner(target, script):
                self._attribute(script, class_of(script, target), name, is_text_)
            case _:
                self._resolve(value, f"it is kept in `{ast.unparse(target)}`")

    def _bind(
        self, script: Script, target: ast.Name, is_text: bool, loop: ast.For | None = None
    ) -> None:
        """The name `target` is bound to it, by its statement or by `loop`."""
        scope, bindings, is_shared = home(script, target)
        bound = loop or script.statement(target)
        self.deferral.shared.add((scope, target.id))
        if not self._is_new((scope, target.id, bound, is_text)):
            return
        values = [b for b in bindings if b.node is bound]
        known = _BOUND | {"for"} if is_tested(script, target) else _BOUND
        for load in loads(script, scope, target.id):
            reaching = bindings
            if not is_shared:
                reaching = flow.reaching(bindings, load, scope, script.parents)
            if not any(binding in values for binding in reaching):
                continue
            if any(b.node is not loop and b.how not in known for b in reaching):
                raise Blocked(f"`{target.id}` is other things, too")
            self._push(DeferredValue(script, load, is_text))

    def _attribute(
        self, script: Script, definition: ast.ClassDef | None, name: str, is_text: bool
    ) -> None:
        """The attribute `name`, of a class or of anything."""
        self.deferral.shared.add(name)
        if not self._is_new((definition, name, is_text)):
            return
        self._push(
            *(
                DeferredValue(script, node, is_text)
                for node in attributes_read(script, name, definition)
            )
        )
        if definition is not None:
            for other, node in uses_in_other_modules(self.script, script, definition, name):
                self._push(DeferredValue(other, node, is_text))

    def _keep(self, script: Script, owner: ast.Name | ast.Attribute, is_text: bool) -> None:
        """A list or dict holds it."""
        key, stored, read = stores_and_loads(script, owner)
        self.deferral.shared.add(owner.attr if isinstance(owner, ast.Attribute) else key)
        if not self._is_new((key, "kept", is_text)):
            return
        for made in stored:
            if not is_container(made):
                self._made(script, owner, made, is_text)
        self._push(*(DeferredValue(script, load, is_text) for load in read))
        if isinstance(owner, ast.Attribute) and (definition := class_of(script, owner)):
            for other, node in uses_in_other_modules(self.script, script, definition, owner.attr):
                self._push(DeferredValue(other, node, is_text))

    def _made(self, script: Script, owner: ast.expr, made: ast.expr | None, is_text: bool) -> None:
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
        for statement in walk_body(called.body):
            if isinstance(statement, ast.Return) and (given := statement.value) is not None:
                given = part_of(given, *index) if index else given
                if isinstance(given, ast.Name):
                    self._keep(script, given, is_text)
                elif not (is_container(given) or self._gives_it(script, called)):
                    raise unknown

    def _gives_it(self, script: Script, function: FunctionNode) -> bool:
        return (script, function, "returned") in self._seen

    # Functions.

    def _returned(self, value: DeferredValue, statement: ast.Return) -> None:
        script, _, is_text_, index = value
        function = script.function(statement)
        if function is not None and is_property(function):
            owner = script.parent(function)
            assert isinstance(owner, ast.ClassDef)
            self._attribute(script, owner, function.name, is_text_)
            return
        if (
            function is None
            or function.decorator_list
            or isinstance(function, ast.AsyncFunctionDef)
        ):
            raise Blocked("it is returned")
        self.deferral.shared.add(function)
        self._seen.add((script, function, "returned"))
        if not self._is_new((function, index, is_text_)):
            return
        in_steps = self._runs_in_steps(script, value.node)
        try:
            calls = callers_of(self.script, script, function)
        except Blocked:
            if in_steps or not isinstance(script.parent(function), ast.ClassDef):
                raise
            return  # a method that nothing here calls: the number resolves itself
        for other, call in calls:
            if in_steps and other is not script and other is not self.script:
                self._steps_of(other).update(_turn_around(other, call))
            self._push(DeferredValue(other, call, is_text_, index))

    def _yielded(self, value: DeferredValue, statement: ast.Yield) -> None:
        """A loop over the generator binds it: `for step, loss in enumerate(losses(...)):`."""
        script = value.script
        function = script.function(statement)
        if function is None or function.decorator_list or not isinstance(function, ast.FunctionDef):
            raise Blocked("it is yielded")
        if not isinstance(script.parent(statement), ast.Expr):
            raise Blocked("it is yielded, to what sends something back")
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
            self._bind(other, target, value.is_text, loop)


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
