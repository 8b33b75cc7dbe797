"""Backward passes: which of them are the script's."""

from __future__ import annotations

import pytest
import torch

from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.observe.training import losses


@pytest.mark.parametrize(
    ("module", "passes"), [("train", 1), ("torch_xla.experimental.scan", 0)], ids=["own", "scan"]
)
def test_what_scan_differentiates_while_it_traces_is_no_pass_of_the_script(
    module: str, passes: int
) -> None:
    patches = Patches()
    before = losses.passes
    source = "def run(loss):\n    import torch\n    torch.autograd.backward(loss)\n"
    names: dict[str, object] = {"__name__": module}
    exec(compile(source, f"{module}.py", "exec"), names)
    try:
        losses.install(patches)
        names["run"](torch.ones(2, requires_grad=True).sum())  # type: ignore[operator]
    finally:
        patches.undo()
        losses.forget()
    assert losses.passes - before == passes
