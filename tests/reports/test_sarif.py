"""SARIF 2.1.0: the rules of the schema for the objects that we write.

The schema is no part of this repository. `SHAPES` says in our words what it demands of these objects: which keys there
may be and of what kind, and which there must be. The whole output was validated against the schema once, by hand.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from xla_migrate.reports import sarif
from xla_migrate.results import FileOutcome, FileVerdict, Run

from .conftest import row

LEVELS = {"none", "note", "warning", "error"}
# Object -> key -> kind; a key with `!` must be there. Kinds in brackets are arrays of them.
SHAPES: dict[str, dict[str, str]] = {
    "log": {"$schema": "uri", "version!": "2.1.0", "runs!": "[run]"},
    "run": {
        "tool!": "tool",
        "columnKind": "columnKind",
        "originalUriBaseIds": "bases",
        "invocations": "[invocation]",
        "results": "[result]",
    },
    "tool": {"driver!": "toolComponent"},
    "toolComponent": {"name!": "string", "semanticVersion": "string", "rules": "[rule]"},
    "rule": {
        "id!": "string",
        "name": "string",
        "shortDescription": "multiformat",
        "helpUri": "uri",
        "help": "multiformat",
        "defaultConfiguration": "configuration",
        "properties": "bag",
    },
    "multiformat": {"text!": "string", "markdown": "string"},
    "configuration": {"level": "level"},
    "invocation": {
        "executionSuccessful!": "boolean",
        "exitCode": "integer",
        "toolExecutionNotifications": "[notification]",
    },
    "notification": {"message!": "message", "level": "level", "locations": "[location]"},
    "result": {
        "ruleId": "string",
        "ruleIndex": "integer",
        "level": "level",
        "message!": "message",
        "locations": "[location]",
        "partialFingerprints": "strings",
        "properties": "bag",
    },
    "message": {"text!": "string"},
    "location": {"physicalLocation": "physicalLocation", "logicalLocations": "[logicalLocation]"},
    "logicalLocation": {"fullyQualifiedName": "string"},
    "physicalLocation": {"artifactLocation!": "artifactLocation", "region": "region"},
    "artifactLocation": {"uri!": "uri-reference", "uriBaseId": "string"},
    "region": {
        "startLine!": "positive",
        "startColumn": "positive",
        "endLine": "positive",
        "endColumn": "positive",
    },
}


def check(value: Any, kind: str, at: str) -> None:
    if kind.startswith("["):
        assert isinstance(value, list), at
        seen = [json.dumps(item, sort_keys=True) for item in value]
        if kind in {"[rule]", "[location]", "[logicalLocation]"}:  # `uniqueItems`
            assert len(seen) == len(set(seen)), at
        for k, item in enumerate(value):
            check(item, kind[1:-1], f"{at}[{k}]")
    elif kind in SHAPES:
        shape = {key.rstrip("!"): (inner, key.endswith("!")) for key, inner in SHAPES[kind].items()}
        assert set(value) <= set(shape), at
        for key, (inner, must) in shape.items():
            assert key in value or not must, f"{at}.{key}"
            if key in value:
                check(value[key], inner, f"{at}.{key}")
    elif kind == "bases":
        for name, base in value.items():
            check(base, "artifactLocation", f"{at}.{name}")
            assert base["uri"].endswith("/"), at
    elif kind == "strings":
        assert all(isinstance(item, str) for item in value.values()), at
    elif kind == "level":
        assert value in LEVELS, at
    elif kind == "columnKind":
        assert value in {"utf16CodeUnits", "unicodeCodePoints"}, at
    elif kind == "uri":
        assert urlparse(value).scheme, at
        assert value.isascii(), at
    elif kind == "uri-reference":
        assert value.isascii(), at
        assert not set(value) & set(' "<>\\^`{|}'), at
    elif kind == "positive":
        assert isinstance(value, int), at
        assert value >= 1, at
    elif kind in {"string", "integer", "boolean", "bag"}:
        kinds = {"string": str, "integer": int, "boolean": bool, "bag": dict}
        assert isinstance(value, kinds[kind]), at
    else:
        assert value == kind, at


def log(run: Run) -> Any:
    content = json.loads(sarif.report(run))
    check(content, "log", "log")
    return content["runs"][0]


def test_the_shapes_can_be_missed() -> None:
    with pytest.raises(AssertionError, match=r"log\.runs"):
        check({"version": "2.1.0"}, "log", "log")
    with pytest.raises(AssertionError, match="startLine"):
        check({"startLine": 0}, "region", "region")


def test_a_run_is_valid(checked: Run) -> None:
    run = log(checked)
    assert [result["ruleId"] for result in run["results"]] == [
        *("XLA001", "XLA101", "XLA101", "XLA102", "XLA103", "XLA104"),
    ]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert [result["level"] for result in run["results"][2:]] == [
        "error",
        "warning",
        "error",
        "note",
    ]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "No such file or directory"
    assert run["invocations"][0]["executionSuccessful"] is False


def test_an_empty_run_is_valid() -> None:
    assert log(Run(()))["results"] == []


def test_places_in_notebooks_are_told_in_words(checked: Run) -> None:
    result = log(checked)["results"][1]
    assert result["message"]["text"].startswith("cell 3, line 2: ")
    assert result["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "cell 3, line 2"}]


@pytest.mark.parametrize("path", ["a b/é%.py", "/abs/a b.py", "\udcff.py"])
def test_paths_are_uris(path: str) -> None:
    (result,) = log(Run((FileOutcome(path, FileVerdict((row(),))),)))["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert unquote(place["uri"], errors="surrogateescape").removeprefix("file://") == path
    assert ("uriBaseId" in place) == (not path.startswith("/"))


def test_fingerprints_do_not_depend_on_the_line() -> None:
    def prints(*rows: int) -> list[str]:
        found = tuple(row(line=k, text="x.cuda()") for k in rows)
        results = log(Run((FileOutcome("a.py", FileVerdict(found)),)))["results"]
        return [result["partialFingerprints"]["xlaMigrate/v1"] for result in results]

    assert prints(1, 5) == prints(3, 9)
    assert len(set(prints(1, 5))) == 2


def test_rules_lead_to_their_pages_where_the_settings_say_where_these_are(checked: Run) -> None:
    rules = log(checked.replace(docs="https://docs.example/m"))["tool"]["driver"]["rules"]
    assert [rule["helpUri"] for rule in rules[:2]] == [
        "https://docs.example/m/rules/XLA001/",
        "https://docs.example/m/rules/XLA101/",
    ]
    assert not any("helpUri" in rule for rule in log(checked)["tool"]["driver"]["rules"])
