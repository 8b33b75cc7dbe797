"""A call that shows a value, made later: `xla.later(lambda step=step, loss=loss: print(step, loss.item()))`."""

from __future__ import annotations

import ast
import builtins
import keyword as keywords
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ....edits import Edit, Replace, ReplaceStatement
from ....hot_lines import LISTENED
from ....patterns import Pattern
from ...inference.values import ARGUMENTS, INSTANCE, LOADER, MODULE, NUMBER, STRING, TENSOR
from ...nodes import CHILDREN, walk
from ...optimizers import is_scaler
from ..tensors.device_tensors import is_device_tensor
from .blocked import Blocked
from .functions import is_caught
from .names import OPTIONS
from .sinks import STREAMS, file_of

if TYPE_CHECKING:
    from ...script import Script

Shown = ast.Call | ast.AugAssign | ast.If  # what is made later
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# What is built of its parts, which may come later.
_BUILT = (
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.Starred,
    ast.keyword,
)
_BUILT_OF_READS = (ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript)
_PURE = frozenset(
    "abs dict float format int len list max min print repr round sorted str sum tuple zip".split()
)
# Methods that compute of a value on the host, whenever they are called.
METHODS_OF_VALUES = frozenset(
    "argmax astype copy cpu data detach flatten float item long mean numpy ravel reshape round squeeze sum tolist".split()
)
# What numpy and statistics compute of a list of numbers.
_MEANS = frozenset(
    {
        f"numpy.{name}"
        for name in "average exp max mean median min prod round sqrt std sum var".split()
    }
    | {f"statistics.{name}" for name in "fmean mean median pstdev stdev".split()}
)
_PARTS = frozenset({"items", "keys", "values"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_NOT_MOVED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_SHOWN_AS_WRITTEN = re.compile(r"[^=!<>]=\s*[}:!]")  # f"{loss.mean()=}"
_LOADER = Pattern(r"loader$|dataset$|(?:^|_)dl$|_set$")


def made_later(
    script: Script,
    call: Shown,
    reads: Collection[ast.AST],
    numbers: Collection[ast.AST],
) -> list[Edit]:
    """The edits that make `call` later, with what it shows of now.

    `reads` are the reads in it, whose tensors are kept; `numbers` names and calls that stand for numbers on their way.
    """
    return _Later(script, call, reads, numbers).edits()


_PASSING = frozenset({"cpu", "detach", "numpy"})


def tensor_of(number: ast.Call) -> ast.expr:
    """What `number` reads: `loss` of `loss.detach().cpu().item()` and of `float(loss)`."""
    operand = number.func.value if isinstance(number.func, ast.Attribute) else number.args[0]
    while isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute):
        if operand.func.attr not in _PASSING or operand.args:
            break
        operand = operand.func.value
    return operand


class _Later:
    def __init__(
        self,
        script: Script,
        call: Shown,
        reads: Collection[ast.AST],
        numbers: Collection[ast.AST],
    ) -> None:
        self.script = script
        self.call = call
        self.reads = reads
        self.kept = {*reads, *numbers}
        self.bound: dict[str, str] = {}
        self.inner: list[Edit] = []
        self.names: list[
            Edit
        ] = []  # what is bound to its own name: no change, and no other's either
        self.own: set[str] = set()  # the names of comprehensions
        self.is_conditional = False  # what is looked at is computed under a condition
        self.used = [n.id for n in walk(call) if isinstance(n, ast.Name)]

    def edits(self) -> list[Edit]:
        file = None
        if is_caught(self.script, self.call) and any(map(_may_fail, walk(self.call))):
            raise Blocked("what it raises is caught")
        shown = self.call
        if isinstance(shown, ast.If):
            self._visit(shown.test)
            self.is_conditional = True
            shown = condition_shows(shown)
        if isinstance(shown, ast.AugAssign):
            self._visit(shown.value)
        else:
            file = file_of(self.script, shown)
            collects = getattr(shown.func, "attr", "") in {"append", "extend"}
            if not (file or collects):  # those are the same object for as long as the loop runs
                self._callee(shown.func)
            for argument in (*shown.args, *shown.keywords):
                if not (file and isinstance(argument, ast.keyword) and argument.arg == "file"):
                    self._visit(argument)
        if self.inner and _SHOWN_AS_WRITTEN.search(self.script.segment(self.call)):
            raise Blocked("the text of what is computed is shown with it")
        inner = [*self.inner, *self.names]
        defaults = ", ".join(
            f"{name}={text}"
            for name, text in sorted(self.bound.items(), key=lambda b: b[1] != b[0])
        )
        if isinstance(self.call, ast.AugAssign):
            owner = self.script.segment(self.call.target)
            text = f"{self.script.xla}.later(lambda {defaults}: {owner}.extend({{0}}))"
            return [*inner, ReplaceStatement(self.call, text, (self.call.value,))]
        if isinstance(self.call, ast.If):
            text = f"{self.script.xla}.later(lambda {defaults}: {{0}} if {{1}} else None)"
            return [
                *inner,
                ReplaceStatement(self.call, text, (condition_shows(self.call), self.call.test)),
            ]
        to = f", to={file}" if file else ""
        text = f"{self.script.xla}.later(lambda {defaults}: {{0}}{to})"
        return [*inner, Replace(self.call, text, (self.call,))]

    def _callee(self, func: ast.expr) -> None:
        """`print`, `logger.info`, `bar.set_postfix`: the object of now."""
        while isinstance(func, ast.Attribute):
            func = func.value
        if not isinstance(func, ast.Name):
            raise Blocked("whose it is that shows it is computed")
        if not self._is_bound_once(func):
            self.bound[func.id] = func.id

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, (*_NOT_MOVED, ast.Lambda, ast.comprehension)):
            raise Blocked("it stands in a comprehension or lambda")
        if isinstance(node, _COMPREHENSIONS) and self._is_later(node):
            self._comprehension(node)
        elif node in self.reads:
            assert isinstance(node, ast.Call)
            operand = tensor_of(node)
            if isinstance(operand, ast.Name):
                self._bind(operand)
            else:
                self._computed_now(operand)
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Constant):
            return
        elif node in self.kept:
            self._computed_now(node)
        elif self._is_built(node):
            below = CHILDREN[type(node)](node)
            if isinstance(node, ast.Call):
                below = [*node.args, *node.keywords]
                if isinstance(node.func, ast.Attribute) and self._is_later(node.func.value):
                    below.append(node.func.value)
            before = self.is_conditional
            for child in below:
                if isinstance(child, (ast.expr, ast.keyword)):
                    self.is_conditional = before or _depends(node, child)
                    self._visit(child)
            self.is_conditional = before
        elif self._is_later(node):  # computed now, it would read now
            raise Blocked(f"`{ast.unparse(node)}` is shown with it")
        elif not self._is_stable(node):
            self._computed_now(node)

    def _comprehension(self, node: Comprehension) -> None:
        """`{name: round(value, 3) for name, value in stats.items()}`, computed later as a whole."""
        before, self.own = (self.is_conditional, self.own), set(self.own)
        for generator in node.generators:
            self._visit(generator.iter)
            self.own.update(n.id for n in walk(generator.target) if isinstance(n, ast.Name))
            self.is_conditional = True
            for test in generator.ifs:
                self._visit(test)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in parts:
            self._visit(part)
        self.is_conditional, self.own = before

    def _is_later(self, node: ast.AST) -> bool:
        """True if `node` can only be computed later: of a read, or of a name of a comprehension that is."""
        return any(
            part in self.kept or (isinstance(part, ast.Name) and part.id in self.own)
            for part in walk(node)
        )

    def _is_built(self, node: ast.AST) -> bool:
        """True if `node` may be computed later, of parts of now."""
        if isinstance(node, _BUILT):
            return True
        if not isinstance(node, ast.Call):
            if self.is_conditional and isinstance(node, (ast.BoolOp, ast.Compare)):
                return True
            return isinstance(node, _BUILT_OF_READS) and self._is_later(node)
        func = node.func
        if not self._is_later(node):
            return False
        if isinstance(func, ast.Attribute):
            known = func.attr in {"format", "join"} and isinstance(func.value, ast.Constant)
            dotted = self.script.dotted(func) or ""
            known = known or dotted.startswith(("math.", "json.dumps")) or dotted in _MEANS
            known = known or (func.attr in METHODS_OF_VALUES and self._is_later(func.value))
            known = known or (func.attr in _PARTS and self._is_later(func.value))
            known = known or self._is_a_test(func)
        else:
            scope = self.script.index.scope(node)
            known = isinstance(func, ast.Name) and func.id in _PURE and not scope.find(func.id)
        if not known:
            raise Blocked(f"`{ast.unparse(func)}` is called with it")
        return True

    def _is_a_test(self, func: ast.Attribute) -> bool:
        """`torch.isnan(loss)`, `np.isfinite(value)`, `.any()` of it."""
        if func.attr in {"isnan", "isinf", "isfinite"}:
            dotted = self.script.dotted(func) or ""
            return dotted.startswith(("torch.", "numpy.", "math.")) or self._is_later(func.value)
        return func.attr in {"any", "all"} and self._is_later(func.value)

    def _name(self, node: ast.Name) -> None:
        script = self.script
        if node.id in self.own:
            return
        found = script.index.scope(node).find(node.id)
        if found is None or all(b.how in {"import", "fallback", "def", "class"} for b in found[1]):
            return
        if node not in self.kept and is_device_tensor(script, node):
            raise Blocked(f"`{node.id}`, a tensor, is shown as it is")
        value = script.value(node)
        if not value.kinds & {NUMBER, STRING, TENSOR} and node not in self.kept:
            if value.has(INSTANCE) or value.has(MODULE) or self._may_be_changed(node.id):
                raise Blocked(f"`{node.id}`, which is shown with it, may change until then")
        self._bind(node)

    def _bind(self, node: ast.Name) -> None:
        """`step=step`: it is asked for in every step then, also where the script does so under a condition."""
        if self.is_conditional and node.id not in self.bound and not self._is_bound_before(node):
            raise Blocked(f"`{node.id}` may not be there yet")
        self.bound[node.id] = node.id
        self.names.append(Replace(node, node.id, is_moved=True))

    def _is_bound_before(self, node: ast.Name) -> bool:
        """True if `node` has a value in every step: a parameter, of the loop, or of a statement that stands above."""
        found = self.script.index.scope(node).find(node.id)
        blocks = [self.call, *self.script.ancestors(self.call)]
        for binding in found[1] if found else ():
            if binding.how == "parameter":
                return True
            made = binding.node if isinstance(binding.node, ast.stmt) else None
            made = made or self.script.statement(binding.node)
            if made in blocks and isinstance(made, (ast.For, ast.AsyncFor, ast.With)):
                return True
            for statement in blocks:
                if isinstance(statement, ast.stmt):
                    block = self.script.block(statement)
                    if made in block and block.index(made) < block.index(statement):
                        return not isinstance(made, (*_LOOPS, ast.If, ast.Try))
        return False

    def _may_be_changed(self, name: str) -> bool:
        """True if methods of it are called, or its attributes set."""
        return any(
            isinstance(node.value, ast.Name)
            and node.value.id == name
            and (
                isinstance(self.script.parent(node), ast.Call) or not isinstance(node.ctx, ast.Load)
            )
            for node, _ in self.script.index.of(ast.Attribute)
        )

    def _is_stable(self, node: ast.AST) -> bool:
        """Options, and the lengths of loaders: the same whenever they are asked for."""
        if self.script.dotted(node) in STREAMS:
            return True
        match node:
            case ast.Attribute(value=ast.Name(id=name) as owner):
                named = OPTIONS.search(name) or self.script.value(owner).has(ARGUMENTS)
                return bool(named) and self._is_bound_once(owner) and not self._is_set(node)
            case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
                root: ast.expr = inner
                last = ""
                while isinstance(root, ast.Attribute):
                    last = last or root.attr
                    root = root.value
                if not isinstance(root, ast.Name) or not self._is_bound_once(root):
                    return False
                value = self.script.value(inner)
                return value.has(LOADER) or _LOADER.search(last or root.id) is not None
        return False

    def _is_set(self, node: ast.Attribute) -> bool:
        return any(
            other.attr == node.attr and not isinstance(other.ctx, ast.Load)
            for other, _ in self.script.index.of(ast.Attribute)
        )

    def _is_bound_once(self, node: ast.Name) -> bool:
        """True if `node` is the same object until the program ends, or the function that it stands in."""
        found = self.script.index.scope(node).find(node.id)
        if found is None:
            return True
        bindings = found[1]
        if all(b.how in {"import", "fallback", "def", "class"} for b in bindings):
            return True
        binding = bindings[0]
        if len(bindings) > 1 or binding.how not in {"assign", "parameter"}:
            return False
        home = found[0].node
        for ancestor in self.script.ancestors(binding.node):
            if ancestor is home:
                break
            if isinstance(ancestor, _LOOPS):
                return False
        return True

    def _computed_now(self, node: ast.AST) -> None:
        assert isinstance(node, ast.expr)
        if self.is_conditional:
            raise Blocked(f"`{ast.unparse(node)}` is computed under a condition")
        text = self.script.segment(node)
        if "cuda" in text or "{" in text or any(self._is_rewritten(n) for n in walk(node)):
            raise Blocked(f"`{ast.unparse(node)}` is shown with it")
        value = self.script.value(node)
        if node not in self.kept and (value.has(INSTANCE) or value.has(MODULE)):
            raise Blocked(f"`{ast.unparse(node)}`, which is shown with it, may change until then")
        names = [name for name, known in self.bound.items() if known == text and _is_pure(node)]
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
        base = _spoken(node) or "value"
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


