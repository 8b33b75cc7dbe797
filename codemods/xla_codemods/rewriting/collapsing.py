"""Compound statements whose parts were removed become what they still mean, before anything is parsed with libcst.

No block is left that does nothing: `if x: pass` goes with its test, `else: pass` goes, `if x: pass` with an `else` asks
the opposite, and a `try` in which nothing is left that could fail gives way to what stands in its other blocks. An empty
`with torch.cuda.device(0):` goes, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..analysis.nodes import FUNCTIONS, walk
from ..analysis.parsed_file import ParsedFile
from ..analysis.scopes import Binding
from ..analysis.syntax import is_elif, is_pure
from ..edits import DropArgument, DropBranch, Edit, ReplaceStatement, Unwrap, remove, removed


def collapsed(edits: list[Edit], script: ParsedFile) -> list[Edit]:
    """`edits`, and those that follow from the statements which they remove."""
    return _Collapsing(edits, script).run()


class _Collapsing:
    def __init__(self, edits: list[Edit], script: ParsedFile) -> None:
        self.script = script
        self.edits = [*edits, *map(remove, self._unread(edits))]
        self.gone = removed(self.edits)
        self.given = set(self.gone)
        self.unwrapped = {e.node: e for e in edits if isinstance(e, Unwrap)}
        self.replaced = {e.node for e in self.edits if isinstance(e, (ReplaceStatement, Unwrap))}

    def run(self) -> list[Edit]:
        work = list(self.gone)
        while work:
            parent = self.script.parent(work.pop())
            if isinstance(parent, ast.stmt) and parent not in self.gone and self._goes(parent):
                self.gone.add(parent)
                work.append(parent)
        edits = [e for e in self.edits if not (isinstance(e, Unwrap) and e.node in self.gone)]
        edits += (remove(whole) for whole in _in_order(self.gone - self.given))
        for block in _in_order({self.script.parent(statement) for statement in self.gone}):
            if block not in self.gone and block not in self.replaced:
                edits += self._reduced(block)
        return [e for e in edits if not (_removes(e) and self._goes_with_branch(e.node))]

    def _unread(self, edits: list[Edit]) -> Iterator[ast.stmt]:
        """Yield the assignments to local names that only the arguments read which `edits` drop: `device_ids = [rank]`."""
        dropped = [n for e in edits if isinstance(e, DropArgument) for n in walk(e.argument)]
        for bindings in dict.fromkeys(
            tuple(self.script.bindings(n)) for n in dropped if _is_read(n)
        ):
            match bindings:
                case [Binding(node=ast.Assign(targets=[ast.Name(id=name)], value=value) as kept)]:
                    home = self.script.index.scope(kept)
                    reads = self.script.index.reads_of(home, name)
                    is_local = isinstance(home.node, FUNCTIONS)
                    if is_local and set(reads) <= set(dropped) and is_pure(value, self._asks_cuda):
                        yield kept

    def _asks_cuda(self, call: ast.Call) -> bool:
        return self.script.dotted(call.func) == "torch.cuda.current_device"

    def _empty(self, block: list[ast.stmt]) -> bool:
        """True if nothing is left of `block`."""
        return all(statement in self.gone for statement in block)

    def _goes(self, node: ast.stmt) -> bool:
        """True if nothing that `node` does is left."""
        unwrapped = self.unwrapped.get(node)  # type: ignore[call-overload]
        if unwrapped is not None:
            return self._empty(getattr(node, unwrapped.branch))
        if node in self.replaced:
            return False
        if isinstance(node, ast.If):
            empty = self._empty(node.body) and self._empty(node.orelse)
            return empty and is_pure(node.test, self._only_answers)
        if isinstance(node, ast.For):
            return not node.orelse and self._empty(node.body) and _only_yields(node.iter)
        if isinstance(node, ast.Try):
            return self._empty([*node.body, *node.orelse, *node.finalbody])
        if isinstance(node, ast.With):
            return self._empty(node.body) and all(map(self._only_selects, node.items))
        return False

    def _only_answers(self, call: ast.Call) -> bool:
        """True if the file shows that the call does nothing else: `def get_num_updates(self): return self._updates`."""
        match self.script.function_of(call.func):
            case ast.FunctionDef(
                body=[*docstring, ast.Return(value=ast.expr() as answer)], decorator_list=[]
            ):
                is_docstring = all(isinstance(s, ast.Expr) and is_pure(s.value) for s in docstring)
                return is_docstring and is_pure(answer)
        return False

    def _only_selects(self, item: ast.withitem) -> bool:
        """True for `torch.cuda.device(0)`, which does nothing else."""
        match item:
            case ast.withitem(context_expr=ast.Call(func=func, args=given), optional_vars=None):
                return self.script.dotted(func) == "torch.cuda.device" and all(map(is_pure, given))
        return False

    def _goes_with_branch(self, node: ast.AST) -> bool:
        """True for an `elif`, which leaves as the branch of another `if`."""
        parent = self.script.parent(node)
        return (
            isinstance(parent, ast.If)
            and parent.orelse == [node]
            and (parent in self.gone or parent not in self.replaced)
        )

    def _reduced(self, node: ast.AST | None) -> Iterator[Edit]:
        """What is left of `node`, of which a block may be empty."""
        if isinstance(node, ast.If):
            if self._empty(node.body) and not self._empty(node.orelse):
                chained = is_elif(node, self.script.parents)
                if not chained and _are_others(node.test, node.orelse):
                    yield Unwrap(node, "orelse")
                elif not (_is_chain(node.orelse) and chained):
                    yield DropBranch(node, "body")
            elif node.orelse and self._empty(node.orelse):
                yield DropBranch(node, "orelse")
        elif isinstance(node, ast.Try):
            yield from self._reduced_try(node)

    def _reduced_try(self, node: ast.Try) -> Iterator[Edit]:
        otherwise, finally_ = (not self._empty(block) for block in (node.orelse, node.finalbody))
        if self._empty(node.body):
            if otherwise and finally_:
                yield DropBranch(node, "body")
            else:
                yield Unwrap(node, "orelse" if otherwise else "finalbody")
            return
        if node.orelse and not otherwise:
            yield DropBranch(node, "orelse")
        if node.finalbody and not finally_:
            yield DropBranch(node, "finalbody") if node.handlers else Unwrap(node)


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _only_yields(node: ast.expr) -> bool:
    """True if going through `node` does nothing else: a variable, `d.values()`, `zip(a, b)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="items" | "keys" | "values"), args=[]):
            return is_pure(owner)
        case ast.Call(func=ast.Name(id="enumerate" | "range" | "reversed" | "zip"), args=given):
            return all(map(_only_yields, given))
    return is_pure(node)


def _are_others(test: ast.expr, block: list[ast.stmt]) -> bool:
    """True if `block` does nothing where `test` holds: `elif kind == "mps": ...` behind `if kind == "cuda":`."""
    match test, block:
        case (
            ast.Compare(left=value, ops=[ast.Eq()], comparators=[ast.Constant(value=one)]),
            [
                ast.If(
                    test=ast.Compare(
                        left=also, ops=[ast.Eq()], comparators=[ast.Constant(value=two)]
                    )
                ) as other
            ],
        ):
            rest = all(isinstance(s, ast.Pass) for s in other.orelse) or _are_others(
                test, other.orelse
            )
            return (
                one != two and ast.unparse(value) == ast.unparse(also) and is_pure(value) and rest
            )
    return False


def _is_chain(block: list[ast.stmt]) -> bool:
    """True for an `elif` with more behind it: it reads better beside an empty branch than inside of another."""
    return len(block) == 1 and isinstance(block[0], ast.If) and bool(block[0].orelse)


def _removes(edit: Edit) -> bool:
    return isinstance(edit, ReplaceStatement) and not edit.text


def _in_order(nodes: Iterable[ast.AST | None]) -> list[ast.stmt]:
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    return sorted(statements, key=lambda node: (node.lineno, node.col_offset))
