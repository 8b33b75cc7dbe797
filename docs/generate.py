"""Write the pages that are generated: one per rule, their index, the catalog, what rules can ask, and the rooms.

    python docs/generate.py [--check]

The text is that of the docstrings of rules and of what they ask, and of the catalog's rows. With `--check` nothing is written, and the
exit code is 1 where a page is missing, stale or left over; tests/test_docs.py asks the same.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src"), str(DOCS.parent / "codemods")]

import rooms  # noqa: E402
import rule_helpers  # noqa: E402
from nav import TOPICS  # noqa: E402

from xla_codemods import catalog, wrappers  # noqa: E402
from xla_codemods.engine import Options, check  # noqa: E402
from xla_codemods.finding import SAFE, UNSAFE  # noqa: E402
from xla_codemods.manual import Manual, manual  # noqa: E402
from xla_codemods.rule import Rule  # noqa: E402
from xla_codemods.rules import every_rule  # noqa: E402
from xla_migrate.known_errors import compilation, environment, processes, tensors  # noqa: E402
from xla_migrate.manuals import OURS, Ours, rule_of  # noqa: E402

MARK = "<!-- Written by docs/generate.py: edit the rule or the catalog, not this page. -->\n"
MARK_OF_SOURCES = "<!-- Written by docs/generate.py: edit the docstrings, not this page. -->\n"
SEVERITIES = {
    "error": "fails or is silently wrong on XLA",
    "warning": "slow, or wrong in some runs",
    "info": "worth knowing; it fails no check",
}
FIXES = {
    SAFE: "safe: the program does the same on XLA",
    UNSAFE: "unsafe: it may change results, and is applied with `--unsafe` only",
    None: "none where the rule cannot be sure of the change: edit these places by hand",
}


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
    # What the settings map is fixed as they say.
    safeties = {SAFE, UNSAFE, None} if rule is wrappers.RULE else _safeties(rule, text)
    facts = [
        ("severity", f"{rule.severity}: {SEVERITIES[rule.severity]}"),
        ("fix", "; ".join(FIXES[s] for s in (SAFE, UNSAFE, None) if s in safeties) or "none"),
        ("effort of what is left", rule.effort),
    ]
    table = "".join(f"| {key} | {value} |\n" for key, value in facts)
    return (
        f"{MARK}\n# {rule.code} {rule.name}\n\n{summary}\n\n| | |\n| --- | --- |\n{table}\n"
        f"{_linked(rest.strip(), '../facts.md')}\n\n{_suppressing(rule.code)}"
    )


def _safeties(rule: Rule, text: Manual) -> set[str | None]:
    """What fixes the findings have that the manual's own examples show."""
    return {
        finding.safety
        for example in text.examples
        for finding in check(example.before.encode(), Options(unsafe=True, origin=rule.origin))
        if finding.code == rule.code
    }


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

A code is never reused. `xla-migrate explain CODE` prints the same page. A number such as "fact 1.30" names
one of the [facts about torch_xla](../facts.md), each of which a test repeats (`pytest -k fact_1_30`).
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

- **on XLA**: *rewritten* (a rule puts something in its place), *removed* (there is nothing to do on XLA), *by hand*
  (something does it, where it goes is yours to say), *stays* (it works, or does no harm), *no equivalent*.
- **if left**: what happens on XLA if it is left as it is: *raises*, *silently wrong*, *slow*, *harmless*.
- **difference**: between it and what takes its place: *same*, *renamed*, *arguments differ*, *depends on context*,
  *absent*.
- **evidence**: *measured* by a test of ours where there is no CUDA device; the number of a [fact about torch_xla](facts.md); or the *docs* of the library concerned.
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
    """`text` with "fact 1.30" and "facts 1.30, 1.33" as links to the page of the facts."""
    return re.sub(r"\bfacts? \d\.\d+(?:, \d\.\d+)*", rf"[\g<0>]({page})", text)


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
