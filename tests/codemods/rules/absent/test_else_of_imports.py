"""What stands in the `else:` of an import that may fail is only reached where the package is there."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

USES = {
    "imported_there": "from deepspeed.ops.adam import FusedAdam\n    REGISTRY.add(module=FusedAdam)",
    "used_there": "REGISTRY.add(deepspeed.ops.adam.FusedAdam)",
    "made_there": "make = deepspeed.ops.adam.OnebitAdam(p)",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("attempt", "severities"), [("import deepspeed", {"info"}), ("import yaml", {"error"})]
)
def test_what_stands_behind_an_import_that_may_fail(
    use: str, attempt: str, severities: set[str]
) -> None:
    head = "" if attempt == "import deepspeed" else "import deepspeed\n"
    source = f"{head}try:\n    {attempt}\nexcept ImportError:\n    pass\nelse:\n    {use}\n"
    assert {f.severity for f in check(source.encode())} == severities


def test_a_name_that_the_catalog_does_not_know() -> None:
    (found,) = check(b"import torch\nwith torch.cuda.amp.scale_loss(a, b) as c:\n    pass\n")
    assert found.message == "`torch.cuda.amp.scale_loss` has no equivalent on XLA: remove it"


def test_what_puts_deepspeeds_checkpoints_together_works_on_the_host() -> None:
    source = "from deepspeed.utils.zero_to_fp32 import convert\nconvert('a', 'b')\n"
    assert check(source.encode()) == []
