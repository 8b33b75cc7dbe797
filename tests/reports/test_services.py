"""GitLab's and JUnit's reports."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from xla_migrate.reports import gitlab, junit
from xla_migrate.results import FileOutcome, FileVerdict, Run

from .conftest import row


def test_gitlab(checked: Run) -> None:
    entries = json.loads(gitlab.report(checked))
    assert len(entries) == 7
    assert len({entry["fingerprint"] for entry in entries}) == 7
    assert entries[3] | {"fingerprint": ""} == {
        "description": "XLA101 `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`",
        "check_name": "XLA101",
        "fingerprint": "",
        "severity": "major",
        "location": {"path": "src/a.py", "lines": {"begin": 1, "end": 2}},
    }
    assert entries[2]["description"].startswith("XLA101 cell 3, line 2: ")
    assert entries[1]["severity"] == "blocker"
    assert {entry["severity"] for entry in entries} == {"blocker", "major", "minor", "info"}


def test_junit(checked: Run) -> None:
    root = ET.fromstring(junit.report(checked).encode())
    assert (root.get("tests"), root.get("failures")) == ("7", "6")
    assert [suite.get("name") for suite in root] == [o.path for o in checked.outcomes]
    clean = root[1]
    assert (clean.get("tests"), clean.get("failures")) == ("1", "0")
    assert [case.get("name") for case in root[4]] == [
        "XLA101 line 1, column 5",
        "XLA102 line 3, column 5",
        "XLA103 line 4, column 5",
    ]


def test_junit_is_xml_whatever_the_names_are() -> None:
    finding = row(message='<a> & "b" \x00\x1b')
    ET.fromstring(junit.report(Run((FileOutcome('<a>&".py', FileVerdict((finding,))),))).encode())
