"""One pass over a parsed chunk that makes every edit, each a function of the updated node."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Union, cast

import libcst as cst

from ..edits import (
    AddArgument,
    DropAlias,
    DropArgument,
    DropBranch,
    DropDecorator,
    DropElement,
    DropEntry,
    DropItem,
    Edit,
    InsertAfter,
    InsertBefore,
    RenameArgument,
    Replace,
    ReplaceStatement,
    Unwrap,
)
from .branches import without_branch
from .commas import behind, comma_with, comment, separator, with_comment, without
from .filling import Fill, NodeTransformer, has_parentheses, with_parentheses
from .pairing import LEAVES, written
from .suites import (
    Nothing,
    joined_by_semicolons,
    nothing,
    one_line,
    small_statements,
    unwrapped,
    with_comments_of,
    with_leading,
    with_trailing,
)

Node = cst.CSTNode
Left = Union[Node, "cst.FlattenSentinel[Node]", cst.RemovalSentinel]
_BLOCKS = (cst.Module, cst.IndentedBlock)
_LINES = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
_HOLE = "__hole_{}__"


class _Indented(NodeTransformer):
    """Says how deep blocks are, which by default are as deep as the first one of the module that they come into."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def on_leave(self, original: Node, updated: Node) -> Left:  # type: ignore[override]
        """A block that says nothing is indented by the unit."""
        new = super().on_leave(original, updated)
        if isinstance(new, cst.IndentedBlock) and new.indent is None:
            return new.with_changes(indent=self.unit)
        return new


