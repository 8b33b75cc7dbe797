"""Classes that derive from Lightning's Trainer, Fabric and LightningCLI."""

from __future__ import annotations

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, migrate

from ...helpers import findings, migrated

DERIVED = """
import lightning as L
from lightning.fabric import Fabric
from lightning.pytorch.cli import LightningCLI

class CLI(LightningCLI):
    pass

class Own(L.Trainer):
    def __init__(self, **options):
        super().__init__(accelerator="gpu", gpus=2, **options)

class F(Fabric):
    def run(self, x):
        pass

class SlowFabric(F):
    pass

def main(model, data):
    CLI(model, data, trainer_defaults={"accelerator": "gpu", "strategy": "ddp"})
    Own(max_epochs=3)
    F(accelerator="cuda").run(SlowFabric(precision="16-true"))
"""


def test_lightning_is_patched_once_before_the_first_class() -> None:
    new = migrated(DERIVED)
    assert new.count("xla.patch_lightning()") == 1
    assert new.index("xla.patch_lightning()") < new.index("class CLI")


def test_what_the_classes_are_given() -> None:
    new = migrated(DERIVED)
    assert 'super().__init__(accelerator="auto", devices=2, **options)' in new
    assert 'F(accelerator="auto").run(SlowFabric(precision="16-true"))' in new
    assert findings(new) == [(23, "XLA812"), (25, "XLA803")]


def test_a_class_inside_of_a_function_does_not_do_for_others() -> None:
    source = """
    import lightning as L

    def make():
        class Own(L.Trainer):
            pass
        return Own(max_epochs=1)

    trainer = L.Trainer(max_epochs=3)
    """
    new = migrated(source)
    assert new.count("xla.patch_lightning()") == 2
    assert "    xla.patch_lightning()\n    class Own" in new


def test_classes_of_others_are_left() -> None:
    source = """
    from transformers import Trainer
    import lightning as L

    class Own(Trainer):
        def __init__(self):
            super().__init__(accelerator="gpu")

    class Data(L.LightningDataModule):
        pass

    class Trainer2:
        def __init__(self):
            self.gpus = 2
    """
    assert "lightning()" not in migrated(source)
    assert 'accelerator="gpu"' in migrated(source)


def test_arguments_of_a_class_of_ones_own_are_its_own() -> None:
    source = """
    import lightning as L
    from xla_migrate import runtime as xla

    xla.patch_lightning()
    class Own(L.Trainer):
        def __init__(self, accelerator):
            super().__init__(max_epochs=len(accelerator))

    Own(accelerator="gpu")
    """
    assert findings(source) == []


def test_a_class_may_derive_through_one_of_another_module() -> None:
    base = b"import lightning as L\n\nclass BaseTrainer(L.Trainer):\n    pass\n"
    own = b"from base import BaseTrainer\n\nclass Own(BaseTrainer):\n    pass\n\nOwn(accelerator='gpu', precision='16-mixed')\n"
    modules = Modules({"base.py": base, "own.py": own})
    text = migrate(own, Options(), "own.py", Project(modules, "own.py")).data.decode()
    assert 'Own(accelerator="auto", precision="bf16-mixed")' in text
    assert "xla.patch_lightning()" in text
