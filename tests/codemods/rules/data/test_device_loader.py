"""Loaders around which a device loader stands: flags, types that move, prefetchers."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
STEP = "        loss = model(x)\n        loss.backward()\n        optimizer.step()\n"


def header(setup: str, move: str) -> str:
    """What the header of a loop becomes that moves its batch by `move`."""
    source = f"{HEAD}{setup}def train(model, loader, optimizer, args, device):\n    for x in loader:\n        {move}\n{STEP}"
    after = migrated(source)
    assert migrated(after) == after
    return next(line.strip() for line in after.splitlines() if line.startswith("    for "))


PLAIN = "for x in xla.MpDeviceLoader(loader):"


@pytest.mark.parametrize(
    ("setup", "move", "after"),
    [
        ("", "if args.cuda:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if args.cuda else loader:"),
        ("", "if args.use_gpu:\n            x = x.to(device)", "for x in xla.MpDeviceLoader(loader) if args.use_gpu else loader:"),
        ("", "if args.gpu != -1:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if args.gpu != -1 else loader:"),
        ("", "if args.gpu >= 0:\n            x = x.cuda(args.gpu)", "for x in xla.MpDeviceLoader(loader) if args.gpu >= 0 else loader:"),
        ("", "if len(args.gpus) > 0:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if len(args.gpus) > 0 else loader:"),
        ("", "if not args.cpu:\n            x = x.cuda()", "for x in xla.MpDeviceLoader(loader) if not args.cpu else loader:"),
        ("", 'if args.device == "cuda":\n            x = x.cuda()',
         "for x in xla.MpDeviceLoader(loader) if xla.is_accelerator(args.device) else loader:"),
        ("", 'if args.device != "cpu":\n            x = x.cuda()', 'for x in xla.MpDeviceLoader(loader) if args.device != "cpu" else loader:'),
        ("", "if torch.cuda.is_available() and not args.cpu:\n            x = x.cuda()",
         "for x in xla.MpDeviceLoader(loader) if not args.cpu else loader:"),
        ("", "if args.steps > 3:\n            x = x.cuda()", PLAIN),
        ("use_cuda = not args.no_cuda and torch.cuda.is_available()\n", "if use_cuda:\n            x = x.cuda()",
         "for x in xla.MpDeviceLoader(loader) if use_cuda else loader:"),
        # without an accelerator the device loader moves nothing
        ("use_cuda = torch.cuda.is_available()\n", "if use_cuda:\n            x = x.cuda()", PLAIN),
        ("cuda = True if torch.cuda.is_available() else False\n", "if cuda:\n            x = x.cuda()", PLAIN),
        # DataParallel moved the batch otherwise: the model is on the device all the same
        ("", "if args.gpu is not None:\n            x = x.cuda(args.gpu)", PLAIN),
        # the flag is not known where the loader is named
        ("", "cuda = len(x) > 2\n        if cuda:\n            x = x.cuda()", PLAIN),
        ("T = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n", "x = x.type(T)", PLAIN),
        ("", "x = x.type(torch.cuda.FloatTensor)", PLAIN),
        ("", "x = x.type(torch.float16)", "for x in loader:"),
        ("", "x = x.to(torch.promote_types(x.dtype, torch.float32))", "for x in loader:"),
        ("", "kind = torch.promote_types(x.dtype, args.y.dtype)\n        x = x.flatten().to(kind)", "for x in loader:"),
        ("kind = torch.get_default_dtype()\n", "x = x.to(kind)", "for x in loader:"),
        ("", "kind = torch.result_type(x, args.y)\n        x = x.to(dtype=kind)", "for x in loader:"),
        ("kind = torch.float16\n", "x = x.to(kind)", "for x in loader:"),
    ],
)  # fmt: skip
def test_headers(setup: str, move: str, after: str) -> None:
    assert header(setup, move) == after


def test_a_class_that_hands_nothing_out_is_no_prefetcher() -> None:
    source = (
        "import torch\nclass Tests:\n    def test_a(self, sampler):\n        list(iter(sampler))\n"
        "    def test_b(self):\n        torch.cuda.Stream()\n"
    )
    assert "XLA404" not in [code for _, code in findings(source)]
    assert "XLA404" in [code for _, code in findings(source.replace("test_b", "__next__"))]


@pytest.mark.parametrize("source", ["iter(loader)", "batches(loader)", "None"])
def test_what_counts_steps_beside_batches_that_are_fetched_is_no_loader(source: str) -> None:
    before = f"""\
import torch

def train(model, optimizer, loader, bar):
    source = {source}
    for step in bar:
        batch = next(source)
        x = batch["x"].cuda()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
    after = migrated(before)
    assert "for step in bar:\n" in after
    assert "xla.mark_step()\n" in after


@pytest.mark.parametrize(
    "bar",
    [
        "with trange(steps) as bar:",
        "with tqdm.trange(steps, disable=quiet) as bar:",
        "with tqdm(range(steps)) as bar:",
        "with tqdm.tqdm(range(1, steps)) as bar:",
        "bar = trange(steps)\n    if True:",
    ],
)
def test_a_bar_over_numbers_is_no_loader(bar: str) -> None:
    source = (
        f"import torch\nimport tqdm\nfrom tqdm import trange\n\n@torch.no_grad()\ndef predict(model, loader, steps, quiet):\n    {bar}\n"
        "        for _, x in zip(bar, loader):\n            model(x[0].cuda())\n"
    )
    text = migrated(source)
    assert "zip(bar, xla.MpDeviceLoader(loader))" in text
