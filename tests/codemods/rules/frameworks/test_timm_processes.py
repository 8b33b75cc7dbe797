"""XLA811: timm's processes and averages."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

RUNTIME = "from xla_migrate import runtime as xla\n"


@pytest.mark.parametrize("name", ["init_distributed_device", "ModelEmaV3"])
def test_imported_by_its_name(name: str) -> None:
    source = f"from timm.utils import {name}\nx = {name}(y)\n"
    assert migrated(source) == f"{RUNTIME}x = xla.{name}(y)\n"


def test_values_are_left_to_a_person() -> None:
    source = "from timm import utils\nx = utils.init_distributed_device_so(device)\n"
    assert findings(source) == [(2, "XLA811")]


def test_other_averages_stay() -> None:
    assert findings("from timm.utils import ModelEmaV2\nx = ModelEmaV2(y)\n") == []
    assert findings("from mylib import ModelEmaV3\nx = ModelEmaV3(y)\n") == []
