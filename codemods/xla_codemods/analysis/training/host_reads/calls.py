"""A call that shows a value, made later: `xla.later(lambda step=step, loss=loss: print(step, loss.item()))`."""

from __future__ import annotations

import ast
import builtins
import keyword as keywords
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeGuard

from ....edits import Edit, Replace, ReplaceStatement
from ....listened import LISTENED
from ...inference.values import INSTANCE, MODULE, NUMBER, STRING, TENSOR
from ...nodes import CHILDREN, walk
from ...optimizers import is_scaler
from ..tensors.device_tensors import is_device_tensor
from .blocked import Blocked
from .computing import (
    BUILT,
    BUILT_OF_READS,
    depends,
    is_a_test,
    is_pure,
    may_compute,
    may_fail,
    suggested_name,
)
from .decisions.conditions import Condition, condition_of
from .formatted import is_a_number
from .functions import is_caught
from .lasting import (
    holds_objects,
    is_bound_before,
    is_bound_once,
    is_set_again,
    is_stable,
    may_be_changed,
)
from .loggers.trackers import logged_to
from .sinks import file_of, is_tracked

if TYPE_CHECKING:
    from ...script import Script

Shown = ast.Call | ast.AugAssign | ast.If | ast.Assert  # what is made later
Made = Shown | ast.expr  # and texts, which are computed later
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_PASSING = frozenset({"cpu", "detach", "numpy"})
_NOT_MOVED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_SHOWN_AS_WRITTEN = re.compile(r"[^=!<>]=\s*[}:!]")  # f"{loss.mean()=}"


def made_later(
    script: Script,
    call: Shown,
    reads: Collection[ast.AST],
    numbers: Collection[ast.AST],
) -> list[Edit]:
    """The edits that make `call` later, with what it shows of now.

    `reads` are the reads in it, whose tensors are kept; `numbers` are names and calls whose values are deferred.
    """
    return _Later(script, call, reads, numbers).edits(call)


def computed_later(
    script: Script, text: ast.expr, reads: Collection[ast.AST], numbers: Collection[ast.AST]
) -> list[Edit]:
    """Return the edits that defer `text`, with the same words."""
    return _Later(script, text, reads, numbers).computed(text)


def tensor_of(number: ast.Call) -> ast.expr:
    """What `number` reads: `loss` of `loss.detach().cpu().item()` and of `float(loss)`."""
    operand = number.func.value if isinstance(number.func, ast.Attribute) else number.args[0]
    while True:
        match operand:
            case ast.Attribute(attr="data", value=ast.Call(func=ast.Attribute(attr=name)) as call):
                inner: ast.expr = call
            case ast.Call(func=ast.Attribute(attr=name, value=inner), args=[]):
                pass
            case _:
                return operand
        if name not in _PASSING:
            return operand
        operand = inner


def refuse_shown_as_written(script: Script, node: ast.expr) -> None:
    """Raise `Blocked` if `f"{sum(losses)=}"` shows the text of `node` with its value, since the text would change."""
    for text in script.ancestors(node):
        if isinstance(text, ast.JoinedStr) and _SHOWN_AS_WRITTEN.search(script.segment(text)):
            raise Blocked("the text of what is computed is shown with it")


