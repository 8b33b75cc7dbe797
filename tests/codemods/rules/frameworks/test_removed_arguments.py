"""XLA813: the list is that of the comparison, and the installed transformers has none of it."""

from __future__ import annotations

import pytest

from xla_codemods.rules.frameworks.removed_arguments import _INSTEAD, _REMOVED

from ...helpers import findings, migrated

HEAD = 'from transformers import TrainingArguments\nx = TrainingArguments("out", optim="sgd", {})\n'


@pytest.mark.parametrize("name", ["overwrite_output_dir", "tpu_num_cores", "logging_dir"])
def test_they_are_told_and_stay(name: str) -> None:
    source = HEAD.format(f"{name}=value")
    assert findings(source) == [(2, "XLA813")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize(
    "source",
    [
        'd = {"warmup_ratio": 0.1}\nx = TrainingArguments("o", **d)\n',
        'd = dict(warmup_ratio=0.1)\nx = TrainingArguments("o", **d)\n',
        'd = {}\nd["warmup_ratio"] = 0.1\nx = TrainingArguments("o", **d)\n',
        'd = {}\nd.update(warmup_ratio=0.1)\nx = TrainingArguments("o", **d)\n',
        'x = TrainingArguments("o", **{"warmup_ratio": 0.1})\n',
        'x = TrainingArguments("o", optim="sgd", evaluation_strategy="epoch")\n',
    ],
)
def test_they_are_told_in_dictionaries_too(source: str) -> None:
    source = f"from transformers import TrainingArguments\n{source}"
    assert [code for _, code in findings(source) if code == "XLA813"] == ["XLA813"]


def test_the_installed_version_has_none_of_them_and_what_stands_for_them() -> None:
    transformers = pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("of transformers 5")
    has = set(transformers.TrainingArguments.__dataclass_fields__)
    assert not has & _REMOVED
    assert set(_INSTEAD) <= _REMOVED
    named = {"optim", "warmup_steps", "per_device_train_batch_size", "per_device_eval_batch_size"}
    assert named <= has


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpus=0 if cpu else n", 'devices="auto" if cpu else n, accelerator="cpu" if cpu else "auto"'),
        ("gpus=n if gpu else None", 'devices=n if gpu else "auto", accelerator="auto" if gpu else "cpu"'),
        ('accelerator="cpu" if cpu else "gpu", gpus=0 if cpu else n', 'accelerator="cpu" if cpu else "auto", devices="auto" if cpu else n'),
        ("gpus=n if many else 1", 'devices=n if many else 1, accelerator="auto"'),
    ],
)  # fmt: skip
def test_no_gpus_are_the_cpu(before: str, after: str) -> None:
    """Lightning takes no `devices=0`."""
    made = migrated(f"from pytorch_lightning import Trainer\ntrainer = Trainer({before})\n")
    assert made.splitlines()[-1] == f"trainer = Trainer({after})"
