"""Selections by a mask: in helpers, and by masks that no data decide about."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.engine import Options, check, migrate

from ...helpers import findings

STEP = """\
import torch
from torch.utils.data import DataLoader

{helpers}

def train(model, dataset, optimizer, device, n):
    for x, y in DataLoader(dataset, batch_size=8, drop_last=True):
        x, y = x.to(device), y.to(device)
        out = model(x)
        {computed}
        loss = chosen.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _messages(helpers: str, computed: str) -> list[str]:
    text = STEP.format(
        helpers=textwrap.dedent(helpers), computed=computed.replace("\n", "\n        ")
    )
    return [f.message for f in check(text.encode()) if f.code == "XLA504"]


@pytest.mark.parametrize(
    ("helpers", "computed"),
    [
        ("def valid(x, y):\n    return x[y > 0]", "chosen = valid(out, y)"),
        ("def select(x, mask):\n    return x[mask]", "chosen = select(out, y > 0)"),
        ("def select(x, *, keep):\n    return x[keep], 1", "chosen, _ = select(out, keep=y > 0)"),
        (
            "def inner(x, keep):\n    return x[keep]\n\ndef outer(x, keep):\n    return inner(x, keep)",
            "chosen = outer(out, y > 0)",
        ),
        (
            "class Metric:\n    def pick(self, x, keep):\n        return x[keep]\n\nmetric = Metric()",
            "mask = y > 0\nchosen = metric.pick(out, mask)",
        ),
    ],
)
def test_a_selection_in_a_helper_is_reported(helpers: str, computed: str) -> None:
    (message,) = _messages(helpers, computed)
    assert "depends on data" in message


def test_an_index_that_is_no_mask_is_not_reported() -> None:
    helpers = "def select(x, index):\n    return x[index]"
    assert not _messages(helpers, "chosen = select(out, torch.arange(4))")


@pytest.mark.parametrize(
    "mask",
    [
        "~torch.eye(n, dtype=torch.bool, device=device)",
        "torch.triu(torch.ones(n, n, dtype=torch.bool), 1).to(device)",
        "(torch.arange(n)[:, None] < torch.arange(n)).cuda()",
        "torch.ones(n, n).tril().bool().to(device)",
        "torch.eye(n, device=device).logical_not()",
    ],
)
def test_a_constant_mask_asks_for_indices(mask: str) -> None:
    for computed in (
        f"chosen = (out @ out.T)[{mask}]",
        f"mask = {mask}\nchosen = (out @ out.T)[mask]",
    ):
        (message,) = _messages("", computed)
        assert "compute its indices once" in message
        assert "depends on data" not in message


@pytest.mark.parametrize(
    "mask",
    [
        "(y > 0).expand_as(out)",
        "(y > 0).unsqueeze(1).repeat(1, n)",
        "(y > 0)[:, None].view_as(out)",
        "(Variable(y, requires_grad=False) > 0).transpose(0, 1)",
    ],
)
def test_a_mask_of_another_shape_selects(mask: str) -> None:
    helpers = "from torch.autograd import Variable"
    (message,) = _messages(helpers, f"keep = {mask}\nchosen = Variable(out)[keep]")
    assert "depends on data" in message


@pytest.mark.parametrize(
    ("before", "computed"),
    [
        ("", "chosen = out[np.where(names != 0)]"),
        ("", "places = np.nonzero(names)\nchosen = (out * 2)[places]"),
        ("", "places = np.where(names > 2)[0]\nchosen = out[:, places]"),
        ("", "chosen = out[np.flatnonzero(names)]"),
        ("places = np.where(names > 2)", "chosen = out[places]"),  # the same in each step
        ("", "chosen = out[np.where(names > 2, names, 0)]"),
        ("", "chosen = names[np.where(names > 2)]"),
    ],
)
def test_indices_that_numpy_finds_in_each_step(before: str, computed: str) -> None:
    helpers = f"import numpy as np\nnames = np.arange(8)\n{before}"
    is_each_time = not before and "names, 0" not in computed and "= names[" not in computed
    found = [m for m in _messages(helpers, computed) if "indices that `numpy." in m]
    assert bool(found) is is_each_time


def test_a_mask_of_data_is_no_constant() -> None:
    (message,) = _messages(
        "", "mask = torch.ones(n, dtype=torch.bool).to(device) & (y > 0)\nchosen = out[mask]"
    )
    assert "depends on data" in message


def test_indices_that_a_range_is_cut_from_are_no_mask() -> None:
    computed = (
        "index = torch.arange(out.shape[0]).to(device)\nindex = index[n:]\nchosen = out[index]"
    )
    assert not [m for m in _messages("", computed) if "indices once" in m]


