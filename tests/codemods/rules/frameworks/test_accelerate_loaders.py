"""XLA814: where accelerate is patched before it is used."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ...helpers import IMPORT, findings, migrated

CODE = "XLA814"
PATCH = "xla.patch_accelerate()\n"


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from accelerate import Accelerator\n", "x = Accelerator()\n"),
        ("from accelerate import Accelerator as A\n", "x = A(gradient_accumulation_steps=2)\n"),
        ("import accelerate\n", "x = accelerate.Accelerator()\n"),
        ("from accelerate.accelerator import Accelerator\n", "x = Accelerator(log_with='all')\n"),
        ("from transformers import Trainer\n", "Trainer(model).train()\n"),
        ("from transformers import Seq2SeqTrainer\n", "x = Seq2SeqTrainer(model=m)\n"),
        ("import accelerate\n", "x, y = 1, build(accelerate.Accelerator())\n"),
    ],
)
def test_it_is_patched_before_it_is_made(imported: str, made: str) -> None:
    after = migrated(imported + made)
    assert after.endswith(PATCH + made)
    assert IMPORT in after


def test_classes_that_derive_from_it() -> None:
    source = """\
from transformers import Trainer, TrainingArguments
class Mine(Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss
args = TrainingArguments("out", optim="sgd")
trainer = Mine(model, args)
trainer.train()
"""
    assert f"{PATCH}trainer = Mine(model, args)" in migrated(source)


def test_within_functions_and_branches() -> None:
    source = """\
from accelerate import Accelerator
def build(steps):
    if steps > 1:
        accelerator = Accelerator(gradient_accumulation_steps=steps)
    else:
        accelerator = Accelerator()
    return accelerator
class Loop:
    def __init__(self, steps):
        self.accelerator = Accelerator(gradient_accumulation_steps=steps)
"""
    after = migrated(source)
    assert after.count(PATCH) >= 2
    assert f"        {PATCH}        self.accelerator" in after
    assert f"        {PATCH}        accelerator = Accelerator(grad" in after


def test_once_at_the_top_is_enough() -> None:
    source = "from accelerate import Accelerator\nx = Accelerator()\ny = Accelerator()\n"
    assert migrated(source).count(PATCH) == 1


@pytest.mark.parametrize(
    ("steps", "severity"),
    [("", "warning"), ("gradient_accumulation_steps=1", "warning"),
     ("gradient_accumulation_steps=args.n", "error"), ("gradient_accumulation_plugin=p", "error")],
)  # fmt: skip
def test_steps_at_other_batches_are_an_error(steps: str, severity: str) -> None:
    source = f"from accelerate import Accelerator\nx = Accelerator({steps})\n"
    assert [(f.code, f.severity) for f in check(source.encode())] == [(CODE, severity)]


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate import Accelerator\ndef f(x: Accelerator):\n    x.print(1)\n",
        "from mylib import Accelerator\nx = Accelerator(gradient_accumulation_steps=2)\n",
        "from lightning import Trainer\nx = Trainer(accelerator='cpu')\n",
        "class Trainer:\n    pass\nx = Trainer()\n",
        f"{IMPORT}from accelerate import Accelerator\n{PATCH}x = Accelerator()\n",
        "import accelerate\nx = accelerate.init_empty_weights()\n",
    ],
)
def test_others_stay(source: str) -> None:
    assert findings(source) == []


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("def main(a):\n    if a:\n        x = Accelerator()\n    else:\n        x = Accelerator(log_with='all')\n    return x\n", 2),
        ("def main(a):\n    for k in a:\n        Accelerator().print(k)\n    return Accelerator()\n", 2),
        ("def main(a):\n    try:\n        return Accelerator(log_with=a)\n    except ValueError:\n        return Accelerator()\n", 2),
        ("def main(a):\n    x = Accelerator()\n    if a:\n        x = Accelerator(log_with='all')\n    return x, Accelerator()\n", 1),
        ("x, y = Accelerator(), Accelerator()\n", 1),
    ],
)  # fmt: skip
def test_it_is_patched_on_every_way_to_an_accelerator(source: str, calls: int) -> None:
    assert migrated(f"from accelerate import Accelerator\n\n{source}").count(PATCH) == calls


def test_a_class_whose_objects_another_module_makes() -> None:
    base = "from transformers import Trainer\n\nclass Base(Trainer):\n    pass\n"
    text = "from base import Base\n\nclass MyTrainer(Base):\n    pass\n\nclass Other(MyTrainer):\n    pass\n"
    files = {"base.py": base.encode(), "lib.py": text.encode()}
    for path, data in files.items():
        new = migrate(data, Options(), path, Project(Modules(files), path)).data.decode()
        assert new.count("xla.patch_accelerate()") == 1, path
