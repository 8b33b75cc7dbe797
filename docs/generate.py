"""Write what is generated: a page for each rule, the pages that list rules, the catalog, helpers and packages, and the module
that lists what rules listen to.

    python docs/generate.py [--check]

The texts come from docstrings and from the catalog's rows. With `--check`, nothing is written and the exit code is 1 if
a page is missing, stale or obsolete. tests/test_docs.py checks the same.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src"), str(DOCS.parent / "codemods")]

import listening  # noqa: E402
import rooms  # noqa: E402
import rule_helpers  # noqa: E402
from nav import TOPICS  # noqa: E402

from xla_codemods import catalog, wrappers  # noqa: E402
from xla_codemods.manual import FENCED, Manual, manual  # noqa: E402
from xla_codemods.rule import Rule  # noqa: E402
from xla_codemods.rules import every_rule  # noqa: E402
from xla_migrate.known_errors import compilation, environment, processes, tensors  # noqa: E402
from xla_migrate.manuals import OURS, Ours, rule_of  # noqa: E402

MARK = "<!-- Written by docs/generate.py: edit the rule or the catalog, not this page. -->\n"
MARK_OF_SOURCES = "<!-- Written by docs/generate.py: edit the docstrings, not this page. -->\n"
LISTENING = "../codemods/xla_codemods/rules/_listening.py"
SEVERITIES = {
    "error": "fails or is silently wrong on XLA",
    "warning": "slow, or wrong in some runs",
    "info": "worth knowing; it fails no check",
}
OF_SPEED = (
    "the code computes the same, but slower; by default it fails no check "
    "([findings about speed](../command.md#findings-about-speed))"
)


def pages() -> dict[str, str]:
    """The text of every generated page by its path below docs/."""
    rules = [(rule, manual(rule)) for rule in every_rule()]
    found = {f"rules/{rule.code}.md": _rule_page(rule, text) for rule, text in rules}
    found |= {f"rules/{code}.md": _our_page(code, ours) for code, ours in OURS.items()}
    found[f"rules/{wrappers.RULE.code}.md"] = _rule_page(*rule_of(wrappers.RULE.code))
    found["rules/index.md"] = _index(rules)
    found["catalog.md"] = _catalog()
    found["rule-helpers.md"] = rule_helpers.page(MARK_OF_SOURCES)
    found["rooms.md"] = rooms.page(MARK_OF_SOURCES)
    found["known-errors.md"] = _known_errors()
    found[LISTENING] = listening.module(rule for rule, _ in rules)
    return found


def _known_errors() -> str:
    parts = [
        f"{MARK_OF_SOURCES}\n# Known errors\n",
        "`xla-migrate explain --log FILE` finds these errors in a traceback or log (`-` reads standard input) and explains\n"
        "them. It matches each line with the regular expression below. `verify` explains the error of a failed run.\n",
    ]
    for module in (environment, processes, tensors, compilation):
        parts.append(
            f"## {(module.__doc__ or '').partition(':')[0].removeprefix('Known errors of ').rstrip('.').capitalize()}\n"
        )
        for error in module.ERRORS:
            see = ", ".join(map(_see, error.see.split()))
            lines = [f"### {error.name}", f"`{error.pattern}`", error.cause, error.fix]
            parts.append("\n\n".join([*lines, f"See {see}."] if see else lines) + "\n")
    return "\n".join(parts)


def _see(word: str) -> str:
    return f"[{word}](rules/{word}.md)" if word.startswith("XLA") else f"[{word}]({word})"


def _rule_page(rule: Rule, text: Manual) -> str:
    summary, _, rest = text.text.partition("\n")
    meaning = OF_SPEED if rule.about == "speed" else SEVERITIES[rule.severity]
    table = (
        f"| severity | {rule.severity}: {meaning} |\n"
        f"| effort of a manual change | {rule.effort} |\n"
    )
    return (
        f"{MARK}\n# {rule.code} {rule.name}\n\n{summary}\n\n| | |\n| --- | --- |\n{table}\n"
        f"{_linked_manual(rule.code, rest.strip())}\n\n{_suppressing(rule.code)}"
    )


def _linked_manual(code: str, text: str) -> str:
    """Return `text` with links from its prose to the glossary, to facts and to other rules."""
    prose, blocks = FENCED.split(text), FENCED.findall(text)
    linked = [
        re.sub(
            rf"(?<![\w`/\[])(?!{code})XLA[0-9]{{3}}\b",
            r"[\g<0>](\g<0>.md)",
            _linked(part, "../facts.md").replace("Fix: ", "[Fix](../glossary.md#fix): "),
        )
        for part in prose
    ]
    return "".join(p + b for p, b in zip(linked, [*blocks, ""]))


def _our_page(code: str, ours: Ours) -> str:
    return f"{MARK}\n# {code} {ours.name}\n\n{ours.text}\n"


def _suppressing(code: str) -> str:
    return f"""\
## Suppress

On one line, or in some files:

```python
x = f()  # xla-migrate: ignore[{code}]
```

