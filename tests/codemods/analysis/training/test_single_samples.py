"""A device loader goes around a loader of batches, not around single samples or texts."""

from __future__ import annotations

import pytest

from ...helpers import migrated


def _result(header: str, made: str) -> str:
    return migrated(
        f"""\
        import torch

        def train(model, data, dataset, texts, encode, train_set, optimizer):
            for {header}:
                {made}
                loss = model(x).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("header", "made"),
    [
        ("x, y in dataset", "x = x.cuda()"),
        ("i, x in enumerate(train_set)", "x = x.cuda()"),
        ("text in texts", "x = encode(text).cuda()"),
        ("x in data", "x = x.cuda().unsqueeze(0)"),
        ("x in data", 'x = x.to("cuda")[None]'),
        ("sample in data", 'x = sample["image"].to("cuda")[None, ...]'),
        ("x in data", "x = torch.stack([x.cuda()])"),
        ("image in data", "moved = image.cuda(); row = moved; x = row.unsqueeze(0)"),
        ("path in data", "x = encode(Image.open(path)).cuda()"),
        ("line in data", "x = encode(line.strip()).cuda()"),
    ],
)
def test_single_samples(header: str, made: str) -> None:
    result = _result(header, made)
    assert "MpDeviceLoader" not in result
    assert "xla.mark_step()" in result


@pytest.mark.parametrize(
    ("header", "made"),
    [
        ("x, y in data", "x = x.cuda()"),
        ("x, y in data", "x = x.cuda().unsqueeze(1)"),
        ("batch in dataset", "x = batch.cuda()"),
        ("x, y in dataset", "x = x.cuda(); seen = x.size(0)"),
        ("x, y in test_set", "x = x.cuda(); seen = y.size(0)"),
    ],
)
def test_batches(header: str, made: str) -> None:
    assert f"in xla.MpDeviceLoader({header.rpartition(' ')[2]})" in _result(header, made)
