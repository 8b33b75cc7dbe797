"""Properties of the rewriter over generated training scripts."""

from __future__ import annotations

import ast
import functools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xla_codemods.engine import Migration, Options, check, migrate

PIECES = [
    "x = torch.ones(2).cuda()",
    "x = x.cuda(non_blocking=True)  # move",
    "model.cuda()",
    "loss.backward()",
    "optimizer.step()",
    "opt_g.step(); opt_d.step()",
    "optimizer.zero_grad()",
    "print(loss.item())",
    "torch.cuda.empty_cache()",
    "y = [t.cuda() for t in (a, b)]",
    "z = {'pin_memory': True, 'num_workers': 2}",
    "loader = DataLoader(ds, batch_size=2, pin_memory=True)",
    "s = 'model.cuda() and torch.cuda'",
    "continue",
    "pass",
    '"""text: x.cuda()"""',
]
HEADS = [
    "if flag:",
    "for x, y in loader:",
    "for i, (x, y) in enumerate(loader):",
    "for i in range(3):",
    "while i < 3:",
    "with torch.no_grad():",
    "def step(model, optimizer, x):",
    "class Net(torch.nn.Module):",
    "try:",
]


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0, loop: bool = False) -> list[str]:
    """Lines of a block; its nesting, comments and blank lines are drawn."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(st.sampled_from(["", "# a comment", "    # oddly indented"])))
        if depth < 3 and draw(st.integers(0, 2)) == 0:
            head = draw(st.sampled_from(HEADS))
            inner = draw(blocks(depth + 1, loop or head.startswith(("for", "while"))))
            lines.append(head)
            lines += ["    " + line if line else line for line in inner]
            if head == "try:":
                lines += ["finally:", "    pass"]
        else:
            piece = draw(st.sampled_from(PIECES))
            lines.append("pass" if piece == "continue" and not loop else piece)
    return (
        lines
        if any(ln.strip() and not ln.strip().startswith("#") for ln in lines)
        else [*lines, "pass"]
    )


@st.composite
def scripts(draw: st.DrawFn) -> str:
    text = (
        "import torch\nfrom torch.utils.data import DataLoader\n" + "\n".join(draw(blocks())) + "\n"
    )
    try:
        ast.parse(text)
    except SyntaxError:
        return "import torch\n"
    return text


def a_second_run_changes_nothing(source: str) -> None:
    once = migrate(source.encode(), Options(unsafe=True)).data
    assert migrate(once, Options(unsafe=True)).data == once


def nothing_is_left_that_had_a_safe_fix(source: str) -> None:
    assert [f for f in migrated(source).left if f.safety == "safe"] == []


def line_breaks_do_not_matter(source: str) -> None:
    """CRLF in, CRLF out: the same edits."""
    windows = migrate(source.replace("\n", "\r\n").encode()).data
    assert windows == migrated(source).data.replace(b"\n", b"\r\n")


def comments_and_strings_survive(source: str) -> None:
    after = migrated(source).data.decode()
    assert after.count("# a comment") == source.count("# a comment")
    assert after.count("text: x.cuda()") == source.count("text: x.cuda()")
    assert after.count("'model.cuda() and torch.cuda'") == source.count(
        "'model.cuda() and torch.cuda'"
    )


def lines_without_findings_are_untouched(source: str) -> None:
    """Every line on which nothing was found is there afterwards, in order (but for blank lines)."""
    found = {n for f in check(source.encode()) for n in range(f.line, f.end_line + 1)}
    kept = [ln for n, ln in enumerate(source.splitlines(), 1) if n not in found and ln.strip()]
    # An `if` or `for` goes with all that stood in it.
    may_go = ("if flag:", "pass", "for ", "    ")
    after = iter(migrated(source).data.decode().splitlines())
    missing = [ln for ln in kept if not ln.startswith(may_go) and ln not in after]  # takes its turn
    assert missing == []


PROPERTIES = (
    a_second_run_changes_nothing,
    nothing_is_left_that_had_a_safe_fix,
    line_breaks_do_not_matter,
    comments_and_strings_survive,
    lines_without_findings_are_untouched,
)


@functools.lru_cache(1)  # all properties judge one result
def migrated(source: str) -> Migration:
    return migrate(source.encode())


@settings(suppress_health_check=list(HealthCheck))
@given(scripts())
def test_all_properties_hold_for_every_script(source: str) -> None:
    for holds in PROPERTIES:
        holds(source)
