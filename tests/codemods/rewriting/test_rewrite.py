"""Bytes: what is edited, what is left alone to the last byte, and what is refused with a reason."""

from __future__ import annotations

import ast
import sys
import textwrap

import pytest

from xla_codemods.edits import (
    AddArgument,
    DropArgument,
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
    remove,
)
from xla_codemods.engine import migrate
from xla_codemods.rewriting.rewrite import Rewritten, rewrite
from xla_codemods.source import Source, SourceError

from ..helpers import migrated

BEFORE = (
    "import torch\nfrom torch import nn\n\nm = nn.Linear(1, 1).cuda()  # moved\nprint('é', m)\n"
)
AFTER = (
    "import torch\nfrom torch import nn\nfrom xla_migrate import runtime as xla\n\n"
    "m = nn.Linear(1, 1).to(xla.xla_device())  # moved\nprint('é', m)\n"
)


class Tree:
    """A source with its nodes to hand."""

    def __init__(self, text: str) -> None:
        self.source = Source(textwrap.dedent(text).encode())
        self.parents = {c: n for n in ast.walk(self.source.tree) for c in ast.iter_child_nodes(n)}

    def find(self, kind: type[ast.AST], number: int = 0) -> ast.AST:
        return [n for n in ast.walk(self.source.tree) if isinstance(n, kind)][number]

    def rewrite(self, *edits: Edit) -> Rewritten:
        return rewrite(self.source, edits, self.parents)

    def text(self, *edits: Edit) -> str:
        result = self.rewrite(*edits)
        assert not result.refusals, result.refusals
        ast.parse(result.text)
        return result.text


@pytest.mark.parametrize(
    "variant",
    [
        lambda s: s.encode(),
        lambda s: s.replace("\n", "\r\n").encode(),
        lambda s: b"\xef\xbb\xbf" + s.encode(),
        lambda s: b"# -*- coding: latin-1 -*-\n" + s.encode("latin-1"),
        lambda s: b"\xef\xbb\xbf# coding: utf-8\r\n" + s.replace("\n", "\r\n").encode(),
        lambda s: s.rstrip("\n").encode(),
        lambda s: s.replace("print", "\x0cprint").encode(),  # a form feed elsewhere
        lambda s: s.replace("print('é', m)\n", "if m:\n\tprint('é', m)   \n\n   \n").encode(),
    ],
    ids=[
        "plain",
        "crlf",
        "bom",
        "latin-1",
        "bom-crlf-cookie",
        "no-final-newline",
        "form-feed",
        "tabs-and-trailing-blanks",
    ],
)
def test_bytes_are_kept(variant: object) -> None:
    before, after = variant(BEFORE), variant(AFTER)  # type: ignore[operator]
    assert migrate(before).data == after


def test_mixed_line_breaks_stay_mixed() -> None:
    data = b"import torch\r\nx = torch.ones(1)\ny = torch.ones(1).cuda()\r\nz = 1\n"
    expected = (
        b"import torch\r\nfrom xla_migrate import runtime as xla\r\nx = torch.ones(1)\n"
        b"y = torch.ones(1).to(xla.xla_device())\r\nz = 1\n"
    )
    assert migrate(data).data == expected


def test_form_feed_in_the_edited_lines_is_refused_and_left() -> None:
    data = b"import torch\n\x0cx = torch.ones(1).cuda()\n"
    result = migrate(data)
    assert result.data == data
    assert [f.code for f in result.left] == ["XLA101"]


@pytest.mark.parametrize(
    ("data", "reason", "line"),
    [
        (b"x = (\n", "never closed", 1),
        (b"import torch\nprint 'two'\n", "print", 2),
        (b"x = 1\n\0\n", "null bytes", 2),
        (b"x = 1\n# caf\xe9\n", "cannot be decoded as utf-8: byte 0xe9", 2),
        (b"# coding: klingon\n", "unknown encoding", 1),
        (b"x = " + b"(" * 300 + b")" * 300 + b"\n", "too many nested parentheses", 1),
        (b"\xff\xfe\x00\x01", "", 1),
    ],
)
def test_refused_with_a_reason(data: bytes, reason: str, line: int) -> None:
    with pytest.raises(SourceError) as error:
        migrate(data)
    assert reason in error.value.reason
    assert error.value.line == line


def test_deep_nesting_is_done_or_refused_but_never_a_crash() -> None:
    def source(terms: int) -> bytes:
        return f"import torch\ny = ({'+'.join(['x'] * terms)})\nz = torch.ones(1).cuda()\n".encode()

    assert b"xla_device" in migrate(source(500)).data
    if sys.version_info < (3, 11):
        return  # its own parser overflows the C stack on what later ones refuse
    with pytest.raises(SourceError, match="nested too deeply"):
        migrate(source(200_000))


