"""Where a number read in every step goes: names, sums, lists and meters, and who in the end looks at it.

The read becomes `xla.item(loss)`, a number on its way (see the runtime's `deferred`). Arithmetic, names, lists and
meters take it as it is; what shows it in every step is made later; what asks for it now and then gets Python's own
number, by `xla.arrived`. What decides on it in every step, or is not known, blocks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ... import flow
from ...inference.values import ARRAY, TENSOR
from ...nodes import walk
from ...scopes import FunctionNode
from ..tensors.device_tensors import is_device_tensor, may_be_read
from .blocked import Blocked
from .calls import condition_shows
from .collecting import collecting
from .elsewhere import class_elsewhere, is_shown_elsewhere, method_of, no_others_use
from .formatted import (
    is_a_number,
    is_formatted,
    is_only_formatted,
    is_text,
    leads_to,
    made_by,
    said,
)
from .functions import (
    extreme,
    is_caught,
    is_function_of_numbers,
    parameter,
    takes_values,
)
from .holding import Held, Holding
from .names import (
    attributes_read,
    calls_of,
    class_of,
    home,
    is_owner,
    loads,
    refuse_imported_class,
    refuse_listed_attributes,
)
from .on_device import is_added_on_the_device
from .sinks import (
    is_shown_on_a_console,
    is_tracked,
    is_written_to_a_file,
    shown_now_and_then,
)

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_FAILING = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_BOUND = frozenset({"assign", "augment", "parameter"})
_TIMM_METERS = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})


class Flow(Holding):
    """Follows one read, and what it goes into. `later` and `wrapped` are what is to be changed for it."""

    # A number.

    def number(self, node: ast.expr) -> None:
        """`node` gives a number on its way."""
        origin, parent = node, self.script.parent(node)
        while True:
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, _ARITHMETIC):
                if node is parent.right and is_text(parent.left):
                    return self._shown(origin, parent)
                if isinstance(parent.op, _FAILING) and is_caught(self.script, parent):
                    return self._asked(origin, "what its arithmetic raises is caught")
                self._other_side(parent.right if node is parent.left else parent.left)
            elif isinstance(parent, ast.Call) and self._is_computed_later(origin, parent):
                self.computed.add(parent)
            elif not (
                (isinstance(parent, ast.UnaryOp) and not isinstance(parent.op, ast.Not))
                or (isinstance(parent, ast.IfExp) and node is not parent.test)
            ):
                break
            node, parent = parent, self.script.parent(parent)
        self._used(origin, node, parent)

    def _is_computed_later(self, origin: ast.expr, call: ast.Call) -> bool:
        """True if `call`, a function of numbers, is kept as a number in every step: `best = min(best, loss.item())`."""
        statement = self.script.statement(call)
        return (
            origin in self.always
            and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
            and is_function_of_numbers(self.script, call)
        )

    def _used(self, origin: ast.expr, node: ast.expr, parent: ast.AST | None) -> None:
        """`node`, computed of `origin` by arithmetic alone, is used by `parent`."""
        match parent:
            case ast.Assign(targets=[target]) if parent.value is node:
                self._stored(origin, target)
            case ast.AnnAssign(target=target) if parent.value is node:
                self._stored(origin, target)
            case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add()) if (
                is_added_on_the_device(self.script, node, origin, target)
            ):
                self.on_device.add(origin)
            case ast.AugAssign(target=target, op=op) if isinstance(op, _ARITHMETIC):
                self._stored(origin, target)
            case ast.Call(func=ast.Attribute(attr="append", value=owner), args=[_]) if is_owner(
                owner, self.script
            ):
                if parent.args != [node]:
                    raise Blocked("a list's `append` is asked whether it is there")
                self._kept_in(owner)
            case ast.Call(
                func=ast.Attribute(attr="append", value=ast.Subscript(value=owner)), args=[_]
            ) if parent.args == [node] and is_owner(owner, self.script):
                self._kept_in_lists_of(owner)
            case ast.Call(func=ast.Attribute(attr="update"), args=[first, *_]) if first is node:
                self._metered(parent)
            case ast.Call(func=ast.Name(id="isinstance"), args=[first, kind]) if first is node:
                if not (self.script.dotted(kind) or "").startswith("torch."):
                    raise Blocked("it is asked what it is")
            case ast.Return():
                self._returned(origin, parent)
            case ast.Tuple() | ast.List() | ast.Dict() | ast.ListComp() | ast.DictComp() if (
                origin in self.always
            ):
                self._in_a_literal(origin, node, parent)
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return
            case ast.Compare() if origin in self.always and (found := extreme(self.script, parent)):
                self.extremes[found.statement] = found
                if isinstance(found.value, ast.Call):
                    self.read.add(found.value)
                self._name(found.target)
            case _:
                self._shown(origin, node)

    def _other_side(self, node: ast.expr) -> None:
        value = self.script.value(node)
        if value.has(TENSOR) or value.has(ARRAY) or is_device_tensor(self.script, node):
            raise Blocked("it is computed with a tensor or array")

    def _stored(self, origin: ast.expr, target: ast.expr) -> None:
        match target:
            case ast.Name():
                self._name(target)
            case ast.Subscript(value=owner) if is_owner(owner, self.script):
                if self.script.value(owner).kinds & {TENSOR, ARRAY}:
                    raise Blocked(f"it goes into the tensor `{ast.unparse(owner)}`")
                self._kept_in(owner)
            case ast.Attribute(attr=name) if is_owner(target, self.script):
                self._attribute(target, name)
            case _:
                self._asked(origin, f"it is kept in `{ast.unparse(target)}`")

    # What it is bound to.

    def _name(self, target: ast.Name, loop: ast.For | None = None) -> None:
        """What a statement, or a `loop` over what holds such numbers, binds it to."""
        scope = home(self.script, target)
        bound = loop or self.script.statement(target)
        self.names.add((scope, target.id))
        if self._is_known((scope, target.id, bound)):
            return
        found = scope.find(target.id)
        assert found is not None
        numbers = [b for b in found[1] if b.node is bound]
        for load in loads(self.script, scope, target.id):
            reaching = flow.reaching(found[1], load, scope, self.script.parents)
            if not any(binding in numbers for binding in reaching):
                continue
            if any(b.node is not loop and b.how not in _BOUND for b in reaching):
                raise Blocked(f"`{target.id}` is other things, too")
            self.number(load)

    # Attributes: of meters.

    def _metered(self, call: ast.Call) -> None:
        """`losses.update(loss.item(), n)`."""
        assert isinstance(call.func, ast.Attribute)
        script, owner = self.script, call.func.value
        method = script.local_method(call.func, script.index.scope(call))
        if method is None:
            if made_by(script, owner) in _TIMM_METERS:
                for name in ("val", "avg", "sum"):
                    self._attribute(owner, name)
                self._instances(owner)
                return
            if self._is_metered_elsewhere(call, owner):
                return
            raise Blocked(f"what `{ast.unparse(call.func)}` does with it is not known here")
        names = [arg.arg for arg in (*method.args.posonlyargs, *method.args.args)][1:]
        if not names or isinstance(call.args[0], ast.Starred):
            raise Blocked(f"`{ast.unparse(call.func)}` takes it in a list")
        self._instances(owner)
        self._parameter(method, names[0])

    def _is_metered_elsewhere(self, call: ast.Call, owner: ast.expr) -> bool:
        """True if a meter's class of another module takes it: it is followed there, and through the meter's attributes."""
        assert isinstance(call.func, ast.Attribute)
        found = class_elsewhere(self.script, made_by(self.script, owner))
        method = method_of(found[1], call.func.attr) if found is not None else None
        if found is None or method is None or len(method.args.args) < 2:
            return False
        other = found[0]
        inner = Flow(other, frozenset(walk(method)), is_known=True)
        inner._parameter(method, method.args.args[1].arg)
        if inner.wrapped or inner.later or inner.computed or inner.extremes or inner.on_device:
            raise Blocked(f"`{other.path}` asks for Python's own number")
        attributes = [name for name in inner.names if isinstance(name, str)]
        if attributes:
            no_others_use(self.script, other.path, attributes)
        for name in attributes:
            self._attribute(owner, name)
        self._instances(owner)
        return True

    def _parameter(self, function: FunctionNode, name: str) -> None:
        scope = self.script.inference.scopes[function]
        if self._is_known((scope, name)):
            return
        for load in loads(self.script, scope, name):
            self.number(load)

    def _instances(self, owner: ast.expr) -> None:
        """The meter itself must not be shown in every step: that would wait."""
        if not isinstance(owner, ast.Name):
            return
        for node, _ in self.script.index.of(ast.Name):
            if node.id == owner.id and isinstance(node.ctx, ast.Load) and node in self.always:
                if not isinstance(self.script.parent(node), ast.Attribute):
                    raise Blocked(f"`{owner.id}` is shown or handed on in every step")

    def _attribute(self, place: ast.AST, name: str) -> None:
        """An attribute called `name`, of a class of this file or a meter."""
        if self._is_known(name):
            return
        definition = class_of(self.script, place) if isinstance(place, ast.Attribute) else None
        if definition is None:
            around = (a for a in self.script.ancestors(place) if isinstance(a, ast.ClassDef))
            definition = next(around, None)
        if definition is not None:
            if not self.is_known:
                refuse_imported_class(self.script, definition, name)
            refuse_listed_attributes(self.script, definition)
        for node in attributes_read(self.script, name):
            self.number(node)

    # Who looks at it.

    def _shown(self, origin: ast.expr, node: ast.AST) -> None:
        """`node` is formatted, or handed to a call, or anything else."""
        statement = self.script.statement(origin)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and leads_to(self.script, node, call):
            if origin not in self.always:
                if is_shown_on_a_console(self.script, call) and is_only_formatted(
                    self.script, node, call
                ):
                    return
            elif (
                is_shown_on_a_console(self.script, call)
                or is_tracked(self.script, call)
                or is_shown_elsewhere(self.script, call)
            ):
                self.later.setdefault(call, set()).add(origin)
                return
            elif self._is_handed_to_a_function(node):
                return
            elif is_written_to_a_file(self.script, call):
                self.later.setdefault(call, set()).add(origin)
                return
        elif origin in self.always and self._is_handed_to_a_function(node):
            return
        if origin not in self.always and is_formatted(self.script, node):
            return
        if origin in self.always and isinstance(statement, ast.If):
            if shown_now_and_then(self.script, statement) is not None:
                self._asked_later(statement, [origin])
                return
        self._asked(origin, said(self.script, node, statement))

    def _is_shown_as_it_is(self, load: ast.expr) -> bool:
        """True if a list or dict is shown, which is done later then."""
        statement = self.script.statement(load)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not leads_to(self.script, load, call):
            return False
        fields = self.script.value(load).fields or {}
        if any(field.has(TENSOR) for field in fields.values()):
            raise Blocked(f"`{ast.unparse(load)}` holds tensors, too")
        if not (
            is_shown_on_a_console(self.script, call)
            or is_tracked(self.script, call)
            or is_written_to_a_file(self.script, call)
        ):
            return False
        self.later.setdefault(call, set()).add(load)
        return True

    def _is_handed_to_a_function(self, node: ast.AST) -> bool:
        """True if `node` is an argument of a function of this file, where it is followed: `log(step, loss.item())`."""
        parent = self.script.parent(node)
        call = self.script.parent(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or call.func is node:
            return False
        found = parameter(self.script, call, node)
        if found is None or not takes_values(self.script, *found):
            return False
        self._parameter(*found)
        return True

    def shown_tensors(self, read: ast.AST, tensors: list[ast.expr]) -> None:
        """`read` shows `tensors` themselves. Copies on the host look the same where one number is formatted."""
        statement = self.script.statement(read)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(read, ast.Call) and (kept := collecting(self.script, read)):
            self.later.setdefault(kept.added, set()).add(read)
            self.read.add(read)
            self.names.add((kept.scope, kept.name))
            self.together |= kept.others
            return
        if isinstance(read, ast.If) and shown_now_and_then(self.script, read) is not None:
            self._asked_later(read, tensors)
            return
        if not isinstance(call, ast.Call) or not tensors or not leads_to(self.script, read, call):
            raise Blocked(said(self.script, read, statement))
        if is_tracked(self.script, call):
            known = read is call
        else:
            known = is_shown_on_a_console(self.script, call) and is_a_number(
                self.script, read, tensors
            )
        if not known:
            raise Blocked("a tensor is shown as it is: give its `.item()`")
        self.later.setdefault(call, set()).update(tensors)

    def _asked_later(self, statement: ast.If, asked: Iterable[ast.expr]) -> None:
        """`if loss.item() > 9: print(loss.item())`: what it shows is read with its condition, also where that is rare."""
        kept = self.later.setdefault(statement, set())
        kept.update(asked)
        for node in walk(condition_shows(statement)):
            match node:
                case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
                    if may_be_read(self.script, owner):
                        kept.add(node)
                        self.read.add(node)

    def _asked(self, origin: ast.expr, why: str) -> None:
        """Python's own number is wanted: now and then it may wait for it."""
        if origin in self.always:
            raise Blocked(why)
        self.wrapped.add(origin)

    def _returned(self, origin: ast.expr, statement: ast.Return, held: Held | None = None) -> None:
        """It is returned, as it is or `held` in a tuple, a list or a dict."""
        function = self.script.function(statement)
        if function is not None and any(
            isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list
        ):
            self._attribute(function, function.name)
            return
        if origin not in self.always:
            self.wrapped.add(origin)
            return
        if (
            function is None
            or function.decorator_list
            or isinstance(function, ast.AsyncFunctionDef)
        ):
            raise Blocked("it is returned")
        self.names.add(function)
        if self._is_known((function, held)):
            return
        for call in calls_of(self.script, function):
            if held is None:
                self.number(call)
            else:
                self._given(call, held)
