"""The faults: every rule and every runtime patch disabled, and 30 functions of verify that see nothing.

A fault is planted by changing one module of a copy of the project. Rules and patches are found where
the project itself finds them, so that a new one is in the list at once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xla_codemods.rules import RULES, every_rule

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "codemods")
_MANUALS = (
    "tests/codemods/test_manuals.py::test_examples",
    "tests/codemods/test_manuals.py::test_the_marked_lines_are_reported_and_no_others",
)
_RULES = Path("codemods/xla_codemods/rules/__init__.py")
_PATCHES = Path("src/xla_migrate/runtime/patches")
_VERIFY = Path("src/xla_migrate/verify")
_INDEXED = {rule.code for rule in RULES}
_E2E = tuple(f"tests/e2e/{path.name}" for path in ROOT.glob("tests/e2e/test_verify_*.py"))

_DISABLED_RULE = """

{rule}.leftovers = ""
for _checks in vars({rule}).values():
    if isinstance(_checks, dict) and _checks is not {rule}.behind:
        _checks.update(dict.fromkeys(_checks, lambda *place: ()))
"""
_DISABLED_PATCH = """

def apply() -> None:
    return None
"""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: of the kind and of what is disabled, as "rule:XLA101".
        path: the module that is changed, relative to the project.
        change: returns the changed text of the module.
        tests: files and folders that mirror the module, whose tests should catch it.
        trains: tests that train for real and may catch it, too.
    """

    name: str
    path: Path
    change: Callable[[str], str]
    tests: tuple[str, ...]
    trains: tuple[str, ...] = ()


def _appended(text: str) -> Callable[[str], str]:
    return lambda source: source + text


def rules() -> list[Fault]:
    """Return a fault for each rule: the rule listens to nothing."""
    found = []
    for rule in every_rule():
        path = Path("codemods", *rule.module.split(".")).with_suffix(".py")
        if not (ROOT / path).is_file():  # a package
            path = path.with_suffix("") / "__init__.py"
        manuals = [f"{test}[{rule.code}-{rule.name}]" for test in _MANUALS]
        tests = (*manuals, *_tests_of_rule(path, rule.code))
        if rule.code in _INDEXED:  # the index of rules stands for the module
            path, name = _RULES, f'next(r for r in RULES if r.code == "{rule.code}")'
        else:
            name = "RULE"
        change = _appended(_DISABLED_RULE.format(rule=name))
        found.append(Fault(f"rule:{rule.code}", path, change, tests))
    return found


def _tests_of_rule(path: Path, code: str) -> list[str]:
    """Return the folder of the rule's topic; if there is none, the files that name the code."""
    topic = Path("tests/codemods/rules", path.parts[path.parts.index("rules") + 1])
    if (ROOT / topic).is_dir():
        return [topic.as_posix()]
    files = sorted((ROOT / "tests/codemods").rglob("test_*.py"))
    named = [file for file in files if code in file.read_text(encoding="utf-8")]
    return [file.relative_to(ROOT).as_posix() for file in named]


def patches() -> list[Fault]:
    """Return a fault for each patch of the runtime: the patch changes nothing."""
    change, tests = _appended(_DISABLED_PATCH), ("tests/runtime/patches",)
    modules = sorted((ROOT / _PATCHES).rglob("[!_]*.py"))
    return [Fault(f"patch:{m.stem}", m.relative_to(ROOT), change, tests) for m in modules]


def returning(function: str, value: str) -> Callable[[str], str]:
    """Return a change after which a module's function does nothing but return `value`."""

    def change(source: str) -> str:
        places = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name == function
        ]
        assert len(places) == 1, f"{len(places)} functions {function}"
        body = places[0].body
        first = body[1] if ast.get_docstring(places[0]) is not None and body[1:] else body[0]
        lines = source.splitlines(keepends=True)
        lines.insert(first.lineno - 1, f"{' ' * first.col_offset}return {value}\n".rstrip() + "\n")
        return "".join(lines)

    return change


# Module below src/xla_migrate/verify, function, what the function returns at once.
BLIND = [
    ("judge/course.py", "same_course", 'Judgement(Check.SAME_STEPS, Status.OK, "")'),
    ("judge/course.py", "_first_other_step", "None"),
    ("judge/divergence.py", "first_divergence", "None"),
    ("judge/divergence.py", "_structure", ""),
    ("judge/divergence.py", "_initial", ""),
    ("judge/divergence.py", "_loss", ""),
    ("judge/divergence.py", "_gradients", ""),
    ("judge/divergence.py", "_weights", ""),
    ("judge/divergence.py", "_option", "None"),
    ("judge/tensors.py", "compare_tensors", "[]"),
    ("judge/tolerances.py", "relative", "0.0"),
    ("judge/compare.py", "_judge_printed", "[]"),
    ("judge/compare.py", "_judge_metric", 'Judgement(Check.METRIC, Status.OK, "")'),
    ("judge/float64_check.py", "divergence", "None"),
    ("judge/state/untracked.py", "judge", "[]"),
    ("judge/state/untracked.py", "_off", "False"),
    ("judge/same_data.py", "judge", "None"),
    ("experiments/later_edits.py", "are_settings", "False"),
    ("judge/printed.py", "_in_last_digit", "True"),
    ("judge/printed.py", "_cut_short", "True"),
    ("judge/bf16.py", "pooled", "0.0"),
    ("judge/failures.py", "printed_error", "None"),
    ("judge/blame.py", "likeliest", "None"),
    (
        "judge/performance/verdicts.py",
        "_static_shapes",
        'Judgement(Check.STATIC_SHAPES, Status.OK, "")',
    ),
    (
        "judge/performance/verdicts.py",
        "_bounded_graph",
        'Judgement(Check.BOUNDED_GRAPH, Status.OK, "")',
    ),
    (
        "judge/performance/verdicts.py",
        "_no_fallback",
        'Judgement(Check.NO_FALLBACK, Status.OK, "")',
    ),
    ("judge/performance/verdicts.py", "_launches", 'Judgement(Check.LAUNCHES, Status.OK, "")'),
    ("judge/performance/verdicts.py", "_host_reads", 'Judgement(Check.HOST_READS, Status.OK, "")'),
    ("observe/device/reads.py", "on_device", "False"),
    ("observe/device/counters.py", "fallbacks", "[]"),
    ("observe/device/shapes.py", "explain", "None"),
    ("redirect/marks.py", "first_index", "None"),
]


def verify() -> list[Fault]:
    """Return the faults of `BLIND`."""
    found = []
    for module, function, value in BLIND:
        path = _VERIFY / module
        folder = module.split("/", maxsplit=1)[0]
        tests = (f"tests/verify/{folder}",)
        name = f"verify:{module.removesuffix('.py')}:{function}"
        found.append(Fault(name, path, returning(function, value), tests, _E2E))
    return found


def every_fault() -> list[Fault]:
    """Return all faults: rules, patches, verify."""
    return [*rules(), *patches(), *verify()]
