"""A slice that is written to is no copy: `xla.narrow` in its place would lose what is written, silently."""

from __future__ import annotations

from ....each import each
from ...helpers import findings, migrated

LOOP = """
import torch
from torch import nn

def fill(part):
    part += 1

def look(part):
    return part.mean()

def train(model, batches, optimizer, idx):
    model.cuda()
    buf = torch.zeros(800, 4, device="cuda")
    for i in range(0, buf.size(0) - 8, 8):
        x = batches(i).cuda()
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""


@each(
    "line",
    [
        "y = buf[i : i + 8].copy_(x)",
        "buf[i : i + 8].data.copy_(x)",
        "buf[i : i + 8].zero_()",
        "buf[i : i + 8].view(-1).mul_(2)",
        "buf[i : i + 8].T.copy_(x)",
        "buf[i : i + 8][0] = 1",
        "buf[i : i + 8].index_add_(0, idx, x)",
        "torch.add(x, 1, out=buf[i : i + 8])",
        "torch.max(x, 1, out=(buf[i : i + 8], idx))",
        "nn.init.normal_(buf[i : i + 8])",
        "fill(buf[i : i + 8])",
        "part = buf[i : i + 8]; part.copy_(x)",
        "part = buf[i : i + 8]; part += 1",
        "part = buf[i : i + 8]; part[0] = 1",
        "part, other = buf[i : i + 8], x; part.zero_()",
        "part = buf[i : i + 8]; rest = part[1:]; rest.fill_(3)",
        "(part := buf[i : i + 8]).zero_()",
    ],
)
def test_a_slice_that_is_written_to_stays(line: str) -> None:
    source = LOOP.format(line=line.replace("; ", "\n        "))
    for unsafe in (False, True):
        assert "narrow" not in migrated(source, unsafe=unsafe)
    assert "XLA506" in {code for _, code in findings(migrated(source))}


@each(
    "line",
    [
        "y = buf[i : i + 8].clone().mul_(2)",
        "y = buf[i : i + 8].float().mul(2)",
        "y = buf[i : i + 8]; loss = model(y).sum()",
        "y = look(buf[i : i + 8])",
        "x.copy_(buf[i : i + 8])",
        "y = torch.stack([buf[i : i + 8]])",
    ],
)
def test_one_that_is_read_is_one_that_moves(line: str) -> None:
    source = LOOP.format(line=line.replace("; ", "\n        "))
    assert "xla.narrow(buf, 0, i, 8)" in migrated(source)


def test_masks_at_drawn_places_in_what_a_model_computes() -> None:
    """SpecAugment: each step has other places, so each step compiles."""
    source = """
    import random
    import torch
    from torch import nn

    class Mask(nn.Module):
        def forward(self, x):
            for b in range(x.size(0)):
                n = torch.randint(0, 5, (1,)).item()
                start = random.randint(0, x.size(2) - n)
                x[b, :, start : start + n] = 0
            first = int(torch.randint(0, 9, (1,)))
            x[:, first : first + 2] = 0
            x[:, 3:5] = 0
            return x

    def train(loader, optimizer):
        model = nn.Sequential(Mask(), nn.Linear(4, 4)).cuda()
        for x in loader:
            loss = model(x.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert [line for line, code in findings(source) if code == "XLA519"] == [11, 13]


def test_a_mask_that_is_updated_in_each_turn_is_no_position() -> None:
    """`xla.put` would take True and False for positions."""
    source = """
    import torch
    from torch import nn

    class Model(nn.Module):
        @torch.no_grad()
        def generate(self, ids, n, eos):
            done = torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device)
            for _ in range(n):
                token = torch.argmax(self(ids)[:, -1], -1)
                token[done] = eos
                done |= token == eos
                ids = torch.cat([ids, token[:, None]], 1)
            return ids

    def train(loader, optimizer):
        model = Model().cuda()
        for x in loader:
            loss = model(x.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert [code for line, code in findings(source) if line == 11] == ["XLA504"]


def test_a_mask_next_to_slices_is_read_when_it_is_written_to() -> None:
    """Dead codes of a codebook: `self.embed[:, dead] = ...`."""
    source = """
    import torch
    from torch import nn

    class Quantizer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("embed", torch.randn(4, 8))
            self.register_buffer("size", torch.zeros(8))

        def forward(self, x):
            dead = self.size < 0.5
            self.embed.data[:, dead] = x.t()
            self.embed[:, 2] = 0
            return x

    def train(loader, optimizer):
        model = Quantizer().cuda()
        for x in loader:
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
    """
    assert [line for line, code in findings(source) if code == "XLA504"] == [13]


@each(
    "line, after",
    [
        ("buf[i : i + 8].copy_(x)", "xla.put(buf, 0, i, x, length=8)"),
        ("buf[:, i : i + 8].copy_(x, non_blocking=True)", "xla.put(buf, 1, i, x, length=8)"),
        ("buf[i].copy_(x)", "xla.put(buf, 0, i, x)"),
        ("buf[i + 1].copy_(x[0])", "xla.put(buf, 0, i + 1, x[0])"),
    ],
)
def test_a_copy_to_a_moving_slice_becomes_a_write_to_a_position(line: str, after: str) -> None:
    assert after in migrated(LOOP.format(line=line))
