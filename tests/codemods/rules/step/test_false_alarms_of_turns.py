"""What runs in no step or in few, slices that cut at the end, batches that are filled up: nothing to say of them."""

from __future__ import annotations

import pytest

from ...helpers import findings

TRAIN = """\
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

DEBUG = False
OFF = not True


def train(model, loader, optimizer, args):
    model.cuda()
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""
READ = "if loss.item() > 3: break"


def _count(source: str, code: str) -> int:
    return [found for _, found in findings(source)].count(code)


@pytest.mark.parametrize(
    "before",
    [
        "if i % args.every != 0: continue",
        "if i % 100: continue",
        "if not (i + 1) % 10 == 0: continue",
        "if i + 1 < len(loader): continue",
        "if i != len(loader) - 1: continue",
        "if DEBUG:",
        "if OFF:",
        "if False:",
        "if 0:",
        "if not True:",
        "if False and args.check:",
        "if True: pass\n        else:",
    ],
)
def test_a_read_that_few_turns_come_to(before: str) -> None:
    space = "\n            " if before.endswith(":") else "\n        "
    assert _count(TRAIN.format(line=before + space + READ), "XLA503") == 0


@pytest.mark.parametrize("test", ["False and loss.item() > 3", "OFF and loss.item() > 3"])
def test_a_read_behind_what_is_never_true(test: str) -> None:
    assert _count(TRAIN.format(line=f"if {test}: break"), "XLA503") == 0


@pytest.mark.parametrize(
    "line",
    [
        READ,
        f"if True:\n            {READ}",
        f"if not DEBUG:\n            {READ}",
        f"if args.stop < 3: continue\n        {READ}",
        "if __debug__ and loss.item() > 3: break",
    ],
)
def test_a_read_in_every_turn(line: str) -> None:
    assert _count(TRAIN.format(line=line), "XLA503") == 1


EVALUATE = (
    TRAIN.format(line="pass")
    + """

@torch.no_grad()
def evaluate(model, loader, total):
    seen, out = 0, []
    for x, y in loader:
        predictions = model(x.cuda())
        take = min(len(predictions), total - seen)
        out.append({slice})
        seen += len(predictions)
"""
)


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("predictions[: total - seen]", 0),
        ("predictions[: len(loader.dataset) - seen]", 0),
        ("predictions[:take]", 0),
        ("predictions[: min(total - seen, x.size(0))]", 0),
        ("predictions[: total - seen].argmax(1)", 0),
        ("predictions[seen:]", 1),
        ("predictions[:seen]", 1),
        ("predictions[seen - 1]", 1),
    ],
)
def test_a_slice_that_cuts_at_the_end_is_the_same_until_the_last(text: str, times: int) -> None:
    assert _count(EVALUATE.replace("{slice}", text), "XLA506") == times


COLLATE = (
    TRAIN.format(line="pass")
    + """

LONGEST = 128


def collate(batch):
    x = pad_sequence([t for t, _ in batch], batch_first=True)
    {line}
    return x, torch.tensor([y for _, y in batch])


loader = DataLoader(samples, collate_fn=collate)
"""
)


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("x = F.pad(x, (0, 128 - x.size(1)))", 0),
        ("x = torch.nn.functional.pad(x, (0, LONGEST - x.shape[1]))", 0),
        ("missing = LONGEST - x.size(1)\n    x = F.pad(x, (0, missing)) if missing > 0 else x", 0),
        ("x = F.pad(x[:, :128], (0, args.longest - x.size(-1)), value=1)", 0),
        ("n = 64\n    x = F.pad(x, (0, n - x.shape[-1]))", 0),
        ("pass", 1),
        ("x = F.pad(x, (0, 1))", 1),
        ("n = max(len(t) for t, _ in batch) + 2\n    x = F.pad(x, (0, n - x.size(1)))", 1),
        ("x = F.pad(x, (0, x.size(0) - x.size(1)))", 1),
    ],
)
def test_what_is_filled_up_to_one_length(line: str, times: int) -> None:
    found = findings(COLLATE.replace("{line}", line))
    at = 1 + COLLATE.split("x = pad_sequence")[0].count("\n")
    assert found.count((at, "XLA504")) == times


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("v.item() if torch.is_tensor(v) else float(v)", 1),
        ("float(v) if not isinstance(v, torch.Tensor) else v.item()", 1),
        ("v.item() if torch.is_tensor(v) else float(v) if not torch.is_tensor(v) else 0.0", 1),
        ("float(v) if isinstance(v, torch.Tensor) else v", 1),
        ("float(v)", 1),
    ],
)
def test_what_is_told_apart_from_tensors_is_none(value: str, found: int) -> None:
    source = (
        "import torch\n"
        "def train(model, loader, optimizer, board):\n"
        "    model.cuda()\n"
        "    for x in loader:\n"
        "        losses = model(x.cuda())\n"
        "        loss = sum(losses.values())\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        f"        board.write({{k: {value} for k, v in losses.items()}})\n"
    )
    assert [code for _, code in findings(source)].count("XLA503") == found


LENGTHS = """\
import torch

def mask_of(lengths, n=None):
    {chosen}
    return torch.arange(n, device=lengths.device)[None] < lengths[:, None]

def train(model, loader, optimizer):
    model.cuda()
    for x, lengths in loader:
        x, lengths = x.cuda(), lengths.cuda()
        loss = (model(x) * mask_of({given})).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
CHOSEN = [
    "n = n or int(lengths.max())",
    "n = n if n is not None else int(lengths.max())",
    "n = int(lengths.max()) if n is None else n",
    "if n is None: n = int(lengths.max())",
    "if not n: n = lengths.max().item()",
]


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize(
    ("given", "is_read"),
    [
        ("lengths, x.size(1)", False),
        ("lengths, n=x.shape[1]", False),
        ("lengths, len(x[0])", False),
        ("lengths", True),
        ("lengths, x.max()", True),
    ],
)
def test_a_size_that_every_call_passes(chosen: str, given: str, is_read: bool) -> None:
    source = LENGTHS.format(chosen=chosen, given=given)
    assert (_count(source, "XLA503") > 0) is is_read
    other = source + "\ndef run(lengths):\n    return mask_of(lengths)\n"
    assert _count(other, "XLA503") > 0
