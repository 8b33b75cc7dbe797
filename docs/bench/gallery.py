"""Write docs/gallery.md: public projects before and after migration, and what `verify` says of their scripts.

    python docs/bench/gallery.py FOLDER > docs/gallery.md
    python docs/bench/gallery.py FOLDER PROJECT...      only these projects

FOLDER holds checkouts of the projects at the commits of `PROJECTS`, each in a folder with the project's name. Every
project is copied. `xla-migrate check` counts its findings, and a run with default settings rewrites the copy. The
scripts then run on small data that is made up (`made_up_data.py`, `made_up_hub.py`): `xla-migrate verify` compares the
original, with its CUDA calls redirected to the CPU, with the migrated script on XLA:CPU. It needs the packages of the
extra `test`, torchvision and `datasets`.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from printed import PROCESSES, SCRIPTS

HERE = Path(__file__).parent
LIMIT = 900  # seconds of one verification
STEPS = 8
HUB, DATA = "made_up_hub.py", "made_up_data.py"


class Script(NamedTuple):
    """A script of a project, from its folder, with the arguments that keep it short."""

    path: str
    arguments: str = ""
    shim: str = HUB
    processes: int = 1
    folder: str = ""


class Project(NamedTuple):
    """A public repository: the part that was looked at, and the scripts that were run, or why none was."""

    name: str
    commit: str
    part: str
    scripts: tuple[Script, ...] = ()
    not_run: str = ""


_OF_PYTORCH = (
    "mnist mnist_rnn vae regression word_language_model dcgan gcn language_translation snli single_gpu multinode"
).split()


def _of_pytorch() -> tuple[Script, ...]:
    found = []
    for name in _OF_PYTORCH:
        folder, script, arguments = SCRIPTS[name]
        found.append(Script(script, arguments, DATA, PROCESSES.get(name, 1), folder))
    return tuple(found)


_GPT = (
    "--dataset=made_up --compile=False --dtype=float32 --eval_iters=2 --eval_interval=4 --log_interval=1 "
    "--batch_size=4 --block_size=16 --n_layer=2 --n_head=2 --n_embd=16 --max_iters=8 --gradient_accumulation_steps=2"
)
_FEATURES = (
    "automatic_gradient_accumulation",
    "local_sgd",
)
PROJECTS = (
    Project("pytorch/examples", "77f55b912142", ".", _of_pytorch()),
    Project("karpathy/nanoGPT", "3adf61e154c3", ".", (Script("train.py", _GPT),)),
    Project(
        "huggingface/accelerate",
        "16cb6eb80dd9",
        "examples",
        (
            Script("nlp_example.py"),
            Script("complete_nlp_example.py"),
            Script("cv_example.py", "--data_dir made_up_pets"),
            *(Script(f"{name}.py", folder="by_feature") for name in _FEATURES),
        ),
    ),
    Project(
        "huggingface/peft",
        "5d602fdbff04",
        "examples",
        not_run="they need data and weights from the Hugging Face Hub",
    ),
    Project(
        "speechbrain/speechbrain",
        "9c826ef3937b",
        ".",
        not_run="they need recordings of speech",
    ),
)


def main() -> int:
    """Print the page."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    chosen = [p for p in PROJECTS if not names or p.name in names]
    pages = [section(project, folder / project.name.rpartition("/")[2]) for project in chosen]
    rows = "\n".join(page.row for page in pages)
    print(HEAD.format(date=datetime.date.today().isoformat(), rows=rows))
    print("\n".join(page.text for page in pages), end="")
    return 0


HEAD = """\
# Gallery

What xla-migrate finds and rewrites in public projects, what remains, and whether their scripts
train the same. `docs/bench/gallery.py` wrote this page on {date}. Nothing was changed by hand.

| project | Python files | findings | rewritten | remain | scripts proven |
| --- | --- | --- | --- | --- | --- |
{rows}

`verify` compared each script with its migration, step by step, in float32 on small made-up data. It
ran the original on the CPU, with its CUDA calls redirected, and the migrated script on XLA:CPU.
[What "proven" means](concepts.md#what-proven-means) explains the verdict.
"""


class Section(NamedTuple):
    """A project's row of the first table, and its part of the page."""

    row: str
    text: str


