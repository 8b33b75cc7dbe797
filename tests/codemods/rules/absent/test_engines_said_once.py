"""Megatron and the like are one matter, not one for each helper that is imported from them."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

USES = """
from colossalai.booster import Booster
from colossalai.logging import disable_existing_loggers, get_dist_logger

disable_existing_loggers()
logger = get_dist_logger()
booster = Booster(plugin="gemini")
"""


def test_helpers_are_not_told_one_by_one() -> None:
    (found,) = check(USES.encode())
    assert (found.code, found.severity, found.line) == ("XLA906", "error", 5)
    assert found.message.startswith("`colossalai` trains only on CUDA devices: ")


def test_each_library_is_told() -> None:
    found = check(
        b"import bmtrain\nimport megatron\nbmtrain.init()\nmegatron.init()\nbmtrain.end()\n"
    )
    assert [f.line for f in found] == [3, 4]


@pytest.mark.parametrize("behind", ["if megatron:\n    ", "if HAS_MEGATRON:\n    "])
def test_where_it_may_be_missing_it_is_a_note(behind: str) -> None:
    source = f"try:\n    import megatron\nexcept ImportError:\n    megatron = None\n{behind}megatron.init()\n"
    assert {f.severity for f in check(source.encode())} == {"info"}


def test_a_use_that_fails_goes_before_one_that_may_be_missing() -> None:
    source = "import megatron\nif HAS_MEGATRON:\n    megatron.a()\nmegatron.b()\n"
    assert [(f.line, f.severity) for f in check(source.encode())] == [(4, "error")]


def test_imports_that_are_not_used_still_go() -> None:
    source = "import torch\nfrom megatron import a, b\nfrom megatron import c\nx = a(torch.ones(2).cuda())\n"
    assert "import a\n" in migrate(source.encode()).data.decode()
    assert "import c" not in migrate(source.encode()).data.decode()
