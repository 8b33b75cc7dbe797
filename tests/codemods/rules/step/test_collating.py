"""Batches that are as long as their samples."""

from __future__ import annotations

import textwrap

import pytest

from ...helpers import findings

HEAD = """import torch, numpy as np
import torch.nn.functional as F
device = torch.device("cuda")
def step(loss): loss.backward()
"""


def lines(source: str) -> list[int]:
    """Lines of dynamic shapes, counted behind `HEAD`."""
    return [line - 4 for line, code in findings(HEAD + source) if code == "XLA504"]


@pytest.mark.parametrize(
    "longest",
    [
        "max(len(x) for x, _ in batch)",
        "max([x.size(0) for x, _ in batch])",
        "max(x.shape[0] for x, _ in batch)",
        "max(map(len, batch))",
        "max(lengths)",
        "np.max(lengths)",
        "torch.tensor(lengths).max()",
        "torch.max(torch.tensor(lengths))",
        "sorted(lengths, reverse=True)[0]",
        "sorted(lengths)[-1]",
        "max(sample['length'] for sample in batch)",
        "max(sample.num_frames for sample in batch)",
        "self.max_length or max(x['wav_len'] for x in batch)",
        "max(list(zip(*batch))[1].text_lengths)",
    ],
)
def test_padded_to_the_longest(longest: str) -> None:
    source = f"""def collate_fn(batch):
    lengths = [len(x) for x, _ in batch]
    n = {longest}
    return torch.stack([F.pad(x, (0, n - len(x))) for x, _ in batch])
"""
    assert lines(source) == [3]


@pytest.mark.parametrize(
    "length",
    [
        "512",
        "max(scores)",  # of something else
        "max(sample['score'] for sample in batch)",
        "max(lengthen(x) for x, _ in batch)",
        "max(len(batch), 8)",
        "(max(lengths) + 63) // 64 * 64",
        "64 * math.ceil(max(lengths) / 64)",
    ],
)
def test_padded_to_few_lengths(length: str) -> None:
    source = f"""def collate_fn(batch):
    lengths = [len(x) for x, _ in batch]
    scores = [score(x) for x, _ in batch]
    n = {length}
    return torch.stack([F.pad(x, (0, n - len(x))) for x, _ in batch])
"""
    assert lines(source) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("lengths, order = torch.sort(torch.LongTensor([len(x) for x in batch]))", [3]),
        ("lengths = sorted([len(x) for x in batch])", [3]),
        ("batch.sort(key=len, reverse=True); lengths = [len(x) for x in batch]", [3]),
        ("batch.sort(key=f); xs, ys = zip(*batch); lengths = [len(x) for x in xs]", [3]),
        ("lengths = [len(x) for x in batch]", []),  # not sorted
        ("batch.sort(key=f); lengths = [y for x, y in batch]", [3]),  # by its name
    ],
)
def test_the_first_of_sorted_lengths_is_the_longest(line: str, found: list[int]) -> None:
    source = f"""def collate_fn(batch):
    {line}
    n = lengths[0]
    return torch.zeros(len(batch), n)
"""
    assert lines(source) == found


def test_lengths_that_are_appended() -> None:
    source = """def collate_fn(batch):
    lengths = []
    for x in batch:
        lengths.append(len(x))
    return torch.zeros(len(batch), max(lengths))
"""
    assert lines(source) == [5]


@pytest.mark.parametrize("frames", ["self.n_frames_per_step", "reduction_factor", "r"])
def test_a_multiple_of_few_frames_is_one_of_many_lengths(frames: str) -> None:
    source = f"""def collate_fn(batch):
    n = max(x.size(1) for x in batch)
    if n % {frames} != 0:
        n += {frames} - n % {frames}
    return torch.stack([F.pad(x, (0, n - len(x))) for x in batch])
"""
    assert lines(source) == [2]


JOINED = """def collate_fn(batch):
    images, boxes = zip(*batch)
    for i, b in enumerate(boxes):
        {mark}
    return torch.stack(images), {joined}
"""


@pytest.mark.parametrize("mark", ["b[:, 0] = i", "ids.append(torch.full((len(b),), i))"])
def test_rows_of_samples_joined(mark: str) -> None:
    assert lines(JOINED.format(mark=mark, joined="torch.cat(boxes, 0)")) == [5]