PACKED = """\
import torch
from xla_migrate import runtime as xla
def train(model, loader, optimizer):
    for x, lengths, y in xla.MpDeviceLoader(loader, host=(1,)):
        out = model(x, lengths)
        loss = out.mean()
        loss.backward()
        xla.optimizer_step(optimizer)
        keep = y != 0
        wrong = out[keep]
        short = lengths[lengths < 4]
"""


def test_parts_of_a_batch_beside_one_on_the_host_are_on_the_device() -> None:
    assert [line for line, code in findings(PACKED) if code == "XLA504"] == [10]


ROLLED = """\
import torch
def loss_of(z):
    similar = z @ z.t()
    pairs = torch.eye(8, dtype=torch.bool, device=z.device).roll(4, dims=0)
    return similar[pairs].mean()
for x in loader:
    loss = loss_of(model(x.cuda()))
    loss.backward()
    optimizer.step()
"""


def test_a_mask_that_is_rolled_is_as_constant_as_before() -> None:
    (found,) = [f for f in check(ROLLED.encode()) if f.code == "XLA504"]
    assert found.line == 5
    assert "the same elements in every step" in found.message


@pytest.mark.parametrize(
    ("buffer", "selection", "message"),
    [
        ("torch.arange(n) % 2 == 0", "y[:, self.mask]", "the same elements in every step"),
        ("torch.ones(n, dtype=torch.bool)", "y[..., self.mask]", "the same elements in every step"),
        (
            "torch.ones(n, dtype=torch.bool)",
            "y.t()[self.mask, 0]",
            "the same elements in every step",
        ),
        ("torch.arange(n)", "y[:, y[0] > 0]", "depends on data"),
        ("torch.arange(n)", "y[:, self.mask]", None),
        ("torch.arange(n)", "y[:, 0]", None),
    ],
)
def test_a_mask_among_other_indices_selects_too(
    buffer: str, selection: str, message: str | None
) -> None:
    script = f"""\
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.register_buffer("mask", {buffer})
    def forward(self, x):
        y = self.layer(x)
        return {selection}.sum()
model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in range(4):
    loss = model(torch.randn(3, 4).cuda())
    loss.backward()
    optimizer.step()
"""
    found = [f.message for f in check(script.encode()) if f.code == "XLA504"]
    assert len(found) == (message is not None)
    assert all(message in text for text in found if message is not None)


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ("out[out > 0].sum()", "xla.masked_sum(out, out > 0)"),
        ("torch.mean(out[out > 0])", "xla.masked_mean(out, out > 0)"),
        ("out.abs().masked_select(y > 0).mean()", "xla.masked_mean(out.abs(), y > 0, broadcast=True)"),
        ("torch.masked_select(out, y > 0).sum()", "xla.masked_sum(out, y > 0, broadcast=True)"),
        ("(out[y > 0] == x[y > 0]).sum()", "xla.masked_count(torch.eq, out, x, mask=y > 0)"),
        ("(out[y > 0] == x[y > 0]).float().mean()", "xla.masked_share(torch.eq, out, x, mask=y > 0)"),
        ("(out[y > 0].int() >= x[y > 0]).float().sum()", "xla.masked_count(torch.ge, out.int(), x, mask=y > 0).float()"),
        ("(out[y > 0] != x[y > 0]).long().sum()", "xla.masked_count(torch.ne, out, x, mask=y > 0)"),
        ("(out[y > 0] == x[y > 0]).double().mean()", ""),
        ("torch.eq(out[y > 0], x[y > 0]).sum()", "xla.masked_count(torch.eq, out, x, mask=y > 0)"),
        ("torch.gt(out[y > 0], 0.5).sum()", "xla.masked_sum(torch.gt(out, 0.5), y > 0)"),
        ("torch.eq(out[y > 0], x).sum()", ""),
        ("(out == x)[y > 0].float().mean()", "xla.masked_mean((out == x).float(), y > 0)"),
        ("out[y > 0].sum() / (y > 0).sum()", "xla.masked_sum(out, y > 0) / (y > 0).sum()"),
        ("(out[y > 0] > 0.5).float().mean()", "xla.masked_mean((out > 0.5).float(), y > 0)"),
        ("out[y > 0].long().eq(x[y > 0]).sum()", "xla.masked_count(torch.eq, out.long(), x, mask=y > 0)"),
        ("torch.sum(out[y > 0] != x[y > 0].detach())", "xla.masked_count(torch.ne, out, x.detach(), mask=y > 0)"),
        ("torch.sum(out.masked_select(y > 0).eq(x.masked_select(y > 0)))", "xla.masked_count(torch.eq, out, x, mask=y > 0, broadcast=True)"),
        ("(out.masked_select(y > 0) == 2).sum()", "xla.masked_sum(out == 2, y > 0, broadcast=True)"),
        ("(out.masked_select(y > 0) == x.masked_select(y < 0)).sum()", ""),
        ("(out[y > 0] == x).sum()", ""),
        ("(out[y > 0] == x[y < 0]).sum()", ""),
        ("(out[y > 0] == x[y > 0]).float().mean(0)", ""),
        ("(out[y > 0] == x[y > 0]).all()", ""),
        ("out[out > 0].sum(0)", ""),
        ("out[out > 0].max()", ""),
        ("out[:, y > 0].mean()", ""),
        ("torch.sum(out[out > 0], dim=0)", ""),
        ("(out[y > 0] - x[y > 0]).mean()", ""),
    ],
)  # fmt: skip
def test_sums_and_means_of_selections_are_rewritten(computed: str, expected: str) -> None:
    text = STEP.format(helpers="", computed=f"chosen = {computed}")
    result = migrate(text.encode(), Options(), "train.py").data.decode()
    assert f"        chosen = {expected or computed}\n" in result
    again = migrate(result.encode(), Options(), "train.py").data.decode()
    assert again == result


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ("F.mse_loss(out[mask], y[mask])", "xla.masked_loss(F.mse_loss, out, y, mask=mask)"),
        (
            "F.cross_entropy(out[y.ne(0)], y[y.ne(0)].long(), weight=w)",
            "xla.masked_loss(F.cross_entropy, out, y.long(), mask=y.ne(0), weight=w)",
        ),
        ("criterion(out[mask], y[mask])", "xla.masked_loss(criterion, out, y, mask=mask)"),
        ("F.mse_loss(out[mask], y)", ""),
        ("F.mse_loss(out[mask], y[y > 0])", ""),
        ("F.binary_cross_entropy(out[mask], y[mask], w[mask])", ""),
        ("F.binary_cross_entropy(out[mask], y[mask], weight=w[mask])", ""),
        ("F.kl_div(out[mask], y[mask])", ""),
        ("own_loss(out[mask], y[mask])", ""),
        ("F.l1_loss(out[mask], y[mask], reduction='none').mean(0)", ""),
        ("of_each(out[mask], y[mask]).mean()", ""),
    ],
)
def test_losses_of_selections_are_rewritten(computed: str, expected: str) -> None:
    helpers = (
        "import torch.nn.functional as F\ncriterion = torch.nn.L1Loss().cuda()\n"
        "of_each = torch.nn.L1Loss(reduction='none')"
    )
    chosen = f"mask, w = out > 0, y.detach()\n        chosen = {computed}"
    text = STEP.format(helpers=helpers, computed=chosen)
    result = migrate(text.encode(), Options(), "train.py").data.decode()
    assert f"        chosen = {expected or computed}\n" in result
    again = migrate(result.encode(), Options(), "train.py").data.decode()
    assert again == result
    found = sum(f.code == "XLA504" for f in check(text.encode()))
    assert found == 1 if expected else found


