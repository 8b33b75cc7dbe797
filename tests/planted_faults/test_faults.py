"""Every planted fault can be planted: the change fits the module and leaves it valid."""

from __future__ import annotations

import ast
from collections import Counter

from ..each import each
from .faults import ROOT, Fault, every_fault, patches, returning, rules, verify


@each("fault", every_fault, ids=lambda fault: fault.name)
def test_a_fault_changes_a_module_that_stays_valid(fault: Fault) -> None:
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    changed = fault.change(text)
    assert changed != text
    ast.parse(changed)


@each("fault", every_fault, ids=lambda fault: fault.name)
def test_the_tests_of_a_fault_exist(fault: Fault) -> None:
    for path in fault.tests + fault.trains:
        assert (ROOT / path.partition("::")[0]).exists(), path


def test_every_rule_and_patch_and_30_functions_of_verify_have_a_fault() -> None:
    assert rules()
    assert patches()
    assert len(verify()) >= 30
    names = Counter(fault.name for fault in every_fault())
    assert [name for name, count in names.items() if count > 1] == []


def test_a_function_returns_at_once_after_its_docstring() -> None:
    source = 'def f(x):\n    """Double."""\n    y = x\n    return 2 * y\n'
    names: dict[str, object] = {}
    exec(returning("f", "7")(source), names)
    assert names["f"](1) == 7  # type: ignore[operator]
    assert ast.get_docstring(ast.parse(returning("f", "7")(source)).body[0]) == "Double."  # type: ignore[arg-type]