def condition_shows(condition: ast.If) -> ast.Call:
    """The call that is all that `if torch.isnan(loss):` makes."""
    (statement,) = condition.body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value


def _depends(node: ast.AST, child: ast.AST) -> bool:
    """True if `child` of `node` is computed only where another part of it says so."""
    match node:
        case ast.IfExp(test=test):
            return child is not test
        case ast.BoolOp(values=[first, *_]):
            return child is not first
        case ast.Compare(comparators=[first, *_], left=left):
            return child is not left and child is not first
    return False


def _may_fail(node: ast.AST) -> bool:
    """Division, powers, `math` and `int` raise for some numbers; so does `%d`, for nan."""
    match node:
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
            return "%d" in text
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow()):
            return True
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="math")))
            | ast.Call(func=ast.Name(id="int" | "exp" | "log"))
        ):
            return True
    return False


def _is_pure(node: ast.expr) -> bool:
    """True if computing `node` once more gives the same: no `timer.tick()`, `next(numbers)`, `time.time()`."""
    return all(
        getattr(n.func, "id", "") in _PURE
        or getattr(n.func, "attr", "") in METHODS_OF_VALUES | {"get_last_lr", "get_lr", "size"}
        for n in walk(node)
        if isinstance(n, ast.Call)
    )


def _spoken(node: ast.expr) -> str:
    """A name for what `node` computes."""
    match node:
        case ast.Attribute(attr=name):
            return name
        case ast.Call(func=func, args=[ast.Name(id=name)]):
            return f"{_spoken(func)}_{name}"
        case ast.Call(func=func):
            return re.sub(r"^get_", "", _spoken(func))
        case ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))) if key.isidentifier():
            return key
        case ast.Subscript(value=value):
            return _spoken(value)
    return ""
