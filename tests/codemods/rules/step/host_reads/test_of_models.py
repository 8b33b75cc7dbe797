"""Reads of what models, their losses and helpers of other modules compute, in the spellings of public projects."""

from __future__ import annotations

from tests.each import each
from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

LOSSES = """\
import torch
import torch.nn as nn


def focal(pred, gt):
    positive = gt.eq(1).float()
    count = {count}
    if {test}:
        return -pred.sum()
    return -pred.sum() / count


class FocalLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.neg_loss = focal

    def of_two(self, pred, gt):
        return focal(pred, gt)

    def forward(self, out, target):
        return {called}(out, target)
"""
TRAIN = """\
import torch
from losses import FocalLoss

def train(model, loader, optimizer, opt):
    model.cuda()
    criterion = torch.nn.MSELoss() if opt.mse else FocalLoss()
    for batch in loader:
        loss = criterion(model(batch["x"].cuda())["hm"], batch["y"].cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _lines(files: dict[str, str], path: str) -> list[int]:
    """Return the lines of the host reads."""
    data = {name: text.encode() for name, text in files.items()}
    found = check(data[path], Options(), path, Project(Modules(data), path))
    return [f.line for f in found if f.code == "XLA503"]


@each(
    "count, test, called",
    [
        ("positive.sum()", "count == 0", "self.neg_loss"),
        ("positive.float().sum()", "count == 0", "{'focal': self.of_two}['focal']"),
        ("(gt > 0).sum()", "count > 0 and pred is not None", "focal"),
        ("1", "(~gt.eq(1)).any()", "focal"),
        ("gt.max()", "not count", "self.of_two"),
    ],
)
def test_a_condition_in_a_loss_of_another_module(count: str, test: str, called: str) -> None:
    losses = LOSSES.format(count=count, test=test, called=called)
    assert _lines({"train.py": TRAIN, "losses.py": losses}, "losses.py") == [8]


@each(
    "count, test",
    [
        ("len(gt)", "count == 0"),
        ("gt", "count"),
        ("gt.shape[0]", "count"),
        ("gt.size(0)", "count > 1"),
    ],
)
def test_sizes_and_flags_are_not_read(count: str, test: str) -> None:
    losses = LOSSES.format(count=count, test=test, called="focal")
    assert _lines({"train.py": TRAIN, "losses.py": losses}, "losses.py") == []


def test_methods_in_a_table_run_when_the_model_does() -> None:
    model = """\
import torch
from torch import nn

class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.Tensor([12.0]), requires_grad=False)

    def forward(self, kind, head, tail):
        scores = {"TransE": self.trans_e, "RotatE": self.rotat_e}
        return scores[kind](head, tail)

    def trans_e(self, head, tail):
        return self.gamma.item() - torch.norm(head - tail, p=1, dim=2)

    def rotat_e(self, head, tail):
        return self.gamma.item() - torch.norm(head * tail, p=1, dim=2)

    def report(self):
        return self.gamma.item()

def train(model, loader, optimizer):
    model.cuda()
    for x, y in loader:
        loss = model("TransE", x.cuda(), y.cuda()).mean()
        loss.backward()
        optimizer.step()
"""
    assert _lines({"train.py": model}, "train.py") == [14, 17]


REDUCED = """\
import torch
from distributed import reduce_loss_dict
{imported}
def train(loader, model, optimizer, args):
    losses = {{}}
    for x in loader:
        pred = model(x.cuda())
        loss = pred.mean()
        losses["d"] = loss
        losses["score"] = pred.mean()
        loss.backward()
        optimizer.step()
        reduced = reduce_loss_dict(losses)
        d, score = reduced["d"].mean().item(), reduced["score"].item()
        {shown}

train([], torch.nn.Linear(2, 2).cuda(), None, None)
"""
DISTRIBUTED = """\
import torch
import torch.distributed as dist