def section(project: Project, checkout: Path) -> Section:
    """Return the section of the page about `project`."""
    print(project.name, file=sys.stderr)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "project"
        shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        part = copy / project.part
        files = sum(1 for _ in part.rglob("*.py"))
        before = findings("check", part)
        after = findings("", part)
    judged = verdicts(project, checkout)
    proven = sum("| proven |" in row for row in judged)
    name = project.name.rpartition("/")[2]
    link = f"[{project.name}](#{project.name.replace('/', '').lower()})"
    scripts = f"{proven} of {len(project.scripts)}" if project.scripts else "none run"
    lines = [
        f"## {project.name}\n",
        f"Commit {project.commit}, {_folder(project.part)}. Code that remains in {name}:\n",
        *remaining(after),
        *judged,
    ]
    numbers = f"{files} | {len(before)} | {max(len(before) - len(after), 0)} | {len(after)}"
    return Section(f"| {link} | {numbers} | {scripts} |", "\n".join(lines) + "\n")


def _folder(part: str) -> str:
    return "the whole repository" if part == "." else f"folder `{part}`"


def findings(command: str, folder: Path) -> list[dict[str, Any]]:
    """Return the findings that a run over `folder` reports."""
    words = [*([command] if command else []), ".", "--no-cache", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode not in (0, 1, 2):
        raise SystemExit(done.stderr)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def remaining(after: list[dict[str, Any]]) -> list[str]:
    """Return a table of the findings that remain, most frequent first."""
    if not after:
        return []
    counts = Counter(row["code"] for row in after)
    messages = {row["code"]: row["message"] for row in reversed(after)}
    rows = ["| remains | count | for example |", "| --- | --- | --- |"]
    for code, count in counts.most_common():
        rows.append(f"| [{code}](rules/{code}.md) | {count} | {_cell(messages[code])} |")
    return [*rows, ""]


def verdicts(project: Project, checkout: Path) -> list[str]:
    """Return a table of what `verify` says of each script."""
    if not project.scripts:
        return [f"Its scripts were not run: {project.not_run}.\n"]
    rows = ["| script | verdict | steps | note |", "| --- | --- | --- | --- |"]
    for script in project.scripts:
        verdict, steps, note = verdict_of(project, script, checkout)
        where = "/".join(filter(None, (script.folder, script.path)))
        if script.processes > 1:
            where += f", {script.processes} processes"
        rows.append(f"| `{where}` | {verdict} | {steps} | {_cell(note)} |")
        print("  ", rows[-1], file=sys.stderr)
    return [*rows, ""]


def verdict_of(project: Project, script: Script, checkout: Path) -> tuple[str, str, str]:
    """Return the verdict, the number of steps, and the first difference or error."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "project"
        shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        (copy / "pyproject.toml").touch()  # makes the copy a separate project
        folder = copy / project.part / script.folder
        words = script.arguments.replace("{place}", place).split()
        options = ["--steps", str(STEPS), "--nproc", str(script.processes), "--no-report"]
        options += ["--data-shim", str(HERE / script.shim), "--output-format", "json"]
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "xla_migrate",
                    "verify",
                    script.path,
                    *options,
                    "--",
                    *words,
                ],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(HERE / "stand_ins")},
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return "-", "", f"stopped after {LIMIT} s"
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return "-", "", (done.stderr.strip().splitlines() or ["no output"])[-1]
    return verdict_words(report)


def verdict_words(report: dict[str, Any]) -> tuple[str, str, str]:
    """Return verdict, steps and note of a report in JSON."""
    steps = len(report["steps"])
    if report["proven"]:
        return "proven", str(steps), ", ".join(f"{name} slow" for name in report["slow"])
    if not report["could_run"]:
        return "-", "", report["message"]
    if "there is nothing to migrate" in report["message"]:
        return "nothing to migrate", str(steps), "it trains on the CPU"
    return ", ".join(report["different"]) or report["status"], str(steps), report["message"]


def _cell(text: str) -> str:
    """Return the beginning of a text, up to a whole word, for a table."""
    short = textwrap.shorten(text.replace("|", "\\|"), 160, placeholder=" ...")
    return short + "`" * (short.count("`") % 2)


if __name__ == "__main__":
    sys.exit(main())