```toml
[tool.xla-migrate.per-file-ignores]
"tests/**" = ["{code}"]
```
"""


def _index(rules: list[tuple[Rule, Manual]]) -> str:
    text = f"""{MARK}
# Rules

`xla-migrate explain CODE` prints the same pages. In an example, a comment such as `# XLA504` marks a line that the rule
reports. A [safe fix](../glossary.md#fix) keeps what the program does. An unsafe fix may change results and needs
`--unsafe`. [Facts](../facts.md) describe how torch_xla behaves; a test repeats each of them.
"""
    own_rule, own_manual = rule_of(wrappers.RULE.code)
    rows = {code: (ours.name, ours.summary) for code, ours in OURS.items()}
    rows |= {
        rule.code: (rule.name, page.summary) for rule, page in [(own_rule, own_manual), *rules]
    }
    for number, topic in TOPICS.items():
        codes = sorted(code for code in rows if code[3] == number)
        text += f"\n## {topic}\n\n| code | name | |\n| --- | --- | --- |\n"
        text += "".join(
            f"| [{code}]({code}.md) | {rows[code][0]} | {_cell(rows[code][1])} |\n"
            for code in codes
        )
    return text


def _catalog() -> str:
    text = f"""{MARK}
# The catalog

Every CUDA-only name, and what becomes of it on XLA. `xla-migrate explain NAME` prints one row; `xla` is the runtime,
[`from xla_migrate import runtime as xla`](runtime.md).

- **on XLA**: *rewritten* (a rule replaces it), *removed* (XLA needs nothing in its place), *by hand*
  (a replacement exists, but you decide where to put it), *stays* (it works, or is harmless), *no equivalent*.
- **if left**: what happens on XLA if it is left as it is: *raises*, *silently wrong*, *slow*, *harmless*.
- **difference**: between it and what takes its place: *same*, *renamed*, *arguments differ*, *depends on context*,
  *absent*.
- **evidence**: *measured* by a test on a machine without CUDA; the number of a [fact about torch_xla](facts.md); or the *docs* of the library.
"""
    for section, rows in _sections():
        text += f"\n## {section}\n\n"
        text += "| name | on XLA | instead | if left | difference | torch | rule | evidence |\n"
        text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        text += "".join(_row(row) for row in rows)
    return text


def _sections() -> Iterator[tuple[str, list[catalog.Row]]]:
    """The rows by what they belong to, in the catalog's order."""
    sections: dict[str, list[catalog.Row]] = {}
    for row in catalog.table().values():
        sections.setdefault(_section(row.name), []).append(row)
    yield from sorted(sections.items(), key=lambda item: _place(item[0]))


def _place(section: str) -> tuple[int, str]:
    """torch.cuda first, then the rest of torch, other packages, and the environment."""
    first = ("torch.cuda", "torch")
    if section in first:
        return first.index(section), ""
    if section.startswith("torch."):
        return 2, section
    return (4, "") if section == "Environment variables" else (3, section.lower())


def _section(name: str) -> str:
    if name.isupper():
        return "Environment variables"
    parts = name.partition("(")[0].split(".")
    if parts[0] != "torch":
        return parts[0]
    known = {"cuda", "backends", "amp", "accelerator", "distributed", "utils"}
    return f"torch.{parts[1]}" if len(parts) > 1 and parts[1] in known else "torch"


def _row(row: catalog.Row) -> str:
    instead = "; ".join(part for part in (_code(row.instead), _cell(row.note)) if part)
    rule = f"[{row.rule}](rules/{row.rule}.md)" if row.rule else ""
    cells = (_code(row.name), row.fate, instead, row.left, row.difference, row.torch, rule)
    return _linked(f"| {' | '.join((*cells, row.evidence))} |\n", "facts.md")


def _linked(text: str, page: str) -> str:
    """Return `text` with each number of "fact 1.30" and "facts 1.30, 1.33" as a link to its row in `page`."""

    def link(match: re.Match[str]) -> str:
        return re.sub(r"(\d)\.(\d+)", rf"[\g<0>]({page}#fact-\1-\2)", match[0])

    return re.sub(r"\b[Ff]acts? \d\.\d+(?:, \d\.\d+)*", link, text)


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text and "`" not in text else _cell(text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def stale() -> list[str]:
    """Pages that are missing, not what they should be, or of rules that are no more."""
    wanted = pages()
    there = {str(path.relative_to(DOCS).as_posix()) for path in (DOCS / "rules").glob("*.md")}
    wrong = [path for path in there if path not in wanted]
    for path, text in wanted.items():
        file = DOCS / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            wrong.append(path)
    return sorted(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pages of rules, catalog and helpers.")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    checking = parser.parse_args().check
    wrong = stale()
    if checking:
        print("\n".join(f"docs/{path} is stale" for path in wrong) or "the pages are fresh")
        return int(bool(wrong))
    wanted = pages()
    for path in wrong:
        file = DOCS / path
        if path in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted[path], encoding="utf-8")
        else:
            file.unlink()
        print(f"docs/{path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