@pytest.mark.parametrize(
    ("reduction", "advice"),
    [("", "divide the sum over the mask by `mask.sum()`"), (", reduction='sum'", "sum `torch")],
)
def test_the_advice_for_a_loss_fits_its_reduction(reduction: str, advice: str) -> None:
    computed = f"chosen = own_loss(out[y > 0], y[y > 0]{reduction})"
    found = check(STEP.format(helpers="", computed=computed).encode())
    assert any(advice in f.message for f in found if f.code == "XLA504")


@pytest.mark.parametrize(
    ("mask", "is_one"),
    [('masks["train"]', True), ('data.masks["val"]', True), ("splits[0]", False), ("masks[0]", False)],
)  # fmt: skip
def test_masks_in_a_dictionary(mask: str, is_one: bool) -> None:
    helpers = f"def valid(x, masks, data, splits):\n    return x[{mask}]"
    assert len(_messages(helpers, "chosen = valid(out, masks, data, splits)")) == is_one


@pytest.mark.parametrize(
    ("loader", "is_found"),
    [
        ("accelerator.prepare(loader)", True),  # of another module
        ("self.loader = DataLoader(loader); self.loader = accelerator.prepare(self.loader)", True),
        ("self.loader = accelerator.prepare(DataLoader(loader))", True),
        ("self.loader = DataLoader(loader)", False),
    ],
)
def test_batches_of_loaders_that_accelerate_prepares(loader: str, is_found: bool) -> None:
    source = f"""from accelerate import Accelerator
from torch.utils.data import DataLoader
import torch
accelerator = Accelerator()
class Trainer:
    def __init__(self, model, loader):
        self.model = accelerator.prepare(model)
        {loader}
    def evaluate(self):
        with torch.no_grad():
            for batch in self.loader:
                labels = accelerator.gather_for_metrics(batch["labels"][:, 1:])
                self.add(self.model(**batch), labels[labels != -100])
    def train(self, loss):
        accelerator.backward(loss)
"""
    assert ("XLA504" in {code for _, code in findings(source)}) is is_found
