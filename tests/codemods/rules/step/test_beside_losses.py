"""Tensors that functions compute next to a loss: rewards of preference learning, labels that are masked, log-probabilities."""

from __future__ import annotations

from tests.each import each

from ...helpers import findings, migrated

SOURCE = """import torch
import torch.nn.functional as F

def logps_of(logits: torch.Tensor, labels: torch.LongTensor):
    labels = labels[:, 1:].clone()
    mask = labels != -100
    labels[labels == -100] = 0
    logps = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (logps * mask).sum(-1)

def preference(chosen, rejected):
    losses = -F.logsigmoid(chosen - rejected)
    return losses, (chosen * 0.1).detach(), len(rejected)

def padded(rows: torch.Tensor):
    rows = rows.clone()
    rows[rows == -100] = 0
    return rows

class Trainer:
    def __init__(self, model, batches):
        self.model, self.batches = model.cuda(), batches

    def forward(self, batch):
        logps = logps_of(self.model(batch["ids"]).logits, batch["labels"])
        return logps[:4], logps[4:]

    def metrics(self, batch):
        chosen, rejected = self.forward(batch)
        losses, rewards, count = preference(chosen, rejected)
        shown = {}
        LINE
        return losses.mean(), shown

    def train(self, optimizer, rows):
        for batch in self.batches:
            loss, shown = self.metrics(batch)
            (loss / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
            rows = padded(rows)
"""


@each(
    "line, is_read",
    [
        ("shown['rewards'] = rewards.cpu().numpy().tolist()", True),
        ("shown['rewards'] = (rewards > 0).float().mean().item()", True),
        ("shown['chosen'] = chosen.detach().cpu()", True),
        ("shown['count'] = count", False),
        ("shown['host'] = torch.ones(3).mean().item()", False),
        ("shown['rows'] = torch.as_tensor(batch['rows']).max().item()", False),
    ],
)
def test_values_that_are_shown(line: str, is_read: bool) -> None:
    assert ("XLA503" in {c for _, c in findings(SOURCE.replace("LINE", line))}) is is_read


def test_an_assignment_with_a_mask() -> None:
    """In what computes the loss, and not in what prepares data."""
    result = migrated(SOURCE.replace("LINE", "pass"))
    assert "    xla.assign(labels, labels == -100, 0)\n" in result
    assert "    rows[rows == -100] = 0\n" in result


SUMS = """import torch

def both(real, fake):
    loss, parts = {start}
    for r, f in zip(real, fake):
        part = torch.mean((1 - r) ** 2) + torch.mean(f ** 2)
        loss {added}
        parts.append({read})
    return loss, parts

def train(net, generator, optimizer, loader):
    net.cuda(), generator.cuda()
    for x in loader:
        real, fake = net(x.cuda()), net(generator(x.cuda()))
        loss, parts = both(real, fake)
        other, _ = both(fake, real)
        total = loss + other
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@each(
    "start, added, read, is_read",
    [
        ("0, []", "+= part", "part.item()", True),
        ("0.0, []", "+= part", "part.cpu().numpy()", True),
        ("0, []", "= loss + part", "part.item()", True),
        ("0, []", "+= part", "part", False),
        ("0, []", "+= 1", "len(r)", False),
    ],
)
def test_terms_of_a_loss_that_starts_at_zero(
    start: str, added: str, read: str, is_read: bool
) -> None:
    source = SUMS.format(start=start, added=added, read=read)
    assert ((8, "XLA503") in findings(source)) is is_read
