"""JUnit XML: a suite for each file, a failed case for each finding."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from ..results import FileOutcome, Run
from .text import one_line


def report(run: Run) -> str:
    """The run as a document."""
    suites = [_suite(outcome) for outcome in run.outcomes]
    head = f'<testsuites name="xla-migrate" tests="{sum(tests for tests, _, _ in suites)}"'
    head += f' failures="{sum(failures for _, failures, _ in suites)}">'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            head,
            *(t for _, _, t in suites),
            "</testsuites>",
        ]
    )


def _suite(outcome: FileOutcome) -> tuple[int, int, str]:
    """Return the number of cases, the number of failed ones, and the element. Notes are no failures."""
    path = one_line(outcome.left_path)
    cases, failures = [], 0
    if outcome.verdict.problem:
        failures += 1
        cases.append(_case(path, "xla-migrate", "", outcome.verdict.problem, "error"))
    for row in outcome.verdict.left:
        if row.fails:
            failures += 1
            cell = "" if row.cell is None else f"cell {row.cell}, "
            where = f"{cell}line {row.line}, column {row.column}"
            cases.append(_case(path, row.code, where, row.message, row.severity))
    if not cases:
        cases.append(f"    <testcase name={quoteattr(path)} classname={quoteattr(path)} />")
    body = "\n".join(cases)
    counts = f'tests="{len(cases)}" failures="{failures}"'
    return (
        len(cases),
        failures,
        f"  <testsuite name={quoteattr(path)} {counts}>\n{body}\n  </testsuite>",
    )


def _case(path: str, code: str, where: str, message: str, kind: str) -> str:
    name = f"{code} {where}".strip()
    text = one_line(message)
    return (
        f"    <testcase name={quoteattr(name)} classname={quoteattr(path)}>\n"
        f"      <failure type={quoteattr(kind)} message={quoteattr(text)}>"
        f"{escape(f'{path}: {name}: {text}')}</failure>\n    </testcase>"
    )
