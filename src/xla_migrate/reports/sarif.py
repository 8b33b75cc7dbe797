"""SARIF 2.1.0: what code scanning services read."""

from __future__ import annotations

import json
import os
from urllib.parse import quote

from .. import __version__
from ..results import ERROR, INFO, WARNING, Diagnostic, FileOutcome, Run
from .fingerprints import fingerprints
from .pages import page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "note"}


def report(run: Run) -> str:
    """The run as a SARIF log."""
    codes = sorted({row.code for outcome in run.outcomes for row in outcome.verdict.left})
    rules = {code: index for index, code in enumerate(codes)}
    content = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "xla-migrate",
                        "semanticVersion": __version__,
                        "rules": [_rule(code, run.docs) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"uri": _uri(os.getcwd()) + "/"}},
                "invocations": [_invocation(run)],
                "results": [r for outcome in run.outcomes for r in _results(outcome, rules)],
            }
        ],
    }
    return json.dumps(content, indent=2)


def _rule(code: str, docs: str) -> dict[str, Any]:
    from ..manuals import OURS, rule_of

    # The schema requires an absolute URL, and the path of a page in the project is none.
    uri = {"helpUri": page(code, docs)} if docs else {}
    if code in OURS:
        ours = OURS[code]
        return {
            "id": code,
            "name": ours.name,
            "shortDescription": {"text": ours.summary},
            **uri,
            "help": {"text": ours.text, "markdown": ours.text},
        }
    rule, manual = rule_of(code)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": manual.summary},
        **uri,
        "help": {"text": manual.text, "markdown": manual.text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"effort": rule.effort, "page": page(code, docs)},
    }


def _results(outcome: FileOutcome, rules: dict[str, int]) -> list[dict[str, Any]]:
    rows = outcome.verdict.left
    return [
        {
            "ruleId": row.code,
            "ruleIndex": rules[row.code],
            "level": _LEVELS[row.severity],
            "message": {"text": f"{_in_cell(row)}: {row.message}" if row.cell else row.message},
            "locations": [_location(outcome.left_path, row)],
            "partialFingerprints": {"xlaMigrate/v1": print_},
            "properties": {"effort": row.effort, "safety": row.safety, "about": row.about},
        }
        for row, print_ in zip(rows, fingerprints(rows))
    ]


def _location(path: str, row: Diagnostic) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(path)}
    region = {
        "startLine": row.line,
        "startColumn": row.column,
        "endLine": row.end_line,
        "endColumn": row.end_column,
    }
    if row.cell is None:
        return {"physicalLocation": {**physical, "region": region}}
    # Services expect a line of the file, but a cell counts its own lines: the message names the cell.
    return {
        "physicalLocation": {**physical, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": _in_cell(row)}],
    }


def _in_cell(row: Diagnostic) -> str:
    return f"cell {row.cell}, line {row.line}"


def _artifact(path: str) -> dict[str, str]:
    if os.path.isabs(path):
        return {"uri": _uri(path)}
    return {
        "uri": quote(path.replace(os.sep, "/"), errors="surrogateescape"),
        "uriBaseId": "SRCROOT",
    }


def _uri(path: str) -> str:
    slashed = quote(path.replace(os.sep, "/"), errors="surrogateescape").rstrip("/")
    return f"file://{slashed if slashed.startswith('/') else '/' + slashed}"


def _invocation(run: Run) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": {"text": outcome.verdict.problem},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(outcome.path)}}],
        }
        for outcome in run.outcomes
        if outcome.verdict.problem
    ]
    return {
        "executionSuccessful": run.exit_code != 2,
        "exitCode": run.exit_code,
        "toolExecutionNotifications": notifications,
    }
