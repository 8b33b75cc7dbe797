"""An output call that is made later: `xla.later(lambda step=step, loss=loss: print(step, loss.item()))`."""

from __future__ import annotations

import ast
import builtins
import keyword as keywords
from collections.abc import Collection
from typing import TypeGuard

from ....edits import Edit, Replace, ReplaceStatement
from ....listened import LISTENED
from ....patterns import Pattern
from ...inference.values import INSTANCE, MODULE, NUMBER, STRING, TENSOR
from ...nodes import CHILDREN, COMPREHENSIONS, walk
from ...optimizers import is_scaler
from ...script import Script
from ..tensors.device_tensors import is_device_tensor
from .computing import (
    BUILT,
    BUILT_OF_READS,
    depends,
    is_caught,
    is_pure,
    is_test_of_tensors,
    label_of,
    may_compute,
    may_fail,
    suggested_name,
)
from .conditions import Condition, condition_of
from .deferral import Deferral, Shown
from .formatted import is_a_number
from .lasting import (
    holds_objects,
    is_bound_before,
    is_bound_once,
    is_set_again,
    is_stable,
    may_be_changed,
)
from .read_numbers import tensor_of
from .sinks import file_of, shown_to

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_NOT_MOVED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_SHOWN_AS_WRITTEN = Pattern(r"[^=!<>]=\s*[}:!]")  # f"{loss.mean()=}"


def made_later(
    deferral: Deferral,
    call: ast.expr | Shown,
    reads: Collection[ast.AST],
    numbers: Collection[ast.AST],
) -> list[Edit]:
    """Return the edits that run `call`, an output call, statement or text, later.

    `reads` are the reads in it, whose tensors are kept; `numbers` are names and calls whose values
    are deferred.
    """
    return _Later(deferral, call, reads, numbers).edits()


def refuse_shown_as_written(deferral: Deferral, node: ast.expr) -> None:
    """The read stays if `f"{sum(losses)=}"` shows the text of `node`, since the text would change."""
    for text in deferral.script.ancestors(node):
        if isinstance(text, ast.JoinedStr):
            if _SHOWN_AS_WRITTEN.search(deferral.script.segment(text)):
                deferral.refuse("the printed text also contains the expression")


def is_unknown_item(node: ast.AST, script: Script) -> TypeGuard[ast.Call]:
    """Return True for `parts["kl"].item()` of an unknown value, which `xla.item` can read."""
    match node:
        case ast.Call(func=ast.Attribute(attr="item", value=owner), args=[], keywords=[]):
            return not script.value(owner).kinds
    return False


