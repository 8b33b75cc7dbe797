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
    assert findings(new) == [(15, "XLA803"), (25, "XLA812"), (27, "XLA803")]


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
    assert 'xla.device_type() == "cuda" else "bf16-mixed")' in text
    assert "xla.patch_lightning()" in text


ACCELERATORS = """
import accelerate
from accelerate import Accelerator

class Mine(Accelerator):
    def __init__(self, **options):
        super().__init__(mixed_precision="fp16", **options)

class Plain(accelerate.Accelerator):
    def note(self, loss):
        self.print(loss.item())

class Deep(Plain):
    def __init__(self, amp):
        Plain.__init__(self, mixed_precision="fp16" if amp else "no")

class Saver(Accelerator):
    def save_state(self, path):
        return super().save_state(path)

def main(model, optimizer, loader):
    mine, plain, saver = Mine(), Plain(mixed_precision="fp16"), Saver()
    model, optimizer, loader = mine.prepare(model, optimizer, loader)
    for x in loader:
        mine.backward(model(x).sum())
        optimizer.step()
    mine.save_state("a")
    saver.save_state("b")

def resume(accelerator: Accelerator):
    accelerator.load_state("a")
"""


def test_classes_that_derive_from_accelerator() -> None:
    new = migrated(ACCELERATORS)
    assert new.count('"fp16" if xla.device_type() == "cuda" else "bf16"') == 3
    assert 'xla.save_state(mine, "a")' in new
    assert 'saver.save_state("b")' in new  # its own
    assert 'xla.load_state(accelerator, "a")' in new
    assert "xla.optimizer_step" not in new
    left = [line for line, code in findings(new) if code == "XLA802"]
    assert [new.splitlines()[line - 1].strip() for line in left] == [
        "return super().save_state(path)"
    ]


def test_a_class_of_that_name_is_none() -> None:
    source = ACCELERATORS.replace("import accelerate\n", "").replace(
        "from accelerate import Accelerator", "from mine import Accelerator, accelerate"
    )
    assert 'mixed_precision="fp16"' in migrated(source)