def reduce_loss_dict(loss_dict):
    if dist.get_world_size() < 2:
        return loss_dict
    with torch.no_grad():
        keys = sorted(loss_dict)
        losses = torch.stack([loss_dict[k] for k in keys], 0)
        dist.reduce(losses, dst=0)
        return {k: v for k, v in zip(keys, losses)}
"""


@each(
    "imported, shown, after",
    [
        ("", "print(d, score)", "xla.later(lambda d=d, score=score: print(d, score))"),
        (
            "import wandb",
            "if wandb and args.wandb:\n            wandb.log({'d': d, 's': score})",
            "xla.later(lambda d=d, score=score: wandb.log({'d': d, 's': score}), to=wandb)",
        ),
    ],
)
def test_losses_that_another_module_averages_in_a_dictionary(
    imported: str, shown: str, after: str
) -> None:
    files = {
        "train.py": REDUCED.format(imported=imported, shown=shown).encode(),
        "distributed.py": DISTRIBUTED.encode(),
    }
    project = Project(Modules(files), "train.py")
    result = migrate(files["train.py"], Options(), "train.py", project).data.decode()
    assert 'xla.item(reduced["d"].mean()), xla.item(reduced["score"])' in result
    assert "".join(after.split()) in "".join(result.split())


@each("test", ["k != 'meta'", "k not in ('meta', 'name')", "k in wanted"])
def test_keys_of_a_batch_are_no_tensors(test: str) -> None:
    script = f"""\
import torch
from torch.utils.data import DataLoader

def train(model, loader: DataLoader, optimizer, wanted, device="cuda"):
    for batch in loader:
        for k in batch:
            if {test}:
                batch[k] = batch[k].to(device)
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
"""
    assert _lines({"train.py": script}, "train.py") == []
    migrated = migrate(script.encode(), Options()).data.decode()
    assert _lines({"train.py": migrated}, "train.py") == []


@each(
    "body, found",
    [
        ("x.detach().cpu().numpy()", [13]),
        ("float(x.item())", [3]),
        ("x.detach().float()", []),
        ("x.item()", [13]),
    ],
)
def test_a_lambda_that_reads(body: str, found: list[int]) -> None:
    script = f"""\
import torch

to_np = lambda x: {body}


def train(model, loader, optimizer, metrics):
    model.cuda()
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        metrics["norm"], metrics["size"] = to_np(norm), to_np(len(x))
"""
    assert _lines({"train.py": script}, "train.py") == found


@each(
    "body",
    [
        "losses = 0\n        for x in batches:\n            loss = model(x.cuda()).mean()\n            loss.backward()\n"
        "        optimizer.step()\n        return loss.item()",
        "loss = model(batches.cuda()).mean()\n        loss.backward()\n        optimizer.step()\n"
        "        return loss.item()",
    ],
)
def test_a_step_that_its_maker_returns(body: str) -> None:
    script = f"""\
import torch

def make_step(model, optimizer):
    model.cuda()
    def train(batches):
        {body}
    return train
"""
    others = "from steps import make_step\ntrain = make_step(model, optimizer)\nmodel.train()\nfor x in loader:\n    print(train(x))\n"
    lines = _lines({"steps.py": script, "main.py": others}, "steps.py")
    assert [script.splitlines()[line - 1].strip() for line in lines] == ["return loss.item()"]


def test_statistics_of_a_loss_that_overrides_call() -> None:
    losses = """\
from torch import nn

class LossCompute(nn.Module):
    def __init__(self, criterion, padding):
        super().__init__()
        self.criterion, self.padding = criterion, padding

    def __call__(self, scores, target):
        return self.criterion(scores, target), self.stats(scores, target)

    def stats(self, scores, target):
        words = target.ne(self.padding)
        return words.sum().item(), len(target)
"""
    train = TRAIN.replace("from losses import FocalLoss", "from losses import LossCompute")
    train = train.replace("FocalLoss()", "LossCompute(torch.nn.NLLLoss(), 1)")
    assert _lines({"train.py": train, "losses.py": losses}, "losses.py") == [13]
