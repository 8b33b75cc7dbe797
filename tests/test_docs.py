"""The site: generated pages are fresh, examples do what they show, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.engine import migrate
from xla_codemods.manual import FENCED, HEADINGS, REQUIRED
from xla_codemods.rules import every_rule
from xla_codemods.source import Source
from xla_migrate.cli import main
from xla_migrate.reports.pages import page
from xla_migrate.settings import KEYS
from xla_migrate.verify.report.facts import Conclusion

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(found)
    sys.path[:] = path
    return found


@cache
def pages() -> dict[str, str]:
    """What is generated, once: it takes seconds, and is the same wherever it is written."""
    made: dict[str, str] = module("generate").pages()
    return made


def generator() -> ModuleType:
    found = module("generate")
    found.pages = pages  # type: ignore[attr-defined]
    return found


def test_generated_pages_are_fresh() -> None:
    assert not generator().stale(), "run `python docs/generate.py`"


def test_a_stale_page_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    generate = generator()
    tmp_path /= "docs"
    for path, text in generate.pages().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    assert generate.stale() == []
    (tmp_path / "rules/XLA101.md").write_text("old")
    (tmp_path / "rules/XLA999.md").write_text("of a rule that is no more")
    (tmp_path / "catalog.md").unlink()
    assert generate.stale() == ["catalog.md", "rules/XLA101.md", "rules/XLA999.md"]


def test_help_writes_no_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = generator()
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    for words, code in ((["--help"], 0), (["--chek"], 2), (["rules"], 2)):
        monkeypatch.setattr(sys, "argv", ["generate.py", *words])
        with pytest.raises(SystemExit) as left:
            generate.main()
        assert left.value.code == code
        assert list(tmp_path.iterdir()) == []
    assert "--check" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert list(tmp_path.iterdir()) == []


def test_all_that_rules_can_ask_is_told() -> None:
    helpers = module("rule_helpers")
    assert helpers.missing() == []
    told = helpers.page("")
    for name in (n for n in dir(Script) if not n.startswith("_")):
        assert re.search(rf"^\| `{name}\b", told, re.MULTILINE), name
    made = Script(Source(b"import torch\n"))
    for name in (n for n in vars(made) if not n.startswith("_")):
        assert re.search(rf"^\| `{name}\b", told, re.MULTILINE), name


def test_every_module_that_rules_import_is_on_the_page() -> None:
    helpers = module("rule_helpers")
    told = helpers.page("")
    used = helpers.imported()
    assert {"edits.py", "fallback.py", "analysis/devices/specs.py", "catalog/families.py"} <= used
    for file in used - set(helpers.FACADE):
        found = import_module("xla_codemods." + helpers.dotted(file).removeprefix("..."))
        section = told.partition(f"### `{helpers.dotted(file)}`\n")[2].partition("\n### ")[0]
        assert section, file
        for name, value in vars(found).items():
            if getattr(value, "__module__", "") == found.__name__ and not name.startswith("_"):
                assert f"`{name}" in section or isinstance(value, TypeVar), f"{file}: {name}"


def test_findings_lead_to_pages_that_are_there() -> None:
    for code in ("XLA001", "XLA002", "XLA003", *(rule.code for rule in every_rule())):
        assert (ROOT / page(code)).is_file(), code
        assert page(code, "https://docs.example/") == f"https://docs.example/rules/{code}/"


def blocks(name: str, kind: str) -> list[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_first_example_becomes_what_is_shown() -> None:
    before, after = blocks("index.md", "python")
    assert migrate(before.encode()).data.decode() == after


def test_the_settings_in_the_manual_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block is read, and the command tests the examples in it before it begins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("import torch\n")
    shown = blocks("settings.md", "toml")
    assert len(shown) == 2
    for text in shown:
        (tmp_path / "pyproject.toml").write_text(text)
        if "baseline" in text:
            assert main(["check", "--no-cache", "--write-baseline", "a.py"]) == 0
        assert main(["check", "--no-cache", "a.py"]) == 0, capsys.readouterr().err
    with_examples = shown[1]
    assert with_examples.count("examples = [") == 2
    (tmp_path / "pyproject.toml").write_text(with_examples.replace("x = x.to(", "y = x.to("))
    assert main(["check", "--no-cache", "a.py"]) == 2
    assert "`after` says" in capsys.readouterr().err


def test_every_page_has_its_place_in_the_site() -> None:
    listed = str(module("nav").on_config({"docs_dir": str(DOCS)})["nav"])
    for path in DOCS.rglob("*.md"):
        assert repr(path.relative_to(DOCS).as_posix()) in listed, path


def test_no_page_has_a_mark_where_text_should_be() -> None:
    marks = re.compile(r"^\W*(?:[A-Z]+_[A-Z_]+|TODO|TBD|XXX)\W*$", re.MULTILINE)
    found = {page.name: marks.findall(page.read_text()) for page in DOCS.rglob("*.md")}
    assert not {name: lines for name, lines in found.items() if lines}


def test_what_the_architecture_names_is_there() -> None:
    """A page that calls rooms and modules by names that they no longer have sends its readers astray."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    sources = [ROOT / "codemods" / "xla_codemods", ROOT / "src" / "xla_migrate"]
    there = {p.stem for s in sources for p in s.rglob("*") if p.is_dir() or p.suffix == ".py"}
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$|^- (`\w+`):(.*)$", text, re.MULTILINE)
    assert len(rows) > 15
    named = {n for row in rows for part in row for n in re.findall(r"`([\w/]+)(?:\.py)?`", part)}
    assert not {n for n in named if not set(n.split("/")) <= there} - {"ast", "backward"}


@pytest.mark.e2e
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    # By its absolute path, as from any other folder.
    config = str(ROOT / "mkdocs.yml")
    words = ["-m", "mkdocs", "build", "--strict", "-f", config, "-d", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "rules" / "XLA101" / "index.html").is_file()
    assert not list(tmp_path.rglob("*.py"))
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="https?://(?!squidfunk)', html)  # nothing is fetched


def test_every_setting_is_in_the_manual() -> None:
    manual = (DOCS / "settings.md").read_text(encoding="utf-8")
    for key in KEYS:
        assert f"`{key}`" in manual, key


def test_every_rule_page_has_the_fixed_headings() -> None:
    """Also the pages of codes without a rule, such as those of launch files."""
    checked = 0
    for path, text in pages().items():
        if not re.match(r"rules/XLA\d+\.md$", path):
            continue
        headings = re.findall(r"^## (.+)$", FENCED.sub("", text), re.MULTILINE)
        found = [heading for heading in headings if heading != "Suppress"]
        assert found == [heading for heading in HEADINGS if heading in found], path
        assert set(REQUIRED[:3]) <= set(found), path
        checked += 1
    assert checked > 150


def test_lines_of_pages_end_at_100_columns() -> None:
    """Except for tables, code, and pages that are generated."""
    found = []
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
        lines = [] if text.startswith("<!-- Written by") else prose.splitlines()
        found += [
            f"{path.name}: {line}"
            for line in lines
            if len(line) > 100
            and not line.lstrip().startswith(("|", "!", "#"))
            and line[:4].strip()
        ]
    assert not found


def test_each_result_of_verify_is_explained() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert [str(result) for result in Conclusion if f"| `{result}`" not in text] == []