class _Later:
    """The state of visiting one call: what it binds now, and what is computed later."""

    def __init__(
        self,
        deferral: Deferral,
        call: ast.expr | Shown,
        reads: Collection[ast.AST],
        numbers: Collection[ast.AST],
    ) -> None:
        self.deferral, self.script, self.call = deferral, deferral.script, call
        self.reads = reads
        self.kept = {*reads, *numbers}
        self.bound: dict[str, str] = {}
        self.inner: list[Edit] = []
        self.names: list[Edit] = []  # bound to their own names, which other edits must not change
        self.own: set[str] = set()  # the names of comprehensions
        self.is_conditional = False  # the visited node is computed under a condition
        self.used = [n.id for n in walk(call) if isinstance(n, ast.Name)]

    def edits(self) -> list[Edit]:
        script, call, xla = self.script, self.call, self.script.xla
        if is_caught(script, call) and any(map(may_fail, walk(call))):
            self.deferral.refuse("its exceptions are caught")
        to = shown_to(script, call) if isinstance(call, ast.Call) else None
        if isinstance(call, (ast.If, ast.Assert)):
            return self._asked(call)
        if isinstance(call, ast.AugAssign):
            self._visit(call.value)
            text = f"{xla}.later(lambda {self._defaults()}: {script.segment(call.target)}.extend({{0}}))"
            return [*self.inner, *self.names, ReplaceStatement(call, text, (call.value,))]
        collects = isinstance(script.parent(call), ast.Expr) and call in self.deferral.together
        if to is None and not collects:  # a text or a mean
            self._visit(call)
            text = f"{xla}.computed(lambda {self._defaults()}: {{0}})"
            return [*self.inner, *self.names, Replace(call, text, (call,))]
        assert isinstance(call, ast.Call)
        is_file = bool(to) and to == file_of(script, call)
        if not (is_file or collects):  # those are the same object for as long as the loop runs
            self._callee(call.func)
        for argument in (*call.args, *call.keywords):
            if not (is_file and isinstance(argument, ast.keyword) and argument.arg == "file"):
                self._visit(argument)
        defaults = self._defaults()
        to = f", to={to}" if to else ""
        text = f"{xla}.later(lambda{' ' if defaults else ''}{defaults}: {{0}}{to})"
        return [*self.inner, *self.names, Replace(call, text, (call,))]

    def _defaults(self) -> str:
        if self.inner and _SHOWN_AS_WRITTEN.search(self.script.segment(self.call)):
            self.deferral.refuse("the printed text also contains the expression")
        bound = sorted(self.bound.items(), key=lambda b: b[1] != b[0])
        defaults = ", ".join(f"{name}={text}" for name, text in bound)
        return defaults.replace("{", "{{").replace("}", "}}")  # it stands in an edit's text

    def _asked(self, statement: ast.If | ast.Assert) -> list[Edit]:
        """Return `lambda: print("not finite") if torch.isnan(loss) else None` for a statement."""
        condition = condition_of(self.script, statement)
        assert condition is not None
        self._visit(condition.test)
        self.is_conditional = True
        calls: list[ast.expr] = [*condition.shows]
        if condition.end is not None:
            (self._visit if condition.how == "assert" else calls.append)(condition.end)
        for call in calls:
            self._callee(call.func if isinstance(call, ast.Call) else call)
            for argument in (*call.args, *call.keywords) if isinstance(call, ast.Call) else ():
                self._visit(argument)
        text, holes = _spelled(self.script, condition)
        text = f"{self.script.xla}.later(lambda {self._defaults()}: {text})"
        return [*self.inner, *self.names, ReplaceStatement(statement, text, holes)]

    def _callee(self, func: ast.expr) -> None:
        """Bind the object of `print`, `logger.info`, `bar.set_postfix`, `run["loss"].append`."""
        while isinstance(func, (ast.Attribute, ast.Subscript)):
            if isinstance(func, ast.Subscript):
                self._visit(func.slice)
            elif is_set_again(self.script, func):  # `self.bar`
                name = self._free_name(func)
                self.bound[name] = self.script.segment(func)
                self.inner.append(Replace(func, name, is_moved=True))
                return
            func = func.value
            if isinstance(func, ast.Call) and not (func.args or func.keywords):
                func = func.func  # `Logger.current_logger().report_scalar`
        if not isinstance(func, ast.Name):
            self.deferral.refuse("the call computes the object that logs it")
        elif not is_bound_once(self.script, func):
            self.bound[func.id] = func.id

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, (*_NOT_MOVED, ast.Lambda)):
            self.deferral.refuse("it is in a lambda or in an assignment expression")
        elif isinstance(node, COMPREHENSIONS) and self._is_later(node):
            self._comprehension(node)
        elif node in self.reads:
            assert isinstance(node, ast.Call)
            operand = tensor_of(node)
            if not isinstance(operand, ast.Name):
                self._computed_now(operand)
            elif operand.id not in self.own:  # an entry comes with the container
                self._bind(operand)
        elif is_unknown_item(node, self.script) and self.kept.isdisjoint(walk(node)):
            self._computed_now(
                node, f"{self.script.xla}.item({self.script.segment(tensor_of(node))})"
            )
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Constant):
            return
        elif node in self.kept and isinstance(node, ast.Compare) and len(node.ops) > 1:
            for side in (node.left, *node.comparators):  # a chain reads what it compares
                if is_device_tensor(self.script, side):
                    self._computed_now(side)
                else:
                    self._visit(side)
        elif node in self.kept:
            self._computed_now(node)
        elif isinstance(node, ast.BoolOp) and not self.is_conditional and self._are_tests(node):
            for value in node.values:  # each on the device, whatever the others give
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
            self.deferral.refuse(f"`{ast.unparse(node)}` is printed with it")
        elif isinstance(node, ast.expr) and is_device_tensor(self.script, node):
            self.deferral.refuse(f"the tensor `{ast.unparse(node)}` itself is printed")
        elif not is_stable(self.script, node):
            self._computed_now(node)

    def _are_tests(self, node: ast.BoolOp) -> bool:
        return self.kept.issuperset(node.values) and all(map(is_test_of_tensors, node.values))

    def _comprehension(self, node: Comprehension) -> None:
        """`{name: round(value, 3) for name, value in stats.items()}` is computed later as a whole."""
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
        """Bind `losses` of `losses.items()`: `xla.later` keeps the entries of a dict."""
        match iterable:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() as held, attr="items" | "values"), args=[]
            ) if held not in self.kept and held.id not in self.own:
                if not self.script.value(held).kinds & {INSTANCE, MODULE}:
                    self._bind(held)
                    return
        self._visit(iterable)

    def _is_later(self, node: ast.AST) -> bool:
        """Return True if `node` can only be computed later."""
        return any(
            part in self.kept
            or (isinstance(part, ast.Name) and part.id in self.own)
            or is_unknown_item(part, self.script)
            for part in walk(node)
        )

    def _is_built(self, node: ast.AST) -> bool:
        """Return True if `node` may be computed later, of parts that are computed now."""
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
            self.deferral.refuse(f"it is an argument of `{ast.unparse(node.func)}`")
        return True

    def _name(self, node: ast.Name) -> None:
        script = self.script
        if node.id in self.own:
            return
        if all(b.how in {"import", "fallback", "def", "class"} for b in script.bindings(node)):
            return
        if is_bound_once(script, node) and isinstance(script.only_value(node), ast.Constant):
            return  # `EPOCHS = 3`
        if node not in self.kept and is_device_tensor(script, node):
            shown = script.parent(node)
            if not (isinstance(shown, ast.FormattedValue) and is_a_number(script, shown, [node])):
                self.deferral.refuse(f"the tensor `{node.id}` itself is printed")
        value = script.value(node)
        if not value.kinds & {NUMBER, STRING, TENSOR} and node not in self.kept:
            if holds_objects(value) or may_be_changed(self.script, node.id):
                self.deferral.refuse(f"`{node.id}` is printed with it and may change before that")
        self._bind(node)

    def _bind(self, node: ast.Name) -> None:
        """Bind `step=step` in every step, even if the script uses it under a condition."""
        if (
            self.is_conditional
            and node.id not in self.bound
            and not is_bound_before(self.script, node, self.call)
        ):
            self.deferral.refuse(f"`{node.id}` may not be assigned yet")
        self.bound[node.id] = node.id
        self.names.append(Replace(node, node.id, is_moved=True))

    def _computed_now(self, node: ast.AST, spelled: str = "") -> None:
        """Bind a free name to `node`, which is computed as `spelled`."""
        assert isinstance(node, ast.expr)
        if self.is_conditional:
            self.deferral.refuse(f"`{ast.unparse(node)}` is computed under a condition")
        text = self.script.segment(node)
        if "cuda" in text or any(self._is_rewritten(n) for n in walk(node)):
            self.deferral.refuse(f"`{ast.unparse(node)}` is printed with it")
        value = self.script.value(node)
        if node not in self.kept and holds_objects(value):
            self.deferral.refuse(
                f"`{ast.unparse(node)}` is printed with it and may change before that"
            )
        text = spelled or text
        names = [name for name, known in self.bound.items() if known == text and is_pure(node)]
        name = names[0] if names else self._free_name(node)
        self.bound[name] = text
        self.inner.append(Replace(node, name, is_moved=True))

    def _is_rewritten(self, node: ast.AST) -> bool:
        """Return True if `node` cannot be moved, or an edit of another rule would be lost in it."""
        if isinstance(node, _NOT_MOVED):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and is_scaler(self.script, node):
            return True
        return isinstance(node, ast.Call) and self.script.dotted(node.func) in LISTENED

    def _free_name(self, node: ast.expr) -> str:
        base = suggested_name(node)
        if not base or hasattr(builtins, base):
            base = label_of(self.script, node) or "value"
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
    """Return the text of the lambda that evaluates the condition, and its holes."""
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