def test_encoding_that_cannot_hold_the_result_keeps_the_file() -> None:
    source = Source(b"# coding: ascii\nx = 1\n")
    with pytest.raises(SourceError):
        source.encode("é")


# Single edits.


def test_replace_keeps_parentheses_and_comments() -> None:
    tree = Tree("x = (  # why\n    f(a)\n)\n")
    assert tree.text(Replace(tree.find(ast.Call), "g")) == "x = (  # why\n    g\n)\n"


def test_hole_gets_parentheses_where_it_needs_them() -> None:
    tree = Tree("scaler.scale(a + b).backward()\n")
    call = tree.find(ast.Call, 1)
    assert tree.text(Replace(call, "{0}", (call.args[0],))) == "(a + b).backward()\n"


def test_edits_inside_holes_are_made() -> None:
    tree = Tree("f(g(x))\n")
    outer, inner = tree.find(ast.Call, 0), tree.find(ast.Call, 1)
    edits = (Replace(outer, "h({0})", (inner,)), Replace(inner, "i({0})", (inner.args[0],)))
    assert tree.text(*edits) == "h(i(x))\n"


@pytest.mark.parametrize(
    ("source", "dropped", "expected"),
    [
        ("f(a, k=b, c=d)\n", "k", "f(a, c=d)\n"),
        ("f(a, k=b)\n", "k", "f(a)\n"),
        ("f(k=b)\n", "k", "f()\n"),
        ("f(k=b, **c)\n", "k", "f(**c)\n"),
        ("f(\n    a,\n    k=b,  # gone with it\n    c=d,\n)\n", "k", "f(\n    a,\n    c=d,\n)\n"),
        ("f(\n    a,\n    k=b,\n)\n", "k", "f(\n    a,\n)\n"),
        ("f(\n    a,\n    k=b\n)\n", "k", "f(\n    a\n)\n"),
        ("f(a,\n  k=b,\n  c=d)\n", "c", "f(a,\n  k=b)\n"),
    ],
)
def test_drop_argument(source: str, dropped: str, expected: str) -> None:
    tree = Tree(source)
    call = tree.find(ast.Call)
    argument = next(k for k in call.keywords if k.arg == dropped)
    assert tree.text(DropArgument(call, argument)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f(k=a)\n", "f(new=a)\n"),
        ("f(x, *y, k = a, c=d)\n", "f(x, *y, new = a, c=d)\n"),
        ("f(\n    k=a,  # why\n)\n", "f(\n    new=a,  # why\n)\n"),
    ],
)
def test_rename_argument(source: str, expected: str) -> None:
    tree = Tree(source)
    call = tree.find(ast.Call)
    argument = next(k for k in call.keywords if k.arg == "k")
    assert tree.text(RenameArgument(call, argument, "new")) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f()\n", "f(k=1)\n"),
        ("f(a)\n", "f(a, k=1)\n"),
        ("f(a, **b)\n", "f(a, k=1, **b)\n"),
        ("f(**b)\n", "f(k=1, **b)\n"),
        ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=1,\n)\n"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=1\n)\n"),
    ],
)
def test_add_argument(source: str, expected: str) -> None:
    tree = Tree(source)
    assert tree.text(AddArgument(tree.find(ast.Call), "k=1")) == expected


@pytest.mark.parametrize(
    ("source", "key", "expected"),
    [
        ("x = {'a': 1, 'b': 2}\n", 0, "x = {'b': 2}\n"),
        ("x = {'a': 1, 'b': 2}\n", 1, "x = {'a': 1}\n"),
        ("x = {'a': 1}\n", 0, "x = {}\n"),
        ("x = {\n    'a': 1,  # one\n    'b': 2,  # two\n}\n", 1, "x = {\n    'a': 1,  # two\n}\n"),
    ],
)
def test_drop_entry(source: str, key: int, expected: str) -> None:
    tree = Tree(source)
    node = tree.find(ast.Dict)
    assert tree.text(DropEntry(node, node.keys[key])) == expected


def test_drop_element() -> None:
    tree = Tree("x = [a, b, c]\n")
    node = tree.find(ast.List)
    assert tree.text(DropElement(node, node.elts[1])) == "x = [a, c]\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a()\n# about b\nb()  # b's own\nc()\n", "a()\n# about b\nc()\n"),
        ("a(); b()\n", "a()\n"),
        ("b(); a()\n", "a()\n"),
        ("if x:\n    b()\n", "if x:\n    pass\n"),
        (
            "if x:\n    # why\n    b()\nelse:\n    c()\n",
            "if x:\n    # why\n    pass\nelse:\n    c()\n",
        ),
        ("if x: b()\n", "if x: pass\n"),
        ("def f():\n\tb()\n", "def f():\n\tpass\n"),
        ("a()\n\nb()\n\nc()\n", "a()\n\nc()\n"),
        ("for i in x:\n    b()\n\n    c()\n", "for i in x:\n    c()\n"),
        ("b()", ""),
    ],
)
def test_remove(source: str, expected: str) -> None:
    tree = Tree(source)
    target = next(
        n for n in ast.walk(tree.source.tree) if isinstance(n, ast.Expr) and ast.unparse(n) == "b()"
    )
    assert tree.text(remove(target)) == expected


