"""What runs once per step: also functions that are handed to others, which call them."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import check

TRAINER = """import torch

class Trainer:
    def train(self, x):
        loss = self.model(x.cuda()).mean()
        loss.backward()
        self.optimizer.step()
        self.last = loss.item()
"""
MAIN = """from lib import Trainer
{imported}

def main(batches, trainer):
    {loop}
"""


@pytest.mark.parametrize(
    ("loop", "is_step"),
    [
        ("for x in batches:\n        trainer.train(x)", True),
        ("for x in batches:\n        retry_call(trainer.train, fargs=(x,), tries=3)", True),
        ("for x in batches:\n        timed(trainer.train, x)", True),
        ("while True:\n        pool.submit(trainer.train, next(batches))", True),
        ("for epoch in range(3):\n        for x in batches:\n            attempt(trainer.train, x)", True),
        ("retry_call(trainer.train, fargs=batches)", False),
        ("for x in batches:\n        timed(trainer.validate, x)", False),
        ("for x in batches:\n        timed(np.train, x)", False),
    ],
)  # fmt: skip
def test_a_step_that_is_handed_to_another_function_in_a_loop(loop: str, is_step: bool) -> None:
    main = MAIN.format(imported="import numpy as np", loop=loop)
    modules = Modules({"lib.py": TRAINER.encode(), "main.py": main.encode()})
    apart = check(TRAINER.encode(), path="lib.py", project=Project(modules, "lib.py"))
    whole = check((TRAINER + "\n" + main.replace("from lib import Trainer\n", "")).encode())
    assert ("XLA503" in {f.code for f in apart}) is is_step
    assert ("XLA503" in {f.code for f in whole}) is is_step