@pytest.mark.parametrize(
    "body",
    [
        "sizes = [len(x) for x, y in batch]\nreturn np.concatenate([a for a, _ in batch]), sizes",
        "sizes = torch.tensor([x.shape[0] for x in batch])\nreturn torch.cat([x for x in batch]), sizes",
        "xs, ys = zip(*batch)\nreturn torch.cat(xs), [x.size(0) for x in xs], torch.stack(ys)",
        "xs, ends, n = [], [], 0\nfor x in batch:\n    n += len(x)\n    xs.append(x)\nreturn np.vstack(xs)",
        "n = 0\nfor g in batch:\n    n += g['x'].shape[0]\nreturn np.concatenate([s['x'] for s in batch])",
        "xs = [s['x'] for s in batch]\nsizes = [len(s['x']) for s in batch]\nreturn torch.cat(xs), sizes",
        "xs = [s[0] for s in batch]\nfirst = np.cumsum([0] + [len(x) for x in xs[:-1]])\nreturn np.concatenate(xs), first",
        "of = [np.full(len(x), i) for i, x in enumerate(batch)]\nreturn np.hstack(of)",
    ],
)
def test_rows_that_are_counted(body: str) -> None:
    assert len(lines(f"def collate_fn(batch):\n{textwrap.indent(body, '    ')}\n")) == 1


def test_rows_of_others_that_are_counted() -> None:
    source = "def collate_fn(batch):\n    sizes = [len(x) for x, y in batch]\n    return sizes, torch.cat([y for x, y in batch])\n"
    assert lines(source) == []


@pytest.mark.parametrize(
    ("mark", "joined"),
    [
        ("pass", "torch.cat(boxes, 0)"),  # of one size, for all that can be seen
        ("b[:, 0] = i", "torch.cat([b.unsqueeze(0) for b in boxes])"),
        ("b[:, 0] = i", "torch.cat([b[None] for b in boxes])"),
        ("b[:, 0] = i", "torch.stack(boxes)"),
    ],
)
def test_one_row_of_each(mark: str, joined: str) -> None:
    assert lines(JOINED.format(mark=mark, joined=joined)) == []


@pytest.mark.parametrize(
    ("head", "indent", "found"),
    [
        ("def collate(batch):", "", True),
        ("def pad_collate(batch):", "", True),
        ("class PadCollate:\n    def __call__(self, batch):", "    ", True),
        ("class Words:\n    @staticmethod\n    def collate_fn(batch):", "    ", True),
        ("class Words:\n    def collate_fn(self, batch):", "    ", True),
        ("def longest(batch):", "", False),
        ("class Collator:\n    def reset(self, batch):", "    ", False),
    ],
)
def test_what_is_called_a_collator(head: str, indent: str, found: bool) -> None:
    body = "return torch.zeros(len(batch), max(len(x) for x in batch))"
    assert bool(lines(f"{head}\n{indent}    {body}\n")) is found


def test_where_one_is_given_names_do_not_count() -> None:
    source = """from torch.utils.data import DataLoader
def collate(batch):
    return torch.zeros(len(batch), max(len(x) for x in batch))
def fixed(batch):
    return torch.stack(batch)
loader = DataLoader(data, collate_fn=fixed)
"""
    assert lines(source) == []


@pytest.mark.parametrize(
    "given", ["join", "partial(join, 'train')", "lambda samples: join(samples, 'train')"]
)
def test_functions_that_loaders_call_in_other_ways(given: str) -> None:
    source = f"""import torch
from functools import partial

def join(samples, kind=None):
    return torch.nn.utils.rnn.pad_sequence([x for x, _ in samples])

loader = torch.utils.data.DataLoader(data, collate_fn={given})
"""
    assert lines(source) == [5]


PADDED = """
import torch
from torch.nn.utils.rnn import pad_sequence

def batches(samples):
    for i in range(0, len(samples), 8):
        yield pad_sequence(samples[i : i + 8])

def prepare(samples):
    return pad_sequence(samples)

def train(model, optimizer, samples, groups):
    model.cuda()
    whole = prepare(samples)
    for x in batches(samples):
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
    for group in groups:
        x = pad_sequence(group)
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
"""


def test_batches_that_a_generator_or_a_step_pads_are_found() -> None:
    found = [line for line, code in findings(PADDED) if code == "XLA504"]
    lines = [PADDED.splitlines()[line - 1].strip() for line in found]
    assert lines == ["yield pad_sequence(samples[i : i + 8])", "x = pad_sequence(group)"]