class Transformer(NodeTransformer):
    """Applies `edits`, whose `ast` nodes are found through `nodes`.

    `outermost` is the block that holds the chunk's own statements: it may become empty, which `emptied` tells.
    `unit` is by how much new blocks are indented.
    """

    def __init__(
        self, edits: Iterable[Edit], nodes: Mapping[ast.AST, Node], outermost: Node, unit: str
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.unit = unit
        self.outermost = outermost
        self.emptied = False
        self.comments: list[str] = []  # what is left of an emptied chunk
        self.fresh: set[int] = set()  # expressions that took another's place
        self.edits: dict[int, list[Edit]] = {}
        for edit in edits:
            self.edits.setdefault(id(nodes[edit.node]), []).append(edit)
        self.kept = {id(nodes[hole]) for edit in edits for hole in getattr(edit, "holes", ())}
        self.named = self.kept | self.edits.keys()
        self.updated: dict[int, Node] = {}
        self.moved: dict[
            int, list[Edit]
        ] = {}  # edits of a small statement that concern its whole line
        self.quotes: list[str] = []  # the quotes of f-strings around the position

    def on_visit(self, node: Node) -> bool:
        """Hand the edits of small statements to the line that holds them."""
        if type(node) in LEAVES:
            return False
        if isinstance(node, _LINES):
            for small in node.body:
                edits = self.edits.get(id(small), ())
                moved: list[Edit] = [
                    e for e in edits if isinstance(e, (InsertBefore, InsertAfter, ReplaceStatement))
                ]
                if moved:
                    self.moved[id(small)] = moved
        elif isinstance(node, cst.FormattedString):
            self.quotes.append(node.end)
        return True

    def on_leave(self, original: Node, updated: Node) -> Left:  # type: ignore[override]
        """`updated` with the edits of `original` made."""
        if type(original) in LEAVES and id(original) not in self.named:
            return updated
        if isinstance(original, cst.FormattedString):
            self.quotes.pop()
        if self.fresh:
            updated = with_parentheses(updated, self.fresh)
        result: Left = updated
        if isinstance(original, _LINES):
            result = self._line(original, updated)
        elif id(original) in self.edits and id(original) not in self.moved:
            result = self._edited(original, updated, self.edits[id(original)])
        elif isinstance(original, _BLOCKS):
            result = self._block(original, updated)
        if id(original) in self.kept and isinstance(result, Node):
            self.updated[id(original)] = result
        return result

    # Expressions and headers.

    def _edited(self, original: Node, updated: Node, edits: list[Edit]) -> Left:
        if isinstance(updated, cst.Call):
            updated = _drop_arguments(updated, edits)
        edits = _unwrapping(edits)
        for edit in sorted(edits, key=_order):
            if isinstance(edit, Replace):
                self.updated[id(original)] = updated  # the node may be a hole of its replacement
                updated = self._replaced(edit, updated)
            elif isinstance(edit, AddArgument):
                updated = self._add_argument(edit, cast(cst.Call, updated))
            elif isinstance(edit, DropDecorator):
                updated = _drop_decorator(edit, cast(cst.FunctionDef, updated))
            elif type(edit) in _DROPPED:
                updated = _without_part(edit, updated)
        return self._statement(updated, edits)

    def _statement(self, updated: Node, edits: list[Edit]) -> Left:
        """Edits of a compound statement as a whole."""
        for edit in edits:
            if isinstance(edit, DropBranch):
                updated = without_branch(updated, edit.branch)
        body: list[Node] = [updated]
        for edit in edits:
            if isinstance(edit, Unwrap):
                body = unwrapped(cast(cst.With, updated), edit.branch)
            elif isinstance(edit, ReplaceStatement):
                new = with_comments_of(updated, self._parsed(edit.text, edit.holes))
                body = with_leading(new, updated)
        for edit in edits:
            if isinstance(edit, InsertBefore):
                at_the_top = getattr(edit.node, "col_offset", 0) == 0
                body = with_leading([*self._parsed(edit.text), *body], updated, at_the_top)
            elif isinstance(edit, InsertAfter):
                body += self._parsed(edit.text)
        return cst.FlattenSentinel(body) if len(body) != 1 else body[0]

    def _replaced(self, edit: Replace, updated: Node) -> Node:
        new = self._expression(edit.text, edit.holes)
        if has_parentheses(updated) and not has_parentheses(new):
            new = new.with_changes(lpar=updated.lpar, rpar=updated.rpar)  # type: ignore[attr-defined]
        self.fresh.add(id(new))
        return new

    def _expression(self, text: str, holes: Sequence[ast.expr]) -> cst.BaseExpression:
        if '"' in self.quotes:  # which Python before 3.12 takes for the end of the f-string
            text = text.replace('"', "'")
        return cast(cst.BaseExpression, self._filled(cst.parse_expression, text, holes))

    def _filled(self, parse: Callable[[str], Node], text: str, holes: Sequence[ast.expr]) -> Left:
        if not holes:
            return parse(text)
        names = [_HOLE.format(k) for k in range(len(holes))]
        return parse(text.format(*names)).visit(Fill(dict(zip(names, map(self._hole, holes)))))

    def _hole(self, hole: ast.expr) -> cst.BaseExpression:
        node = self.nodes[hole]
        return cast(cst.BaseExpression, self.updated.get(id(node), node)).deep_clone()

    def _parsed(self, text: str, holes: Sequence[ast.expr] = ()) -> list[Node]:
        """The statements of `text`."""
        filled = cast(cst.Module, self._filled(cst.parse_module, text, holes))
        module = filled.visit(_Indented(self.unit))
        body: list[Node] = list(module.body)
        if module.header and body:  # comments before the first statement
            lines = [*module.header, *getattr(body[0], "leading_lines", ())]
            body[0] = body[0].with_changes(leading_lines=lines)
        return body

    def _add_argument(self, edit: AddArgument, call: cst.Call) -> cst.Call:
        added = cast(cst.Call, self._expression(f"f({edit.text})", edit.holes)).args[0]
        if added.keyword is not None:
            added = added.with_changes(
                equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            )
        args = list(call.args)
        at = len(args)
        while at and args[at - 1].star == "**":
            at -= 1
        if at:
            before = args[at - 1]
            space = behind(before)
            if at == len(
                args
            ):  # it ends the list as the last argument did, except for that argument's comment
                added = added.with_changes(
                    comma=comma_with(before.comma, None),
                    whitespace_after_arg=with_comment(before.whitespace_after_arg, None),
                )
            if not isinstance(before.comma, cst.Comma) or at == len(args):
                args[at - 1] = before.with_changes(
                    comma=comma_with(separator(args[: at - 1]), comment(space)),
                    whitespace_after_arg=cst.SimpleWhitespace(""),
                )
        if at < len(args):
            added = added.with_changes(comma=separator(args[:at]))
        args.insert(at, added)
        return call.with_changes(args=args)

    # Lines and blocks.

    def _line(self, original: Node, updated: Node) -> Left:
        """A line of small statements, with the edits of these made."""
        line = cast(cst.SimpleStatementLine, updated)
        smalls = cast(cst.SimpleStatementLine, original).body
        moved = [
            (k, edit) for k, small in enumerate(smalls) for edit in self.moved.get(id(small), ())
        ]
        if not moved:
            return updated
        before: list[Node] = []
        after: list[Node] = []
        body: dict[int, list[cst.BaseSmallStatement]] = {k: [s] for k, s in enumerate(line.body)}
        compound: list[Node] | None = None
        for k, edit in moved:
            if isinstance(edit, InsertBefore):
                new = self._parsed(edit.text)
                if k == 0:
                    before += new
                else:
                    body[k] = [*small_statements(new), *body[k]]
            elif isinstance(edit, InsertAfter):
                new = self._parsed(edit.text)
                if k == len(smalls) - 1:
                    after += new
                else:  # `step(); return`: behind the line it would not be reached
                    body[k] = [*body[k], *small_statements(new)]
            elif isinstance(edit, ReplaceStatement):
                new = self._parsed(edit.text, edit.holes)
                if len(smalls) == 1 and new:
                    compound = new
                body[k] = small_statements(new)
        kept = [s for k in sorted(body) for s in body[k]]
        if isinstance(original, cst.SimpleStatementSuite):
            return one_line(updated, [*small_statements(before), *kept, *small_statements(after)])
        if compound is not None:
            middle = with_trailing(compound, line)
        elif kept:
            middle = [line.with_changes(body=joined_by_semicolons(kept), leading_lines=())]
        else:
            middle = [nothing(())]
        result = with_leading([*before, *middle, *after], line)
        return cst.FlattenSentinel(result) if len(result) != 1 else result[0]

    def _block(self, original: Node, updated: Node) -> Node:
        """A block without the lines that became empty; their comments stay."""
        body: list[Node] = []
        carried: list[cst.EmptyLine] = []
        for statement in updated.body:  # type: ignore[attr-defined]
            if isinstance(statement, Nothing):
                carried += [line for line in statement.leading_lines if line.comment is not None]
                continue
            if carried:
                statement = statement.with_changes(
                    leading_lines=[*carried, *statement.leading_lines]
                )
                carried = []
            body.append(statement)
        if len(body) == len(updated.body):  # type: ignore[attr-defined]
            return updated
        if carried:
            updated = updated.with_changes(footer=[*carried, *updated.footer])  # type: ignore[attr-defined]
        if not body and original is self.outermost:
            self.emptied = True
            self.comments = [line.comment.value for line in carried if line.comment is not None]
        elif not body:
            body = [cst.SimpleStatementLine([cst.Pass()])]
        return updated.with_changes(body=body)


def _drop_arguments(updated: cst.Call, edits: list[Edit]) -> cst.Call:
    gone: set[int] = set()
    for edit in edits:
        if isinstance(edit, DropArgument):
            gone.add(_place_of(edit))
        elif isinstance(edit, RenameArgument):
            args = list(updated.args)
            args[_place_of(edit)] = args[_place_of(edit)].with_changes(keyword=cst.Name(edit.name))
            updated = updated.with_changes(args=args)
    if not gone:
        return updated
    kept = without(updated.args, gone)
    changes: dict[str, object] = {"args": kept}
    if not kept:
        changes["whitespace_before_args"] = cst.SimpleWhitespace("")
    return updated.with_changes(**changes)


def _place_of(edit: DropArgument | RenameArgument) -> int:
    """The index of the edit's argument among all of the call, as they are written."""
    ordered = written(edit.node.args, edit.node.keywords)
    return next(k for k, argument in enumerate(ordered) if argument is edit.argument)


# The parts that edits drop: the name in the edit, the list of the `ast` node, and that of libcst's.
_DROPPED: dict[type[Edit], tuple[str, str, str]] = {
    DropAlias: ("alias", "names", "names"),
    DropDecorator: ("decorator", "decorator_list", "decorators"),
    DropElement: ("element", "elts", "elements"),
    DropEntry: ("key", "keys", "elements"),
    DropItem: ("item", "items", "items"),
}


def _without_part(edit: Edit, node: Node) -> Node:
    part, listed, field = _DROPPED[type(edit)]
    index = getattr(edit.node, listed).index(getattr(edit, part))
    kept = without(getattr(node, field), {index})
    if isinstance(node, cst.Tuple) and len(kept) == 1:
        kept = [kept[0].with_changes(comma=cst.Comma())]
    if kept and isinstance(edit, DropAlias) and not getattr(node, "lpar", None):
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(**{field: kept})


def _unwrapping(edits: list[Edit]) -> list[Edit]:
    """`edits`; where they drop every context of a `with`, its block takes its place."""
    dropped = {id(edit.item): edit for edit in edits if isinstance(edit, DropItem)}
    node = next((edit.node for edit in dropped.values()), None)
    if node is None or len(dropped) < len(node.items):
        return edits
    return [*(edit for edit in edits if not isinstance(edit, DropItem)), Unwrap(node)]


def _drop_decorator(edit: DropDecorator, node: cst.FunctionDef) -> cst.FunctionDef:
    index = edit.node.decorator_list.index(edit.decorator)
    dropped = node.decorators[index]
    decorators = [d for k, d in enumerate(node.decorators) if k != index]
    comments = [line for line in dropped.leading_lines if line.comment is not None]
    if index == 0:
        comments = [*node.leading_lines, *comments]
        return node.with_changes(decorators=decorators, leading_lines=comments)
    return node.with_changes(decorators=decorators)


def _order(edit: Edit) -> tuple[int, int, int]:
    """Edits of one node: parts are dropped from the last to the first, whose places count; a new text comes last."""
    if type(edit) in _DROPPED:
        part = getattr(edit, _DROPPED[type(edit)][0])
        part = getattr(part, "context_expr", part)  # of a `with`
        return (0, -part.lineno, -part.col_offset)
    return (2 if isinstance(edit, Replace) else 1, 0, 0)