@pytest.mark.parametrize(
    ("source", "edit", "expected"),
    [
        ("b()\n", InsertAfter, "b()\nm()\n"),
        ("b()\n", InsertBefore, "m()\nb()\n"),
        ("# c\nb()  # d\n", InsertBefore, "# c\nm()\nb()  # d\n"),
        ("# c\nb()  # d\n", InsertAfter, "# c\nb()  # d\nm()\n"),
        ("if x:\n    b()\n", InsertAfter, "if x:\n    b()\n    m()\n"),
        ("if x: b()\n", InsertAfter, "if x: b(); m()\n"),
        ("a(); b(); c()\n", InsertAfter, "a(); b(); m(); c()\n"),
        ("b()", InsertAfter, "b()\nm()"),
    ],
)
def test_insert(source: str, edit: type, expected: str) -> None:
    tree = Tree(source)
    target = next(
        n for n in ast.walk(tree.source.tree) if isinstance(n, ast.Expr) and ast.unparse(n) == "b()"
    )
    assert tree.text(edit(target, "m()")) == expected


def test_insert_behind_a_compound_statement() -> None:
    tree = Tree("for i in x:\n    if y:\n        b()\n    elif z:\n        c()\nd()\n")
    after = "for i in x:\n    if y:\n        b()\n    elif z:\n        c()\n    m()\nd()\n"
    assert tree.text(InsertAfter(tree.find(ast.If), "m()")) == after


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("with a:\n    b()\n    c()\n", "b()\nc()\n"),
        (
            "# why\nwith a:  # gone\n    # about b\n    b()\n    # end\nd()\n",
            "# why\n# about b\nb()\n# end\nd()\n",
        ),
        ("with a: b()\n", "b()\n"),
        ('with a:\n    b("""\n  text\n""")\n', 'b("""\n  text\n""")\n'),
        ("def f():\n    with a:\n        return b\n", "def f():\n    return b\n"),
    ],
)
def test_unwrap(source: str, expected: str) -> None:
    tree = Tree(source)
    assert tree.text(Unwrap(tree.find(ast.With))) == expected


def test_unwrap_else() -> None:
    tree = Tree("if a:\n    b()\nelse:\n    c()\n    d()\n")
    assert tree.text(Unwrap(tree.find(ast.If), "orelse")) == "c()\nd()\n"


def test_unwrap_nested_and_edits_inside() -> None:
    tree = Tree("with a:\n    with b:\n        f(x)\n")
    outer, inner, call = tree.find(ast.With, 0), tree.find(ast.With, 1), tree.find(ast.Call)
    assert tree.text(Unwrap(outer), Unwrap(inner), Replace(call, "g()")) == "g()\n"


def test_drop_item() -> None:
    tree = Tree("with a, b as c, d:\n    pass\n")
    node = tree.find(ast.With)
    assert tree.text(DropItem(node, node.items[2])) == "with a, b as c:\n    pass\n"
    assert tree.text(DropItem(node, node.items[0])) == "with b as c, d:\n    pass\n"


def test_drop_decorator() -> None:
    tree = Tree("@a\n# about b\n@b()\ndef f():\n    pass\n")
    node = tree.find(ast.FunctionDef)
    assert tree.text(DropDecorator(node, node.decorator_list[1])) == "@a\ndef f():\n    pass\n"
    assert (
        tree.text(DropDecorator(node, node.decorator_list[0]))
        == "# about b\n@b()\ndef f():\n    pass\n"
    )