def is_unknown_item(node: ast.AST, script: Script) -> TypeGuard[ast.Call]:
    """True for `parts["kl"].item()` of what is not known to be a tensor: `xla.item` reads all that has one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return not script.value(owner).kinds
    return False


class _Later:
    def __init__(
        self,
        script: Script,
        call: Made,
        reads: Collection[ast.AST],
        numbers: Collection[ast.AST],
    ) -> None:
        self.script = script
        self.call = call
        self.reads = reads
        self.kept = {*reads, *numbers}
        self.bound: dict[str, str] = {}
        self.inner: list[Edit] = []
        # What is bound to its own name: no change, and no other's either.
        self.names: list[Edit] = []
        self.own: set[str] = set()  # the names of comprehensions
        self.is_conditional = False  # what is looked at is computed under a condition
        self.used = [n.id for n in walk(call) if isinstance(n, ast.Name)]

    def computed(self, text: ast.expr) -> list[Edit]:
        self._refuse_caught()
        self._visit(text)
        spelled = f"{self.script.xla}.computed(lambda {self._defaults()}: {{0}})"
        return [*self.inner, *self.names, Replace(text, spelled, (text,))]

    def _refuse_caught(self) -> None:
        if is_caught(self.script, self.call) and any(map(may_fail, walk(self.call))):
            raise Blocked("what it raises is caught")

    def _defaults(self) -> str:
        if self.inner and _SHOWN_AS_WRITTEN.search(self.script.segment(self.call)):
            raise Blocked("the text of what is computed is shown with it")
        defaults = ", ".join(
            f"{name}={text}"
            for name, text in sorted(self.bound.items(), key=lambda b: b[1] != b[0])
        )
        return defaults.replace("{", "{{").replace("}", "}}")  # it stands in an edit's text

    def edits(self, call: Shown) -> list[Edit]:
        self._refuse_caught()
        if isinstance(call, (ast.If, ast.Assert)):
            return self._asked(call)
        file, owner = None, None
        if isinstance(call, ast.AugAssign):
            self._visit(call.value)
        else:
            file = file_of(self.script, call)
            if not (file or is_tracked(self.script, call)):
                owner = logged_to(self.script, call)
            collects = getattr(call.func, "attr", "") in {"append", "extend"}
            if not (file or collects):  # those are the same object for as long as the loop runs
                self._callee(call.func)
            for argument in (*call.args, *call.keywords):
                if not (file and isinstance(argument, ast.keyword) and argument.arg == "file"):
                    self._visit(argument)
        defaults = self._defaults()
        inner = [*self.inner, *self.names]
        if isinstance(call, ast.AugAssign):
            owner = self.script.segment(call.target)
            text = f"{self.script.xla}.later(lambda {defaults}: {owner}.extend({{0}}))"
            return [*inner, ReplaceStatement(call, text, (call.value,))]
        to = f", to={file or owner}" if file or owner else ""
        given = f" {defaults}" if defaults else ""
        text = f"{self.script.xla}.later(lambda{given}: {{0}}{to})"
        return [*inner, Replace(call, text, (call,))]

    def _asked(self, statement: ast.If | ast.Assert) -> list[Edit]:
        """`lambda: print("not finite") if torch.isnan(loss) else None`, of a statement."""
        condition = condition_of(self.script, statement)
        assert condition is not None
        self._visit(condition.test)
        self.is_conditional = True
        calls: list[ast.expr] = [*condition.shows]
        if condition.end is not None and condition.how != "assert":
            calls.append(condition.end)
        for call in calls:
            func = call.func if isinstance(call, ast.Call) else call
            self._callee(func)
            for argument in (*call.args, *call.keywords) if isinstance(call, ast.Call) else ():
                self._visit(argument)
        if condition.how == "assert" and condition.end is not None:
            self._visit(condition.end)
        text, holes = _spelled(self.script, condition)
        text = f"{self.script.xla}.later(lambda {self._defaults()}: {text})"
        return [*self.inner, *self.names, ReplaceStatement(statement, text, holes)]

    def _callee(self, func: ast.expr) -> None:
        """`print`, `logger.info`, `bar.set_postfix`, `run["loss"].append`: the object of now."""
        while isinstance(func, (ast.Attribute, ast.Subscript)):
            if isinstance(func, ast.Subscript):
                self._visit(func.slice)
            elif is_set_again(self.script, func):
                self._owner(func)
                return
            func = func.value
            if isinstance(func, ast.Call) and not (func.args or func.keywords):
                func = func.func  # `Logger.current_logger().report_scalar`
        if not isinstance(func, ast.Name):
            raise Blocked("whose it is that shows it is computed")
        if not is_bound_once(self.script, func):
            self.bound[func.id] = func.id

    def _owner(self, owner: ast.Attribute) -> None:
        """`self.bar`, which is another in the next epoch."""
        name = self._free_name(owner)
        self.bound[name] = self.script.segment(owner)
        self.inner.append(Replace(owner, name, is_moved=True))

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.NamedExpr):
            raise Blocked("it is given a name in the middle of a statement")
        if isinstance(node, (*_NOT_MOVED, ast.Lambda, ast.comprehension)):
            raise Blocked("it stands in a comprehension or lambda")
        if isinstance(node, _COMPREHENSIONS) and self._is_later(node):
            self._comprehension(node)
        elif node in self.reads:
            assert isinstance(node, ast.Call)
            operand = tensor_of(node)
            if isinstance(operand, ast.Name) and operand.id in self.own:
                return  # of what is gone through, which comes with its tensors
            if isinstance(operand, ast.Name):
                self._bind(operand)
            else:
                self._computed_now(operand)
        elif is_unknown_item(node, self.script) and self.kept.isdisjoint(walk(node)):
            self._computed_now(
                node, f"{self.script.xla}.item({self.script.segment(tensor_of(node))})"
            )
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Constant):
            return
        elif node in self.kept:
            self._computed_now(node)
        elif isinstance(node, ast.BoolOp) and self._are_tests(node.values):
            for value in node.values:
                self._computed_now(value)
        elif self._is_built(node):
            below = CHILDREN[type(node)](node)
            if isinstance(node, ast.Call):
                below = [*node.args, *node.keywords]
                if isinstance(node.func, ast.Attribute) and self._is_later(node.func.value):
                    below.append(node.func.value)
            before = self.is_conditional
            for child in below:
                if isinstance(child, (ast.expr, ast.keyword)):
                    self.is_conditional = before or depends(node, child)
                    self._visit(child)
            self.is_conditional = before
        elif isinstance(node, ast.Attribute) and node.attr == "data" and self._is_later(node):
            self._visit(node.value)
        elif self._is_later(node):  # computed now, it would read now
            raise Blocked(f"`{ast.unparse(node)}` is shown with it")
        elif isinstance(node, ast.expr) and is_device_tensor(self.script, node):
            raise Blocked(f"`{ast.unparse(node)}`, a tensor, is shown as it is")
        elif not is_stable(self.script, node):
            self._computed_now(node)

    def _are_tests(self, nodes: list[ast.expr]) -> bool:
        """`torch.isnan(loss)`, `x.min() < 0`: tensors, of which each can be computed without asking the others."""
        return not self.is_conditional and all(
            node in self.kept and is_a_test(self.script, node) for node in nodes
        )

    def _comprehension(self, node: Comprehension) -> None:
        """`{name: round(value, 3) for name, value in stats.items()}`, computed later as a whole."""
        before, self.own = (self.is_conditional, self.own), set(self.own)
        for generator in node.generators:
            self._walked(generator.iter)
            self.own.update(n.id for n in walk(generator.target) if isinstance(n, ast.Name))
            self.is_conditional = True
            for test in generator.ifs:
                self._visit(test)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            self._visit(part)
        self.is_conditional, self.own = before

    def _walked(self, iterable: ast.expr) -> None:
        """What a comprehension goes through: `losses.items()` of a dict, of which `xla.later` keeps what is in it now."""
        match iterable:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() as held, attr="items" | "values"), args=[]
            ) if held not in self.kept and held.id not in self.own and self._is_held(held):
                self._bind(held)
            case _:
                self._visit(iterable)

    def _is_held(self, node: ast.Name) -> bool:
        value = self.script.value(node)
        return not (value.has(INSTANCE) or value.has(MODULE))

    def _is_later(self, node: ast.AST) -> bool:
        """True if `node` can only be computed later: of a read, or of a name of a comprehension that is."""
        return any(
            part in self.kept
            or (isinstance(part, ast.Name) and part.id in self.own)
            or is_unknown_item(part, self.script)
            for part in walk(node)
        )

    def _is_built(self, node: ast.AST) -> bool:
        """True if `node` may be computed later, of parts of now."""
        if isinstance(node, BUILT):
            return True
        if not isinstance(node, ast.Call):
            if self.is_conditional and isinstance(node, (ast.BoolOp, ast.Compare)):
                return True
            return isinstance(node, BUILT_OF_READS) and self._is_later(node)
        if not self._is_later(node):
            return False
        of_it = isinstance(node.func, ast.Attribute) and self._is_later(node.func.value)
        if not may_compute(self.script, node, of_it=of_it):
            raise Blocked(f"`{ast.unparse(node.func)}` is called with it")
        return True

    def _name(self, node: ast.Name) -> None:
        script = self.script
        if node.id in self.own:
            return
        found = script.index.scope(node).find(node.id)
        if found is None or all(b.how in {"import", "fallback", "def", "class"} for b in found[1]):
            return
        if node not in self.kept and is_device_tensor(script, node):
            shown = script.parent(node)
            if not (isinstance(shown, ast.FormattedValue) and is_a_number(script, shown, [node])):
                raise Blocked(f"`{node.id}`, a tensor, is shown as it is")
        value = script.value(node)
        if not value.kinds & {NUMBER, STRING, TENSOR} and node not in self.kept:
            if holds_objects(value) or may_be_changed(self.script, node.id):
                raise Blocked(f"`{node.id}`, which is shown with it, may change until then")
        self._bind(node)

    def _bind(self, node: ast.Name) -> None:
        """`step=step`: the value is needed in every step, even if the script uses it under a condition."""
        if (
            self.is_conditional
            and node.id not in self.bound
            and not is_bound_before(self.script, node, self.call)
        ):
            raise Blocked(f"`{node.id}` may not be there yet")
        self.bound[node.id] = node.id
        self.names.append(Replace(node, node.id, is_moved=True))

    def _computed_now(self, node: ast.AST, spelled: str = "") -> None:
        """`node`, which is computed as `spelled`."""
        assert isinstance(node, ast.expr)
        if self.is_conditional:
            raise Blocked(f"`{ast.unparse(node)}` is computed under a condition")
        text = self.script.segment(node)
        if "cuda" in text or any(self._is_rewritten(n) for n in walk(node)):
            raise Blocked(f"`{ast.unparse(node)}` is shown with it")
        value = self.script.value(node)
        if node not in self.kept and holds_objects(value):
            raise Blocked(f"`{ast.unparse(node)}`, which is shown with it, may change until then")
        text = spelled or text
        names = [name for name, known in self.bound.items() if known == text and is_pure(node)]
        name = names[0] if names else self._free_name(node)
        self.bound[name] = text
        self.inner.append(Replace(node, name, is_moved=True))

    def _is_rewritten(self, node: ast.AST) -> bool:
        """True if `node` cannot be moved, or other rules may edit it, whose edits would be lost in the moved text."""
        if isinstance(node, _NOT_MOVED):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and is_scaler(self.script, node):
            return True
        return isinstance(node, ast.Call) and self.script.dotted(node.func) in LISTENED

    def _free_name(self, node: ast.expr) -> str:
        base = suggested_name(node) or "value"
        base = "value" if hasattr(builtins, base) else base
        within = sum(isinstance(n, ast.Name) and n.id == base for n in walk(node))
        name, k = base, 2
        while (
            (self.used.count(name) > within if name == base else name in self.used)
            or name in self.bound
            or keywords.iskeyword(name)
        ):
            name, k = f"{base}_{k}", k + 1
        return name


def _spelled(script: Script, condition: Condition) -> tuple[str, tuple[ast.expr, ...]]:
    """The text of a lambda that asks, and its holes."""
    holes: list[ast.expr] = [condition.test, *condition.shows]
    done = [f"{{{k}}}" for k in range(1, len(holes))]
    end = ""
    if condition.end is not None:
        end = f"{{{len(holes)}}}"
        holes.append(condition.end)
    if condition.how == "assert":
        failed = f"{script.xla}.stop(AssertionError({end}))"
        return f"None if {{0}} else {failed}", tuple(holes)
    if condition.how:
        done.append(f"{script.xla}.stop({end})" if condition.how == "raise" else end)
    text = done[0] if len(done) == 1 else f"({', '.join(done)})"
    return f"{text} if {{0}} else None", tuple(holes)
