"""Every template that a rule can write is run, on XLA:CPU and on the eager backend.

The templates are found in the rules' own source: strings with the runtime's name in them that are Python. A program of
`programs` has to make some rule write each of them, and runs once it is migrated. One without a program fails here.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.engine import Options, _findings, migrate
from xla_codemods.source import Source

from ... import warm
from ...each import each
from ..helpers import migrated
from ..rules.precision.test_templates_run import HEAD, TEMPLATES
from .programs import LAUNCHED, PROGRAMS
from .traps import TRAPS

ROOT = Path(__file__).parents[3] / "codemods/xla_codemods"
HOLE = "\0"
# Which need more than one file's run: other tests run what is written, on both backends.
ELSEWHERE = {
    "xla.save_pretrained": "runtime/compat/test_pretrained.py",
    "xla.save_lora": "runtime/compat/test_pretrained.py",
    "xla.data_parallel_size()": "runtime/replicas/test_spmd.py",
    "xla.use_spmd(\0)": "runtime/replicas/test_spmd.py",
    "xla.on_cpu(\0)": "runtime/compat/test_export.py",
    "xla.gather_lists": "runtime/compat/test_accelerate_checkpoints.py",
    "xla.prepare_pippy": "runtime/compat/test_accelerate_pipelines.py",
    "xla.use_spmd(batch_per_device=True)": "runtime/replicas/test_spmd.py",
}


def all_programs() -> dict[str, str]:
    return (
        PROGRAMS | {"launched": LAUNCHED} | {name: HEAD + body for name, body in TEMPLATES.items()}
    )


@cache
def templates() -> dict[str, str]:
    """Every template, with holes, and one place in the rules that has it; `--from torch_xla` and `--style native`
    have tests of their own.
    """
    found: dict[str, str] = {}
    for file in sorted([*ROOT.glob("rules/**/*.py"), *ROOT.glob("analysis/**/*.py")]):
        if {"torch_xla", "by_hand", "xla_migrate"} & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            text = _text(node)
            if text is not None and _is_python(text):
                found.setdefault(text, f"{file.relative_to(ROOT)}:{node.lineno}")
    return found


def _text(node: ast.AST) -> str | None:
    """What an f-string with the runtime's name in it writes."""
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        else:
            parts.append(
                "xla" if ast.unparse(value).endswith(".xla}") or _names_it(value) else HOLE
            )
    text = "".join(parts)
    return re.sub(r"\{\d\}", HOLE, text) if re.search(r"\bxla\b", text) else None


def _names_it(value: ast.expr) -> bool:
    return isinstance(value, ast.FormattedValue) and ast.unparse(value.value).endswith(".xla")


def _is_python(text: str) -> bool:
    filled = text.replace(HOLE, "a")
    for form in ("{}", "f({})", "{})", "a{}", "{} a"):
        try:
            ast.parse(form.format(filled))
        except SyntaxError:
            continue
        return True
    return False


@cache
def written() -> list[str]:
    """What the rules write for the programs."""
    texts = []
    for source in all_programs().values():
        script = Script(Source(source.encode()))
        for finding in _findings(script, Options(unsafe=True)):
            texts += [text for edit in finding.edits if (text := getattr(edit, "text", ""))]
    return texts


def is_written(template: str) -> bool:
    pattern = ".*".join(map(re.escape, template.split(HOLE)))
    return any(re.search(pattern, text, re.DOTALL) for text in written())


def test_templates_are_found() -> None:
    assert len(templates()) > 90
    assert "xla.is_available()" in templates()


@each("template", lambda: [t for t in templates() if t not in ELSEWHERE])
def test_a_program_has_it(template: str) -> None:
    assert is_written(template), f"no program makes {templates()[template]} write {template!r}"


def test_what_runs_elsewhere_is_a_template_and_runs_there() -> None:
    assert set(ELSEWHERE) <= set(templates())
    for template, file in ELSEWHERE.items():
        name = re.match(r"xla\.(\w+)", template)
        assert name is not None
        assert f"{name[1]}(" in (Path(__file__).parents[2] / file).read_text()


def migrated_program(source: str) -> str:
    return migrate(source.encode(), Options(unsafe=True)).data.decode()


# What is left of a trap, and named; of all others nothing is.
NAMED = {
    "conditional import": ["XLA906"],
    "getattr dyn": ["XLA906"],
    "match": ["XLA118"],
    "rebinding": ["XLA115"],
    "star": ["XLA906"],
}


@pytest.mark.parametrize("name", TRAPS)
def test_what_is_left_of_a_trap(name: str) -> None:
    source = TRAPS[name]
    assert migrated(source)  # and a second run changes nothing
    assert [f.code for f in migrate(source.encode()).left] == NAMED.get(name, [])


def program() -> str:
    """All programs, one after the other in one process: starting one takes longer than running it."""
    parts = ["import torch, traceback\n"]
    for name, source in (PROGRAMS | TRAPS).items():
        after = migrated_program(source)
        parts.append(
            f"try:\n    exec(compile({after!r}, {name!r}, 'exec'), {{'__name__': 'one'}})\n"
            f"except BaseException:\n    print('FAILED', {name!r}, traceback.format_exc())\n"
            "torch.set_default_device('cpu')\ntorch.set_default_dtype(torch.float32)\n"
        )
    return "".join(parts)


@pytest.mark.e2e
@pytest.mark.parametrize("backend", ["torch_xla", "eager"])
def test_they_run(backend: str) -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_MIGRATE_BACKEND": backend}
    command = [warm.python(*warm.TORCH_XLA), "-c", program()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "FAILED" not in done.stdout, done.stdout[done.stdout.index("FAILED") :]


@pytest.mark.e2e
@pytest.mark.parametrize("backend", ["torch_xla", "eager"])
def test_what_is_launched_runs(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(migrated_program(LAUNCHED))
    assert "xla.launch(" in file.read_text()
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "XLA_MIGRATE_BACKEND": backend}
    command = [sys.executable, "-W", "ignore", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
