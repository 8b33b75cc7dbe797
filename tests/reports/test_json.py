"""The JSON report: its keys are a promise."""

from __future__ import annotations

import json

from xla_migrate.reports import as_json
from xla_migrate.results import Run


def test_findings_have_the_promised_keys(checked: Run) -> None:
    report = json.loads(as_json.report(checked))
    assert list(report) == [
        *("version", "tool", "findings", "migrated", "refused", "errors", "copies", "summary"),
    ]
    assert report["findings"][2] == {
        "code": "XLA101",
        "name": "cuda-method",
        "path": "src/a.py",
        "cell": None,
        "line": 1,
        "column": 5,
        "end_line": 2,
        "end_column": 12,
        "message": "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "severity": "error",
        "effort": "low",
        "safety": "safe",
        "about": "correctness",
        "url": "docs/rules/XLA101.md",
    }
    assert report["findings"][1]["cell"] == 3
    assert report["findings"][0]["code"] == "XLA001"
    assert report["errors"] == [{"path": "gone.py", "message": "No such file or directory"}]


def test_figures(checked: Run, rewritten: Run) -> None:
    assert json.loads(as_json.report(checked))["summary"] == {
        "files": 5,
        "changed": 0,
        "failed": 2,
        "total": 4,
        "migrated": 0,
        "left": 4,
        "safe": 2,
        "unsafe": 1,
        "refused": 0,
        "by_hand": 1,
        "notes": 1,
        "speed": 0,
        "known": 0,
        "stale": 0,
        "by_code": {"XLA001": 1, "XLA101": 2, "XLA102": 1, "XLA103": 1, "XLA104": 1},
        "by_effort": {"low": 0, "medium": 0, "high": 1},
        "exit_code": 2,
    }
    report = json.loads(as_json.report(rewritten))
    assert len(report["migrated"]) == 2
    assert report["refused"] == [{"path": "b.py", "cell": None, "line": 9, "reason": "a form feed"}]
    assert report["copies"] == [{"path": "a.py", "copy": "a.py.orig"}]
    assert {k: report["summary"][k] for k in ("changed", "migrated", "refused", "by_hand")} == {
        "changed": 1,
        "migrated": 2,
        "refused": 1,
        "by_hand": 1,
    }


def test_findings_lead_to_the_site_that_the_settings_name(checked: Run) -> None:
    report = json.loads(as_json.report(checked.replace(docs="https://docs.example/m/")))
    assert report["findings"][2]["url"] == "https://docs.example/m/rules/XLA101/"
