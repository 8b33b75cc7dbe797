"""Two processes of accelerate, and of transformers' Trainer, train on XLA:CPU as the original's do."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_codemods.engine import Options, migrate
from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.compare import compare

from .. import warm

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")
pytest.importorskip("accelerate")

OWN_LOOP = """\
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(1)
accelerator = Accelerator(gradient_accumulation_steps=2)
x = torch.randn(45, 6)
data = TensorDataset(x, (x.sum(1) > 0).long())
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
model, optimizer, loader, held_out, schedule = accelerator.prepare(
    model, optimizer, DataLoader(data, 4, shuffle=True), DataLoader(data, 4), schedule
)
for epoch in range(2):
    model.train()
    total = 0.0
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += accelerator.gather(loss.detach()).mean().item()
    model.eval()
    correct = count = 0
    for inputs, labels in held_out:
        with torch.no_grad():
            predicted = model(inputs).argmax(-1)
        predicted, labels = accelerator.gather_for_metrics((predicted, labels))
        correct += (predicted == labels).sum().item()
        count += labels.numel()
    accelerator.print(f"epoch {epoch} loss {total:.4f} right {correct}/{count} lr {schedule.get_last_lr()}")
    accelerator.wait_for_everyone()
    accelerator.save_state(f"out/{epoch}")
accelerator.load_state("out/0")
told = [accelerator.process_index + 5]
broadcast_object_list(told)
own = torch.ones(1 + accelerator.process_index, device=accelerator.device)
padded = accelerator.gather(accelerator.pad_across_processes(own)).tolist()
mean = accelerator.reduce(own[:1] * accelerator.process_index, "mean").item()
accelerator.print("end", gather_object([accelerator.process_index]), told, padded, mean)
"""
TRAINER = """\
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Data(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.x = torch.randint(5, 60, (count, 12), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "labels": int(self.x[i][0] > 30)}

torch.manual_seed(3)
config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
args = TrainingArguments(
    "out", per_device_train_batch_size=4, max_steps=4, learning_rate=1e-3, logging_steps=2, report_to=[],
    save_strategy="no",
)
trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=Data(64, 0), eval_dataset=Data(20, 1))
trainer.train()
loss = trainer.evaluate()["eval_loss"]
if trainer.is_world_process_zero():
    print("end", round(loss, 4))
"""


@pytest.mark.parametrize(
    ("script", "steps"), [(OWN_LOOP, 6), (TRAINER, 4)], ids=["loop", "Trainer"]
)
def test_two_processes_train_together(script: str, steps: int, tmp_path: Path) -> None:
    if "transformers" in script:
        pytest.importorskip("transformers")
    (tmp_path / "train.py").write_text(script)
    original, migrated = (
        run(
            tmp_path / "train.py",
            side=side,
            steps=steps + 1,  # not stopped behind the last
            nproc=2,
            cwd=tmp_path,
            replace=replace,
            timeout=300,
            folder=tmp_path / side,
            python=warm.for_side("reference"),
            env={"OMP_NUM_THREADS": "1", "PYTHON_EXEC": warm.for_side(side)},
        )
        for side, replace in (
            ("reference", None),
            ("target", {"train.py": migrate(script.encode(), Options()).data}),
        )
    )
    comparison = compare(original, migrated)
    assert comparison.proven, f"{comparison}\n{original.output[-1500:]}\n{migrated.output[-3000:]}"
    assert [len(trace.steps) for trace in migrated.traces] == [steps, steps]
    ends = [
        [line for line in run.output.splitlines() if line.startswith(("epoch", "end"))]
        for run in (original, migrated)
    ]
    assert ends[0] == ends[1]
    assert ends[0][-1].startswith("end")
