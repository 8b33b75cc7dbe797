"""A file that trains with another framework has no steps of torch."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

LOOP = """
def update(self, batches):
    total = 0
    for batch in batches:
        loss, grad = value_and_grad(self.loss)(self.params, batch)
        self.optimizer = self.optimizer.step(grad=grad, model=self.model)
        total += loss.item()
    return total
"""


@pytest.mark.parametrize(
    "imports",
    ["import jax", "import jax.numpy as jnp", "from flax import nnx", "import mlx.core as mx"],
)
def test_an_optimizer_of_another_framework_takes_no_step_of_torch(imports: str) -> None:
    assert check(f"{imports}\n{LOOP}".encode()) == []


@pytest.mark.parametrize("imports", ["", "import jax\nimport torch", "import jax, torchvision"])
def test_a_file_that_may_train_with_torch_is_reported(imports: str) -> None:
    assert "XLA502" in {f.code for f in check(f"{imports}\n{LOOP}".encode())}