def test_replace_statement_by_several() -> None:
    tree = Tree("if x:\n    # why\n    y = f(a)  # how\n    z()\n")
    node = tree.find(ast.Assign)
    text = "u = {0}\ny = u"
    expected = "if x:\n    # why\n    u = a\n    y = u  # how\n    z()\n"
    assert tree.text(ReplaceStatement(node, text, (node.value.args[0],))) == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "source",
    [
        "if a:\n    pass\nelif f(b):\n    pass\n",
        "for x in f(b):\n    pass\nelse:\n    pass\n",
        "while f(b):\n    pass\n",
        "with f(b) as c:\n    pass\n",
        "def g(a=f(b)):\n    pass\n",
        "@f(b)\ndef g():\n    pass\n",
        "class A(f(b)):\n    pass\n",
        "try:\n    pass\nexcept f(b):\n    pass\n",
        "try:\n    f(b)\nfinally:\n    pass\n",
        "x = f'{f(b)} {{}}'\n",
        "match f(b):\n    case 1:\n        pass\n",
        "def g():\n    yield f(b)\n",
        "async def g():\n    await f(b)\n",
        "x = [f(b) for b in c]; y = lambda: 1\n",
        "if f(b): pass\n",
        "x = \\\n    f(b)\n",
        "def g():\n    '''\n  doc\n    '''\n    return f(b)\n",
    ],
)
def test_headers_and_places(source: str) -> None:
    """An expression is edited wherever it stands, and nothing around it changes."""
    tree = Tree(source)
    call = next(
        n
        for n in ast.walk(tree.source.tree)
        if isinstance(n, ast.Call) and ast.unparse(n) == "f(b)"
    )
    assert tree.text(Replace(call, "h({0})", (call.args[0],))) == source.replace("f(b)", "h(b)")


def test_edits_far_apart_leave_the_rest() -> None:
    lines = [f"x{k} = {k}   # odd   spacing" for k in range(50)]
    lines[10] = lines[40] = "f(  b  )"
    tree = Tree("\n".join(lines) + "\n")
    calls = [n for n in ast.walk(tree.source.tree) if isinstance(n, ast.Call)]
    text = tree.text(*(Replace(c, "g") for c in calls))
    lines[10] = lines[40] = "g"
    assert text == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(\n    a,  # a\n    b,  # b\n)\n", "f(\n    a,  # a\n    b,  # b\n    c=1,\n)\n"),
        ("f(\n    a,  # a\n    b  # b\n)\n", "f(\n    a,  # a\n    b,  # b\n    c=1\n)\n"),
        ("f(a, b)\n", "f(a, b, c=1)\n"),
    ],
)
def test_an_added_argument_takes_no_comment(before: str, after: str) -> None:
    source = Source(before.encode())
    call = source.tree.body[0].value  # type: ignore[attr-defined]
    parents = {c: n for n in ast.walk(source.tree) for c in ast.iter_child_nodes(n)}
    assert rewrite(source, [AddArgument(call, "c=1")], parents).text == after


def test_a_dropped_argument_takes_its_comment_along() -> None:
    source = Source(b"f(\n    a,  # a\n    b,  # b\n)\n")
    call = source.tree.body[0].value  # type: ignore[attr-defined]
    parents = {c: n for n in ast.walk(source.tree) for c in ast.iter_child_nodes(n)}
    assert rewrite(source, [DropArgument(call, call.args[1])], parents).text == (
        "f(\n    a,  # a\n)\n"
    )


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception:\n    pass",
        "except RuntimeError as error:\n    print(error)",
        "except (RuntimeError, AttributeError):\n    x = None",
    ],
)
def test_a_try_goes_with_all_that_could_fail_in_it(handler: str) -> None:
    source = f"import torch\nx = 1\ntry:\n    torch.cuda.empty_cache()\n{handler}\nprint(x)\n"
    assert migrated(source).endswith("x = 1\nprint(x)\n")


def test_a_function_whose_try_was_all_keeps_a_body() -> None:
    source = "import torch\ndef f():\n    try:\n        torch.cuda.empty_cache()\n    except ValueError:\n        pass\n"
    assert migrated(source).endswith("def f():\n    pass\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a=(torch.cuda.is_available()))", "f(a=xla.is_available())"),
        ("f(\n    (\n        torch.cuda.is_available()\n    )\n)", "f(\n    xla.is_available()\n)"),
        ("a = (torch.cuda.is_available())", "a = xla.is_available()"),
        ("a = {'b': (torch.cuda.is_available())}", "a = {'b': xla.is_available()}"),
        ("a = (  # why\n    torch.cuda.is_available()\n)", "a = (  # why\n    xla.is_available()\n)"),
        ("assert(torch.cuda.is_available())", "assert(xla.is_available())"),
        ("a = b or (torch.cuda.is_available())", "a = b or xla.is_available()"),
        ("a = not (torch.cuda.is_available())", "a = not xla.is_available()"),
        ("a = (torch.cuda.is_available()) if b else c", "a = xla.is_available() if b else c"),
        ("a = (torch.cuda.current_device()).index", "a = xla.xla_device().index"),
        ("(torch.cuda.synchronize if b else c)()", "(xla.synchronize if b else c)()"),
        ("(torch.cuda.synchronize)()", "xla.synchronize()"),
    ],
)  # fmt: skip
def test_parentheses_of_what_becomes_a_call(before: str, after: str) -> None:
    assert migrated(f"import torch\n{before}\n").endswith(f"\n{after}\n")
