"""Every command in README and docs is run, names the test that runs it, or says why it cannot be run.

A comment above the commands answers for the rest of its section, or of the page if it stands above the
first `##` heading:

    <!-- tested by: tests/test_guides.py::test_it_is_proven, tests/cli/test_verify.py -->
    <!-- not run: needs a TPU -->

Commands without a comment run here. They have to be quick: `check`, `explain`, a migration.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from xla_migrate.cli import main
from xla_migrate.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "guides").glob("*.md"))
QUICK = {"check", "explain", "explain-target", "completion", ""}  # "": a migration
_MARK = re.compile(r"<!-- (tested by|not run): (.+?) -->")
_PROGRAMS = (
    r"xla-migrate|(?:\S*/)?(?:pip3?|python3?)|torchrun|uv|git|accelerate|pre-commit|mkdocs|xprof"
)
_COMMAND = re.compile(rf"(?:[A-Z][A-Z_]*=\S+ +)*(?:{_PROGRAMS}) ")
_SCRIPT = "import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nprint(model)\n"


class Shown(NamedTuple):
    """A command on a page, with the comment that answers for it: its kind and text, or ""."""

    page: str
    line: int
    text: str
    kind: str
    why: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def subcommand(self) -> str:
        """Return the subcommand of xla-migrate; "" for a migration, "?" for other programs."""
        words = [w for w in self.words if not re.match(r"[A-Z][A-Z_]*=", w)]
        if words[0] != "xla-migrate":
            return "?"
        if "--verify" in words:
            return "verify"
        return words[1] if len(words) > 1 and words[1] in COMMANDS else ""


def shown_in(text: str, page: str = "page") -> Iterator[Shown]:
    """Yield the commands in fenced and indented blocks."""
    fence, kind, why, of_page = "", "", "", ("", "")
    in_sections, begun, begin = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            fence = "" if fence else bare[3:] or "sh"
        elif not fence and line.startswith("## "):
            in_sections, (kind, why) = True, of_page
        elif not fence and (mark := _MARK.search(line)):
            kind, why = mark.groups()
            of_page = of_page if in_sections else (kind, why)
        elif (
            begun
            or fence.split()[:1] in (["sh"], ["console"], ["bash"], ["text"])
            or line[:4] == "    "
        ):
            part = bare.removeprefix("$ ")
            is_command = bool(_COMMAND.match(f"{part} "))
            if fence.startswith("console") and not begun and not bare.startswith("$ "):
                is_command = False
            if begun or is_command:
                begin = begin if begun else number
                begun += part.removesuffix("\\")
                if not part.endswith("\\"):
                    yield Shown(page, begin, begun, kind, why)
                    begun = ""


@cache
def every_command() -> list[Shown]:
    return [
        shown
        for path in PAGES
        for shown in shown_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]


def name(shown: Shown) -> str:
    return f"{shown.page}:{shown.line}"


def unanswered(commands: list[Shown]) -> list[str]:
    """Return the commands that are neither quick nor have a comment."""
    return [f"{name(c)}: {c.text}" for c in commands if not c.kind and c.subcommand not in QUICK]


def test_there_are_commands() -> None:
    assert len(every_command()) > 80
    assert {"README.md", "docs/get-started.md"} <= {shown.page for shown in every_command()}


def test_every_command_is_run_or_the_page_says_why_not() -> None:
    assert not unanswered(every_command())


@pytest.mark.parametrize(
    ("text", "open_ones"),
    [
        ("# A\n```sh\nxla-migrate tune train.py\n```\n", 1),
        ("# A\n<!-- not run: needs a TPU -->\n```sh\nxla-migrate tune train.py\n```\n", 0),
        ("# A\n<!-- not run: a -->\n## B\n```console\n$ torchrun train.py\nout\n```\n", 0),
        ("# A\n## B\n<!-- not run: a -->\n## C\n\n    xla-migrate doctor --devices\n", 1),
        ("# A\n```sh\nxla-migrate check train.py\nPJRT_DEVICE=CPU python train.py\n```\n", 1),
        ("# A\n```console\nxla-migrate tune is output here\n```\n", 0),
    ],
)
def test_a_new_command_needs_a_test_or_a_reason(text: str, open_ones: int) -> None:
    assert len(unanswered(list(shown_in(text)))) == open_ones


def test_continued_lines_are_one_command() -> None:
    (only,) = shown_in("```sh\nxla-migrate run -- \\\n  python train.py\n```\n")
    assert only.words == ["xla-migrate", "run", "--", "python", "train.py"]


@pytest.mark.parametrize("where", sorted({c.why for c in every_command() if c.kind == "tested by"}))
def test_tests_that_pages_name_exist(where: str) -> None:
    """And mention the subcommand that they run."""
    texts = ""
    for test in where.split(", "):
        file, _, function = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {function or 'test_'}" in text
        texts += text
    for command in every_command():
        if command.why == where and command.subcommand not in {"?", ""}:
            assert re.search(rf"\b{command.subcommand}\b", texts), name(command)


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("shown", [c for c in every_command() if c.subcommand != "?"], ids=name)
def test_options_exist(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of commands that are not run here."""
    words = shown.words[shown.words.index("xla-migrate") + 1 :]
    words = words[: words.index("--")] if "--" in words else words
    known = help_of([w for w in (shown.subcommand,) if w], capsys)
    if shown.subcommand and words[1:] and not words[1].startswith("-"):
        known += help_of(words[:2], capsys)  # `sagemaker rehearse`
    known += help_of([], capsys) if "--verify" in words else ""
    for word in words:
        if re.match(r"\[?--\w[^ ]*$", word):
            option = word.strip("[]").partition("=")[0]
            assert re.search(rf"{re.escape(option)}\b", known), option


@pytest.mark.parametrize("shown", [c for c in every_command() if c.subcommand in QUICK], ids=name)
def test_it_runs(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a small script and a copy of the fixture that *Get started* uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PJRT_DEVICE", raising=False)
    (tmp_path / "train.py").write_text(_SCRIPT)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(_SCRIPT)
    fixture = Path("fixtures", "train", "cnn_apex")
    shutil.copytree(ROOT / fixture, tmp_path / fixture)
    words = shown.words[shown.words.index("xla-migrate") + 1 :]
    words = words[: words.index("|")] if "|" in words else words
    assert main(words) in (0, 1)


@pytest.mark.e2e
def test_get_started_shows_the_number_of_findings_of_its_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "get-started.md").read_text(encoding="utf-8")
    command, printed = re.findall(r"^\$ xla-migrate (.+)\n(\d+ of .+)$", page, re.MULTILINE)[0]
    script, *_ = shlex.split(command)
    assert main([str(ROOT / script), "--output", str(tmp_path / "migrated.py")]) == 0
    assert capsys.readouterr().out.strip() == printed
